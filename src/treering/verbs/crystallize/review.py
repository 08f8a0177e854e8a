"""Patches that wait for a decision, and work that sources ask for (tickets, `TODO`), which is proposed to reviewers."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import Field, PositiveInt, RootModel

from treering.core.canonical import canonical_json, digest, render_time
from treering.core.characters import named, one_line
from treering.core.errors import Conflict
from treering.core.evidence import Lines
from treering.core.filters import Compare
from treering.core.objects import Source, WorkItem
from treering.core.patch import Create, Operation, PatchRecord, Receipt, Transition, shortened
from treering.core.screening import screened
from treering.core.writing.draft import ObjectChange, changes_of
from treering.core.writing.journal import patch_of
from treering.ports.ledger import Ledger, Selection
from treering.verbs.crystallize.drafting import WorkItemFields, draft_activity, draft_work_item
from treering.verbs.crystallize.submission import new_patch
from treering.verbs.envelope import DECIDES, READS, WRITES, Call, Nothing, Value
from treering.verbs.envelope import Operation as SpaceOperation
from treering.verbs.naming import is_recording
from treering.verbs.short_ids import short_id


class PatchInput(Value):
    """A patch."""

    patch_id: str = Field(description="The id of a patch.")


class ListOptions(Value):
    """The number of patches to list."""

    limit: PositiveInt = Field(default=100, description="Maximum number of patches.")


class ReasonOptions(Value):
    """Why."""

    reason: str = Field(default="", description="The reason, for the audit log.")


class Proposals(RootModel[tuple[PatchRecord, ...]]):
    """Patches waiting for review, newest first."""


class PatchPreview(RootModel[tuple[ObjectChange, ...]]):
    """The changes of a patch, object by object."""


def list_waiting(call: Call, _given: Nothing, options: ListOptions) -> Proposals:
    """Return the patches that wait, newest first."""
    return Proposals(tuple(call.engine.ledger.patches(status="proposed", limit=options.limit)))


def show(call: Call, given: PatchInput, _options: Nothing) -> PatchPreview:
    """Return what a waiting patch would change now. Raises what applying it would."""
    ledger = call.engine.ledger
    return PatchPreview(changes_of(ledger.preview(patch_of(ledger.patch(given.patch_id))).writes))


def apply(call: Call, given: PatchInput, _options: Nothing) -> Receipt:
    """Apply a waiting patch in the engine's name. Raises `Denied` for one's own."""
    receipt = call.engine.ledger.approve(given.patch_id, by=call.engine.author)
    call.engine.vectoriser.start()
    return receipt


def reject(call: Call, given: PatchInput, options: ReasonOptions) -> PatchRecord:
    """Turn a waiting patch down; secrets in the reason are redacted."""
    reason = screened(options.reason).value
    return call.engine.ledger.reject(given.patch_id, by=call.engine.author, reason=reason)


def revert(call: Call, given: PatchInput, options: ReasonOptions) -> Receipt:
    """Take back an applied patch, or raise `Conflict` saying what has changed since.

    Secrets in the reason are redacted.
    """
    reason = screened(options.reason).value
    try:
        receipt = call.engine.ledger.revert(given.patch_id, by=call.engine.author, reason=reason)
    except Conflict as error:
        raise _changed_since(call.engine.ledger, given.patch_id, error) from error
    call.engine.vectoriser.start()
    return receipt


def _changed_since(ledger: Ledger, patch: str, error: Conflict) -> Conflict:
    """Return a conflict that names the entry that changed an object of the patch, and how to go on."""
    identity = next((str(one["id"]) for one in error.details.get("changed", ())), "")
    head = ledger.heads([identity]).get(identity) if identity else None
    if head is None:
        return error
    later = [one.patch_id for one in reversed(ledger.events_of(identity)) if one.patch_id]
    last = next((record for record in map(ledger.patch, later) if record.id != patch and is_recording(record)), None)
    links = [one for one in ledger.links(identity) if one.type == "supersedes" and one.target == identity]
    newer = next(iter(ledger.heads([one.source for one in links]).values()), None) if links else None
    change = f"replaced by {named(newer.title)}" if newer and head.status == "superseded" else "changed"
    who = f" by {one_line(last.source.actor)}" if last and change == "changed" else ""
    current = newer.id if newer and head.status == "superseded" else identity
    ways = [f"undo that first: treering undo {short_id(last.id)}"] if last else []
    ways += [f"correct it: treering replace {short_id(current)} TEXT"] if head.type == "knowledge" else []
    hint = "; or ".join(ways)
    hint = f"{hint[:1].upper()}{hint[1:]}" if hint else error.hint
    return Conflict(f"{named(head.title)} was {change}{who} since.", hint=hint, details=error.details)


LIST = SpaceOperation(
    "review list",
    "List the patches waiting for review, newest first.",
    Nothing,
    ListOptions,
    Proposals,
    list_waiting,
    rights=READS,
)
SHOW = SpaceOperation(
    "review show",
    "Show the changes of a waiting patch, field by field.",
    PatchInput,
    Nothing,
    PatchPreview,
    show,
    rights=READS,
)
APPLY = SpaceOperation("review apply", "Apply a waiting patch.", PatchInput, Nothing, Receipt, apply, rights=DECIDES)
REJECT = SpaceOperation(
    "review reject", "Reject a waiting patch.", PatchInput, ReasonOptions, PatchRecord, reject, rights=DECIDES
)
REVERT = SpaceOperation(
    "revert",
    "Revert a patch, or explain why that is not possible.",
    PatchInput,
    ReasonOptions,
    Receipt,
    revert,
    rights=DECIDES,
)


What = Literal["work item", "closing", "reopening"]

_SHOW_EVERY = 200
_TITLE_CHARS = 200
_MOST_COMMENTS = 200
"""Of one source."""
_OPEN = frozenset({"open", "in_progress", "blocked"})
_STATES: dict[str, tuple[str, ...]] = {
    "closed": ("closed", "done", "resolved", "completed", "complete", "merged", "fixed", "released"),
    "cancelled": ("cancelled", "canceled", "duplicate", "won't do", "wont do", "won't fix", "wontfix", "declined"),
    "in_progress": ("in progress", "in review", "started", "doing"),
    "blocked": ("blocked", "on hold"),
}
"""How the words of trackers are understood, in small letters; every other word is an open ticket."""
_NOT_DONE = ("not_planned", "not planned", "duplicate")
"""Reasons with which a tracker closes what was not done."""
_KINDS = (
    ("bug", ("bug", "defect", "incident", "regression")),
    ("improvement", ("enhancement", "improvement", "feature", "new feature")),
    ("requirement", ("story", "requirement", "epic")),
    ("question", ("question", "support")),
    ("task", ("task", "sub-task", "chore")),
)
_PRIORITIES = (
    ("urgent", ("urgent", "critical", "blocker", "highest", "p0")),
    ("high", ("high", "p1")),
    ("low", ("low", "lowest", "minor", "trivial", "p3", "p4")),
)
_ADDRESSES = ("url", "html_url", "web_url", "link")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_COMMENT = re.compile(
    r"(?:#|//|/\*|^\s*\*|--|<!--|;)[^\S\n]*(?P<word>TODO|FIXME)\b(?:\([^()\n]{0,80}\))?:?[^\S\n]+(?P<text>\S.{2,300})"
)
_COMMENT_END = re.compile(r"\s*(?:\*/|-->|\"\"\"|''')\s*\Z")
_COMMENT_KINDS = {"TODO": "task", "FIXME": "bug"}


class ProposeOptions(Value):
    """How much to propose."""

    limit: int = Field(default=100, ge=1, le=1000, description="Maximum number of proposals.")
    closed: bool = Field(
        default=False, description="Also propose tickets closed before they were tracked here, as activities."
    )
    dry_run: bool = Field(default=False, description="Only list the requests of sources, including pending ones.")


class ProposedWork(Value):
    """A waiting patch: the work it would open or close, and the requesting source."""

    patch_id: str
    """Empty in a dry run."""
    what: What
    title: str
    source_id: str


class WorkProposals(Value):
    """The proposals. `known` counts requests that are tracked or waiting already, or were rejected."""

    proposed: tuple[ProposedWork, ...] = ()
    known: int = 0
    more: bool = False
    """Whether the limit left something out."""


@dataclass(frozen=True, slots=True)
class _WorkRequest:
    """What a source asks for. `key` is the same as long as it asks for the same: it is decided on once."""

    what: What
    title: str
    key: tuple[str, ...]
    operations: Sequence[Operation]
    where: str = ""
    """The file, where the title does not say what it is about."""

    @property
    def reason(self) -> str:
        """What a reviewer reads in the list of what waits."""
        return f"{self.what}: {self.title}" + (f", in {self.where}" if self.where else "")


def propose_work(call: Call, _given: Nothing, options: ProposeOptions) -> WorkProposals:
    """Lay before the reviewers what sources ask for. What somebody has decided on is not proposed again."""
    ledger = call.engine.ledger
    author = call.engine.author.model_copy(update={"channel": "adapter", "tool": "review propose"})
    proposed: list[ProposedWork] = []
    known = 0
    for source, request in _requested_work(call, options):
        if len(proposed) == options.limit:
            return WorkProposals(proposed=tuple(proposed), known=known, more=True)
        told = ProposedWork(patch_id="", what=request.what, title=request.title, source_id=source.id)
        if options.dry_run:
            proposed.append(told)
            continue
        patch = new_patch(call.engine, request.operations, author=author, reason=request.reason).value
        record = ledger.propose(
            patch, idempotency_key=f"propose {digest(canonical_json([source.scope, *request.key]))}"
        )
        if record.id == patch.id:
            proposed.append(told.model_copy(update={"patch_id": record.id}))
        else:
            known += 1
    return WorkProposals(proposed=tuple(proposed), known=known)


def _requested_work(call: Call, options: ProposeOptions) -> Iterator[tuple[Source, _WorkRequest]]:
    chosen = Selection(scope=call.scope, descend=True, types=("source",), where=Compare("status", "eq", "active"))
    tracked = _tracked(call)
    for number, source in enumerate(call.engine.ledger.select(chosen)):
        if number % _SHOW_EVERY == 0:
            call.engine.progress("Looking for work", number, None)
        # Text shaped like instructions asks for nothing.
        if isinstance(source, Source) and not source.metadata.get("flags"):
            there = replace(call, scope=source.scope)
            for request in _asked(there, source, tracked.get(source.id, ()), closed=options.closed):
                yield source, request


def _tracked(call: Call) -> Mapping[str, Sequence[WorkItem]]:
    """Return by id of a source the work items that name it, but those that were archived."""
    chosen = Selection(scope=call.scope, descend=True, types=("work_item",))
    found: dict[str, list[WorkItem]] = {}
    for item in call.engine.ledger.select(chosen):
        if isinstance(item, WorkItem) and item.lifecycle_state == "active":
            for identity in item.source_refs:
                found.setdefault(identity, []).append(item)
    return found


def _asked(call: Call, source: Source, tracked: Sequence[WorkItem], *, closed: bool) -> Iterator[_WorkRequest]:
    if source.kind == "conversation" and source.metadata.get("tracker") and source.metadata.get("key"):
        yield from _of_ticket(call, source, tracked, closed=closed)
    elif source.kind == "file":
        yield from _of_comments(call, source, [item for item in tracked if item.origin_channel == "adapter"])


# Tickets


def _of_ticket(call: Call, source: Source, tracked: Sequence[WorkItem], *, closed: bool) -> Iterator[_WorkRequest]:
    state = _state(source)
    title = shortened(source.title, _TITLE_CHARS)
    if not tracked and state in _OPEN:
        yield _WorkRequest("work item", title, (source.id, "open"), [Create(object=_work_item(call, source, state))])
    elif not tracked and closed:
        yield _WorkRequest("closing", title, (source.id, "closed"), [_closing(call, source, None, state)])
    for item in tracked:
        if item.status in _OPEN and state not in _OPEN:
            said = f"{source.metadata['tracker']} says: {source.metadata['state']}" if state == "closed" else ""
            key = (source.id, *_as_it_stands(item), state, source.fingerprint)
            yield _WorkRequest("closing", title, key, [*_ending(item, said), _closing(call, source, item, state)])
        # Somebody who ended the work after the tracker was read has decided on it.
        elif item.status not in _OPEN and state in _OPEN and source.updated_at > item.updated_at:
            again = Transition(id=item.id, expected_revision=item.revision, to="open")
            yield _WorkRequest(
                "reopening", title, (source.id, *_as_it_stands(item), "reopen", source.fingerprint), [again]
            )


def _state(source: Source) -> str:
    """Return how a ticket stands: the status of an open work item, or `closed` or `cancelled`."""
    told = str(source.metadata.get("state") or "").strip().casefold()
    state = next((name for name, words in _STATES.items() if told in words), "open")
    reason = str(source.metadata.get("stateReason") or source.metadata.get("state_reason") or "").casefold()
    return "cancelled" if state == "closed" and reason in _NOT_DONE else state


def _work_item(call: Call, source: Source, status: str) -> WorkItem:
    told = source.metadata
    facts = {"Assigned to": ("assignees", "assignee"), "Milestone": ("milestone",), "At": _ADDRESSES}
    lines = [f"{name}: {said}" for name, names in facts.items() if (said := _said(source, names))]
    due = _DAY.match(_said(source, ("due_date", "due")))
    fields: dict[str, Any] = {
        "kind": _named(_KINDS, source) or "issue",
        "title": shortened(source.title, _TITLE_CHARS),
        "summary": "\n".join(lines),
        "status": status,
        "priority": _named(_PRIORITIES, source) or "normal",
        "source_refs": [source.id],
        "opened_at": told.get("created_at"),
        "due_at": f"{due[0]}T00:00:00Z" if due else None,
    }
    return draft_work_item(call, WorkItemFields.model_validate(fields))


def _closing(call: Call, source: Source, item: WorkItem | None, state: str) -> Create:
    fields = {
        "kind": "episode",
        "status": "finalized",
        "title": shortened(f"Closed: {source.title}", _TITLE_CHARS),
        "ended_at": render_time(source.captured_at),
        "outcome": "success" if state == "closed" else "unknown",
        "source_refs": [source.id],
        "related_work_item_refs": [item.id] if item else [],
    }
    return Create(object=draft_activity(call, fields))


def _ending(item: WorkItem, resolution: str) -> list[Operation]:
    """Return what ends a work item: resolved, or without a resolution cancelled."""
    if not resolution:
        return [Transition(id=item.id, expected_revision=item.revision, to="cancelled")]
    # What is blocked is resolved by way of `open`.
    steps = ["open"] if item.status == "blocked" else []
    return [
        Transition(id=item.id, expected_revision=item.revision + number, to=to, resolution=said)
        for number, (to, said) in enumerate([*((step, "") for step in steps), ("resolved", resolution)])
    ]


def _as_it_stands(item: WorkItem) -> tuple[str, str]:
    """Return what differs once a work item was changed: a proposal for it is void then."""
    return item.id, str(item.revision)


def _named(names: Sequence[tuple[str, Sequence[str]]], source: Source) -> str:
    """Return the first name of which a label, the type or the priority of a ticket is a word."""
    labels = source.metadata.get("labels")
    given = [*(labels if isinstance(labels, list) else [labels])]
    given += [source.metadata.get(name) for name in ("type", "issuetype", "issue_type", "priority")]
    told = {part.strip() for one in given if one for part in re.split(r"[:/,]", str(one).casefold())}
    return next((name for name, words in names if told & set(words)), "")


def _said(source: Source, names: Sequence[str]) -> str:
    value = next((source.metadata[name] for name in names if source.metadata.get(name)), "")
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


# Comments


def _of_comments(call: Call, source: Source, tracked: Sequence[WorkItem]) -> Iterator[_WorkRequest]:
    comments = dict(_comments(source))
    titles = {item.title for item in tracked}
    for title, (kind, place) in comments.items():
        if title not in titles:
            fields = WorkItemFields(kind=kind, title=title, summary=place, source_refs=(source.id,))
            made = Create(object=draft_work_item(call, fields))
            yield _WorkRequest("work item", title, (source.id, title), [made], where=source.title or source.origin)
    for item in tracked:
        if item.status in _OPEN and item.title.startswith(tuple(_COMMENT_KINDS)) and item.title not in comments:
            said = f"The comment is gone from {source.title}."
            key = (source.id, *_as_it_stands(item), "gone", source.fingerprint)
            yield _WorkRequest("closing", item.title, key, _ending(item, said), where=source.title or source.origin)


def _comments(source: Source) -> Iterator[tuple[str, tuple[str, str]]]:
    """Return by title the kind of work that a comment asks for, and the line where it stands with its place."""
    found = 0
    for segment in source.segments:
        if not isinstance(segment.locator, Lines) or ("TODO" not in segment.excerpt and "FIXME" not in segment.excerpt):
            continue
        for number, line in enumerate(segment.excerpt.split("\n"), start=segment.locator.start):
            told = _COMMENT.search(line)
            if told and found < _MOST_COMMENTS:
                found += 1
                text = " ".join(_COMMENT_END.sub("", told["text"]).split())
                title = shortened(f"{told['word']}: {text}", _TITLE_CHARS)
                place = f"{segment.locator.path}:{number}\n{line.strip()}"
                yield title, (_COMMENT_KINDS[told["word"]], place)


PROPOSE = SpaceOperation(
    "review propose",
    "Propose work items for tickets and TODO comments, and their closing.",
    Nothing,
    ProposeOptions,
    WorkProposals,
    propose_work,
    rights=WRITES,
    repeatable=True,
)

OPERATIONS = (LIST, SHOW, APPLY, REJECT, REVERT)
