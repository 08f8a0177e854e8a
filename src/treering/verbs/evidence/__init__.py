"""Evidence as people write it, and the segments it is resolved to."""
