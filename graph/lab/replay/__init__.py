"""A recorded conversation, run through the real graph."""
