"""The four verbs, declared once. Every surface renders this table; none adds to it."""

from collections.abc import Mapping
from typing import Any, get_args

from treering.core.errors import InvalidInput, nearest
from treering.core.objects import TYPES
from treering.verbs.crystallize.drafting import KnowledgeFields, NodeFields, WorkItemFields
from treering.verbs.crystallize.knowledge import KNOWLEDGE, PROMOTE, SUPERSEDE, KnowledgeInput
from treering.verbs.crystallize.work import (
    ACTIVITY,
    NODE,
    SOURCE,
    WORK_ITEM,
    ActivityFields,
    ActivityInput,
    NodeInput,
    WorkItemInput,
)
from treering.verbs.engine import Engine
from treering.verbs.envelope import Envelope, Report, Rights, Tool, Value
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

EXAMPLES: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "ingest": {
        "keep a note": {
            "mode": "source",
            "input": {"items": [{"text": "Releases are cut on Tuesdays.", "origin": "note:releases"}]},
        },
        "how the last run stands": {"mode": "status"},
    },
    "query": {
        "what is known for a task": {"input": {"task": "prepare a release"}},
        "ranked hits, and why they rank": {
            "mode": "search",
            "input": {"text": "release"},
            "options": {"limit": 5, "explain": True},
        },
        "what changed": {"mode": "recent", "input": {"since": "2026-01-05T00:00:00Z"}},
    },
    "crystallize": {
        "a candidate decision": {
            "mode": "knowledge",
            "input": {
                "kind": "decision",
                "title": "Releases on Tuesdays",
                "payload": {"question": "When are releases cut?", "outcome": "On Tuesdays"},
            },
        },
        "work to do": {"mode": "work_item", "input": {"title": "Cut the next release", "priority": "high"}},
        "work done": {"input": {"title": "Cut a release", "outcome": "success"}},
    },
    "lint": {
        "look for broken form": {},
        "look for drifted meaning": {"mode": "semantic", "scope": "/"},
        "verify the audit log": {"mode": "audit", "options": {"limit": 20}},
    },
}
"""Calls of each verb to copy, by what one wants."""

NEW_OBJECT_FIELDS: Mapping[type[Value], type[Value]] = {
    ActivityInput: ActivityFields,
    KnowledgeInput: KnowledgeFields,
    WorkItemInput: WorkItemFields,
    NodeInput: NodeFields,
}
"""Inputs that take the fields of a new object beside their own, which change one, and which fields those are."""
TYPE_LABELS: Mapping[str, str] = {
    "knowledge": "Knowledge",
    "work_item": "Work",
    "activity": "Activities",
    "node": "Things",
    "source": "Sources",
}
"""What people call the types of objects that have kinds."""


def kinds_of(object_type: str) -> tuple[str, ...]:
    """Return the kinds of a type of objects."""
    return get_args(TYPES[object_type].model_fields["kind"].annotation)


def call(engine: Engine, verb: str, envelope: Envelope, *, granted: Rights) -> Report:
    """Run a verb. Raises `InvalidInput` for an unknown verb, mode or field, `Denied` for what is not granted."""
    return find(verb).call(engine, envelope, granted=granted)


def find(verb: str) -> Tool:
    """Return a verb by name. Raises `InvalidInput` with the nearest known name."""
    if verb not in TOOLS:
        raise InvalidInput(f"There is no tool {verb!r}.", hint=nearest(verb, TOOLS), details={"known": list(TOOLS)})
    return TOOLS[verb]
