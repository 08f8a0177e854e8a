"""Run the session tests of the OpenAI Agents SDK with a session over a space in place of its SQLite session."""

import agents
from suite_parts import client

from treering.openai_agents import TreeringSession

OF_SQLITE = ("close", "corrupt", "lock", "rollback", "rolls_back", "cancellation")
"""Words in the names of tests about the connections and tables of the SQLite session."""

opened = {}


class Session(TreeringSession):
    def __init__(self, session_id, db_path=":memory:", *, session_settings=None, **_tables):
        place = opened.setdefault(str(db_path), client(db_path)) if str(db_path) != ":memory:" else client()
        opened.setdefault(id(self), place)
        super().__init__(session_id, place, session_settings=session_settings)

    def close(self):
        """Leave the space open for other sessions of the file."""


agents.SQLiteSession = Session


def pytest_collection_modifyitems(config, items):
    left_out = [item for item in items if any(word in item.name for word in OF_SQLITE)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def pytest_unconfigure():
    for one in {id(one): one for one in opened.values()}.values():
        one.close()
