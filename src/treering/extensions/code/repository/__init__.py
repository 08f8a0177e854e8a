"""Git repositories: their commits, their files, and their map."""
