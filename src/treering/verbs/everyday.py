"""The calls people make every day, as envelopes of the four verbs: one declaration for each surface."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from treering.core.arguments import check_items
from treering.core.canonical import normalise_text
from treering.core.characters import named, one_line
from treering.core.errors import InvalidInput, NotFound, Unavailable
from treering.core.objects import Constraint, Decision, Fact, Knowledge, Object, Preference, title_of
from treering.core.patch import TITLE, PatchRecord, shortened
from treering.core.scope import ROOT
from treering.ports.ledger import Ledger
from treering.verbs.engine import Engine
from treering.verbs.envelope import Envelope
from treering.verbs.naming import id_named, is_reading, is_recording, titled
from treering.verbs.short_ids import short_id
from treering.verbs.trees import tree_of
from treering.verbs.work_order import FINISHED


@dataclass(frozen=True, slots=True)
class Because:
    """The evidence and the scope of a statement."""

    evidence: tuple[str, ...] = ()
    """Places: see `evidence.notation`."""
    scope: str = ROOT


_NOTHING = Because()


def decide(
    text: str,
    because: Because = _NOTHING,
    *,
    outcome: str = "",
    question: str = "",
    why: str = "",
    instead_of: Sequence[str] = (),
) -> Envelope:
    """Record a decision. `text` is its title and, unless given, its outcome and the question it answers."""
    check_items(instead_of, str, name="instead_of", expected="a list of texts")
    payload = {
        "question": question or text,
        "outcome": outcome or text,
        "rationale": why,
        "alternatives": list(instead_of),
    }
    return _knowledge("decision", text, payload, because)


def rule(text: str, because: Because = _NOTHING, *, applies_to: str = "", why: str = "") -> Envelope:
    """Record a constraint. `applies_to`: the path or area it is limited to; everything by default."""
    return _knowledge("constraint", text, {"rule": text, "scope": applies_to, "violation_impact": why}, because)


def prefer(text: str, because: Because = _NOTHING, *, applies_to: str = "") -> Envelope:
    """Record a preference."""
    return _knowledge("preference", text, {"statement": text, "scope": applies_to}, because)


def fact(text: str, because: Because = _NOTHING, *, subject: str = "") -> Envelope:
    """Record a fact written `NAME = VALUE`, about a subject; `SUBJECT.NAME = VALUE` names the subject itself.

    With `subject`, the other dots belong to the name. Raises `InvalidInput` if the name, the value or the subject is
    missing.
    """
    name, value = _assignment(a_text(text, "The fact"))
    subject = a_text(subject, "The subject").strip()
    if subject:
        name = _without_subject(name, subject)
    elif "." in name:
        subject, _, name = name.rpartition(".")
    if not subject:
        raise InvalidInput(
            f"{text!r} does not name the thing that has this value.",
            hint=f"Name it with --of, or before a dot, such as api.{name} = {value}.",
        )
    payload = {"subject": subject, "predicate": name, "value": value}
    return _knowledge("fact", f"{subject}: {name} = {value}", payload, because)


def task(text: str, *, priority: str = "normal", summary: str = "", scope: str = ROOT) -> Envelope:
    """Open a task."""
    given = {"title": shortened(_stated(text), TITLE), "priority": priority, "summary": summary}
    return Envelope(mode="work_item", scope=scope, input=given)


def done(engine: Engine, item: str, resolution: str = "", *, scope: str = ROOT) -> Envelope:
    """Resolve an open task, named by its id or title (`naming.id_named`). Raises `NotFound`, `InvalidInput`."""
    identity = _task_named(engine, item)
    given = {"id": identity, "status": "resolved", "resolution": resolution or "Done."}
    return Envelope(mode="work_item", scope=scope, input=given)


def replacement(engine: Engine, old: str, text: str, because: Because = _NOTHING, *, why: str = "") -> Envelope:
    """Replace knowledge, named by its id or title, by a statement of its kind. Raises `NotFound`, `InvalidInput`."""
    a_text(text, "The statement")
    try:
        item = engine.ledger.get(id_named(engine, old, ("knowledge",), strict=True))
    except NotFound:
        if other := _titled(engine, old, ("work_item", "activity")) or _source_called(engine, old):
            raise _no_statement(other) from None
        raise
    if not isinstance(item, Knowledge):
        raise _no_statement(item)
    new = _restated(item, text, because, why)
    if item.status == "candidate":  # unconfirmed, so it is corrected in place
        return Envelope(mode="knowledge", scope=item.scope, input={**new, "id": item.id})
    return Envelope(mode="supersede", scope=item.scope, input={"id": item.id, "knowledge": new})


def conditions(engine: Engine, *, kind: str = "", path: str = "", since: str = "", scope: str = ROOT) -> dict[str, Any]:
    """Return the filter of a search: by kind, by path below the caller's repository, and by time of change.

    `path` may end with `/**` or `*`. Raises `InvalidInput` for a path if the caller's folder is in no known repository.
    """
    where: dict[str, Any] = {"kind": kind} if kind else {}
    if since:
        where["updated_at"] = {"gte": f"{since}T00:00:00Z" if _is_day(since) else since}
    if start := a_text(path, "path").rstrip("*"):
        tree = tree_of(engine, scope, at="", past=False)
        if tree is None:
            raise InvalidInput(
                f"The path {path} is in no repository that this space contains.", hint="Ask from its folder."
            )
        where["origin"] = {"prefix": f"{tree.view.root}#{start.removeprefix('./')}"}
    return where


def _is_day(text: str) -> bool:
    return text[:4].isdecimal() and "T" not in text


def mode_of_path(engine: Engine, path: str) -> str:
    """Return the mode of `ingest` that reads a path: `repo` for a git repository, else `path`."""
    if "repo" not in engine.adapters:
        return "path"
    try:
        engine.adapters["repo"].origin(path)
    except (InvalidInput, Unavailable):
        return "path"  # no folder, no repository, or no git here
    return "repo"


def last_patch(ledger: Ledger, actor: str) -> PatchRecord:
    """Return the last patch of an author, which `undo` takes back.

    Raises `NotFound` if there is none, and `InvalidInput` if it is an ingest of files, which is not taken back.
    """
    own = [
        one
        for one in ledger.patches(status="applied", limit=_MAX_PATCHES)
        if one.source.actor == actor and one.operations
    ]
    if not own:
        raise NotFound(f"{actor} has recorded nothing here that could be undone.", hint="See: treering log")
    if is_reading(own[0]):
        read = own[0].reason.removeprefix("Ingest ") or "files"
        before = next(filter(is_recording, own), None)
        older = f"Undo your entry before it with: treering undo {short_id(before.id)}. " if before else ""
        raise InvalidInput(
            f"Your last change was reading {named(read)}; undo does not remove ingested sources.",
            hint=f"{older}Remove a source with: treering erase ID. See: treering log",
        )
    return own[0]


_OPEN = ("open", "in_progress", "blocked")
_TASKS = ("work_item",)
_MAX_PATCHES = 200


def _knowledge(kind: str, text: str, payload: Mapping[str, Any], because: Because) -> Envelope:
    given = {
        "kind": kind,
        "title": shortened(_stated(text), TITLE),
        "payload": {name: value for name, value in payload.items() if value not in ("", [])},
        # A stated place is enough for what the caller records to hold; else the caller's channel decides.
        **({"evidence_refs": list(because.evidence), "status": "active"} if because.evidence else {}),
    }
    return Envelope(mode="knowledge", scope=because.scope, input=given)


def a_note(text: object) -> str:
    """Return the text of a note. Raises `InvalidInput` if nothing of it can be seen."""
    if not one_line(a_text(text, "The note")).strip():
        raise InvalidInput("The note is empty.", hint='For example: "Maria prefers tea."')
    return str(text)


def _task_named(engine: Engine, item: str) -> str:
    """Return the id of an open task. Raises `NotFound` for one that is done already."""
    try:
        identity = id_named(engine, item, _TASKS, statuses=_OPEN, what="open task", strict=True)
    except NotFound:
        if closed := _titled(engine, item, _TASKS, statuses=tuple(sorted(FINISHED))):
            raise _already_done(closed) from None
        raise
    task = engine.ledger.get(identity)
    if task.status in FINISHED:
        raise _already_done(task)
    return identity


def _titled(engine: Engine, words: str, types: Sequence[str], *, statuses: Sequence[str] = ()) -> Object | None:
    """Return the one object that words name, or `None`."""
    with suppress(NotFound, InvalidInput):
        return titled(engine.ledger, words, types, statuses=statuses)
    return None


def _source_called(engine: Engine, name: str) -> Object | None:
    """Return the note that a name means, or the file whose whole title it is; else `None`."""
    source = _titled(engine, name, ("source",))
    is_whole = source is not None and title_of(source).casefold() == name.strip().casefold()
    return source if is_whole or getattr(source, "kind", "") == "note" else None


def _already_done(item: Object) -> NotFound:
    how = "cancelled" if item.status == "cancelled" else "done"
    return NotFound(f"Already {how}: {named(title_of(item))}.", hint=f"To reopen it: treering undo {short_id(item.id)}")


def _no_statement(item: Object) -> InvalidInput:
    """Return the error for an object that is no statement, with an alternative."""
    kind, short = str(getattr(item, "kind", item.type)).replace("_", " "), short_id(item.id)
    match item.type:
        case "work_item":
            hint = f"Resolve it with: treering done {short}"
        case "source" if kind == "note":
            hint = f"Record a statement with treering fact. To correct it: treering erase {short}, and add it again."
        case "source":
            hint = "Record a statement with treering fact, or correct the source and read it again with treering add."
        case _:
            hint = "Give the id of a statement."
    return InvalidInput(f"That is a {kind}, not a statement: {named(title_of(item))}.", hint=hint)


def a_text(value: object, name: str) -> str:
    """Return a value that has to be a text, called `name`. Raises `InvalidInput` for one of another type."""
    if isinstance(value, str):
        return value
    raise InvalidInput(f"{name} is of type {type(value).__name__}.", hint="Give a text.")


def _stated(text: str) -> str:
    """Return a text. Raises `InvalidInput` if nothing of it can be seen."""
    if not one_line(a_text(text, "The statement")):
        raise InvalidInput("There is no text to record.", hint="Write it as one sentence.")
    return text


RESTATED = (Decision, Constraint, Preference, Fact)
"""Payloads of knowledge that one sentence can replace (`replacement`)."""


def _restated(item: Knowledge, text: str, because: Because, why: str) -> dict[str, Any]:
    """Return the input of the statement that replaces another one; with the same words it states the same."""
    payload = item.payload.model_dump(mode="json", exclude_none=True)
    match item.payload:
        case Decision() | Constraint() | Preference() | Fact() if not why and _is_same(text, item.title):
            call = _knowledge(item.kind, item.title, payload, because)
        case Decision(question=question, outcome=outcome) as old:
            # The same question even if it is only the old statement: replacements in two copies contradict each other.
            first = [question] if old.is_replacement else []
            call = decide(text, because, question=question, why=why, instead_of=[*first, outcome])
        case Constraint(scope=applies_to):
            call = rule(text, because, applies_to=applies_to, why=why)
        case Preference(scope=applies_to):
            call = prefer(text, because, applies_to=applies_to)
        case Fact():
            call = _restated_fact(item.payload, text, because)
        case _:
            raise InvalidInput(
                f"A {item.kind} cannot be replaced by one sentence.",
                hint=f"Record its replacement, then: treering crystallize {item.id} --by ID",
            )
    return dict(call.input) if isinstance(call.input, dict) else {}


def _restated_fact(old: Fact, text: str, because: Because) -> Envelope:
    """Read a text as `fact` does; a value or a name alone is about the subject of the old fact."""
    if "=" not in text:
        return fact(f"{old.predicate} = {text}", because, subject=old.subject)
    name = text.partition("=")[0].strip()
    has_dot = "." in name.removeprefix(f"{old.subject}: ")
    is_same_name = _is_same(_without_subject(name, old.subject), old.predicate)  # the name itself may contain dots
    return fact(text, because, subject="" if has_dot and not is_same_name else old.subject)


def _without_subject(name: str, subject: str) -> str:
    """Return an attribute without its subject, written `kiln.temperature` or, in a title, `kiln: temperature`."""
    start, rest = name[: len(subject)], name[len(subject) :]
    if _is_same(start, subject) and rest.startswith((".", ": ")):
        return rest[1:].strip() or name
    return name


def _is_same(text: str, title: str) -> bool:
    return normalise_text(text) == normalise_text(title)


def _assignment(text: str) -> tuple[str, Any]:
    name, sign, value = (part.strip() for part in text.partition("="))
    if not (name and sign and value):
        raise InvalidInput(f"{text!r} is not a fact of the form NAME = VALUE.", hint="For example: api.port = 8080")
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, value
