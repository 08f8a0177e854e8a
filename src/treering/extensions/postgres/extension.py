"""A Postgres database as a ledger."""

from treering.registry import Extension

EXTENSION = Extension(
    "postgres",
    ledgers={
        "postgresql": "treering.extensions.postgres.backend:BACKEND",
    },
)
