"""The pages, one module each: what is read for it, and what its template is given."""
