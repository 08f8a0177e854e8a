"""The index in a SQLite file, written in the transactions of the ledger."""
