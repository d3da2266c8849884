"""Fully connected linear networks ([AGF] section 4, [GLRL])."""
