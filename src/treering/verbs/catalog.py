"""The four verbs, declared once. Every surface renders this table; none adds to it."""

from collections.abc import Mapping

from treering.core.errors import InvalidInput, nearest
from treering.verbs.crystallize.knowledge import KNOWLEDGE, PROMOTE, SUPERSEDE
from treering.verbs.crystallize.work import ACTIVITY, NODE, SOURCE, WORK_ITEM
from treering.verbs.engine import Engine
from treering.verbs.envelope import Envelope, Report, Rights, Tool
from treering.verbs.ingest.ingest import TOOL as INGEST
from treering.verbs.lint.lint import TOOL as LINT
from treering.verbs.query.browsing import EXPAND, PAGE
from treering.verbs.query.context import CONTEXT
from treering.verbs.query.recent import RECENT
from treering.verbs.query.related import RELATED
from treering.verbs.query.search import SEARCH

# The verb `query`: usable context first, then deeper.


QUERY = Tool(
    name="query",
    summary="Ask what is known: a context pack for a task with evidence, conflicts, gaps; or search, pages, history.",
    modes={mode.name: mode for mode in (CONTEXT, SEARCH, PAGE, RELATED, RECENT, EXPAND)},
)


# The verb `crystallize`: turn successful work into reusable state, as one patch.


CRYSTALLIZE = Tool(
    name="crystallize",
    summary="Record what was done, decided and learned, with evidence; promote, supersede, track work.",
    modes={mode.name: mode for mode in (ACTIVITY, KNOWLEDGE, WORK_ITEM, PROMOTE, SUPERSEDE, NODE, SOURCE)},
)


TOOLS: Mapping[str, Tool] = {tool.name: tool for tool in (INGEST, QUERY, CRYSTALLIZE, LINT)}


def call(engine: Engine, verb: str, envelope: Envelope, *, granted: Rights) -> Report:
    """Run a verb. Raises `InvalidInput` for an unknown verb, mode or field, `Denied` for what is not granted."""
    return find(verb).call(engine, envelope, granted=granted)


def find(verb: str) -> Tool:
    """Return a verb by name. Raises `InvalidInput` with the nearest known name."""
    if verb not in TOOLS:
        raise InvalidInput(f"There is no tool {verb!r}.", hint=nearest(verb, TOOLS), details={"known": list(TOOLS)})
    return TOOLS[verb]
