"""Many runs: the plan, its chunks, the journal and the table. Read `sweep` first."""
