"""Code shared by the ledgers and indexes that store rows in a database."""
