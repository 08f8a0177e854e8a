"""Work that sources request (tickets, `TODO` comments), proposed to reviewers."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import Field

from treering.core.canonical import canonical_json, digest, render_time
from treering.core.evidence import Lines
from treering.core.filters import Compare
from treering.core.objects import Source, WorkItem
from treering.core.patch import Create, Operation, Transition, shortened
from treering.ports.ledger import Selection
from treering.verbs.crystallize.drafting import WorkItemFields, draft_activity, draft_work_item
from treering.verbs.crystallize.submission import new_patch
from treering.verbs.envelope import WRITES, Call, Nothing, Value
from treering.verbs.envelope import Operation as SpaceOperation

What = Literal["work item", "closing", "reopening"]

_SOURCES_PER_PROGRESS = 200
_TITLE_CHARS = 200
_MAX_COMMENTS = 200
"""Comments of one source that are read."""
_OPEN = frozenset({"open", "in_progress", "blocked"})
_STATES: dict[str, tuple[str, ...]] = {
    "closed": ("closed", "done", "resolved", "completed", "complete", "merged", "fixed", "released"),
    "cancelled": ("cancelled", "canceled", "duplicate", "won't do", "wont do", "won't fix", "wontfix", "declined"),
    "in_progress": ("in progress", "in review", "started", "doing"),
    "blocked": ("blocked", "on hold"),
}
"""The states of trackers, in lower case, by status; every other word means an open ticket."""
_NOT_DONE = ("not_planned", "not planned", "duplicate")
"""Reasons of a tracker for closing a ticket that was not done."""
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
    """Work that a source requests. `key` identifies the request, which is decided on once."""

    what: What
    title: str
    key: tuple[str, ...]
    operations: Sequence[Operation]
    where: str = ""
    """The file, if the title does not name it."""

    @property
    def reason(self) -> str:
        """The reason of the patch, which a reviewer reads."""
        return f"{self.what}: {self.title}" + (f", in {self.where}" if self.where else "")


def propose_work(call: Call, _given: Nothing, options: ProposeOptions) -> WorkProposals:
    """Propose the work that sources request. A request that was decided on is not proposed again."""
    ledger = call.engine.ledger
    author = call.engine.author.model_copy(update={"channel": "adapter", "tool": "review propose"})
    proposed: list[ProposedWork] = []
    known = 0
    for source, request in _requested_work(call, options):
        if len(proposed) == options.limit:
            return WorkProposals(proposed=tuple(proposed), known=known, more=True)
        proposal = ProposedWork(patch_id="", what=request.what, title=request.title, source_id=source.id)
        if options.dry_run:
            proposed.append(proposal)
            continue
        patch = new_patch(call.engine, request.operations, author=author, reason=request.reason).value
        record = ledger.propose(
            patch, idempotency_key=f"propose {digest(canonical_json([source.scope, *request.key]))}"
        )
        if record.id == patch.id:
            proposed.append(proposal.model_copy(update={"patch_id": record.id}))
        else:
            known += 1
    return WorkProposals(proposed=tuple(proposed), known=known)


def _requested_work(call: Call, options: ProposeOptions) -> Iterator[tuple[Source, _WorkRequest]]:
    chosen = Selection(scope=call.scope, descend=True, types=("source",), where=Compare("status", "eq", "active"))
    tracked = _tracked(call)
    for number, source in enumerate(call.engine.ledger.select(chosen)):
        if number % _SOURCES_PER_PROGRESS == 0:
            call.engine.progress("Looking for work", number, None)
        # Text that looks like instructions requests nothing.
        if isinstance(source, Source) and not source.metadata.get("flags"):
            there = replace(call, scope=source.scope)
            for request in _requests(there, source, tracked.get(source.id, ()), closed=options.closed):
                yield source, request


def _tracked(call: Call) -> Mapping[str, Sequence[WorkItem]]:
    """Return by id of a source the work items that name it, without archived ones."""
    chosen = Selection(scope=call.scope, descend=True, types=("work_item",))
    tracked: dict[str, list[WorkItem]] = {}
    for item in call.engine.ledger.select(chosen):
        if isinstance(item, WorkItem) and item.lifecycle_state == "active":
            for identity in item.source_refs:
                tracked.setdefault(identity, []).append(item)
    return tracked


def _requests(call: Call, source: Source, tracked: Sequence[WorkItem], *, closed: bool) -> Iterator[_WorkRequest]:
    if source.kind == "conversation" and source.metadata.get("tracker") and source.metadata.get("key"):
        yield from _of_ticket(call, source, tracked, closed=closed)
    elif source.kind == "file":
        yield from _of_comments(call, source, [item for item in tracked if item.origin_channel == "adapter"])


def _of_ticket(call: Call, source: Source, tracked: Sequence[WorkItem], *, closed: bool) -> Iterator[_WorkRequest]:
    state = _state(source)
    title = shortened(source.title, _TITLE_CHARS)
    if not tracked and state in _OPEN:
        yield _WorkRequest("work item", title, (source.id, "open"), [Create(object=_work_item(call, source, state))])
    elif not tracked and closed:
        yield _WorkRequest("closing", title, (source.id, "closed"), [_closing(call, source, None, state)])
    for item in tracked:
        if item.status in _OPEN and state not in _OPEN:
            resolution = f"{source.metadata['tracker']} says: {source.metadata['state']}" if state == "closed" else ""
            key = (source.id, *_version(item), state, source.fingerprint)
            yield _WorkRequest("closing", title, key, [*_ending(item, resolution), _closing(call, source, item, state)])
        # Work that was ended after the tracker was read stays as it is.
        elif item.status not in _OPEN and state in _OPEN and source.updated_at > item.updated_at:
            again = Transition(id=item.id, expected_revision=item.revision, to="open")
            yield _WorkRequest("reopening", title, (source.id, *_version(item), "reopen", source.fingerprint), [again])


def _state(source: Source) -> str:
    """Return the state of a ticket: a status of an open work item, or `closed` or `cancelled`."""
    word = str(source.metadata.get("state") or "").strip().casefold().replace("_", " ")
    state = next((name for name, words in _STATES.items() if word in words), "open")
    reason = str(source.metadata.get("stateReason") or source.metadata.get("state_reason") or "").casefold()
    return "cancelled" if state == "closed" and reason in _NOT_DONE else state


def _work_item(call: Call, source: Source, status: str) -> WorkItem:
    facts = {"Assigned to": ("assignees", "assignee"), "Milestone": ("milestone",), "At": _ADDRESSES}
    lines = [f"{name}: {value}" for name, names in facts.items() if (value := _field(source, names))]
    due = _DAY.match(_field(source, ("due_date", "due")))
    fields: dict[str, Any] = {
        "kind": _named(_KINDS, source) or "issue",
        "title": shortened(source.title, _TITLE_CHARS),
        "summary": "\n".join(lines),
        "status": status,
        "priority": _named(_PRIORITIES, source) or "normal",
        "source_refs": [source.id],
        "opened_at": source.metadata.get("created_at"),
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
    """Return the operations that resolve a work item, or cancel it without a resolution."""
    if not resolution:
        return [Transition(id=item.id, expected_revision=item.revision, to="cancelled")]
    # Blocked work is opened before it is resolved.
    steps = ["open"] if item.status == "blocked" else []
    return [
        Transition(id=item.id, expected_revision=item.revision + number, to=to, resolution=reason)
        for number, (to, reason) in enumerate([*((step, "") for step in steps), ("resolved", resolution)])
    ]


def _version(item: WorkItem) -> tuple[str, str]:
    """Return the id and revision of a work item: once it changes, a proposal for it is void."""
    return item.id, str(item.revision)


def _named(names: Sequence[tuple[str, Sequence[str]]], source: Source) -> str:
    """Return the first name with a word that is a label, the type or the priority of a ticket."""
    own = source.metadata.get("labels")
    given = [*(own if isinstance(own, list) else [own])]
    given += [source.metadata.get(name) for name in ("type", "issuetype", "issue_type", "priority")]
    labels = {part.strip() for one in given if one for part in re.split(r"[:/,]", str(one).casefold())}
    return next((name for name, words in names if labels & set(words)), "")


def _field(source: Source, names: Sequence[str]) -> str:
    value = next((source.metadata[name] for name in names if source.metadata.get(name)), "")
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


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
            resolution = f"The comment is gone from {source.title}."
            key = (source.id, *_version(item), "gone", source.fingerprint)
            yield _WorkRequest(
                "closing", item.title, key, _ending(item, resolution), where=source.title or source.origin
            )


def _comments(source: Source) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield by title the kind of work that a comment requests, and its place and line."""
    count = 0
    for segment in source.segments:
        if not isinstance(segment.locator, Lines) or ("TODO" not in segment.excerpt and "FIXME" not in segment.excerpt):
            continue
        for number, line in enumerate(segment.excerpt.split("\n"), start=segment.locator.start):
            comment = _COMMENT.search(line)
            if comment and count < _MAX_COMMENTS:
                count += 1
                text = " ".join(_COMMENT_END.sub("", comment["text"]).split())
                title = shortened(f"{comment['word']}: {text}", _TITLE_CHARS)
                place = f"{segment.locator.path}:{number}\n{line.strip()}"
                yield title, (_COMMENT_KINDS[comment["word"]], place)


PROPOSE = SpaceOperation.of(
    "review propose",
    "Propose work items for tickets and TODO comments, and their closing.",
    propose_work,
    rights=WRITES,
    repeatable=True,
)
OPERATIONS = (PROPOSE,)
