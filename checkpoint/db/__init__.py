"""The database: engines, connections, transactions, tables, the thread's row and the encoding of row bodies."""
