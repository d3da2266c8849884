"""Mode "resolved": the active neurons flow in real time, the dormant ones ride along. Read `resolve`, then `run`."""
