"""Coordinates of gradient flow that keep their accuracy at any scale of the weights. Read `polar_system` first."""
