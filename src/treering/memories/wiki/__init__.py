"""A wiki of a repository: planned, written page by page, and published as files."""
