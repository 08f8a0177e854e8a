"""A research agent with memory: Hydra, pydantic-graph and Pydantic AI, without a network. See README.md."""
