"""The memory of wiki agents about a repository, in a space or in MongoDB."""
