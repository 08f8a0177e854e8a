"""Segments of sources, evidence that cites them, and matching of segments after an edit."""

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from operator import not_
from typing import Annotated, ClassVar, Literal, TypeVar

from pydantic import ConfigDict, Field, NonNegativeInt, PositiveInt

from treering.core.canonical import FrozenModel, Instant, digest, is_none

_CITED_LINES = re.compile(r"#L(\d+)-L(\d+)(?: @ [0-9a-f]{7,40})?")
_OFFSET = re.compile(r"(?:: text)? \(offset \d+\)$")
_UNTYPED_ORIGIN = re.compile(r"\Anote:[0-9a-f]{40}(?:: )?|\Arepo:[^#]*#")
"""The origin of a note without a name, and the repository in front of a path."""
_MAX_PAIRS = 40_000
"""The most pairs of items that are compared at once: two stretches of 200."""
_MAX_CUT_DEPTH = 20
_MAX_EQUAL_FILES = 20
"""If other files have the same contents, such as empty ones, this does not indicate a move."""
_BETWEEN = re.compile("[/#]")

_Key = TypeVar("_Key", bound=Hashable)
Pair = tuple[int, int]
_Parts = tuple[str, ...]
_Folders = tuple[_Parts, _Parts]


class _Locator(FrozenModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(allow_inf_nan=False)


class Lines(_Locator):
    """Lines `start..end` (1-based, inclusive) of a file, at a commit if it is from a repository.

    `heading` is a heading path or the qualified name of a symbol.
    """

    type: Literal["lines"] = "lines"
    path: str
    start: PositiveInt
    end: PositiveInt
    commit: str | None = None
    heading: str = ""

    def cite(self) -> str:
        """Return the place for display."""
        at = f" @ {self.commit[:12]}" if self.commit else ""
        return f"{self.path}#L{self.start}-L{self.end}{at}"


class Section(_Locator):
    """A part of an inline text: its heading path and character offset.

    `link` is the URL of a passage on a web page: the address of the page with a text fragment.
    """

    type: Literal["section"] = "section"
    heading: str = ""
    offset: NonNegativeInt = 0
    link: str = Field(default="", exclude_if=not_)

    def cite(self) -> str:
        """Return the place for display."""
        return f"{self.heading or 'text'} (offset {self.offset})"


class Page(_Locator):
    """A page of a paginated document (from 1). `paragraph` counts on that page (from 1), `box` is in points."""

    type: Literal["page"] = "page"
    page: PositiveInt
    box: tuple[float, float, float, float] | None = None
    paragraph: PositiveInt | None = Field(default=None, exclude_if=is_none)

    def cite(self) -> str:
        """Return the place as the fragment of an address that opens a PDF file at that page."""
        return f"#page={self.page}"


class Turn(_Locator):
    """One message of a conversation.

    `turn` is its position, `speaker` the speaker's name or role. `chain` is the result of
    `core.canonical.chain_hashes` and distinguishes the message from an equal one at another place.
    """

    type: Literal["turn"] = "turn"
    turn: NonNegativeInt
    message_id: str = ""
    speaker: str = ""
    role: str = Field(default="", exclude_if=not_)
    at: Instant | None = Field(default=None, exclude_if=is_none)
    chain: str = Field(default="", exclude_if=not_)

    def cite(self) -> str:
        """Return the place for display."""
        return f"turn {self.turn}" + (f" ({self.speaker})" if self.speaker else "")


class Pointer(_Locator):
    """A place in a structured document, as a JSON pointer (RFC 6901)."""

    type: Literal["pointer"] = "pointer"
    pointer: str

    def cite(self) -> str:
        """Return the place for display."""
        return self.pointer or "/"


Locator = Annotated[Lines | Section | Page | Turn | Pointer, Field(discriminator="type")]


def place_in(locator: Locator, origin: str) -> str:
    """Return a place together with the origin of its source, unless the place already contains it."""
    match locator:
        case Lines():
            return locator.cite()
        case Page():
            return f"{origin}{locator.cite()}"
        case Section(link=link) if link:
            return link
    return f"{origin}: {locator.cite()}"


def place_today(locator: Locator, origin: str) -> str:
    """Return a place like `place_in`; lines of a file that was renamed since under its current path."""
    path = origin.partition("#")[2] if origin.startswith("repo:") else ""
    if isinstance(locator, Lines) and path:
        locator = locator.model_copy(update={"path": path})
    return place_in(locator, origin)


def places_as_typed(text: str) -> str:
    """Return a text with the lines of files as people type them, without commits: `README.md:5-11`."""
    return _CITED_LINES.sub(lambda match: f":{match[1]}" + (f"-{match[2]}" if match[1] != match[2] else ""), text)


def lines_as_typed(path: str, first: int, last: int) -> str:
    """Return lines of a file as people type them: `README.md:5-11`."""
    return places_as_typed(f"{path}#L{first}-L{last}")


def short_place(place: str) -> str:
    """Return a citation as people type it: `README.md:5-11` for `README.md#L5-L11 @ 93e339b8d478`."""
    return places_as_typed(place).partition(" @ ")[0]


def place_in_words(place: str) -> str:
    """Return a place without an offset, its repository, and the origin of a note that has no name: it may be empty."""
    return _UNTYPED_ORIGIN.sub("", _OFFSET.sub("", place))


def lines_in(place: str) -> tuple[int, int] | None:
    """Return the first and last line in a citation, or `None` if it contains no lines."""
    match = _CITED_LINES.search(place)
    return (int(match[1]), int(match[2])) if match else None


class Triple(FrozenModel):
    """A statement of three parts: subject, relation and object, in the words of the text."""

    subject: str = Field(min_length=1)
    relation: str
    object: str = Field(min_length=1)


class Definition(FrozenModel):
    """A definition in a segment of code: its qualified name, and its first and last line in the segment, from 1."""

    name: str = Field(min_length=1)
    first: int = Field(ge=1)
    last: int = Field(ge=1)


class SegmentPlace(FrozenModel):
    """The place of a segment in a version of its source, which is identified by a fingerprint."""

    contents: str
    locator: Locator
    uses: tuple[str, ...] | None = Field(default=None, exclude_if=is_none)
    """Its uses there; `None` if they are all uses of the segment."""


class Segment(FrozenModel):
    """A passage of a source, word for word.

    `hash` is `digest(excerpt, salt=<the source's salt>)`. `segment_id` stays the same when unchanged text is read
    again. `heading`, `role` and `gist` determine how it is searched (see `ports.adapter.SegmentDraft`).
    """

    segment_id: str
    locator: Locator
    excerpt: str
    hash: str
    position: int = Field(ge=0)
    heading: str = ""
    role: Literal["prose", "symbol", "code", "data"] = "prose"
    gist: str | None = None
    triples: tuple[Triple, ...] = Field(default=(), exclude_if=not_)
    """The statements of the text, if a writer or a model supplied them; the graph also extracts others."""
    definitions: tuple[Definition, ...] = Field(default=(), exclude_if=not_)
    """The definitions in it: knowledge about one of them survives a change of the rest."""
    uses: tuple[str, ...] = Field(default=(), exclude_if=not_)
    """The other code that it imports, calls and uses, in the words of the code (`retrieval.index.code_names`).

    The imports of the file decide what a name means. If the source has several contents, these are the uses in any of
    them.
    """
    places: tuple[SegmentPlace, ...] = Field(default=(), exclude_if=not_)
    """Its place in each version of the contents, if its source has several (`core.versions`)."""

    def place_in_contents(self, contents: str | None) -> Locator | None:
        """Return its place in some contents of its source; `None` if they do not contain it."""
        if contents is None:
            return None
        if not self.places:
            return self.locator
        return next((one.locator for one in self.places if one.contents == contents), None)

    def in_contents(self, contents: str | None) -> "Segment | None":
        """Return it with its place in some contents of its source; `None` if they do not contain it."""
        locator = self.place_in_contents(contents)
        if locator is None or not self.places:
            return self if locator else None
        return self.model_copy(update={"locator": locator})

    def version_in(self, contents: str) -> SegmentPlace | None:
        """Return its place and its uses in some contents of its source; `None` if they do not contain it."""
        if not self.places:
            return SegmentPlace(contents=contents, locator=self.locator, uses=self.uses)
        place = next((one for one in self.places if one.contents == contents), None)
        return place.model_copy(update={"uses": self.uses}) if place and place.uses is None else place

    def at_places(self, places: Sequence[SegmentPlace], *, several: bool) -> "Segment":
        """Return it at places with their uses, first in the contents that its source represents.

        `several`: whether the source has several contents; otherwise the place is its own.
        """
        uses = tuple(dict.fromkeys(use for one in places for use in one.uses or ()))
        stored = (one.model_copy(update={"uses": None}) if one.uses == uses else one for one in places)
        return self.model_copy(
            update={"locator": places[0].locator, "uses": uses, "places": tuple(stored) if several else ()}
        )


class EvidenceRef(FrozenModel):
    """A reference to the segment that supports or contradicts a piece of knowledge."""

    source_id: str
    segment_id: str
    role: Literal["supports", "contradicts"] = "supports"
    quote_hash: str = ""
    verified_at: Instant | None = None
    contents: str = Field(default="", exclude_if=not_)
    """The name of the file contents it was read from, such as `git-blob:1f3c…`; empty if they have none.

    Together with the path and commit of the segment, it locates the text in git.
    """
    lines: tuple[PositiveInt, PositiveInt] | None = Field(default=None, exclude_if=is_none)
    """The first and last cited line of the segment, from 1 in its text; `None` for all of it."""
    together: bool = Field(default=False, exclude_if=not_)
    """Whether it is part of a place that spans several segments, which support only together."""
    lost_on: tuple[str, ...] = Field(default=(), exclude_if=not_)
    """The branches that had its lines and no longer have its segment; readings of a repository set it."""

    @property
    def key(self) -> tuple[str, str, str]:
        """The passage that it cites, and its role."""
        return self.source_id, self.segment_id, self.role

    def moved(
        self, segment_id: str, *, source_id: str = "", lines: tuple[int, int] | None = None, together: bool = False
    ) -> "EvidenceRef":
        """Return a reference to another segment instead; by default of the same source, and to all of it."""
        place = {"source_id": source_id or self.source_id, "segment_id": segment_id}
        return EvidenceRef(**place, role=self.role, lines=lines, together=together, lost_on=self.lost_on)

    def quote(self, segment: Segment) -> str:
        """Return the cited words of its segment."""
        if self.lines is None:
            return segment.excerpt
        first, last = self.lines
        return "\n".join(segment.excerpt.splitlines()[first - 1 : last])

    def locator(self, segment: Segment) -> Locator:
        """Return the place of the cited words."""
        if self.lines is None or not isinstance(segment.locator, Lines):
            return segment.locator
        start = segment.locator.start - 1
        return segment.locator.model_copy(update={"start": start + self.lines[0], "end": start + self.lines[1]})


def any_place_holds(refs: Iterable[EvidenceRef], holds: Callable[[EvidenceRef], bool]) -> bool:
    """Return whether some place that supports knowledge is valid; if it spans several segments, all must be."""
    supporting = [ref for ref in refs if ref.role == "supports"]
    parts: dict[str, list[EvidenceRef]] = {}
    for ref in supporting:
        if ref.together:
            parts.setdefault(ref.source_id, []).append(ref)
    places = [*([ref] for ref in supporting if not ref.together), *parts.values()]
    return any(all(map(holds, place)) for place in places)


def united(refs: Iterable[EvidenceRef]) -> tuple[EvidenceRef, ...]:
    """Return one reference per segment, spanning the lines of all references to that segment."""
    by_segment: dict[tuple[str, str, str], EvidenceRef] = {}
    for ref in refs:
        known = by_segment.get(ref.key, ref)
        lines = None
        if ref.lines and known.lines:
            lines = (min(ref.lines[0], known.lines[0]), max(ref.lines[1], known.lines[1]))
        lost_on = tuple(dict.fromkeys((*known.lost_on, *ref.lost_on)))
        together = ref.together or known.together
        by_segment[ref.key] = ref.model_copy(update={"lines": lines, "together": together, "lost_on": lost_on})
    return tuple(by_segment.values())


def extended(refs: Iterable[EvidenceRef], more: Iterable[EvidenceRef]) -> tuple[EvidenceRef, ...]:
    """Return references, and further ones of `more`: to another passage, or in another role."""
    by_key = {ref.key: ref for ref in refs}
    for ref in more:
        by_key.setdefault(ref.key, ref)
    return tuple(by_key.values())


def on_any_branch(refs: Iterable[EvidenceRef]) -> tuple[EvidenceRef, ...]:
    """Return references without `lost_on`, to compare only which passages they cite."""
    return tuple(ref.model_copy(update={"lost_on": ()}) for ref in refs)


def segment_hash(excerpt: str, *, salt: str) -> str:
    """Hash a segment's text with its source's salt."""
    return digest(excerpt, salt=salt)


def relocate(old: Sequence[str], new: Sequence[str]) -> list[int | None]:
    """Match new texts to the texts of an earlier reading; return for each the index of the old text.

    Equal texts in the same order are matched first (longest common runs), then moved texts by equality in order of
    appearance. A new text without an equal old one gets `None`.
    """
    matched: list[int | None] = [None] * len(new)
    taken: set[int] = set()
    for stretch in matching_stretches(old, new):
        for step in range(stretch.size):
            matched[stretch.new + step] = stretch.old + step
            taken.add(stretch.old + step)
    unmatched: dict[str, list[int]] = {}
    for index in reversed(range(len(old))):
        if index not in taken:
            unmatched.setdefault(old[index], []).append(index)
    for index, text in enumerate(new):
        if matched[index] is None and unmatched.get(text):
            matched[index] = unmatched[text].pop()
    return matched


def find_lines(quote: str, text: str, *, near: int = 1) -> tuple[int, int] | None:
    """Find whole lines of `quote` word for word in `text`; return their 1-based first and last line.

    If it occurs several times, return the lines nearest to the line `near`.
    """
    wanted = quote.splitlines()
    nearest = 0
    for start in places_of_lines(wanted, text.splitlines()):
        if not nearest or abs(start - near) < abs(nearest - near):
            nearest = start
        if start >= near:  # all others are farther
            break
    return (nearest, nearest + len(wanted) - 1) if nearest else None


def places_of_lines(wanted: Sequence[str], lines: Sequence[str]) -> Iterator[int]:
    """Yield the line numbers, from 1, at which consecutive lines begin in others; none for no lines."""
    for start in range(len(lines) - len(wanted) + 1 if wanted else 0):
        if lines[start] == wanted[0] and lines[start : start + len(wanted)] == wanted:
            yield start + 1


@dataclass(frozen=True, slots=True)
class Stretch:
    """A run of equal items of two sequences: its start in each, and its length."""

    old: int
    new: int
    size: int


def matching_stretches(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Stretch]:
    """Return the common stretches of two sequences, in order. Short ones share the longest runs, as in `difflib`."""
    stretches: list[Stretch] = []
    for at_old, at_new in _pairs(old, new, (0, len(old)), (0, len(new)), 0):
        last = stretches[-1] if stretches else None
        if last and (at_old, at_new) == (last.old + last.size, last.new + last.size):
            stretches[-1] = Stretch(last.old, last.new, last.size + 1)
        else:
            stretches.append(Stretch(at_old, at_new, 1))
    return stretches


def changed_stretches(old: Sequence[Hashable], new: Sequence[Hashable]) -> Iterator[tuple[int, int, int, int]]:
    """Yield the gaps between the matching stretches: start and end in `old`, start and end in `new`."""
    at_old = at_new = 0
    for one in [*matching_stretches(old, new), Stretch(len(old), len(new), 0)]:
        if (at_old, at_new) != (one.old, one.new):
            yield at_old, one.old, at_new, one.new
        at_old, at_new = one.old + one.size, one.new + one.size


def _pairs(
    old: Sequence[Hashable], new: Sequence[Hashable], within_old: Pair, within_new: Pair, depth: int
) -> Iterator[Pair]:
    """Yield the indexes of equal items in order, as a diff does, in little more than linear time."""
    (start, end), (first, last) = within_old, within_new
    if (end - start) * (last - first) <= _MAX_PAIRS:
        yield from _compared(old, new, within_old, within_new)
        return
    while start < end and first < last and old[start] == new[first]:
        yield start, first
        start, first = start + 1, first + 1
    tail = 0
    while start < end - tail and first < last - tail and old[end - tail - 1] == new[last - tail - 1]:
        tail += 1
    end, last = end - tail, last - tail
    yield from _inner_pairs(old, new, (start, end), (first, last), depth)
    yield from ((end + step, last + step) for step in range(tail))


def _inner_pairs(
    old: Sequence[Hashable], new: Sequence[Hashable], within_old: Pair, within_new: Pair, depth: int
) -> Iterator[Pair]:
    (start, end), (first, last) = within_old, within_new
    if (end - start) * (last - first) <= _MAX_PAIRS:
        yield from _compared(old, new, within_old, within_new)
        return
    cuts = _anchors(_once(old, start, end), _once(new, first, last)) if depth < _MAX_CUT_DEPTH else []
    if not cuts:
        # No item occurs exactly once in both: match the first occurrence to the first, the second to the second, …
        yield from _anchors(_numbered(old, start, end), _numbered(new, first, last))
        return
    for cut, other in [*cuts, (end, last)]:
        yield from _pairs(old, new, (start, cut), (first, other), depth + 1)
        if cut < end:
            yield cut, other
        start, first = cut + 1, other + 1


def _compared(old: Sequence[Hashable], new: Sequence[Hashable], within_old: Pair, within_new: Pair) -> Iterator[Pair]:
    """Match short stretches: the longest run first."""
    (start, end), (first, last) = within_old, within_new
    blocks = SequenceMatcher(None, old[start:end], new[first:last], autojunk=False).get_matching_blocks()
    return ((start + one.a + step, first + one.b + step) for one in blocks for step in range(one.size))


def _once(items: Sequence[Hashable], start: int, end: int) -> dict[Hashable, int]:
    """Return the places of the items that occur once in a stretch."""
    places: dict[Hashable, int] = {}
    for at in range(start, end):
        places[items[at]] = -1 if items[at] in places else at
    return {item: at for item, at in places.items() if at >= 0}


def _numbered(items: Sequence[Hashable], start: int, end: int) -> dict[tuple[Hashable, int], int]:
    """Return the places of the items of a stretch, each keyed with the number of equal items before it."""
    counts: dict[Hashable, int] = defaultdict(int)
    places: dict[tuple[Hashable, int], int] = {}
    for at in range(start, end):
        places[items[at], counts[items[at]]] = at
        counts[items[at]] += 1
    return places


def _anchors(old: dict[_Key, int], new: dict[_Key, int]) -> list[Pair]:
    """Return the longest list of places of equal items that increases in both (by patience sorting)."""
    pairs = sorted((old[key], new[key]) for key in old.keys() & new.keys())
    tops: list[int] = []
    ends: list[int] = []  # of `pairs`, by the length of the list that ends there
    before: list[int] = []
    for place, (_, at) in enumerate(pairs):
        length = bisect_left(tops, at)
        before.append(ends[length - 1] if length else -1)
        tops[length : length + 1], ends[length : length + 1] = [at], [place]
    chosen: list[Pair] = []
    place = ends[-1] if ends else -1
    while place >= 0:
        chosen.append(pairs[place])
        place = before[place]
    return chosen[::-1]


def moves_by_contents(gone: Mapping[str, str], arrived: Mapping[str, str]) -> dict[str, str]:
    """Match files that are gone to new files with the same contents, each new file once; return the new origins.

    Both mappings give fingerprints by origin. Among several equal files, one with the same name is preferred. Empty
    fingerprints never match: all empty files are alike, so a new one does not indicate a move.
    """
    places: dict[str, list[str]] = defaultdict(list)
    for origin, fingerprint in arrived.items():
        if fingerprint:
            places[fingerprint].append(origin)
    moves: dict[str, str] = {}
    for origin, fingerprint in gone.items():
        if same := places.get(fingerprint):
            name = _parts(origin)[-1]
            moves[origin] = min(same, key=lambda new: (_parts(new)[-1] != name, new))
            same.remove(moves[origin])
    return moves


def moved_files(gone: Mapping[str, str], there: Mapping[str, str]) -> dict[str, str]:
    """Match files that are gone to their new origins.

    `gone` and `there` give fingerprints by origin. A file has moved to a file of the same name and contents. If more
    than half of the missing files of a folder are in another folder under the same paths, the folder has moved, and
    its other files with it, even if they changed. Empty fingerprints never match.
    """
    same = _by_fingerprint(there)
    same_content = {origin: list(_same_content(origin, fingerprint, same)) for origin, fingerprint in gone.items()}
    votes = Counter(folders for pairs in same_content.values() for folders in {_folders(*pair) for pair in pairs})
    moves: dict[str, str] = {}
    for origin, pairs in same_content.items():
        best = max(pairs, key=lambda pair: (votes[_folders(*pair)], pair[1]), default=None)
        if best is not None:
            moves[origin] = best[1]
    return moves | _carried_along(gone, there, moves, votes)


def _by_fingerprint(there: Mapping[str, str]) -> Mapping[str, list[str]]:
    origins_by_fingerprint: dict[str, list[str]] = defaultdict(list)
    for origin, fingerprint in there.items():
        if fingerprint:
            origins_by_fingerprint[fingerprint].append(origin)
    return {one: origins for one, origins in origins_by_fingerprint.items() if len(origins) <= _MAX_EQUAL_FILES}


def _same_content(origin: str, fingerprint: str, there: Mapping[str, list[str]]) -> Iterator[tuple[str, str]]:
    name = _parts(origin)[-1]
    return ((origin, other) for other in there.get(fingerprint, ()) if _parts(other)[-1] == name)


def _folders(before: str, after: str) -> _Folders:
    """Return the differing parts of two origins: both without the parts at the end that they share."""
    old, new = _parts(before), _parts(after)
    shared = 0
    while shared < min(len(old), len(new)) - 1 and old[-shared - 1] == new[-shared - 1]:
        shared += 1
    return old[: len(old) - shared], new[: len(new) - shared]


def _carried_along(
    gone: Mapping[str, str], there: Mapping[str, str], moves: Mapping[str, str], votes: Counter[_Folders]
) -> dict[str, str]:
    """Return the changed files that moved with most of their folder."""
    places = {_parts(origin): origin for origin in there}
    carried: dict[str, str] = {}
    for (old, new), count in votes.most_common():
        left = [origin for origin in gone if _parts(origin)[: len(old)] == old and len(_parts(origin)) > len(old)]
        for origin in left if 2 * count > len(left) else ():
            place = places.get(new + _parts(origin)[len(old) :])
            if place is not None and origin not in moves:
                carried.setdefault(origin, place)
    return carried


def _parts(origin: str) -> _Parts:
    return tuple(_BETWEEN.split(origin))
