"""The summary: who writes it, how it is asked for, and the message that carries it."""
