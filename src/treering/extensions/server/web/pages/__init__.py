"""The pages, by topic: what is read for each, and what its template is given."""
