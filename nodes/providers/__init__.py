"""Read provider errors: status, text, kind of failure, and the sizes named in a context overflow."""
