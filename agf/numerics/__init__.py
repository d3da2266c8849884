"""Numerical methods without a word of the theory."""
