"""The pages, by topic: the data of each, and the values of its template."""
