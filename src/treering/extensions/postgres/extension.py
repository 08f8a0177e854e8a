"""A Postgres database as a ledger."""

from treering.registry import Extension

EXTENSION = Extension(
    "postgres",
    commands=("treering.extensions.postgres.commands:add_postgres",),
    help="treering.extensions.postgres.commands:HELP",
    ledgers={
        "postgresql": "treering.extensions.postgres.backend:BACKEND",
    },
)
