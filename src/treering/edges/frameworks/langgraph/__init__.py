"""LangGraph: a store of values and a saver of checkpoints over a space."""

from treering.edges.frameworks.langgraph.saver import TreeringSaver
from treering.edges.frameworks.langgraph.store import TreeringStore

__all__ = ["TreeringSaver", "TreeringStore"]
