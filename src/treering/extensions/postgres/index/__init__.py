"""The index in a Postgres database, written in the transactions of the ledger."""
