"""Run the OpenAI client's own tests of chats and models against our endpoint, with a scripted model behind it."""

import json
import os
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from chat_parts import Answer, ScriptedUpstream, chatting, scripted

SERVED = {"chat.completions.create", "models.list"}
"""The endpoint has no other routes of OpenAI's API."""
MODELS = {"object": "list", "data": [{"id": "m", "object": "model", "created": 1, "owned_by": "treering"}]}


class Upstream(ScriptedUpstream):
    """The scripted upstream, which also lists models."""

    def next(self):
        listed = self.asked[-1].path.endswith("/models")
        return Answer([json.dumps(MODELS).encode()]) if listed else super().next()


stack = ExitStack()
upstream = stack.enter_context(scripted())
upstream.__class__ = Upstream
client = stack.enter_context(chatting(Path(stack.enter_context(TemporaryDirectory())), upstream))
os.environ["TEST_API_BASE_URL"] = f"{client.base_url}/v1"  # which the suite reads when it is imported


def pytest_configure(config):
    config.add_cleanup(stack.close)


def pytest_collection_modifyitems(config, items):
    left_out = [item for item in items if not is_served(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def is_served(item):
    resource = "models" if "Models" in item.nodeid else "chat.completions"
    return any(f"{resource}.{method}" in SERVED and f"_{method}" in item.name for method in ("create", "list"))
