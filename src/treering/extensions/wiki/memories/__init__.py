"""What wiki agents remember of a repository, in a space or in MongoDB."""
