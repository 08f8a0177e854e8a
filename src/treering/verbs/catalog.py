"""The four verbs, declared once. Every surface renders this table; extensions may add modes."""

from collections.abc import Mapping
from typing import Any, get_args

from treering.core.errors import InvalidInput, nearest
from treering.core.objects import TYPES
from treering.registry import LazyPlaces, extensions, leave_out
from treering.verbs.engine import Engine
from treering.verbs.envelope import Envelope, Mode, Report, Rights, Tool


def _modes(verb: str, own: Mapping[str, str]) -> Mapping[str, Mode]:
    """Return the modes of a verb: its own, then the ones of extensions. Each is imported on first use."""
    modes = dict(own)
    for extension in extensions():
        for name, place in extension.modes.items():
            of, _, mode = name.partition(" ")
            if of == verb and mode in modes:
                leave_out(
                    f"The mode {name!r} of the extension {extension.name} is ignored: that name is already taken."
                )
            elif of == verb and mode:
                modes[mode] = place
    return LazyPlaces(modes)


INGEST = Tool(
    name="ingest",
    summary="Ingest files, folders, repositories, texts. Unchanged input changes nothing.",
    modes=_modes(
        "ingest",
        {
            "path": "treering.verbs.ingest.ingest:PATH",
            "repo": "treering.verbs.ingest.ingest:REPO",
            "url": "treering.verbs.ingest.ingest:URL",
            "source": "treering.verbs.ingest.ingest:SOURCE",
            "adapter": "treering.verbs.ingest.ingest:ADAPTER",
            "status": "treering.verbs.ingest.ingest:STATUS",
        },
    ),
)
# Usable context first, then deeper.
QUERY = Tool(
    name="query",
    summary="Query the memory: context for a task, search, pages, history.",
    modes=_modes(
        "query",
        {
            "context": "treering.verbs.query.context:CONTEXT",
            "search": "treering.verbs.query.search:SEARCH",
            "page": "treering.verbs.query.browsing:PAGE",
            "related": "treering.verbs.query.related:RELATED",
            "recent": "treering.verbs.query.recent:RECENT",
            "expand": "treering.verbs.query.browsing:EXPAND",
            "brief": "treering.verbs.query.brief:BRIEF",
        },
    ),
)
CRYSTALLIZE = Tool(
    name="crystallize",
    summary="Record work, decisions and knowledge with evidence; promote, supersede, track work.",
    modes=_modes(
        "crystallize",
        {
            "activity": "treering.verbs.crystallize.work:ACTIVITY",
            "knowledge": "treering.verbs.crystallize.knowledge:KNOWLEDGE",
            "work_item": "treering.verbs.crystallize.work:WORK_ITEM",
            "promote": "treering.verbs.crystallize.knowledge:PROMOTE",
            "supersede": "treering.verbs.crystallize.knowledge:SUPERSEDE",
            "node": "treering.verbs.crystallize.work:NODE",
            "source": "treering.verbs.crystallize.work:SOURCE",
            "feedback": "treering.verbs.feedback:FEEDBACK",
        },
    ),
)
LINT = Tool(
    name="lint",
    summary="Find drift: broken references, contradictions, stale beliefs; repair; verify.",
    modes=_modes(
        "lint",
        {
            "all": "treering.verbs.lint.lint:ALL",
            "structure": "treering.verbs.lint.lint:STRUCTURE",
            "semantic": "treering.verbs.lint.lint:SEMANTIC",
            "repair": "treering.verbs.lint.lint:REPAIR",
            "reindex": "treering.verbs.lint.lint:REINDEX",
            "audit": "treering.verbs.lint.audit:AUDIT",
        },
    ),
)

TOOLS: Mapping[str, Tool] = {tool.name: tool for tool in (INGEST, QUERY, CRYSTALLIZE, LINT)}


def _warn_of_unknown_verbs() -> None:
    for extension in extensions():
        for name in extension.modes:
            verb, _, mode = name.partition(" ")
            if not (verb in TOOLS and mode):
                leave_out(
                    f"The mode {name!r} of the extension {extension.name} is ignored: it needs a verb "
                    f"({', '.join(TOOLS)}) and a name, such as 'lint {mode or verb}'."
                )


_warn_of_unknown_verbs()

EXAMPLES: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "ingest": {
        "store a note": {
            "mode": "source",
            "input": {"items": [{"text": "Releases are cut on Tuesdays.", "origin": "note:releases"}]},
        },
        "the state of the last run": {"mode": "status"},
    },
    "query": {
        "a brief before starting": {"mode": "brief"},
        "the knowledge for a task": {"input": {"task": "prepare a release"}},
        "ranked hits and the reasons for their rank": {
            "mode": "search",
            "input": {"text": "release"},
            "options": {"limit": 5, "explain": True},
        },
        "recent changes": {"mode": "recent", "input": {"since": "2026-01-05T00:00:00Z"}},
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
        "look for broken references and drifted knowledge": {},
        "look for drifted knowledge": {"mode": "semantic", "scope": "/"},
        "verify the audit log": {"mode": "audit", "options": {"limit": 20}},
    },
}
"""Example calls of each verb, by purpose."""

TYPE_LABELS: Mapping[str, str] = {
    "knowledge": "Knowledge",
    "work_item": "Work",
    "activity": "Activities",
    "node": "Things",
    "source": "Sources",
}
"""The names of object types for people."""


def kinds_of(object_type: str) -> tuple[str, ...]:
    """Return the kinds of a type of objects."""
    return get_args(TYPES[object_type].model_fields["kind"].annotation)


def call(engine: Engine, verb: str, envelope: Envelope, *, granted: Rights) -> Report:
    """Run a verb. Raises `InvalidInput` for an unknown verb, mode or field, `Denied` for missing rights."""
    return find(verb).call(engine, envelope, granted=granted)


def find(verb: str) -> Tool:
    """Return a verb by name. Raises `InvalidInput` with the nearest known name."""
    if verb not in TOOLS:
        raise InvalidInput(f"Unknown tool {verb!r}.", hint=nearest(verb, TOOLS), details={"known": list(TOOLS)})
    return TOOLS[verb]
