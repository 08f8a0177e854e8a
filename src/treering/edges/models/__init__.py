"""Models behind the ports: the built-in embedder."""
