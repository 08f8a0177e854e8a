"""`ingest`: read outside input."""
