"""What of an object can be found: passages, names, ties; tables in memory, and an engine beside the space."""
