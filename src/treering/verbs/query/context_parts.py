"""The items of a context pack, with the places they rest on."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import chain, islice
from math import ceil

from treering.core.evidence import EvidenceRef, Lines, Segment, place_in
from treering.core.filters import And, Compare, Filter
from treering.core.objects import Activity, Channel, Fact, Knowledge, Node, Object, WorkItem, title_of
from treering.core.policy import TrustLevel, is_over, trust_of
from treering.core.screening import instruction_flags
from treering.ports.ledger import Altered, ObjectRequest, ObjectsFound, Selection, sources_named
from treering.ports.passages import PassageRequest, PassagesFound, Reach
from treering.ports.search import TextFound, TextRequest
from treering.retrieval.index.code_names import file_at
from treering.retrieval.index.code_places import CODE, shorten_comments
from treering.retrieval.index.passages import is_withheld, passages_of, told_once
from treering.retrieval.index.rounds import Steps, run_together
from treering.retrieval.search.commit_history import CommitHistory, companions_of, histories_in
from treering.retrieval.search.known_words import KnownWords, known_words
from treering.retrieval.search.packing import (
    Citation,
    ConflictNote,
    Packed,
    PackItem,
    UnnumberedItem,
    cite,
    quoted,
    section_of,
)
from treering.retrieval.search.question import Question
from treering.retrieval.search.relevance import Judgement, is_small
from treering.retrieval.search.reranking import Reranking
from treering.retrieval.search.retrieval import Adjusting, Hit, Retrieval, retrieval
from treering.retrieval.search.trust import Wording, repetition_flags
from treering.retrieval.text.analysis import index_text, telling_terms
from treering.retrieval.text.typed_words import listed
from treering.verbs.envelope import Call
from treering.verbs.query.attached import Attached, named_nodes
from treering.verbs.reading import WEAK, lag_warning, note_recalled
from treering.verbs.scoped_ledger import on_all_branches

_WITH_REPLY = 5
"""Passages shown with their reply. Those of all took the place of evidence (3 points, LoCoMo, 2,000 tokens)."""


@dataclass(frozen=True, slots=True)
class Citing:
    """What citations need of the sources they name."""

    origins: Mapping[str, str]
    """By id of a source: what it is called. One in another scope is not in it."""
    segments: Mapping[tuple[str, str], Segment]

    @classmethod
    def read(cls, call: Call, items: Sequence[Object], reach: Reach, altered: Altered) -> "Citing":
        """Read all of it at once, but for what does not verify, which is noted."""
        refs = [ref for item in items if isinstance(item, Knowledge) for ref in item.evidence_refs]
        if not items:
            return cls({}, {})
        request = ObjectRequest(
            heads=tuple(dict.fromkeys(sources_named(items))),
            segments=tuple(dict.fromkeys((ref.source_id, ref.segment_id) for ref in refs)),
            as_of=reach.at,
            vanished=True,
        )
        (found,) = on_all_branches(call.engine.ledger).read([request])
        altered |= found.altered
        return cls({identity: head.title for identity, head in found.heads.items()}, found.segments)

    def of(self, item: Object) -> Iterator[Citation]:
        """Return the citations of an object."""
        match item:
            case Knowledge():
                yield from (cited for ref in item.evidence_refs if (cited := self._evidence(ref)))
            case Activity() | WorkItem():
                for source_id in item.source_refs:
                    yield Citation(mark="", object_id=source_id, origin=self.origins.get(source_id, source_id))
            case _:
                return

    def _evidence(self, ref: EvidenceRef) -> Citation | None:
        """Cite evidence that is what the audit log says; of a source in another scope only its id is told."""
        origin = self.origins.get(ref.source_id, ref.source_id)
        if origin == ref.source_id:
            return cite(ref, origin=origin, place="")
        segment = self.segments.get((ref.source_id, ref.segment_id))
        return cite(ref, origin=origin, place=place_in(segment.locator, origin)) if segment else None


def belief_item(
    item: Object,
    score: float,
    citing: Citing,
    wording: Wording,
    trusted: Mapping[Channel, TrustLevel],
    reach: Reach,
    note: str = "",
) -> UnnumberedItem:
    """Make an item of knowledge, work or an activity, with what it rests on. `note`: why it does not hold here."""
    passage = passages_of(item)[0]
    words = f"{title_of(item)}\n{passage.text}"
    return UnnumberedItem(
        PackItem(
            section=section_of(item.type, item.kind),
            object_id=item.id,
            kind=item.kind,
            status=item.status,
            title=title_of(item),
            text=told_once(title_of(item), passage.text),
            score=round(score, 6),
            flags=(
                *instruction_flags(words),
                *repetition_flags(wording.repeated_in(words)),
                *(["over"] if reach.now and is_over(item, now=reach.now) else []),
                *([note] if note else []),
            ),
            channel=item.origin_channel,
            trust=trust_of(item.origin_channel, item.status, trusted),
        ),
        tuple(citing.of(item)),
    )


def source_items(hits: Sequence[Hit], notes: Mapping[int, str], weak: Set[int]) -> Iterator[UnnumberedItem]:
    """Make an item of each passage of a source, the first of them with the turn that answers it.

    `notes` say by their keys what became of passages in the work tree that is asked from; those in `weak` are flagged
    so. A turn that stands in the item of its question is not an item of its own.
    """
    told: set[tuple[str, str]] = set()
    for rank, hit in enumerate(hits):
        shown = hit if rank < _WITH_REPLY else replace(hit, reply=None)
        if (hit.head.object_id, hit.head.part) not in told:
            note = notes.get(hit.head.key, "")
            yield _source_item(shown, tuple(filter(None, (note, WEAK if hit.head.key in weak else ""))))
        if shown.reply:
            told.add((hit.head.object_id, shown.reply.segment_id))


def _source_item(hit: Hit, told: Sequence[str]) -> UnnumberedItem:
    place = place_in(hit.locator, hit.head.origin) if hit.locator else hit.head.origin
    item = PackItem(
        section="sources",
        object_id=hit.head.object_id,
        segment_id=hit.head.part,
        kind=hit.state.kind,
        status=hit.state.status,
        title=" — ".join(filter(None, (hit.head.title, hit.head.heading))),
        text=hit.text_with_reply,
        score=round(hit.score, 6),
        flags=(*hit.flags, *told),
        channel=hit.trusted.channel,
        trust=hit.trusted.level,
    )
    places = [(hit.head.part, place)]
    if hit.reply:
        places.append((hit.reply.segment_id, place_in(hit.reply.locator, hit.head.origin)))
    cited = (
        Citation(mark="", object_id=hit.head.object_id, segment_id=segment, origin=hit.head.origin, place=where)
        for segment, where in places
    )
    return UnnumberedItem(item, tuple(cited), _shortened(hit))


def _shortened(hit: Hit) -> str:
    """Return code without most of its long comments, where it has any."""
    file = file_at(hit.locator.path) if isinstance(hit.locator, Lines) and hit.head.place_role == CODE else None
    shorter = shorten_comments(hit.text, file.family) if file else ""
    return shorter if len(shorter) < len(hit.text) else ""


# What is found for a task: sources and beliefs that answer, what had to be withdrawn, and what nothing speaks of.


_SOURCES = 40
_BELIEFS = 16
_FURTHER = 12
"""Files of code named beside those that are shown: 24 found as much."""

_COMPANIONS = 2
_OF_FILES = 3
"""Files of code, the first shown, of which it is told what changed with them."""

_WITHDRAWN = ("stale", "superseded")
_MOST_WITHDRAWN = 8
_SHARED = 2
"""Words withdrawn knowledge has to share with a task to be warned of."""


COPIED = "adapter"
"""The channel of what an adapter copied from a source."""


@dataclass(frozen=True)
class FoundForTask:
    """What was found for a task, each by a search of its own."""

    question: Question
    sources: Retrieval
    beliefs: Retrieval
    withdrawn: tuple[tuple[str, str, str], ...]
    """Id, title and status of knowledge that is withdrawn or over, and shares more than a chance word with the task."""
    known: KnownWords
    """Which words of the task occur here."""
    nodes: tuple[Node, ...]
    """Nodes that the task names."""
    histories: tuple[CommitHistory, ...]
    """What commits of the repositories in reach say of their files."""
    altered: Mapping[str, str]
    judgement: Judgement

    @property
    def answers(self) -> bool:
        """Whether anything found is relevant to the task; `True` if that cannot be decided."""
        return self.judgement.answers

    @property
    def passages(self) -> list[Hit]:
        """The passages of sources that may be packed.

        Weak ones are left out of a small space, where every passage is a candidate. In a large one they are flagged:
        without them packs of 4,000 tokens lose 2 % of the evidence (MuSiQue).
        """
        hits = self.sources.hits
        return self._not_weak(hits) if self.answers and is_small(self.known.idf) else list(hits)

    @property
    def about_task(self) -> list[Hit]:
        """The knowledge, work and activities that are about the task.

        Of what adapters copied from manifests, only what is about a subject that the task names, if it names one: the
        version of acme is asked for, not the versions of its parts.
        """
        hits = self._not_weak(self.beliefs.hits)
        asked = frozenset(self.question.terms.words)
        named = {hit.head.key for hit in hits if (subject := _copied_subject(hit)) and subject <= asked}
        return [hit for hit in hits if not named or hit.head.key in named or not _copied_subject(hit)]

    def _not_weak(self, hits: Sequence[Hit]) -> list[Hit]:
        return [hit for hit in hits if hit.head.key not in self.judgement.weak]


def _copied_subject(hit: Hit) -> frozenset[str]:
    """Return the terms of the subject of a fact that an adapter copied from a source; none of another hit."""
    payload = hit.item.payload if isinstance(hit.item, Knowledge) else None
    if hit.state.origin_channel != COPIED or not isinstance(payload, Fact):
        return frozenset()
    return frozenset(telling_terms(payload.subject))


def gather(
    call: Call,
    question: Question,
    reach: Reach,
    *,
    deep: bool,
    reranking: Reranking | None,
    adjusting: Adjusting | None = None,
) -> FoundForTask:
    """Search for everything at once, so that a store in another place is asked few questions.

    Only sources are read again: nothing else is a turn of a conversation.
    """
    altered = Altered()
    of_sources = _only(reach, ("source",))
    of_beliefs = _only(reach, ("knowledge", "activity", "work_item"))
    sources, beliefs, withdrawn, known, nodes, histories = run_together(
        [
            retrieval(
                question,
                reach=of_sources,
                limit=_SOURCES,
                deep=deep,
                reranking=reranking,
                adjusting=adjusting,
                further=_FURTHER,
            ),
            retrieval(question, reach=of_beliefs, limit=_BELIEFS, deep=deep, adjusting=adjusting),
            _withdrawn(question, reach, altered),
            known_words(question, reach),
            named_nodes(question, reach, altered),
            histories_in(reach),
        ],
        index=call.engine.index,
        ledger=call.engine.ledger,
    )
    note_recalled(call.engine, (*sources.hits, *beliefs.hits))
    over = [(item.id, title_of(item), "over") for item in beliefs.over if _is_expired(item, question)]
    judgement = Judgement.of(known, question, sources, beliefs, answered=bool(nodes))
    return FoundForTask(
        question, sources, beliefs, (*withdrawn, *over), known, tuple(nodes), tuple(histories), altered, judgement
    )


def _only(reach: Reach, types: tuple[str, ...]) -> Reach:
    return replace(reach, where=And((reach.where, Compare("type", "in", types))))


def _withdrawn(question: Question, reach: Reach, altered: Altered) -> Steps[list[tuple[str, str, str]]]:
    """Find withdrawn knowledge that shares more than a chance word with the task."""
    if reach.withdrawn or reach.at is not None:
        return []
    gone: Filter = And((Compare("type", "eq", "knowledge"), Compare("status", "in", _WITHDRAWN)))
    words = (*question.terms.words, *question.terms.phrases)
    hits: TextFound = yield TextRequest(replace(reach, where=gone, withdrawn=True), _MOST_WITHDRAWN, words=words)
    if not hits.words:
        return []
    found: PassagesFound = yield PassageRequest(tuple(hit.key for hit in hits.words))
    ids = [found.heads[hit.key].object_id for hit in hits.words if hit.key in found.heads]
    read: ObjectsFound = yield ObjectRequest(objects=tuple(ids))
    altered |= read.altered
    items = [read.objects[identity] for identity in ids if identity in read.objects]
    return [(item.id, title_of(item), item.status) for item in items if _is_about(item, question)]


def _is_expired(item: Object, question: Question) -> bool:
    return isinstance(item, Knowledge) and _is_about(item, question)


def _is_about(item: Object, question: Question) -> bool:
    """Tell whether an object shares more than a chance word with a question."""
    asked = set(question.terms.words)
    words = set(index_text(f"{title_of(item)} {passages_of(item)[0].text}").split())
    return len(asked & words) >= min(_SHARED, ceil(len(asked) / 2))


# What a context pack says besides its items: a summary, conflicts, what is missing, what to read next.


_READS = 8


def summary_of(packed: Packed, conflicts: Sequence[ConflictNote], found: FoundForTask) -> str:
    """Say in one sentence what the pack holds, or that nothing here is relevant to the task."""
    if not found.answers:
        words = found.known.words
        missing = listed(words.unknown) or "this: its words occur, but nowhere together"
        rest = f" Known here: {listed(words.known)}." if words.known and words.unknown else ""
        return f"Nothing here speaks of {missing}.{rest} The nearest passages are named below, and not quoted."
    if not packed.unnumbered:
        return "Nothing is known here for this task."
    counts: dict[str, int] = {}
    for item in packed.unnumbered:
        counts[item.section] = counts.get(item.section, 0) + 1
    parts = [f"{count} {section if count > 1 else _singular(section)}" for section, count in counts.items()]
    more = f"; {len(packed.left_out)} more did not fit" if packed.left_out else ""
    warning = f"; {len(conflicts)} unresolved" if conflicts else ""
    return f"Known for this task: {', '.join(parts)}{warning}{more}."


def _singular(section: str) -> str:
    return {"work": "work item", "activities": "activity"}.get(section, section.removesuffix("s"))


def conflicts_of(call: Call, packed: Packed, reach: Reach, altered: Altered) -> tuple[ConflictNote, ...]:
    """Name everything contested in the pack, together with the claims it contradicts, where these are not over."""
    contested = [item.object_id for item in packed.unnumbered if item.status == "contested"]
    if not contested:
        return ()
    everything = Selection(
        scope=reach.scope,
        descend=reach.descend,
        types=("knowledge",),
        where=Compare("status", "eq", "contested"),
        as_of=reach.at,
    )
    groups: dict[str, list[Knowledge]] = {}
    for item in call.engine.ledger.select(everything, altered=altered):
        if isinstance(item, Knowledge):
            groups.setdefault(item.claim_key() or item.id, []).append(item)
    shown = (group for group in groups.values() if any(item.id in contested for item in group))
    standing = ((group, [item for item in group if not is_withheld(item, reach)]) for group in shown)
    # One that stands alone is contested by a person, unless what contradicted it is over.
    return tuple(_note(left) for group, left in standing if len(left) > 1 or (left and len(group) == 1))


def _note(group: Sequence[Knowledge]) -> ConflictNote:
    return ConflictNote(
        ids=tuple(item.id for item in group),
        summary="Contested: " + " ↔ ".join(f"{quoted(item.title)} (`{item.id}`)" for item in group),
    )


def missing_of(packed: Packed, found: FoundForTask) -> tuple[str, ...]:
    """Say what the task mentions and the space does not know, and what it knew and has withdrawn."""
    unknown = listed(found.known.missing)
    gaps = [f"Nothing here mentions {unknown}."] if unknown and found.answers else []
    gaps += [
        f"`{identity}` ({quoted(title)}) is {status}: do not rely on it." for identity, title, status in found.withdrawn
    ]
    sections = {item.section for item in packed.unnumbered}
    if packed.unnumbered and not sections & {"decisions", "constraints"}:
        gaps.append("No decision or constraint is recorded for this; crystallize what you decide.")
    return (*gaps, *lag_warning(found.question.lag))


def next_reads_of(
    packed: Packed, attached: Sequence[Attached], files: Sequence[Hit], histories: Sequence[CommitHistory]
) -> tuple[str, ...]:
    """Name what did not fit, best first, and the wholes of which only parts are in the pack.

    Where code was found (`files`), name files of it of which nothing is shown in the place of more passages of the
    files that are, for a change often concerns several files; and what is no code and changed with what is shown.
    """
    beside = _companions(packed, files, histories)
    code = _files_not_shown(packed, files)
    more = [
        f"{one.left_out} more that belong to {quoted(one.node.name)} (`{one.node.id}`, mode related)"
        for one in attached
        if one.left_out
    ]
    cut = (
        f"{quoted(item.title)}, the rest of it (`{item.object_id}` {item.segment_id})"
        for item in packed.unnumbered
        if "cut" in item.flags
    )
    left = (
        f"{quoted(item.title)} (`{item.object_id}` {item.segment_id})" for item in packed.left_out if item.segment_id
    )
    return (*_first_few(more if code else chain(more, cut, left), _READS), *code, *beside)


def _first_few(lines: Iterable[str], most: int) -> list[str]:
    """Return the first different lines; the others are not even written."""
    found: dict[str, None] = {}
    for line in lines:
        if len(found) == most:
            break
        found.setdefault(line)
    return list(found)


def _companions(packed: Packed, files: Sequence[Hit], histories: Sequence[CommitHistory]) -> list[str]:
    """Name what is no code and changed most often with the first files of code that are shown, such as a changelog."""
    code = {hit.head.object_id: hit.head.origin for hit in files if hit.head.place_role == CODE}
    shown = dict.fromkeys(code[item.object_id] for item in packed.unnumbered if item.object_id in code)
    packed_ids = {item.object_id for item in packed.unnumbered}
    told = {hit.locator.path for hit in files if isinstance(hit.locator, Lines) and hit.head.object_id in packed_ids}
    named = ((path, commits) for path, commits in companions_of([*shown][:_OF_FILES], histories) if path not in told)
    return [f"{quoted(path)}, changed with it in {commits} commits" for path, commits in islice(named, _COMPANIONS)]


def _files_not_shown(packed: Packed, found: Sequence[Hit]) -> list[str]:
    """Name the best place of each file of code of which the pack shows nothing."""
    shown = {item.object_id for item in packed.unnumbered}
    best: dict[str, str] = {}
    for hit in found:
        if isinstance(hit.locator, Lines) and hit.head.place_role == CODE and hit.head.object_id not in shown:
            best.setdefault(hit.head.object_id, _place_of_code(hit.locator, hit.head.heading))
    return list(islice(best.values(), _FURTHER))


def _place_of_code(lines: Lines, heading: str) -> str:
    named = "" if heading == lines.path.rpartition("/")[2] else f" {heading}"
    return quoted(f"{lines.path}#L{lines.start}-L{lines.end}{named}")
