"""The entity graph and its walk, and the links of code."""
