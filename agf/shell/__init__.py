"""The command line, one file a group of commands. Read `main` first."""
