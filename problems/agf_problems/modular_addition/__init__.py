"""Quadratic networks on modular addition ([AGF] section 5)."""
