"""The items of a context pack, in the order in which they are packed, with the places they rest on."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial

from treering.core.evidence import EvidenceRef, Lines, Segment, Turn, place_in
from treering.core.objects import Activity, Channel, Decision, Knowledge, Object, WorkItem, title_of
from treering.core.policy import LEVELS, TrustLevel, is_over, trust_of
from treering.core.screening import instruction_flags
from treering.ports.ledger import Altered, ObjectRequest, sources_named
from treering.ports.passages import Reach
from treering.retrieval.index.code_names import file_at
from treering.retrieval.index.code_places import CODE, shorten_comments
from treering.retrieval.index.passages import passages_of, told_once
from treering.retrieval.search.excerpts import PassageLines, is_stub
from treering.retrieval.search.pack_budget import UnnumberedItem
from treering.retrieval.search.packing import Citation, PackItem, section_of
from treering.retrieval.search.retrieval import Hit
from treering.retrieval.search.spreading import spread_over_sources
from treering.retrieval.search.trust import Wording, repetition_flags
from treering.retrieval.text.analysis import telling_terms
from treering.retrieval.tuning import TUNING
from treering.verbs.declarations import declared_by, is_declaration
from treering.verbs.envelope import Call
from treering.verbs.reading import WEAK
from treering.verbs.scoped_ledger import on_all_branches

_NUMBER = re.compile(r"\d")


@dataclass(frozen=True, slots=True)
class Citing:
    """What citations need of the sources they name."""

    origins: Mapping[str, str]
    """By id of a source: what it is called. One in another scope is not in it."""
    segments: Mapping[tuple[str, str], Segment]
    declared: Mapping[str, str] = field(default_factory=dict)
    """By id of a source that holds a declaration: who declared it, and when."""

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
        return cls(
            {identity: head.title for identity, head in found.heads.items()},
            found.segments,
            {identity: author for identity, head in found.heads.items() if (author := declared_by(head))},
        )

    def of(self, item: Object) -> Iterator[Citation]:
        """Return the citations of an object."""
        match item:
            case Knowledge():
                cited = [cited for ref in item.evidence_refs if (cited := self._evidence(ref))]
                places = [one.place for one in cited]
                yield from (one for at, one in enumerate(cited) if not one.place or one.place not in places[:at])
            case Activity() | WorkItem():
                for source_id in item.source_refs:
                    yield Citation(mark="", object_id=source_id, origin=self.origins.get(source_id, source_id))
            case _:
                return

    def names_lines(self, item: Object) -> bool:
        """Return whether an object is knowledge that cites lines of a file."""
        refs = item.evidence_refs if isinstance(item, Knowledge) else ()
        segments = (self.segments.get((ref.source_id, ref.segment_id)) for ref in refs)
        return any(segment is not None and isinstance(segment.locator, Lines) for segment in segments)

    def _evidence(self, ref: EvidenceRef) -> Citation | None:
        """Cite evidence that is what the audit log says; of a source in another scope only its id is shown."""
        origin = self.origins.get(ref.source_id, ref.source_id)
        if origin == ref.source_id:
            return _cited(ref, origin)
        segment = self.segments.get((ref.source_id, ref.segment_id))
        if segment is None:
            return None
        return _cited(ref, origin, self.declared.get(ref.source_id) or place_in(ref.locator(segment), origin))


def _cited(ref: EvidenceRef, origin: str, place: str = "") -> Citation:
    return Citation(mark="", object_id=ref.source_id, segment_id=ref.segment_id, origin=origin, place=place)


def belief_item(
    item: Object,
    score: float,
    citing: Citing,
    wording: Wording,
    trusted: Mapping[Channel, TrustLevel],
    reach: Reach,
    note: str = "",
    superseded: Sequence[str] = (),
) -> UnnumberedItem:
    """Make an item of knowledge, work or an activity, with what it rests on.

    `note`: why it does not hold here. `superseded`: titles of what it superseded, which are no alternatives.
    """
    passage = passages_of(_without_alternatives(item, superseded))[0]
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


def _without_alternatives(item: Object, titles: Sequence[str]) -> Object:
    if not titles or not isinstance(item, Knowledge) or not isinstance(item.payload, Decision):
        return item
    begun = tuple(title.removesuffix("…") for title in titles)
    others = tuple(one for one in item.payload.alternatives if not one.startswith(begun))
    return item.model_copy(update={"payload": item.payload.model_copy(update={"alternatives": others})})


def without_stubs(hits: Sequence[Hit]) -> list[Hit]:
    """Leave out code that only declares what other code defines."""
    return [hit for hit in hits if not (_is_code(hit) and is_stub(hit.text))]


def _is_code(hit: Hit) -> bool:
    return hit.head.place_role == CODE and isinstance(hit.locator, Lines) and not hit.locator.path.endswith(".pyi")


def by_file(hits: Sequence[Hit]) -> list[Hit]:
    """Order passages: the best one of each of the best files, then all others, best first.

    Files are in the order of their best passages, as in a search that is grouped by source. A turn of a conversation
    counts as a file of its own.
    """
    best: dict[str | int, Hit] = {}
    for hit in sorted(hits, key=lambda hit: -hit.score):
        best.setdefault(hit.head.key if isinstance(hit.locator, Turn) else hit.head.object_id, hit)
    first = [*best.values()][: TUNING.context.best_files]
    keys = {hit.head.key for hit in first}
    return [*first, *(hit for hit in spread_over_sources(hits) if hit.head.key not in keys)]


def source_items(
    hits: Sequence[Hit], query: str, notes: Mapping[int, str], weak: Set[int], whole: Set[int] = frozenset()
) -> Iterator[UnnumberedItem]:
    """Make an item of each passage of a source, the first of them with the turn that answers it.

    The comments of those in `whole` are not shortened.

    `notes`: by key, what became of passages in the work tree that is asked from; those in `weak` are flagged so. A
    turn that is part of the item of its question is not an item of its own.
    """
    replies: set[tuple[str, str]] = set()
    for rank, hit in enumerate(hits):
        shown = hit if rank < TUNING.context.with_reply else replace(hit, reply=None)
        if (hit.head.object_id, hit.head.part) not in replies:
            note = notes.get(hit.head.key, "")
            flags = tuple(filter(None, (note, WEAK if hit.head.key in weak else "")))
            yield _source_item(shown, query, flags, is_whole=hit.head.key in whole)
        if shown.reply:
            replies.add((hit.head.object_id, shown.reply.segment_id))


def _source_item(hit: Hit, query: str, flags: Sequence[str], *, is_whole: bool) -> UnnumberedItem:
    place = place_in(hit.locator, hit.head.origin) if hit.locator else hit.head.origin
    item = PackItem(
        section="sources",
        object_id=hit.head.object_id,
        segment_id=hit.head.part,
        kind=hit.state.kind,
        status=hit.state.status,
        title=" — ".join(dict.fromkeys(filter(None, (hit.head.title, hit.head.heading)))),
        text=hit.text_with_reply,
        score=round(hit.score, 6),
        flags=(*hit.flags, *flags),
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
    excerpt = PassageLines(
        hit.text_with_reply,
        query,
        first_line=hit.locator.start if isinstance(hit.locator, Lines) else 0,
    )
    shorten = _shortening(hit)
    return UnnumberedItem(item, tuple(cited), None if is_whole else shorten, excerpt, shorten is not None)


def _shortening(hit: Hit) -> Callable[[str], str] | None:
    """Return a function that shortens long comments in code, or `None` for other text."""
    file = file_at(hit.locator.path) if isinstance(hit.locator, Lines) and hit.head.place_role == CODE else None
    return partial(shorten_comments, family=file.family) if file else None


def without_repeated(sources: Sequence[UnnumberedItem], believed: Sequence[UnnumberedItem]) -> list[UnnumberedItem]:
    """Leave out passages that knowledge in the same pack cites and repeats: both together take one place.

    Knowledge that is trusted less than the passage does not stand for it.
    """
    citing: dict[tuple[str, str], list[UnnumberedItem]] = {}
    for draft in believed:
        for place in draft.places:
            citing.setdefault((place.object_id, place.segment_id), []).append(draft)
    return [
        draft
        for draft in sources
        if not any(_repeats(one, draft) for one in citing.get((draft.item.object_id, draft.item.segment_id), ()))
    ]


def _repeats(knowledge: UnnumberedItem, passage: UnnumberedItem) -> bool:
    if any(is_declaration(place.origin) for place in passage.places):
        return True
    words = frozenset(telling_terms(passage.item.text))
    new = words.difference(telling_terms(f"{knowledge.item.title}\n{knowledge.item.text}"))
    is_trusted = LEVELS.index(knowledge.item.trust) <= LEVELS.index(passage.item.trust)
    return is_trusted and len(new) <= TUNING.context.max_new_share * len(words) and not any(map(_NUMBER.search, new))
