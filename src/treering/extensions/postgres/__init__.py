"""Spaces in a Postgres database: the ledger, jobs and leases of many spaces in one schema."""
