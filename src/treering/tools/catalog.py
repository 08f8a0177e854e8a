"""The four verbs, declared once. Every surface renders this table; none adds to it."""

from collections.abc import Mapping

from treering.core.errors import InvalidInput, nearest
from treering.tools.crystallize import TOOL as CRYSTALLIZE
from treering.tools.engine import Engine
from treering.tools.envelope import Envelope, Report, Tool
from treering.tools.ingest import TOOL as INGEST
from treering.tools.lint import TOOL as LINT
from treering.tools.query import TOOL as QUERY
from treering.tools.rights import Rights

TOOLS: Mapping[str, Tool] = {tool.name: tool for tool in (INGEST, QUERY, CRYSTALLIZE, LINT)}


def call(engine: Engine, verb: str, envelope: Envelope, *, granted: Rights) -> Report:
    """Run a verb. Raises `InvalidInput` for an unknown verb, mode or field, `Denied` for what is not granted."""
    return find(verb).call(engine, envelope, granted=granted)


def find(verb: str) -> Tool:
    """Return a verb by name. Raises `InvalidInput` with the nearest known name."""
    if verb not in TOOLS:
        raise InvalidInput(f"There is no tool {verb!r}.", hint=nearest(verb, TOOLS), details={"known": list(TOOLS)})
    return TOOLS[verb]
