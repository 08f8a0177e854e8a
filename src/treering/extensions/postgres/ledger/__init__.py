"""The ledger in a Postgres database."""
