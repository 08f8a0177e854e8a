"""Run LangGraph's tests of graphs with savers and stores over a space in place of its own."""

import inspect
import sys
from contextlib import ExitStack, contextmanager

from suite_parts import client

from treering.langgraph import TreeringSaver, TreeringStore

REPLACED = {"sync_checkpointer", "async_checkpointer", "sync_store", "async_store"}
KINDS = {"memory", "in_memory"}
"""The parameters that are run: the others would be the same replacement again."""
SAVER = "InMemorySaver"

stack = ExitStack()


@contextmanager
def saver():
    with client() as opened:
        yield TreeringSaver(opened)


@contextmanager
def store():
    with client() as opened:
        yield TreeringStore(opened)


class Saver(TreeringSaver):
    """A `TreeringSaver` with the constructor of `InMemorySaver`, of a space that is open until the session ends."""

    def __init__(self, *, serde=None):
        super().__init__(stack.enter_context(client()), serde=serde)


def pytest_sessionstart():
    fixtures = sys.modules["tests.conftest"]
    fixtures._checkpointer_memory, fixtures._store_memory = saver, store


def pytest_collection_modifyitems(config, items):
    chosen = [item for item in items if is_chosen(item)]
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = chosen
    for module in {item.module for item in chosen if hasattr(item.module, SAVER)}:
        setattr(module, SAVER, Saver)


def is_chosen(item):
    params = getattr(getattr(item, "callspec", None), "params", {})
    if used := REPLACED & set(params):
        return all(params[name] in KINDS for name in used)
    return hasattr(item.module, SAVER) and f"{SAVER}(" in inspect.getsource(item.function)


def pytest_unconfigure():
    stack.close()
