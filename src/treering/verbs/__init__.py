"""The four verbs: ingest, query, crystallize, lint."""
