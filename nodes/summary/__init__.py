"""The summary: the summarizers, how they are called, what they are shown, and the message that carries the result."""
