"""What the nodes share while a turn runs: their context, their dependencies, the ledger and the engine."""
