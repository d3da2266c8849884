"""The algorithm ([AGF] Algorithm 1) and its modes: read `engine`, then `phases`, `dormant` and `active`."""
