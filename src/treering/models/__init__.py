"""Models behind the ports: the built-in embedder, a reranker from a folder, language models."""
