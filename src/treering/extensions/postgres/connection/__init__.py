"""Connections, transactions and the schema of a database that holds spaces."""
