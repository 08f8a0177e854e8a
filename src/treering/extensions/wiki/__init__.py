"""The wiki of a repository, and what the agents that write one remember."""
