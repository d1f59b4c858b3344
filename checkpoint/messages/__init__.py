"""The message store: each message and each large value once per thread, encoded and cached."""
