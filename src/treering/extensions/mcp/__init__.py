"""The four tools for agents, over the Model Context Protocol."""
