"""A report of one thread, as data and as an HTML page: its requests, its compactions, the whole conversation."""
