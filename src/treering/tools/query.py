"""The verb `query`: usable context first, then deeper."""

from treering.tools.browsing import EXPAND, PAGE
from treering.tools.context import CONTEXT
from treering.tools.envelope import Tool
from treering.tools.recent import RECENT
from treering.tools.related import RELATED
from treering.tools.search import SEARCH

TOOL = Tool(
    name="query",
    summary="Ask what is known: a context pack for a task with evidence, conflicts, gaps; or search, pages, history.",
    modes={mode.name: mode for mode in (CONTEXT, SEARCH, PAGE, RELATED, RECENT, EXPAND)},
)
