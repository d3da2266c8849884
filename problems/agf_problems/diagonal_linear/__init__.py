"""Diagonal linear networks ([AGF] section 3, [PF23])."""
