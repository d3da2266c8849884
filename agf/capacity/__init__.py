"""Capacity: neurons of one direction race as one group. Read `alignment`, then `groups`, `merge` and `tickets`."""
