"""Run files of any kind, read back as the results that were saved. Read `runs`."""
