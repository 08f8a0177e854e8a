"""The wiki of a repository, and the memory of agents that write one."""
