"""The message store: it stores each message and each large value once per thread, encoded, and caches them."""
