"""Several servers that share spaces: a directory of them, and moves between them."""
