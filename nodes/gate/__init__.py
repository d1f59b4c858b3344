"""The gate: checks that a proposed conversation, and the text of its summary, must pass before a commit."""
