"""Rewinding: networks restricted by a mask, and restarts. Read `masked` first, then `rewind`."""
