"""Ask: ranked passages with why they are there, and the context pack as an agent gets it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from treering.core.errors import InvalidInput
from treering.core.objects import TYPES
from treering.core.scope import ROOT
from treering.retrieval.index.code_places import PLACE_ROLES
from treering.surfaces.web.reasons import MarkedText, marked, reasons
from treering.surfaces.web.view import PageView, Rendered
from treering.verbs.query.context import ContextReport
from treering.verbs.query.search import SearchReport
from treering.verbs.reading import ShownHit

_HITS = 20
_TOKENS = 4_000
_LABELS = {
    "knowledge": "Knowledge",
    "work_item": "Work",
    "activity": "Activities",
    "node": "Things",
    "source": "Sources",
}


@dataclass(frozen=True, slots=True)
class AnsweringHit:
    """A hit, with its text split into stretches, and why it is there."""

    hit: ShownHit
    text: list[MarkedText]
    reasons: list[str]


def ask(view: PageView) -> Rendered:
    """Show the box, and what answers where something was asked; in an empty space, how to begin."""
    overview = view.overview()
    if not overview.sequence:
        return Rendered("first_run.html")
    question = view.text("q")
    values: dict[str, Any] = {
        "overview": overview,
        "question": question,
        "kinds": _kinds(),
        "roles": PLACE_ROLES,
        "filtered": any(view.text(name) for name in ("kind", "role", "since", "until", "scope", "withdrawn")),
        "wants_pack": view.text("view") == "pack",
        "command": _command(view),
        "hits": None,
        "report": None,
    }
    if question and values["wants_pack"]:
        values["report"] = _pack(view, question)
    elif question:
        values["report"] = report = _search(view, question)
        values["hits"] = [AnsweringHit(hit, marked(hit.text, question), reasons(hit, question)) for hit in report.hits]
    return Rendered("ask.html", values)


def _search(view: PageView, question: str) -> SearchReport:
    return view.query(SearchReport, "search", {"text": question}, limit=_HITS, explain=True, **_narrowed(view))


def _pack(view: PageView, question: str) -> ContextReport:
    tokens = max(view.number("tokens", default=_TOKENS, most=32_000), 50)
    return view.query(ContextReport, "context", {"task": question}, max_tokens=tokens, **_narrowed(view))


def _narrowed(view: PageView) -> dict[str, Any]:
    told = {"filter": search_filter(view.params)}
    return {**told, "withdrawn": True} if view.text("withdrawn") else told


def search_filter(params: Mapping[str, str]) -> dict[str, Any]:
    """Turn what was chosen on the page into a filter. Raises `InvalidInput` for a kind of no type."""
    chosen: dict[str, Any] = {}
    kind = params.get("kind", "").strip()
    if kind:
        of_type, _, of_kind = kind.partition(":")
        if of_type not in TYPES:
            raise InvalidInput(f"There are no objects of type {of_type[:40]!r}.", hint=f"Choose {', '.join(TYPES)}.")
        chosen = {"type": of_type, **({"kind": of_kind} if of_kind else {})}
    if role := params.get("role", "").strip():
        chosen["role"] = role
    since, until = params.get("since", "").strip(), params.get("until", "").strip()
    if since or until:
        bounds = {"gte": since and f"{since}T00:00:00Z", "lte": until and f"{until}T23:59:59Z"}
        chosen["updated_at"] = {name: bound for name, bound in bounds.items() if bound}
    return chosen


def _kinds() -> Mapping[str, Mapping[str, tuple[str, ...]]]:
    """Return the kinds to choose from, by type, with what people call the type."""
    return {
        name: {_LABELS[name]: TYPES[name].model_fields["kind"].annotation.__args__}  # type: ignore[union-attr]
        for name in _LABELS
    }


def _command(view: PageView) -> tuple[str, ...]:
    """Return the arguments of `treering` that ask the same."""
    question = view.text("q") or "your question"
    mode = () if view.text("view") == "pack" else ("--mode", "search", "--explain")
    scope = ("--scope", view.scope) if view.scope != ROOT else ()
    return ("treering", "query", question, *mode, *scope, "--descend")
