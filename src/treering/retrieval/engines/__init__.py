"""Search by vectors in an engine beside the space."""
