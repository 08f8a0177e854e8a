"""LangGraph: a store of values and a saver of checkpoints over a space."""
