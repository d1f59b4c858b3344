"""The database: engines, connections, transactions, tables, the row of a thread and the encryption of rows."""
