"""Treering: memory for LLM agents that can be checked.

import treering

with treering.open("sqlite:treering.db") as space:
    space.ingest(mode="repo", input={"path": "."})
    pack = space.query(input={"task": "make retries configurable"}).pack

What programs use stands here; `treering.testing` has what people need who write backends. Everything deeper may move.
"""

from treering.facades import lazily
from treering.version import __version__ as __version__

__getattr__, __dir__ = lazily(__name__)
