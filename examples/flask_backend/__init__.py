"""A Flask backend whose agents share a memory for each project."""
