"""One step of a method: what it evaluates, where it ends, and by how much it errs. Read `explicit` first."""
