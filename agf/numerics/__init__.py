"""Numerical methods without a word of the theory. Read `ndf` first."""
