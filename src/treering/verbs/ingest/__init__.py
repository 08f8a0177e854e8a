"""`ingest`: bring outside input in."""
