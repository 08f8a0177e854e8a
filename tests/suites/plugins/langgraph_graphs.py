"""Run LangGraph's tests of graphs with savers and stores over a space in place of its own."""

import sys
from contextlib import contextmanager

from suite_parts import client

from treering.langgraph import TreeringSaver, TreeringStore

REPLACED = {"sync_checkpointer", "async_checkpointer", "sync_store", "async_store"}
KINDS = {"memory", "in_memory"}
"""The parameters that are run: the others would be the same replacement again."""


@contextmanager
def saver():
    with client() as opened:
        yield TreeringSaver(opened)


@contextmanager
def store():
    with client() as opened:
        yield TreeringStore(opened)


def pytest_sessionstart():
    fixtures = sys.modules["tests.conftest"]
    fixtures._checkpointer_memory, fixtures._store_memory = saver, store


def pytest_collection_modifyitems(config, items):
    chosen = [item for item in items if is_chosen(item)]
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = chosen


def is_chosen(item):
    params = getattr(getattr(item, "callspec", None), "params", {})
    used = REPLACED & set(params)
    return bool(used) and all(params[name] in KINDS for name in used)
