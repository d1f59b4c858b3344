"""What differs by provider: errors and the messages of a context overflow."""
