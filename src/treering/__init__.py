"""Treering: memory for LLM agents that can be checked.

import treering

with treering.open("sqlite:treering.db") as space:
    space.ingest(mode="repo", input={"path": "."})
    pack = space.query(input={"task": "make retries configurable"}).pack

Import from here, or from `treering.testing` to test your own backend. Deeper modules may move.
"""

from treering.facades import lazily
from treering.version import __version__ as __version__

__getattr__, __dir__ = lazily(__name__)
