"""Resolving evidence as people write it to the segments that contain it."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import accumulate
from pathlib import Path, PurePosixPath

from pydantic import Field

from treering.core.canonical import PREFIXES, is_object
from treering.core.characters import label, shown
from treering.core.counting import counted_things
from treering.core.errors import Denied, InvalidInput, NotFound, TreeringError
from treering.core.evidence import EvidenceRef, Lines, Locator, Segment, Turn, place_in, short_place, united
from treering.core.filters import Compare
from treering.core.objects import Source
from treering.ports.ledger import Head, SourceState, noted
from treering.ports.passages import Reach
from treering.verbs.envelope import Call, Value
from treering.verbs.evidence.notation import (
    NOTATIONS,
    LinesOf,
    PassageOf,
    Quote,
    SourceCalled,
    SymbolOf,
    read_notation,
)
from treering.verbs.evidence.other_branches import on_other_branches
from treering.verbs.evidence_files import NamedFile
from treering.verbs.file_names import files_called
from treering.verbs.numbered_places import place_numbered
from treering.verbs.trees import AskedTree, tree_of

MAX_SEGMENTS = 20
"""Segments that one piece of evidence is stored as: the first ones of a file or source that is named as a whole."""
MAX_TEXTS = 50
"""Pieces of evidence written as text that one statement may have: each of them is searched for."""
_MAX_CANDIDATES = 5
_QUOTE_HITS = 50
"""Passages in which a quoted sentence is looked for."""
_MAX_NAME_CHARS = 200


class ResolvedEvidence(Value):
    """The evidence given by a caller, and the segments it was resolved to."""

    given: str
    place: str
    """A citation such as `src/retry.py#L10-L14 @ 1f3c…`."""
    source_id: str
    segment_ids: tuple[str, ...]
    quote: str
    """The words given: exactly the lines, or the start of a longer passage."""
    uncommitted: bool = False
    """Whether the lines are only in the work tree."""
    inherited: bool = Field(default=False, exclude_if=lambda inherited: not inherited)
    """Whether it is the evidence of the replaced statement, because none was given."""
    refs: tuple[EvidenceRef, ...] = Field(exclude=True)
    """The references that knowledge stores, each with the lines of its segment if these were given."""

    @property
    def short_place(self) -> str:
        """The place as people type it, such as `src/retry.py:10-14`, with its remark."""
        return f"{short_place(self.place)}{f' ({self.remark})' if self.remark else ''}"

    @property
    def remark(self) -> str:
        """Such as `7 passages`, `uncommitted`, or `as before` for inherited evidence; usually empty."""
        several = len(self.refs) > 1 and not any(ref.together for ref in self.refs)
        passages = counted_things(len(self.refs), "passage")
        remarks = {passages: several, "uncommitted": self.uncommitted, "as before": self.inherited}
        return ", ".join(remark for remark, applies in remarks.items() if applies)


@dataclass(frozen=True, slots=True)
class Resolution:
    """The references to store, and the resolution of evidence given as text."""

    refs: tuple[EvidenceRef, ...]
    resolved: tuple[ResolvedEvidence, ...]


def resolve_evidence(call: Call, given: Sequence[EvidenceRef | str], *, dry_run: bool = False) -> Resolution:
    """Resolve each piece of evidence; references with ids stay as they are.

    A file that the space does not contain yet, or not with these lines, is ingested first, except in a `dry_run`.
    Raises `InvalidInput` or `NotFound` with the closest candidates if a text names nothing or more than one place,
    `Denied` for a path outside of what may be read, and `InvalidInput` for more than `MAX_TEXTS` texts.
    """
    texts = sum(isinstance(one, str) for one in given)
    if texts > MAX_TEXTS:
        raise InvalidInput(
            f"{texts} pieces of evidence are given as text; {MAX_TEXTS} are allowed.",
            hint="Give the few places that show it.",
        )
    resolved = _resolved(call, [one for one in given if isinstance(one, str)], dry_run=dry_run) if texts else {}
    refs = [ref for one in given for ref in ((one,) if isinstance(one, EvidenceRef) else resolved[one].refs)]
    return Resolution(united(on_other_branches(call.engine.ledger, refs)), tuple(resolved.values()))


def source_at(call: Call, name: str) -> Source | None:
    """Return the source at exactly this path of the caller's tree, or with this origin; `None` if there is none."""
    resolver = Resolver(call, tree_of(call.engine, call.scope), dry_run=True)
    return resolver.at(name, None) or resolver.with_origin(name)


def definition_called(call: Call, name: str) -> str:
    """Return the definition that a symbol names, as `path::symbol`; "" if no file defines it.

    Raises `InvalidInput` if several files do.
    """
    symbol = name.removesuffix("()").replace("::", ".")
    files = call.engine.lookup.definitions(symbol, Reach(call.scope, descend=True), call.engine.ledger)
    places = [f"{one.title}::{symbol}" for one in files]
    if len(places) > 1:
        raise InvalidInput(f"{len(places)} files define {name[:_MAX_NAME_CHARS]!r}.", hint=_choose(places))
    return places[0] if places else ""


def _resolved(call: Call, texts: Sequence[str], *, dry_run: bool) -> dict[str, ResolvedEvidence]:
    """Resolve texts; files are read after everything else is resolved, so that a refused call reads none."""
    resolver = Resolver(call, tree_of(call.engine, call.scope), dry_run=True)
    resolved: dict[str, ResolvedEvidence | None] = {}
    for text in texts:
        try:
            resolved[text] = resolver.resolve(text)
        except _NotStored:
            if dry_run:
                raise
            resolved[text] = None
    reading = replace(resolver, dry_run=False)
    return {text: found or reading.resolve(text) for text, found in resolved.items()}


@dataclass(frozen=True, slots=True)
class _Quoted:
    """Lines of a segment that contain a quote."""

    source: Source
    segment: Segment
    lines: tuple[int, int]

    @property
    def place(self) -> str:
        ref = EvidenceRef(source_id=self.source.id, segment_id=self.segment.segment_id, lines=self.lines)
        return place_in(ref.locator(self.segment), self.source.origin)

    @property
    def key(self) -> str:
        """Which lines they are; for a source without lines, which segment."""
        where = self.place if isinstance(self.segment.locator, Lines) else self.segment.segment_id
        return f"{self.source.id} {where}"


class _NotStored(InvalidInput):
    """The lines are not in the space yet, and nothing may be read now."""


@dataclass(frozen=True, slots=True)
class Resolver:
    """Finds the segments of evidence in the caller's scope and tree."""

    call: Call
    tree: AskedTree | None
    dry_run: bool

    def resolve(self, text: str) -> ResolvedEvidence:
        """Return the segments that a text names. Raises as `resolve_evidence`."""
        match read_notation(place_numbered(text, self.call.engine.places_of)):
            case PassageOf(source_id, segment_id):
                ledger = self.call.engine.ledger
                head = ledger.heads([source_id]).get(source_id)
                if head is None or head.type != "source":
                    raise self._no_source(source_id)
                # Not the whole source: a conversation may have thousands of turns.
                here = ledger.segments([(source_id, segment_id)]).get((source_id, segment_id))
                return self.answer(text, head, [here or ledger.segment(source_id, segment_id)])
            case LinesOf() as lines:
                return self._lines(text, lines)
            case SymbolOf(path, symbol):
                return self._symbol(text, path, symbol)
            case SourceCalled(name, turn):
                return self._called(text, name, turn)
            case Quote(words):
                return self._quoted(text, words)

    def _lines(self, text: str, lines: LinesOf) -> ResolvedEvidence:
        source = self._at_path(lines.path, lines.first, lines.last)
        if source is None:
            if known := self.with_origin(text):
                return self.answer(text, known, known.segments)
            raise self._unknown(lines.path)
        return self.cited_lines(source, lines.first, lines.last, text=text, path=lines.path)

    def cited_lines(
        self, source: Source, first_line: int, last_line: int, *, text: str = "", path: str = ""
    ) -> ResolvedEvidence:
        """Return some lines of a source. `text` and `path`: how the caller wrote them. Raises `InvalidInput`."""
        stored = stored_lines(self.segments_of(source))
        numbers = sorted(number for number in stored if first_line <= number <= last_line)
        if not any(stored[number][1].strip() for number in numbers):
            raise _without_text(path or label(source.title), first_line, last_line, stored)
        chosen = {id(stored[number][0]): stored[number][0] for number in numbers}
        if len(chosen) > MAX_SEGMENTS:
            raise InvalidInput(
                f"{text or source.title} spans {len(chosen)} passages; one piece of evidence may span {MAX_SEGMENTS}.",
                hint=f"Give fewer lines, or the whole file: {path or source.title}.",
            )
        quote = "\n".join(
            stored[number][1] if number in stored else "" for number in range(numbers[0], numbers[-1] + 1)
        )
        first = stored[numbers[0]][0].locator
        exact = first.model_copy(update={"start": numbers[0], "end": numbers[-1]})
        within = {
            one.segment_id: (
                min(number for number in numbers if stored[number][0] is one) - one.locator.start + 1,
                max(number for number in numbers if stored[number][0] is one) - one.locator.start + 1,
            )
            for one in chosen.values()
            if isinstance(one.locator, Lines)
        }
        place = place_in(exact, source.origin)
        return self.answer(
            text or short_place(place), source, [*chosen.values()], quote=quote, place=place, within=within
        )

    def _symbol(self, text: str, path: str, symbol: str) -> ResolvedEvidence:
        source = self._at_path(path)
        if source is None:
            return self._defined(text)
        segments = self.segments_of(source)
        named = {
            name: f".{_dotted(name)}".endswith(f".{symbol}") for segment in segments for name in _names_in(segment)
        }
        names = [name for name, is_meant in named.items() if is_meant]
        if exact := [name for name in names if _dotted(name) == symbol]:
            names = exact
        if len(names) != 1:
            how_many = f"{len(names)} definitions called" if names else "no definition called"
            raise InvalidInput(
                f"{path} has {how_many} {symbol}.", hint=_choose(names or _close(symbol, named) or [*named])
            )
        chosen = [one for one in segments if names[0] in _names_in(one)]
        if len(chosen) == 1 and (lines := _lines_of(chosen[0], names[0])):
            return self._lines(text, LinesOf(path, *lines))
        return self.answer(text, source, chosen, within={})

    def _called(self, text: str, name: str, turn: int | None) -> ResolvedEvidence:
        source = self._source(name) if is_object(name) else self._at_path(name)
        if source is None and " " in text:
            return self._quoted(text, text)
        if source is None:
            source = self.with_origin(name) or (self._part_with_turn(name, turn) if turn is not None else None)
        if source is None:
            return self._defined(name)
        segments = self.segments_of(source)
        if turn is not None:
            segments = [one for one in segments if isinstance(one.locator, Turn) and one.locator.turn == turn]
            if not segments:
                raise NotFound(f"{name} has no turn {turn}.", hint=f"It has {len(source.segments)} turns, from 0.")
        return self.answer(text, source, segments)

    def _defined(self, name: str) -> ResolvedEvidence:
        """Return the definition of a symbol. Raises `NotFound`, or `InvalidInput` if several files define it."""
        place = definition_called(self.call, name)
        if not place:
            raise self._unknown(name.partition("::")[0])
        path, _, symbol = place.partition("::")
        return self._symbol(name, path, symbol)

    def _part_with_turn(self, name: str, turn: int) -> Source | None:
        """Return the source with a turn of a conversation that is stored in parts, each named by its first turn.

        Raises `InvalidInput` if several conversations in the caller's scope and below have the name.
        """
        ledger, scope = self.call.engine.ledger, self.call.scope
        # The scope of a discussion ends with its id, so that one of thousands is found at once.
        below = [one for one in ledger.scopes(scope) if name.endswith(one.rpartition("/")[2])]
        parts = [ledger.sources(scope=one, root=name) for one in dict.fromkeys((scope, *below))]
        conversations = [active for one in parts if (active := _first_turns(one))]
        if len(conversations) > 1:
            raise InvalidInput(
                f"{len(conversations)} conversations are called {name!r}.", hint="Call it in the scope of one of them."
            )
        begins = [first for first in conversations[0] if first <= turn] if conversations else []
        return self._source(conversations[0][max(begins)]) if begins else None

    def _quoted(self, text: str, words: str) -> ResolvedEvidence:
        reach = Reach(self.call.scope, descend=True, where=Compare("type", "eq", "source"))
        sought = " ".join(words.split()).casefold()
        matches: dict[str, _Quoted] = {}
        for head in self.call.engine.lookup.passages_with(words, reach, limit=_QUOTE_HITS) if sought else ():
            # One in another scope, or a damaged one, which lint reports, is no match.
            with suppress(NotFound), noted({}):
                source = self._source(head.object_id)
                for segment in self.segments_of(source):
                    for lines in _quoted_lines(sought, segment) if segment.segment_id == head.part else ():
                        found = _Quoted(source, segment, lines)
                        # A class and its methods contain the same lines.
                        known = matches.setdefault(found.key, found)
                        if len(segment.excerpt) < len(known.segment.excerpt):
                            matches[found.key] = found
        if len(matches) != 1:
            if places := [short_place(one.place) for one in matches.values()]:
                raise InvalidInput(f"{len(matches)} places contain {words[:200]!r}.", hint=_choose(places))
            raise NotFound(f"No source contains {words[:200]!r}.", hint=f"Quote it word for word, or give {NOTATIONS}.")
        (one,) = matches.values()
        within = {one.segment.segment_id: one.lines}
        return self.answer(text, one.source, [one.segment], quote=words, place=one.place, within=within)

    def answer(
        self,
        text: str,
        source: Source | Head,
        segments: Sequence[Segment],
        *,
        quote: str = "",
        place: str = "",
        within: Mapping[str, tuple[int, int]] | None = None,
    ) -> ResolvedEvidence:
        """Return evidence in some segments of a source. Raises `InvalidInput` without any."""
        if not segments:
            raise InvalidInput(f"{label(source.title)} contains no text.", hint=f"Give {NOTATIONS}.")
        cited = segments[:MAX_SEGMENTS]
        first = cited[0].locator
        words = quote or "\n\n".join(one.excerpt for one in cited)
        return ResolvedEvidence(
            given=text,
            place=place or place_in(_span([one.locator for one in cited]), source.origin),
            source_id=source.id,
            segment_ids=tuple(one.segment_id for one in cited),
            quote=words,
            refs=tuple(
                EvidenceRef(
                    source_id=source.id,
                    segment_id=one.segment_id,
                    lines=_part_of(one, within),
                    together=len(cited) > 1 and within is not None,
                )
                for one in cited
            ),
            # Without commits in the space, lines without one may be committed all the same.
            uncommitted=isinstance(first, Lines)
            and not first.commit
            and self.tree is not None
            and source.origin.startswith(f"{self.tree.view.root}#"),
        )

    def _source(self, identity: str) -> Source:
        item = self.call.engine.ledger.get(identity)
        if isinstance(item, Source):
            return item
        raise self._no_source(identity)

    def _no_source(self, identity: str) -> TreeringError:
        self.call.engine.ledger.get(identity)  # raises `NotFound` if it does not exist
        return InvalidInput(
            f"{identity} is not a source, so it cannot be evidence.",
            hint=f"Evidence is in sources, whose ids start with {PREFIXES['source']}:. Put others in derived_from.",
        )

    def file(self, path: str) -> NamedFile | None:
        """Return the file that a path names, if it may be read."""
        files = self.call.engine.evidence_files
        return files.find(path) if files else None

    def _at_path(self, path: str, first: int = 1, last: int = 10**9) -> Source | None:
        """Return the source at a path, up to date with some lines of its file; `None` if there is none."""
        file = self.file(path)
        source = self._of_file(path, file)
        return self.up_to_date(source, file, first, last) if source else None

    def _of_file(self, path: str, file: NamedFile | None) -> Source | None:
        """Return the source of a file, which is read now if it exists and is not known. Raises if several match."""
        found = self._candidates(path, file)
        if file and not found:
            if file.outside_of:
                raise self._outside(path, file, file.outside_of)
            self._ingest(file)
            found = self._candidates(path, file)
        if file and len(found) > 1:
            found = [one for one in found if _is_at(one, file)] or found
        if len(found) > 1:
            origins = [one.origin.rpartition("#")[2] for one in found]
            raise InvalidInput(f"{path} is the end of {len(found)} paths.", hint=_choose(origins))
        return found[0] if found else None

    def _candidates(self, path: str, file: NamedFile | None) -> list[Source]:
        name = file.path if file else PurePosixPath(path).as_posix()
        if exact := self.at(name, file):
            return [exact]
        return list(files_called(self.call, name, Reach(self.call.scope, descend=True)))

    def at(self, name: str, file: NamedFile | None) -> Source | None:
        """Return the source at a path of the caller's tree, or of a file."""
        origins = [f"{self.tree.view.root}#{name}"] if self.tree else []
        origins += [f"file:{file.place.as_posix()}"] if file else []
        return next(filter(None, map(self.with_origin, origins)), None)

    def up_to_date(self, source: Source, file: NamedFile | None, first: int = 1, last: int = 10**9) -> Source:
        """Return the source as it is in the work tree: read again if it differs there in these lines."""
        files = self.call.engine.evidence_files
        if file is None or files is None:
            return source
        stored, lying = stored_lines(self.segments_of(source)), files.lines(file)
        wanted = range(first, min(last, len(lying)) + 1)
        differs = any(
            lying[number - 1] != stored[number][1] if number in stored else lying[number - 1].strip()
            for number in wanted
        )
        if not lying or not differs:
            return source
        self._ingest(file)
        return self._source(source.id)

    def _ingest(self, file: NamedFile) -> None:
        files = self.call.engine.evidence_files
        if files is None:
            return
        if self.dry_run:
            raise _NotStored(
                f"{file.path} is not stored as it is now, and a dry run reads nothing.",
                hint=f"Run `treering add {file.path}` first, or leave --dry-run out.",
            )
        files.ingest(file, self.call.engine.ledger, self.call.scope)

    def segments_of(self, source: Source) -> list[Segment]:
        """Return the segments of a source in order, as they are in the caller's tree."""
        contents = (
            self.tree.view.contents(source.origin, source.fingerprint)
            if self.tree and self.tree.view.has(source.origin)
            else None
        )
        ordered = sorted(source.segments, key=lambda one: one.position)
        if contents is None:
            return ordered
        return [one for segment in ordered if (one := segment.in_contents(contents))]

    def with_origin(self, name: str) -> Source | None:
        """Return the source with an origin in the caller's scope."""
        states = self.call.engine.ledger.sources_at(scope=self.call.scope, origins=[name])
        return self._source(states[name].id) if name in states else None

    def _unknown(self, name: str) -> TreeringError:
        files = self.call.engine.evidence_files
        if files and (refusal := files.refusal(name)):
            return refusal
        if now := self.tree.path_now(name) if self.tree else "":
            return NotFound(
                f"There is no file, source or address {name[:200]!r}.", hint=f"It was renamed to {label(now)}."
            )
        alike = self._alike(name)
        hint = _choose(alike) if alike else f"Check the path, or give {NOTATIONS}."
        return NotFound(f"There is no file, source or address {name[:200]!r}.", hint=hint)

    def _outside(self, name: str, file: NamedFile, root: Path) -> Denied:
        place = shown(file.place)
        leads = f" is {place}," if name != place else " is"
        alike = self._alike(name)
        hint = f"To cite a file from elsewhere, ingest it first: treering add {place}"
        return Denied(
            f"{name[:200]!r}{leads} outside {shown(root)}.", hint=f"{_choose(alike)} {hint}" if alike else hint
        )

    def _alike(self, name: str) -> list[str]:
        """Return the paths of the caller's tree that a name may have meant."""
        if self.tree is None:
            return []
        root = self.tree.view.root
        origins = self.call.engine.ledger.sources(scope=self.call.scope, root=root)
        known = sorted(origin.removeprefix(f"{root}#") for origin in origins if origin != root)
        base = PurePosixPath(name).name
        return [path for path in known if base and PurePosixPath(path).name == base] or _close(name, known)


def _first_turns(parts: Mapping[str, SourceState]) -> dict[int, str]:
    """Return the ids of the active parts of a conversation by their first turn."""
    active = {origin.rpartition("#")[2]: state.id for origin, state in parts.items() if state.status == "active"}
    return {int(first): identity for first, identity in active.items() if first.isdecimal()}


def stored_lines(segments: Iterable[Segment]) -> dict[int, tuple[Segment, str]]:
    """Return by line number the segment that contains the line, and the line."""
    return {
        segment.locator.start + place: (segment, line)
        for segment in segments
        if isinstance(segment.locator, Lines)
        for place, line in enumerate(segment.excerpt.splitlines())
    }


def _quoted_lines(sought: str, segment: Segment) -> Iterator[tuple[int, int]]:
    """Yield the first and last line of each place in a segment that contains some words, in lower case."""
    words = [
        (word.casefold(), number)
        for number, line in enumerate(segment.excerpt.splitlines(), 1)
        for word in line.split()
    ]
    starts = [*accumulate((len(word) + 1 for word, _ in words), initial=0)]
    text = " ".join(word for word, _ in words)
    at = text.find(sought)
    while at >= 0:
        first, last = (words[bisect_right(starts, place) - 1][1] for place in (at, at + len(sought) - 1))
        yield first, last
        at = text.find(sought, starts[bisect_right(starts, at + len(sought) - 1)])


def _span(places: Sequence[Locator]) -> Locator:
    """Return the lines from the first to the last place; the first place if not all are lines."""
    lines = [one for one in places if isinstance(one, Lines)]
    if len(lines) < len(places):
        return places[0]
    return lines[0].model_copy(update={"start": min(one.start for one in lines), "end": max(one.end for one in lines)})


def _part_of(segment: Segment, within: Mapping[str, tuple[int, int]] | None) -> tuple[int, int] | None:
    """Return the lines of a segment that were given, or `None` if they are all of it."""
    lines = (within or {}).get(segment.segment_id)
    return None if lines == (1, len(segment.excerpt.splitlines())) else lines


def _names_in(segment: Segment) -> tuple[str, ...]:
    heading = segment.locator.heading if isinstance(segment.locator, Lines) else ""
    names = [part.strip().partition(" (part ")[0] for part in heading.split(",")]
    return tuple(dict.fromkeys([*(one.name for one in segment.definitions), *filter(None, names)]))


def _dotted(name: str) -> str:
    """Return a qualified name with dots, as citations are read."""
    return name.replace("::", ".")


def _lines_of(segment: Segment, name: str) -> tuple[int, int] | None:
    """Return the first and last line of a definition in its file, if its segment contains more than it."""
    if not isinstance(segment.locator, Lines):
        return None
    start = segment.locator.start - 1
    return next(((start + one.first, start + one.last) for one in segment.definitions if one.name == name), None)


def _close(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names that are spelled like a name or end with it."""
    ends = {end: one for one in known for end in (one, re.split(r"[./]", one)[-1])}
    found = get_close_matches(name[:_MAX_NAME_CHARS], list(ends), n=_MAX_CANDIDATES, cutoff=0.6)
    return list(dict.fromkeys(ends[one] for one in found))


def _is_at(source: Source, file: NamedFile) -> bool:
    return source.origin.endswith((f"#{file.path}", file.place.as_posix()))


def _without_text(name: str, first: int, last: int, stored: Mapping[int, tuple[Segment, str]]) -> InvalidInput:
    """Return the error for lines that are blank, not indexed, or after the end of a source."""
    lines = f"line {first}" if first == last else f"lines {first}-{last}"
    texts = [number for number, (_, text) in stored.items() if text.strip()]
    if not texts:
        return InvalidInput(f"{name} is not stored by lines.", hint="Name it as a whole, or quote a sentence of it.")
    if first > max(texts):
        return InvalidInput(f"{name} has no {lines}.", hint=f"Its last line with text is {max(texts)}.")
    nearest = sorted(texts, key=lambda number: min(abs(number - first), abs(number - last)))[:2]
    hint = f"The nearest lines with text: {', '.join(map(str, sorted(nearest)))}."
    return InvalidInput(f"{name} has no text in {lines}: blank, or not indexed.", hint=hint)


def _choose(candidates: Sequence[str]) -> str:
    listed = ", ".join(map(label, candidates[:_MAX_CANDIDATES]))
    more = len(candidates) - _MAX_CANDIDATES
    return f"Give one of: {listed}{f' and {more} more' if more > 0 else ''}."
