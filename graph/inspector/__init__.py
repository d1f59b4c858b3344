"""A report of one thread: what it held, each compaction, the whole conversation; as data and as a page."""
