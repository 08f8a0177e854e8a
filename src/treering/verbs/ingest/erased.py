"""Keyed hashes of erased texts, so that reading the files again does not restore them.

The key is a file on the machine, not in the space: short texts cannot be guessed from the hashes with the space or a
backup alone. Texts erased with another key are not recognized: the report states this, and nothing is read into a
database that several servers may use.

An erasure applies in the scope of the erased source and in the scopes below it: the hashes contain the scope. Other
scopes can store the same text, and cannot test whether it was erased. Marks of the root contain no scope, and neither
do those of earlier versions, which therefore apply everywhere.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from hashlib import blake2b
from itertools import chain, groupby, islice
from typing import Any, TypeVar

from treering.core.canonical import normalise_text
from treering.core.errors import TreeringError, Unavailable
from treering.core.evidence import Turn
from treering.core.objects import Source
from treering.core.scope import ROOT, is_within, lineage
from treering.ports.adapter import Role, SegmentDraft, SourceDraft
from treering.ports.index import Index
from treering.ports.passages import PassageHead, Reach
from treering.ports.runtime import JobLog, JobRow, JobsInCommits, fresh_id
from treering.ports.search import TextRequest
from treering.registry import brought
from treering.retrieval.index.rounds import look_up, make_whole
from treering.retrieval.text.analysis import terms_by_token
from treering.verbs.engine import Engine
from treering.verbs.ingest.copied import draft_without, nodes_without, plain, sentences_of
from treering.verbs.ingest.segments import with_texts
from treering.verbs.leases import held

ScopedPassages = frozenset[tuple[str, str]]
"""Passages of sources, each after the scope in which an erasure of its source applies."""
MIN_CHARS = 24
"""Shorter passages are only recognized in their own origin, because they may occur elsewhere for other reasons."""
MAX_MARKS = 1_000_000
"""Hashes of passages and lines that a space stores; the oldest are dropped first."""
_Done = TypeVar("_Done")
_ROW = "erased"
_BLOCK = re.compile(r"#\d{9}\Z")
_DISCUSSION = re.compile(r"/discussion/[^/]+\Z")
_GAP = re.compile(r"(\n(?:[ \t]*\n)+)")
_MARK_BYTES = 10
_SEGMENTS_PER_SEARCH = 200
"""Segments that are read in the time in which the index looks up one passage: about a millisecond."""
_TOKENS_LOOKED_UP, _MAX_HITS = 32, 1_000
_LEASE_SECONDS, _WAIT_SECONDS = 10.0, 5.0
_UNKNOWN = "the next reading, which cannot recognise it"


@dataclass(frozen=True, slots=True)
class ErasedPart:
    """The erased parts of a draft: the number of passages, the date, and whether nothing else is in it."""

    passages: int = 0
    date: str = ""
    """Empty for a text that Treering derived from files: the erased file itself is reported."""
    whole: bool = False

    def reason(self) -> str:
        """Return why it is skipped, and how to read it anyway."""
        subject = "its content was" if self.whole else f"{self.passages} passage(s) of it were"
        return f"{subject} erased on {self.date}, so it is skipped; the option `again` (--again) reads it"


@dataclass(slots=True)
class ErasedTexts:
    """The marks of erased texts in a space that the key of this machine can check, for reading into one scope."""

    key: bytes = b""
    keys: tuple[bytes, ...] = ()
    """The keys of the scope and of its ancestors."""
    marks: Mapping[str, str] = field(default_factory=dict)
    """By mark, the day of the erasure."""
    elsewhere: int = 0
    """The number of marks made with other keys."""
    seen: set[str] = field(default_factory=set)
    """Marks of erased texts that were read again."""

    @classmethod
    def of(cls, engine: Engine, scope: str, *, again: bool = False) -> "ErasedTexts":
        """Read the marks of a space, and the key of the machine if there are any, for reading into a scope.

        Raises `Unavailable` for marks of other keys in a database of several servers, unless texts are read `again`.
        """
        texts = cls._read(engine, scope)
        if texts.elsewhere and _is_shared(engine) and not again:
            raise Unavailable(
                "Content was erased from this space with another `erasure.key`, so it would not be recognized.",
                hint="Copy erasure.key from the data folder of the server that erased it to the data folder of this "
                "one. The option `again` (--again) reads erased content, too.",
            )
        return texts

    @classmethod
    def _read(cls, engine: Engine, scope: str) -> "ErasedTexts":
        row = engine.erasures.find(_ROW) if engine.erasures and engine.erasure_key else None
        if not row or not engine.erasure_key:
            return cls()
        try:
            key = engine.erasure_key()
        except OSError:
            return cls(elsewhere=sum(map(len, row["keys"].values())))
        own = row["keys"].get(_name(key), {})
        keys = tuple(_key_of(key, one) for one in lineage(_home_of(scope)))
        return cls(key, keys, own, sum(map(len, row["keys"].values())) - len(own))

    def without(self, draft: SourceDraft) -> tuple[SourceDraft, ErasedPart]:
        """Return a draft without erased passages and lines, and a description of them.

        Passages are recognized in all origins, lines only in the origin they were erased from. The result contains no
        hash of the whole text, and no neighboring text or name that could repeat erased content.
        """
        if not self.marks:
            return draft, ErasedPart()
        if draft.content_type == "repo_map":
            return self._derived_without(draft)
        texts = [self.left_of(segment.text, draft.origin, role=segment.role) for segment in draft.segments]
        cut = [segment.text for segment, text in zip(draft.segments, texts, strict=True) if text != segment.text]
        if not cut:
            return draft, ErasedPart()
        date = self.last_day()
        if not any(text.strip() for text in texts):
            return draft, ErasedPart(len(cut), date, whole=True)
        erased = normalise_text("\n".join(cut))
        left = with_texts(draft, texts)
        return replace(
            left,
            title=draft.title if normalise_text(draft.title) not in erased else draft.origin.rpartition("/")[2],
            fingerprint=f"without erased {_mark(self.key, draft.fingerprint)}",
            segments=[_alone(segment) for segment in left.segments],
            metadata={name: value for name, value in draft.metadata.items() if name != "summary"},
            nodes=nodes_without(
                (node for node in draft.nodes if normalise_text(node.name) not in erased),
                partial(self._is_copied, root_of(draft.origin)),
            ),
        ), ErasedPart(len(cut), date)

    def _derived_without(self, draft: SourceDraft) -> tuple[SourceDraft, ErasedPart]:
        """Return a draft derived from files without the sentences that it copied from an erased one."""
        left = draft_without(draft, partial(self._is_copied, root_of(draft.origin)))
        if left == draft:
            return draft, ErasedPart()
        fingerprint = f"without erased {_mark(self.key, draft.fingerprint)}"
        return replace(left, fingerprint=fingerprint), ErasedPart(len(draft.segments))

    def _is_copied(self, root: str, sentence: str) -> bool:
        return self._knows(_copy_of(root, sentence))

    def left_of(self, text: str, origin: str, *, role: Role = "prose", at: datetime | None = None) -> str:
        """Return a text without erased passages, and without lines erased from the same origin.

        `at` is the time of a message. Lines of messages after the day of the erasure are new statements.
        """
        if self._knows(normalise_text(text)):
            return ""
        if role == "prose":
            parts = _GAP.split(text)  # paragraphs, each except the first after the gap before it
            gone = [self._knows(normalise_text(part)) for part in parts[::2]]
            left_parts = (parts[max(2 * place - 1, 0) : 2 * place + 1] for place, one in enumerate(gone) if not one)
            text = "".join("".join(part) for part in left_parts)
        lines, day = text.split("\n"), _day(at) if at else ""
        left = [line for line in lines if not line.strip() or not self._knows(_line_of(origin, line), day)]
        return text if len(left) == len(lines) else "\n".join(left)

    def last_day(self) -> str:
        """Return the day of the latest erasure among the recognized texts; empty if there are none."""
        return max((self.marks[mark] for mark in self.seen), default="")

    def _knows(self, text: str, day: str = "") -> bool:
        marks = (_mark(key, text) for key in self.keys)
        known = {mark for mark in marks if mark in self.marks and day <= self.marks[mark]}
        self.seen |= known
        return bool(known)


def marks_of(sources: Iterable[Source], key: bytes, *, repeated: ScopedPassages) -> Iterator[str]:
    """Yield the marks of the texts of sources; passages `repeated` in other sources are only marked by origin."""
    for source in sources:
        home = _home_of(source.scope)
        own_key = _key_of(key, home)
        for text, role in _texts(source):
            for passage in _passages(text, role):
                normal = normalise_text(passage)
                if len(normal) >= MIN_CHARS and (home, passage) not in repeated:
                    yield _mark(own_key, normal)
            yield from (_mark(own_key, _line_of(source.origin, line)) for line in text.split("\n") if line.strip())
            yield from (_mark(own_key, _copy_of(root_of(source.origin), one)) for one in sentences_of([text]))


def erase_and_remember(
    engine: Engine,
    sources: Sequence[Source],
    erase: Callable[[], _Done],
    *,
    repeated: ScopedPassages,
    copies: Iterable[str] = (),
) -> tuple[_Done, str]:
    """Erase sources by `erase` and store their marks in its transaction.

    So a killed process leaves both or neither. If the job log has no such transactions, the marks are stored first,
    and removed if `erase` fails. Also return why the marks were not stored, or an empty text. `repeated` are the
    passages that other sources also contain (`passages_elsewhere`), `copies` the sentences that derived objects copied.
    Errors of `erase` propagate.
    """
    try:
        return _erase_and_mark(engine, sources, erase, repeated=repeated, copies=copies)
    finally:
        for forget in brought("on_erased"):
            forget(engine)


def _erase_and_mark(
    engine: Engine,
    sources: Sequence[Source],
    erase: Callable[[], _Done],
    *,
    repeated: ScopedPassages,
    copies: Iterable[str],
) -> tuple[_Done, str]:
    rows = engine.erasures
    if not sources:
        return erase(), ""
    if rows is None or engine.erasure_key is None:
        return erase(), f"{_UNKNOWN}: this space stores no marks"
    try:
        key = engine.erasure_key()
    except OSError as error:
        return erase(), f"{_UNKNOWN}: no key ({error.strerror or error})"
    roots = {(_key_of(key, _home_of(source.scope)), root_of(source.origin)) for source in sources}
    copied = (_mark(own_key, _copy_of(root, one)) for one in copies for own_key, root in roots)
    marks = chain(marks_of(sources, key, repeated=repeated), copied)
    new = dict.fromkeys(marks, _day(engine.clock.now()))
    with _row_of(engine, rows) as row:
        if _is_shared(engine) and row["keys"].keys() - {_name(key)}:
            return erase(), f"{_UNKNOWN}: content was erased with another `erasure.key` before"
        changed = _with_marks(row, _name(key), {**row["keys"].get(_name(key), {}), **new})
        if isinstance(rows, JobsInCommits):
            with rows.kept_in_commit(_ROW, changed) as is_stored:
                result = erase()
                return result, "" if is_stored() else f"{_UNKNOWN}: the erasure changed nothing"
        rows.save(_ROW, changed)
        try:
            return erase(), ""
        except TreeringError:
            rows.save(_ROW, row)
            raise


def passages_elsewhere(engine: Engine, sources: Sequence[Source]) -> ScopedPassages:
    """Return the passages of sources that other sources in or below their scope contain.

    Others contain a passage as a segment, or within a current one. The index finds few passages. For many, all segments
    are read, one at a time.
    """
    wanted, own = passages_in(sources), frozenset(source.id for source in sources)
    others = [one for one in engine.ledger.sources_with({text for _, text in wanted}) if one[1] not in own]
    elsewhere = _in_scope(engine, wanted, others)
    left = wanted - elsewhere
    if len(left) * _SEGMENTS_PER_SEARCH > engine.index.vectors.lag().total:
        texts = {text for _, text in left}
        rows = (record.row for record in engine.ledger.records(only={"segment"}))
        parts = ((part, row["source_id"]) for row in rows for part in _passages(row["text"], "prose"))
        return elsewhere | _in_scope(engine, left, {one for one in parts if one[0] in texts and one[1] not in own})
    make_whole(engine.index)
    return elsewhere.union(one for one in left if _is_within_others(engine, *one, own))


def _in_scope(engine: Engine, wanted: ScopedPassages, others: Collection[tuple[str, str]]) -> ScopedPassages:
    """Return the wanted passages that `others`, passages and ids of sources, contain in or below the same scope."""
    heads = engine.ledger.heads({identity for _, identity in others})
    scopes: dict[str, set[str]] = {}
    for text, identity in others:
        if identity in heads:  # others may erase it at the same time
            scopes.setdefault(text, set()).add(heads[identity].scope)
    return frozenset(one for one in wanted if any(is_within(scope, one[0]) for scope in scopes.get(one[1], ())))


def _is_within_others(engine: Engine, home: str, passage: str, own: Set[str]) -> bool:
    """Return whether another source in or below a scope contains a passage, or no words of it can be looked up."""
    heads = passages_with(engine.index, passage, Reach(home, descend=True))
    if heads is None:
        return True
    others = [
        (head.object_id, head.part)
        for head in heads
        if head.type == "source" and head.object_id not in own and is_within(head.scope, home)
    ]
    return any(passage in _passages(one.excerpt, "prose") for one in engine.ledger.segments(others).values())


def passages_with(index: Index, text: str, reach: Reach) -> list[PassageHead] | None:
    """Return the current passages with the first words of a text in this order; `None` if it has no words.

    The words may be followed by others than in the text. If the reach includes earlier passages, also those with any of
    the words.
    """
    terms = " ".join(islice(terms_by_token(text), _TOKENS_LOOKED_UP)).split()
    return look_up(index, TextRequest(reach, _MAX_HITS, words=(" ".join(terms),))) if terms else None


def passages_in(sources: Iterable[Source]) -> ScopedPassages:
    """Return the passages of sources that are recognized in all origins."""
    texts = ((_home_of(source.scope), *text) for source in sources for text in _texts(source))
    passages = ((home, one) for home, text, role in texts for one in _passages(text, role))
    return frozenset(one for one in passages if len(normalise_text(one[1])) >= MIN_CHARS)


def forget(engine: Engine, texts: ErasedTexts) -> None:
    """Delete the marks of texts that were requested again."""
    if texts.seen and engine.erasures is not None:
        with _row_of(engine, engine.erasures) as row:
            marks = row["keys"].get(_name(texts.key), {})
            left = {mark: day for mark, day in marks.items() if mark not in texts.seen}
            engine.erasures.save(_ROW, _with_marks(row, _name(texts.key), left))


def _is_shared(engine: Engine) -> bool:
    """Return whether servers with different data folders may use the space at once, as in a database of several."""
    return engine.protection is not None


@contextmanager
def _row_of(engine: Engine, rows: JobLog) -> Iterator[JobRow]:
    """Read the row of the marks, and hold a lease until it is saved, so that concurrent changes are not lost."""
    owner = fresh_id("patch", engine.clock)
    with held(engine.leases, _ROW, owner, _LEASE_SECONDS, wait_seconds=_WAIT_SECONDS):
        row: dict[str, Any] = {"scope": None, "keys": {}, **(rows.find(_ROW) or {})}
        yield row


def _with_marks(row: JobRow, name: str, marks: Mapping[str, str]) -> dict[str, Any]:
    return {**row, "keys": {**row["keys"], name: dict([*marks.items()][-MAX_MARKS:])}}


def _texts(source: Source) -> Iterator[tuple[str, Role]]:
    """Yield the texts of a source's segments, and the whole text of each long turn."""
    for turn, group in groupby(
        source.segments, key=lambda one: one.locator.turn if isinstance(one.locator, Turn) else None
    ):
        segments = [*group]
        yield from ((segment.excerpt, segment.role) for segment in segments)
        if turn is not None and len(segments) > 1:
            yield "".join(segment.excerpt for segment in segments), "prose"


def _passages(text: str, role: Role) -> list[str]:
    """Return the passages of a text that are recognized in all origins: the whole, and each paragraph of prose."""
    paragraphs = _GAP.split(text)[::2] if role == "prose" else []
    return [text, *(paragraphs if len(paragraphs) > 1 else ())]


def _alone(segment: SegmentDraft) -> SegmentDraft:
    """Return a segment without the parts that depend on its neighbors."""
    place = segment.locator
    return replace(
        segment, gist=None, locator=place.model_copy(update={"chain": ""}) if isinstance(place, Turn) else place
    )


def _home_of(scope: str) -> str:
    """Return the scope in which an erasure applies: all discussions below a scope count as one."""
    return _DISCUSSION.sub("", scope) or ROOT


def _key_of(key: bytes, scope: str) -> bytes:
    """Return the key for the marks of a scope."""
    return key if scope == ROOT else blake2b(scope.encode(), key=key).digest()


def _mark(key: bytes, text: str) -> str:
    return blake2b(text.encode(errors="replace"), key=key, digest_size=_MARK_BYTES).hexdigest()


def _line_of(origin: str, line: str) -> str:
    """Return the text whose mark recognizes a line in its origin."""
    # The blocks of a discussion count as one origin, because a message may be recorded again in another block.
    return f"{_BLOCK.sub('', origin)}\n{normalise_text(line)}"


def root_of(origin: str) -> str:
    """Return the origin of the repository or folder of a file."""
    return origin.partition("#")[0]


def _copy_of(root: str, sentence: str) -> str:
    """Return the text whose mark recognizes a sentence in objects derived from the files of a root."""
    return f"copied from {root}\n{plain(sentence)}"


def _name(key: bytes) -> str:
    return blake2b(key, digest_size=_MARK_BYTES, person=b"treering-key").hexdigest()


def _day(now: datetime) -> str:
    return now.date().isoformat()
