"""What a computation gives back: staircases, trajectories, comparisons and their files. Read `staircase` first."""
