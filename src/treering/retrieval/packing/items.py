"""The items of a context pack: passages of sources, and knowledge, work and activities with their citations."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial

from treering.core.declarations import is_declaration
from treering.core.evidence import Lines, place_in
from treering.core.objects import Channel, Decision, Knowledge, Object, title_of
from treering.core.policy import LEVELS, TrustLevel, is_over, trust_of
from treering.core.screening import instruction_flags
from treering.ports.passages import Reach
from treering.retrieval.index.code_names import file_at, names_in_heading
from treering.retrieval.index.code_places import CODE, shorten_comments
from treering.retrieval.index.passages import passages_of, told_once
from treering.retrieval.packing.citing import Citing
from treering.retrieval.search.excerpts import PassageLines, is_stub
from treering.retrieval.search.import_lines import is_mostly_imports
from treering.retrieval.search.pack_budget import UnnumberedItem
from treering.retrieval.search.packing import UNNUMBERED, Citation, PackItem, section_of
from treering.retrieval.search.relevance import WEAK
from treering.retrieval.search.retrieval import Hit
from treering.retrieval.search.trust import Wording, repetition_flags
from treering.retrieval.text.analysis import telling_terms
from treering.retrieval.tuning import TUNING

MAX_QUOTE_WORDS = 60
"""Words of a turn that a fact quotes whole; a longer one has other content, too."""
_NUMBER = re.compile(r"\d")


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
    """Make an item of knowledge, work or an activity, with its citations.

    Cited lines follow the statement, which may be wrong about them. `note`: why it is not current here. `superseded`:
    titles of statements that it superseded. They are not shown among the alternatives of a decision.
    """
    passage = passages_of(_without_alternatives(item, superseded))[0]
    quote = "" if note or item.status == "stale" else citing.first_quote(item)
    words = f"{title_of(item)}\n{passage.text}"
    return UnnumberedItem(
        PackItem(
            section=section_of(item.type, item.kind),
            object_id=item.id,
            kind=item.kind,
            status=item.status,
            title=title_of(item),
            text="\n".join(filter(None, (told_once(title_of(item), passage.text), quote))),
            score=round(score, 6),
            flags=(
                *instruction_flags(f"{words}\n{quote}"),
                *repetition_flags(wording.repeated_in(words)),
                *(["over"] if reach.now and is_over(item, now=reach.now) else []),
                *([note] if note else []),
            ),
            channel=item.origin_channel,
            trust=trust_of(item.origin_channel, item.status, trusted),
        ),
        tuple(citing.citations(item)),
    )


def with_line(draft: UnnumberedItem, line: str) -> UnnumberedItem:
    """Return an item with a line below its text."""
    text = "\n".join(filter(None, (draft.item.text, line)))
    return replace(draft, item=draft.item.model_copy(update={"text": text}))


def without_lines(draft: UnnumberedItem) -> UnnumberedItem:
    """Return an item that cites files as a whole."""
    places = (one.model_copy(update={"place": ""}) if "#L" in one.place else one for one in draft.places)
    return replace(draft, places=tuple(places))


def _without_alternatives(item: Object, titles: Sequence[str]) -> Object:
    if not titles or not isinstance(item, Knowledge) or not isinstance(item.payload, Decision):
        return item
    begun = tuple(title.removesuffix("…") for title in titles)
    others = tuple(one for one in item.payload.alternatives if not one.startswith(begun))
    return item.model_copy(update={"payload": item.payload.model_copy(update={"alternatives": others})})


def is_stub_of_code(hit: Hit) -> bool:
    """Return whether a hit only declares what other code defines; stub files (`.pyi`) do not count."""
    is_code = hit.head.place_role == CODE and isinstance(hit.locator, Lines) and not hit.locator.path.endswith(".pyi")
    return is_code and is_stub(hit.text)


def is_import_header(hit: Hit) -> bool:
    """Return whether a hit is outside of definitions in a file of code, and mostly imports."""
    if hit.head.place_role != CODE or not isinstance(hit.locator, Lines):
        return False
    return not names_in_heading(hit.head.heading, hit.locator.path) and is_mostly_imports(hit.text)


def source_items(
    hits: Sequence[Hit], query: str, notes: Mapping[int, str], weak: Set[int], whole: Set[int] = frozenset()
) -> Iterator[UnnumberedItem]:
    """Make an item of each passage, the first ones together with the turn that answers them.

    Such a turn gets no item of its own. By key of a hit: `notes` state why it is not current in the caller's work tree,
    hits in `weak` are flagged, and the comments of hits in `whole` are not shortened.
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
        Citation(mark=UNNUMBERED, object_id=hit.head.object_id, segment_id=segment, origin=hit.head.origin, place=where)
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
    """Leave out passages that knowledge in the same pack cites and repeats.

    Knowledge that is trusted less than a passage does not replace it.
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


def with_quotes(
    sources: Sequence[UnnumberedItem], believed: Sequence[UnnumberedItem]
) -> tuple[list[UnnumberedItem], list[UnnumberedItem]]:
    """Show a short turn that knowledge in the same pack cites as its quote, in place of an item of its own.

    A turn with a flag, such as a superseded one, or with its reply stays an item. Return the sources and the
    knowledge.
    """
    places = {(one.object_id, one.segment_id): at for at, draft in enumerate(believed) for one in draft.places[:1]}
    quoting, rest = list(believed), list[UnnumberedItem]()
    for draft in sources:
        at = places.get((draft.item.object_id, draft.item.segment_id))
        if at is not None and _may_be_quote(draft, of=quoting[at]):
            item = quoting[at].item
            text = f'{item.text}\n"{draft.item.text.strip()}"'
            quoting[at] = replace(quoting[at], item=item.model_copy(update={"text": text}))
        else:
            rest.append(draft)
    return rest, quoting


def _may_be_quote(turn: UnnumberedItem, *, of: UnnumberedItem) -> bool:
    is_turn = turn.item.kind == "conversation" and len(turn.places) == 1 and not turn.item.flags
    is_fact = of.item.kind == "fact" and LEVELS.index(of.item.trust) <= LEVELS.index(turn.item.trust)
    return is_turn and is_fact and len(turn.item.text.split()) <= MAX_QUOTE_WORDS


def _repeats(knowledge: UnnumberedItem, passage: UnnumberedItem) -> bool:
    if any(is_declaration(place.origin) for place in passage.places):
        return True
    words = frozenset(telling_terms(passage.item.text))
    new = words.difference(telling_terms(f"{knowledge.item.title}\n{knowledge.item.text}"))
    is_trusted = LEVELS.index(knowledge.item.trust) <= LEVELS.index(passage.item.trust)
    return is_trusted and len(new) <= TUNING.context.max_new_share * len(words) and not any(map(_NUMBER.search, new))
