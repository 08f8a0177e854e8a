"""The stored data of a ticket: its WorkItem with the state of the current run, and the result of completing it.

The WorkItem and Activities of a ticket are in a separate scope, `/ticket/<key>`, so that runs do not clutter the
project. The document of a completed ticket is at `/`, where all tickets find it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import accumulate
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator

from treering.core.canonical import digest
from treering.core.errors import Conflict, InvalidInput
from treering.core.filters import Compare
from treering.core.objects import Activity, CallerModel, WorkItem
from treering.core.patch import TITLE, AddLink, Create, Link, Operation, Transition, Update, shortened
from treering.core.scope import ROOT
from treering.core.secrets.redaction import redact
from treering.extensions.projects.documents import Document
from treering.extensions.statements.extractive import best, sentences_of, told
from treering.ports.adapter import SourceDraft
from treering.ports.ledger import Selection
from treering.verbs.crystallize.drafting import WorkItemFields, draft_activity, draft_work_item
from treering.verbs.crystallize.submission import WriteOptions, WriteReport, submit
from treering.verbs.engine import Engine
from treering.verbs.envelope import Call, Value
from treering.verbs.ingest.changes import SourceChanges, SourceToWrite
from treering.verbs.ingest.inline_items import InlineItem, InlineReader
from treering.verbs.ingest.known import KnownSources

WHOLE_CHARS = 48_000
"""The length of the newest turns that are stored unchanged."""

SHORT_CHARS = 16_000
"""The total length of all older turns."""

_LEAST_CHARS = 120  # the minimum per older turn
_PROMPT_SHARE = 3  # the prompt gets a third of a shortened turn
_GAP = " … "
_SENTENCES = 12
_CHARS_PER_WORD = 7


class Exchange(Value):
    """One turn: the worker's prompt and answer. `shortened`: these are summaries."""

    prompt: str
    response: str
    shortened: bool = False


def shortened_history(turns: Sequence[Exchange]) -> tuple[Exchange, ...]:
    """Return all turns, oldest first: the newest unchanged, the older ones summarized.

    The last turn is never shortened.
    """
    sizes = accumulate(len(turn.prompt) + len(turn.response) for turn in reversed(turns))
    whole = max(sum(size <= WHOLE_CHARS for size in sizes), 1)
    older, newer = turns[:-whole], turns[-whole:]
    each = max(SHORT_CHARS // len(older), _LEAST_CHARS) if older else 0
    return (*(_short(turn, each) for turn in older), *newer)


def _short(turn: Exchange, most: int) -> Exchange:
    for_prompt = most // _PROMPT_SHARE
    return Exchange(
        prompt=_summary(turn.prompt, for_prompt),
        response=_summary(turn.response, most - min(len(turn.prompt), for_prompt)),
        shortened=True,
    )


def _summary(text: str, most: int) -> str:
    """Return the most informative sentences, or the beginning and the end if there are none."""
    if len(text) <= most:
        return text
    chosen = told(best(sentences_of(text), most=_SENTENCES, words=most // _CHARS_PER_WORD))
    if chosen and len(chosen) <= most:
        return chosen
    half = max((most - len(_GAP)) // 2, 1)
    return f"{text[:half]}{_GAP}{text[-half:]}"


class Ticket(CallerModel, Value):
    """A requested piece of work. The `id` identifies it; by default title and description do."""

    id: str = Field(default="", max_length=200, description="Id in the tracker.")
    title: str = Field(min_length=1, description="Title of the ticket.")
    description: str = Field(default="", description="Description of the work. `None` is an empty one.")
    occurrence: int = Field(default=1, ge=1, description="Number among several similar tickets without an id, from 1.")

    @field_validator("description", mode="before")
    @classmethod
    def _may_be_missing(cls, description: object) -> object:
        return "" if description is None else description

    @field_validator("title")
    @classmethod
    def _is_not_blank(cls, title: str) -> str:
        if not title.strip():
            raise ValueError("the title is empty")
        return title

    @property
    def key(self) -> str:
        """The name of the ticket in scopes."""
        if self.id:
            return self.id if _PLAIN.fullmatch(self.id) else digest(self.id)
        name = digest(f"{self.title}\n{self.description}")
        return name if self.occurrence == 1 else f"{name}-{self.occurrence}"

    @property
    def next_alike(self) -> "Ticket | None":
        """The next ticket with the same text; `None` if it has an id."""
        return None if self.id else self.model_copy(update={"occurrence": self.occurrence + 1})

    @property
    def scope(self) -> str:
        """The scope of its WorkItem and Activities."""
        return f"/ticket/{self.key}"

    @property
    def query(self) -> str:
        """The query for similar past work."""
        return f"{self.title}. {self.description}"

    def document(self, summary: str) -> str:
        """Return the document of the completed ticket."""
        return f"Ticket: {self.title}. {self.description}. {summary}"


class RunState(Value):
    """The state of a run, stored after every turn, from which a crashed run resumes."""

    earlier: tuple[Exchange, ...] = ()
    """The assessed turns, oldest first."""

    run: str
    """The id of the run, to detect two runs on one ticket."""
    turns: int = 0
    """The number of turns that the worker has finished."""
    prompt: str
    """The next prompt of the worker, or the last one if there is a response."""
    response: str | None = None
    """The answer of the worker; `None` if it is the worker's turn."""
    seconds: float = 0.0
    requests: int = 0
    cost: Decimal | None = Decimal(0)
    """In US dollars; `None` if the price of the model is unknown."""


@dataclass(frozen=True, slots=True)
class Completed:
    """A completed ticket. `outcome`: `completed`, `unchanged` (already completed) or `proposed` (waits for review)."""

    outcome: Literal["completed", "unchanged", "proposed"]
    work_item: str
    source: str = ""


class TicketRecord:
    """One ticket in one space. Stateless: every call reads the current data.

    Methods raise `Conflict` after a concurrent change; repeat the call.
    """

    def __init__(self, engine: Engine, ticket: Ticket) -> None:
        self._engine = engine
        self._ticket = ticket
        self._call = Call(engine, ticket.scope)

    def work_item(self) -> WorkItem | None:
        """Return the ticket's WorkItem."""
        return next((item for item in self._select("work_item") if isinstance(item, WorkItem)), None)

    def is_done(self) -> bool:
        """Return whether the ticket was completed."""
        item = self.work_item()
        return item is not None and item.status in _DONE

    def state(self) -> RunState | None:
        """Return the state of the ticket's run, if any."""
        item = self.work_item()
        if item is None or item.status != "in_progress":
            return None
        _, marked, state = item.summary.rpartition(_STATE)
        try:
            return RunState.model_validate_json(state) if marked else None
        except ValidationError:
            return None  # the summary was edited; start again

    def keep(self, state: RunState, *, takes_over: bool = False) -> bool:
        """Store the state of a run, unless the ticket is done or has another run; return whether it was stored.

        `takes_over`: whether the run continues another one.
        """
        known = self.state()
        others = known is not None and known.run != state.run and not takes_over
        item = self.work_item()
        if others or (item and item.status in _DONE):
            return False
        summary = f"{self._description()}{_STATE}{_without_secrets(state).model_dump_json()}"
        if item is None:
            self._open(summary)
        else:
            update = Update(id=item.id, expected_revision=item.revision, changes={"summary": summary})
            self._submit([update, *_moves(item, "in_progress")], "A turn of the ticket")
        return True

    def complete(self, summary: str) -> Completed:
        """Write the document, the Activity and the resolved WorkItem in one patch, unless the ticket is done.

        A ticket without an id that was completed with another summary is a second ticket with the same text.
        """
        item = self.work_item()
        if item and item.status in _DONE:
            alike = self._alike()
            is_same = alike is None or self._has_document(item, summary)
            return Completed("unchanged", item.id) if is_same or alike is None else alike.complete(summary)
        source, operations = self._document(summary)
        work, resolved = self._resolved(item, source, summary)
        activity = self._activity(item, work, source, summary)
        operations += [*resolved, Create(object=activity)]
        operations.append(AddLink(link=Link(type="produced", source=activity.id, target=source)))
        # The key gives two processes that complete an unopened ticket the same receipt.
        key = f"ticket {self._ticket.key} completed after {item.revision if item else 0}"
        report = self._submit(operations, "The ticket is done", key=key)
        if report.receipt and report.receipt.replayed:
            return self._completed_elsewhere()
        return Completed("proposed" if report.status == "proposed" else "completed", work, source)

    def revert(self) -> bool:
        """Archive the objects of the last completion and reopen the ticket; return whether there were any.

        Of several tickets with the same text and without ids, the last completed one is reverted.
        """
        alike = self._alike()
        if alike and alike.work_item() and alike.revert():
            return True
        done = [item for item in self._select("activity") if isinstance(item, Activity) and item.status == "finalized"]
        item = self.work_item()
        operations: list[Operation] = []
        if done:
            operations += self._withdrawals(self._engine.ledger.events_of(done[-1].id)[0].patch_id)
        if item and item.status in _DONE:
            changes = {"summary": self._description(), "resolution": "", "source_refs": ()}
            operations.append(_move(item, "open"))
            operations.append(Update(id=item.id, expected_revision=item.revision, changes=changes))
        if operations:
            self._submit(operations, "The completion of the ticket is taken back")
        return bool(operations)

    def _alike(self) -> "TicketRecord | None":
        ticket = self._ticket.next_alike
        return TicketRecord(self._engine, ticket) if ticket else None

    def _has_document(self, item: WorkItem, summary: str) -> bool:
        """Return whether the ticket was completed with this summary."""
        origin = Document.of(self._ticket.document(summary)).origin
        state = self._engine.ledger.sources(scope=ROOT, root=origin).get(origin)
        return state is not None and state.id in item.source_refs

    def _open(self, summary: str) -> None:
        """Create the WorkItem. Raises `Conflict` in the second of two concurrent processes."""
        opened = self._draft(summary)
        operations: list[Operation] = [Create(object=opened), _move(opened, "in_progress")]
        report = self._submit(operations, "Work on the ticket begins", key=f"ticket {self._ticket.key} opened")
        if report.receipt and report.receipt.replayed:
            hint = "Repeat the call. If its record was erased, give the ticket another id."
            raise Conflict(f"The ticket {self._ticket.key} was already opened by another run.", hint=hint)

    def _withdrawals(self, patch_id: str) -> list[Operation]:
        """Return the operations that archive the documents and Activities created by a patch."""
        created = [effect.target for effect in self._engine.ledger.patch(patch_id).effects if effect.event == "created"]
        heads = self._engine.ledger.heads(created)
        return [
            Transition(id=head.id, expected_revision=head.revision, to="archived")
            for head in heads.values()
            if head.type in {"source", "activity"} and head.status != "archived"
        ]

    def _document(self, summary: str) -> tuple[str, list[Operation]]:
        """Return the id of the document's Source, and the operations that create it if it is new."""
        engine = self._engine
        document = Document.of(self._ticket.document(summary))
        item = document.item(engine.segmenters["text"], max_chars=engine.limits.max_segment_chars)
        draft = InlineReader(engine.segmenters, engine.limits).read(InlineItem.model_validate(item))
        if not isinstance(draft, SourceDraft):
            raise InvalidInput(f"The ticket cannot be stored: {draft.why}.", hint="Give a shorter summary.")
        known_sources = KnownSources(engine.ledger, scope=ROOT)
        changes = SourceChanges([SourceToWrite(draft)], known_sources=known_sources, scope=ROOT, clock=engine.clock)
        return changes.results[0].source_id, list(changes.operations())

    def _resolved(self, item: WorkItem | None, source: str, summary: str) -> tuple[str, list[Operation]]:
        resolution = summary.strip() or _NO_SUMMARY
        if item is None:
            draft = self._draft(self._description(), source_refs=(source,))
            return draft.id, [Create(object=draft), _move(draft, "resolved", resolution)]
        refs = tuple(dict.fromkeys([*item.source_refs, source]))
        changes = {"summary": self._description(), "source_refs": refs}
        update = Update(id=item.id, expected_revision=item.revision, changes=changes)
        return item.id, [update, *_moves(item, "resolved", resolution)]

    def _activity(self, item: WorkItem | None, work: str, source: str, summary: str) -> Activity:
        now = self._engine.clock.now()
        fields: dict[str, Any] = {
            "kind": "implementation",
            "title": self._ticket.title,
            "summary": summary,
            "status": "finalized",
            "outcome": "success",
            "started_at": item.opened_at if item else now,
            "ended_at": now,
            "related_work_item_refs": [work],
            "source_refs": [source],
            "produced_object_refs": [source],
        }
        return draft_activity(self._call, fields)

    def _completed_elsewhere(self) -> Completed:
        item = self.work_item()
        if item and item.status in _DONE:
            return Completed("unchanged", item.id)
        raise InvalidInput(
            f"The ticket {self._ticket.key} was already completed, and its record has been erased.",
            hint="Give it another id to complete it again.",
        )

    def _draft(self, summary: str, source_refs: tuple[str, ...] = ()) -> WorkItem:
        title = shortened(redact(self._ticket.title).text, TITLE)
        return draft_work_item(self._call, WorkItemFields(title=title, summary=summary, source_refs=source_refs))

    def _description(self) -> str:
        return redact(self._ticket.description).text

    def _select(self, kind: str) -> Sequence[object]:
        scope = self._ticket.scope
        here = Selection(scope=scope, types=(kind,), where=Compare("scope", "eq", scope))
        return list(self._engine.ledger.select(here))

    def _submit(self, operations: Sequence[Operation], reason: str, key: str | None = None) -> WriteReport:
        options = WriteOptions(reason=f"{reason}: {self._ticket.key}", idempotency_key=key)
        return submit(self._call, operations, options, mode="activity")


def _without_secrets(state: RunState) -> RunState:
    response = None if state.response is None else redact(state.response).text
    earlier = tuple(
        turn.model_copy(update={"prompt": redact(turn.prompt).text, "response": redact(turn.response).text})
        for turn in state.earlier
    )
    return state.model_copy(update={"prompt": redact(state.prompt).text, "response": response, "earlier": earlier})


def _moves(item: WorkItem, to: str, resolution: str = "") -> list[Operation]:
    """Return the transitions of a WorkItem to a status, through `open` if necessary."""
    if item.status == to:
        return []
    through_open = item.status in {"blocked", "cancelled", *_DONE}
    return [*([_move(item, "open")] if through_open else []), _move(item, to, resolution)]


def _move(item: WorkItem, to: str, resolution: str = "") -> Transition:
    return Transition(id=item.id, expected_revision=item.revision, to=to, resolution=resolution)


_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_STATE = "\n\nState of the run: "
_DONE = frozenset({"resolved", "closed"})
_NO_SUMMARY = "Done."
