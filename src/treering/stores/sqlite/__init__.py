"""One SQLite file per space: ledger, passages, full text and vectors in one transaction."""
