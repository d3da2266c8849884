"""Rewinding: networks restricted by a mask, what changes sign when, and restarts. Read `masked`, `flips`, `rewind`."""
