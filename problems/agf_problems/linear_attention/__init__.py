"""Linear attention in context ([AGF] section 4.2, [Zhang25])."""
