"""LangGraph: a store of values and a saver of checkpoints over a space."""

from treering.frameworks.langgraph.saver import TreeringSaver
from treering.frameworks.langgraph.store import TreeringStore

__all__ = ["TreeringSaver", "TreeringStore"]
