"""What is written down: states, settings, statuses, tables and files. Read `state` first."""
