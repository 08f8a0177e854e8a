"""Hits as a search shows them: text, place, warnings, and the explanation of their rank."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any

from pydantic import Field

from treering.core.canonical import Instant
from treering.core.characters import label, unmarked
from treering.core.evidence import Lines, place_in
from treering.core.objects import Knowledge, WorkItem
from treering.core.policy import CURRENT, TrustLevel, is_over
from treering.ports.passages import PassageRequest
from treering.retrieval.graph.association import WaysBack, passages_on, tell_path
from treering.retrieval.index.code_places import NO_PLACE
from treering.retrieval.index.passages import told_once
from treering.retrieval.search.fusion import WALKED
from treering.retrieval.search.lines import ShownLine, shown_lines
from treering.retrieval.search.relevance import WEAK
from treering.retrieval.search.replaced import SUPERSEDED
from treering.retrieval.search.retrieval import Hit, Retrieval
from treering.retrieval.text.decision_records import ReplacedRecord
from treering.verbs.envelope import Call, Value
from treering.verbs.replaced_turns import ReplacingTurn
from treering.verbs.trees import CHANGED, RENAMED

USUAL = frozenset({"active", "finalized", "open"})
"""Statuses that need no mention."""
_CURRENT_STATUSES = frozenset[str]().union(*CURRENT.values())


class ShownReply(Value):
    """The turn after a hit that ends with a question, by another speaker. `text` is data."""

    segment_id: str
    heading: str
    """The speaker, and the time if known."""
    text: str
    place: str


def no_columns(columns: tuple[int, ...]) -> bool:
    """Return whether all lines are shown from their start."""
    return not any(columns)


class ShownPassage(Value):
    """Another matching passage of a source. `text` is data, whatever its content."""

    text: str
    heading: str
    segment_id: str
    place: str
    score: float
    first_line: int = 0
    lines: tuple[int, ...] = ()
    columns: tuple[int, ...] = Field(default=(), exclude_if=no_columns)
    symbol: str = ""
    flags: tuple[str, ...] = ()


def flag_in_words(flag: str) -> str:
    """Return the words for a flag of a text, such as "repeats the question"."""
    return "repeats the question" if flag == "repeats_question" else flag.replace("_", " ")


class ShownWork(Value):
    """The owners, the priority and the order of a work item."""

    owner_refs: tuple[str, ...]
    priority: str
    depends_on: tuple[str, ...]
    blocked_by: tuple[str, ...]
    due_at: Instant | None

    @classmethod
    def of(cls, item: WorkItem) -> "ShownWork":
        """Return these fields of a work item."""
        return cls(**{name: getattr(item, name) for name in cls.model_fields})


class ShownHit(Value):
    """A ranked passage. `text` is data, whatever its content."""

    origin: str
    title: str
    text: str
    score: float
    source_id: str
    segment_id: str
    object_id: str
    type: str
    kind: str
    status: str
    scope: str
    heading: str
    place: str
    """Its place, such as `src/app.py#L10-L20 @ 1f3c…`."""
    first_line: int = 0
    """The number of the first line of `text` in its file; 0 without a file."""
    lines: tuple[int, ...] = ()
    """The lines of `text` to show first, counted from 0: matching lines and their neighbors."""
    columns: tuple[int, ...] = Field(
        default=(), exclude_if=no_columns, description="In each of `lines`, the column at which the answer begins."
    )
    symbol: str = ""
    """In a file: the definition around the matching lines, or the heading above them."""
    updated_at: Instant
    flags: tuple[str, ...] = ()
    """Warnings, such as `ignore_instructions`; `weak`: it is much less relevant than the best hit.

    `superseded`: only superseded knowledge cites it.
    """
    channel: str
    """The channel of its author: `user`, `agent`, `adapter`, `import` or `system`."""
    trust: TrustLevel
    """The trust of the policy in that channel, which counts in the ranking."""
    reply: ShownReply | None = None
    """In a conversation, the turn that answers a hit which ends in a question."""
    current: bool = True
    """Whether it is current in the requested tree."""
    note: str = ""
    """Why it is not: `not on this branch (feature/x)`, `changed since: …`, or `superseded by "TITLE"`.

    Of a current turn: `contested by turn 6 (Cleo, 2026-03-02)`; of a current passage: `renamed to PATH`.
    """
    superseded_by: str = Field(
        default="",
        exclude_if=lambda identity: not identity,
        description="For a superseded passage: the id of the knowledge or decision record, or source and segment of "
        "the turn, that replaced it.",
    )
    cites: str = Field(
        default="",
        exclude_if=lambda place: not place,
        description="The first lines of a file that knowledge cites, such as `README.md:5-11`.",
    )
    work: ShownWork | None = Field(
        default=None, exclude_if=lambda work: work is None, description="The owners, priority and order of a work item."
    )
    explain: dict[str, Any] | None = None
    more: tuple[ShownPassage, ...] = ()
    """With grouping by source: its other matching passages, best first."""

    @property
    def doubts(self) -> str:
        """The reasons to read it with care: it is not current, has low trust, or is flagged, for example as `weak`."""
        is_usual = self.status in USUAL and self.current
        state = self.note if is_usual else shown_status(self.status, current=self.current, note=self.note)
        flags = warnings_in(self.flags, self.note)
        return "; ".join(filter(None, [state, "low trust" if self.trust == "low" else "", *flags]))


def warnings_in(flags: Iterable[str], note: str) -> list[str]:
    """Return the flags of a text in words, except those that the text or its note shows."""
    shown = ("cut", SUPERSEDED) if note.startswith(SUPERSEDED) else ("cut",)
    return [flag_in_words(flag) for flag in flags if flag not in shown]


@dataclass(frozen=True, slots=True)
class Replaced:
    """A passage that only superseded knowledge cites, a turn that another one replaced or contests, or a record."""

    by: Knowledge | None = None
    """The latest replacement of that knowledge; `None` if the call may not read it."""
    turn: ReplacingTurn | None = None
    record: ReplacedRecord | None = None

    @property
    def is_contested(self) -> bool:
        """Whether nothing replaced it, but another turn contests it."""
        return self.turn is not None and self.turn.contests

    @property
    def note(self) -> str:
        """The note of the passage."""
        if self.turn:
            return self.turn.mark
        if self.record:
            return f"{SUPERSEDED} by {unmarked(self.record.by)}" if self.record.by else SUPERSEDED
        return f"{SUPERSEDED} by {label(self.by.title)}" if self.by else SUPERSEDED

    @property
    def reference(self) -> str:
        """The id of the replacing knowledge or record, or the source and segment of the turn; empty if none did."""
        if self.is_contested:
            return ""
        if self.record:
            return self.record.source_id
        return " ".join(self.turn.place) if self.turn else self.by.id if self.by else ""


def show(
    hit: Hit,
    *,
    now: datetime,
    explanations: "Explanations | None" = None,
    note: str = "",
    weak: bool = False,
    replaced: Replaced | None = None,
    cites: str = "",
) -> ShownHit:
    """Return a hit as it is shown at the time `now`.

    `note`: why it is not current in the requested tree. `weak`: whether it is flagged as such. `cites`: the first place
    that it cites.
    """
    head, state = hit.head, hit.state
    is_contested = not note and replaced is not None and replaced.is_contested
    is_renamed = note.startswith(RENAMED)
    note = note or (replaced.note if replaced else "")
    return ShownHit(
        origin=head.origin or head.object_id,
        title=head.title,
        text=told_once("", hit.text) if hit.item else hit.text,
        score=round(hit.score, 6),
        source_id=hit.source_id,
        segment_id=head.part,
        object_id=head.object_id,
        type=state.type,
        kind=state.kind,
        status=state.status,
        scope=state.scope,
        heading=head.heading,
        place=place_in(hit.locator, head.origin) if hit.locator else head.object_id,
        first_line=hit.locator.start if isinstance(hit.locator, Lines) else 0,
        updated_at=state.updated_at,
        flags=(*hit.flags, *([WEAK] if weak else []), *([SUPERSEDED] if replaced and not is_contested else [])),
        channel=hit.trusted.channel,
        trust=hit.trusted.level,
        reply=_shown_reply(hit),
        current=(not note or is_contested or is_renamed)
        and state.status in CURRENT[state.type]
        and not (hit.item and is_over(hit.item, now=now)),
        note=note,
        superseded_by=replaced.reference if replaced else "",
        cites=cites,
        work=ShownWork.of(hit.item) if isinstance(hit.item, WorkItem) else None,
        explain=explanations.of(hit) if explanations else None,
    )


def lines_shown_of(passage: ShownHit | ShownPassage, terms: frozenset[str], *, max_chars: int) -> Iterator[ShownLine]:
    """Yield the lines of a passage that answer. `terms`: the index terms of the query; `max_chars`: of one line."""
    return shown_lines(
        passage.text,
        passage.lines,
        terms,
        columns=passage.columns,
        first_line=passage.first_line,
        max_chars=max_chars,
    )


def _shown_reply(hit: Hit) -> ShownReply | None:
    if hit.reply is None:
        return None
    place = place_in(hit.reply.locator, hit.head.origin)
    return ShownReply(segment_id=hit.reply.segment_id, heading=hit.reply.heading, text=hit.reply.excerpt, place=place)


class Explanations:
    """Explanations of the ranks of the hits of one retrieval."""

    def __init__(self, call: Call, retrieval: Retrieval) -> None:
        """Read the paths through the graph that led to hits."""
        self._paths: Mapping[int, list[str]] = {}
        if retrieval.association:
            walked = [hit.head.key for hit in retrieval.hits if WALKED in hit.fused.parts]
            self._paths = _paths(call, WaysBack(retrieval.association), walked)

    def of(self, hit: Hit) -> dict[str, Any]:
        """Return the rank and score of a hit by arm, its factors, and its path through the graph."""
        head = hit.head
        arms = {
            name: {"rank": part.rank, "raw": round(part.raw, 4), "normalised": round(part.normalised, 4)}
            for name, part in hit.fused.parts.items()
        }
        explanation: dict[str, Any] = {
            "fused": round(hit.fused.score, 4),
            "arms": arms,
            "trust": {"level": hit.trusted.level, "factor": round(hit.trusted.factor, 4)},
        }
        if head.place_role != NO_PLACE:
            explanation["role"] = head.place_role
        if hit.reply:
            explanation["reply"] = "The hit ends with a question; the next turn is by another speaker."
        if hit.repeating_factor < 1:
            explanation["repeats_question"] = {"factor": round(hit.repeating_factor, 4)}
        if hit.adjustment is not None:
            explanation["feedback"] = {
                "persons": round(hit.adjustment.persons, 4),
                "others": round(hit.adjustment.others, 4),
                **hit.adjustment.counts,
            }
        if hit.reread is not None:
            explanation["rerank"] = round(hit.reread, 4)
        if (path := self._paths.get(head.key)) is not None:
            explanation["path"] = path
        return explanation


def _paths(call: Call, ways: WaysBack, keys: Sequence[int]) -> dict[int, list[str]]:
    """Return by passage key the names on the path through the graph that led to it, all read together."""
    view, paths = ways.view, ways.paths_to(keys)
    nodes = dict.fromkeys(chain.from_iterable(paths))
    passages = tuple(passages_on(nodes, view))
    (found,) = call.engine.index.passages.read([PassageRequest(passages)])
    titles = {key: " — ".join(filter(None, (head.title, head.heading))) for key, head in found.heads.items()}
    names = view.names(list(nodes))
    return {key: tell_path(path, view, names=names, titles=titles) for key, path in zip(keys, paths, strict=True)}


def shown_status(status: str, *, current: bool, note: str = "") -> str:
    """Return a status for people with its note; `over` is added to a status that does not imply it.

    Lines that are gone in the tree of the caller make it stale there, as in the brief.
    """
    if note.startswith(SUPERSEDED):
        return note
    if note:
        return f"{'stale' if note.startswith(CHANGED) else status}, {note}"
    return status if current or status not in _CURRENT_STATUSES else f"{status}, over"
