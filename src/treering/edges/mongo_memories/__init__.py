"""The memories of wiki agents in a collection of MongoDB."""
