"""Convert changes of objects to rows of passages: rows to insert, end or erase, and the work that follows from them."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from treering.core.canonical import render_time
from treering.core.objects import Object
from treering.ports.index import Change
from treering.ports.models import Extractor
from treering.ports.passages import Passage
from treering.ports.search import Scored
from treering.retrieval.index.code_places import NO_PLACE
from treering.retrieval.index.passages import days_of, gist_hash, passages_of
from treering.retrieval.index.projection import (
    CODE,
    DATA,
    GENERATED,
    PARAGRAPH,
    SUPPORT,
    SUPPORTING_PLACES,
    SYMBOL,
    TURN,
    Began,
    Ended,
    Entry,
    Forgotten,
    Step,
    Touched,
    ties_in,
)
from treering.retrieval.index.ties import DIALOGUE_KINDS, Ties
from treering.retrieval.search.fusion import name_share
from treering.retrieval.tuning import TUNING

_BATCH = 500  # passages read for the graph at a time

Part = tuple[str, str]
"""Object id and part: identify a current passage independent of its key."""

CarriedTies = Callable[[Sequence[Part]], Mapping[Part, Ties]]
"""Returns the ties that another index stores for current passages; used when a space is copied."""


class PlacedRow(NamedTuple):
    """The key of a passage's row, and the number of its text."""

    key: int
    text: int


class ErasedRow(NamedTuple):
    """A row that was erased, and whether it was current."""

    key: int
    text: int
    current: bool


class PassageRows(Protocol):
    """The rows of passages of one space, in a write transaction."""

    def open_rows(self, object_id: str) -> Mapping[str, int]:
        """Return the keys of an object's rows that have not ended, by part."""
        ...

    def begin(self, entry: Entry, seq: int) -> PlacedRow:
        """Insert a passage that is valid from `seq`, without its vector, ties and names of code."""
        ...

    def end(self, key: int, entry: Entry, seq: int) -> PlacedRow:
        """End a passage before `seq`. `entry`: its current content."""
        ...

    def touch(self, key: int, step: Touched) -> None:
        """Update the position, update time and metadata of a passage in place."""
        ...

    def erase(self, object_id: str) -> Iterable[ErasedRow]:
        """Delete all rows of an object, including ended ones."""
        ...


@dataclass(slots=True)
class PassageFold:
    """A batch of changes applied to rows. The fields contain the remaining work."""

    rows: PassageRows
    texts: set[int] = field(default_factory=set)
    """Texts that gained or lost a passage."""
    gists: dict[int, str] = field(default_factory=dict)
    """The text to embed, by the number of each text that gained a current passage."""
    lost: set[int] = field(default_factory=set)
    """Texts that lost a passage."""
    revealed: list[int] = field(default_factory=list)
    """Passages that become current or cease to be, or whose ties change."""
    retied: dict[int, Entry | None] = field(default_factory=dict)
    """Passages whose ties must be replaced in the graph; `None` to remove them."""
    come: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Names of code that passages define or use now, and did not before, by key."""
    gone: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Names of code that passages defined or used before, by key."""
    unnamed: list[int] = field(default_factory=list)
    """Erased passages. Their names of code are unknown."""
    gained: Counter[int] = field(default_factory=Counter)
    """By text, how many more current passages it has than before."""
    erased: list[int] = field(default_factory=list)
    """Erased passages, current or not."""

    @property
    def shown(self) -> int:
        """The change in the number of current passages."""
        return self.gained.total()

    def apply(self, change: Change, steps: Sequence[Step]) -> None:
        """Apply the steps of a change."""
        rows = dict(self.rows.open_rows(change.object_id)) if change.before and change.after else {}
        for step in steps:
            match step:
                case Forgotten(object_id):
                    self._erase(object_id)
                case Ended(entry, seq) if entry.passage.part in rows:
                    self._end(rows.pop(entry.passage.part), entry, seq)
                case Ended():
                    pass  # no such row
                case Touched(entry) if entry.passage.part in rows:
                    self._touch(rows[entry.passage.part], step)
                case Began(entry, seq) | Touched(entry, seq):
                    self._begin(entry, seq)

    def ties(self, extractor: Extractor, carried: CarriedTies | None = None) -> Iterator[Mapping[int, Ties | None]]:
        """Yield batches of passages with their new ties, or `None` to remove them from the graph.

        Ties that `carried` returns are not extracted again.
        """
        waiting = list(self.retied)
        for start in range(0, len(waiting), _BATCH):
            keys = waiting[start : start + _BATCH]
            entries = {key: entry for key in keys if (entry := self.retied[key])}
            parts = {key: (entry.passage.object_id, entry.passage.part) for key, entry in entries.items()}
            known = carried(list(parts.values())) if carried and parts else {}
            ties: dict[int, Ties] = {key: known[part] for key, part in parts.items() if part in known}
            left = {key: entry for key, entry in entries.items() if key not in ties}
            ties |= zip(left, ties_in(list(left.values()), extractor), strict=True)
            yield {key: ties.get(key) for key in keys}

    def _begin(self, entry: Entry, seq: int) -> None:
        key, text = self.rows.begin(entry, seq)
        self.texts.add(text)
        if entry.passage.live:
            self.gists[text] = entry.passage.gist
            self.gained[text] += 1
            self._retie(key, entry)
            self._name(key, come=entry)

    def _end(self, key: int, entry: Entry, seq: int) -> None:
        text = self.rows.end(key, entry, seq).text
        self._lose(text)
        if entry.passage.live:
            self.gained[text] -= 1
            self._retie(key, None)
            self._name(key, gone=entry)

    def _touch(self, key: int, step: Touched) -> None:
        entry = step.entry
        self.rows.touch(key, step)
        if entry.passage.live and step.retied:
            self._retie(key, entry)
        if entry.passage.live and entry.code_names != step.was.code_names:
            self._name(key, gone=step.was, come=entry)

    def _erase(self, object_id: str) -> None:
        for key, text, current in self.rows.erase(object_id):
            self.gained[text] -= current
            self._lose(text)
            self._retie(key, None)
            self.come.pop(key, None)
            self.gone.pop(key, None)
            self.unnamed += [key] if current else []
            self.erased.append(key)

    def _lose(self, text: int) -> None:
        self.texts.add(text)
        self.lost.add(text)

    def _retie(self, key: int, entry: Entry | None) -> None:
        self.retied[key] = entry
        self.revealed.append(key)

    def _name(self, key: int, *, gone: Entry | None = None, come: Entry | None = None) -> None:
        """Note which names of code a passage no longer has, and which it has from now on."""
        if gone and key not in self.come:
            self.gone.setdefault(key, gone.code_names)
        self.come.pop(key, None)
        if come and (names := come.code_names):
            self.come[key] = names


PASSAGE_COLUMNS = (
    *("object_id", "part", "position", "type", "kind", "status", "role", "title", "heading", "origin", "channel"),
    *("created_at", "updated_at", "live", "place_role"),
)
"""The columns of a passage with its own content. A row also has a key, scope, text and sequence numbers."""

FILTERED_COLUMNS: Mapping[str, str] = {
    **{name: f"p.{name}" for name in ("type", "kind", "status", "origin", "title", "channel")},
    "created_at": "p.created_at",
    "updated_at": "p.updated_at",
    "role": "p.place_role",
}
"""The columns of `passages p` by filter field. The scope is stored as a number and therefore missing."""

Value = str | int | bool | None


def passage_values(passage: Passage, position: int) -> tuple[Value, ...]:
    """Return the values of `PASSAGE_COLUMNS`."""
    return (
        *(passage.object_id, passage.part, position, passage.type, passage.kind, passage.status, passage.role),
        *(passage.title, passage.heading, passage.origin or None, passage.channel),
        *(render_time(passage.created_at), render_time(passage.updated_at), passage.live, passage.place_role),
    )


def day_values(passage: Passage) -> list[tuple[int, int]]:
    """Return the periods of days on which a turn was written or that it mentions, as ordinals."""
    return [(first.toordinal(), last.toordinal()) for first, last in days_of(passage)]


MOST_NAMED = 20
"""The maximal number of differences in a report."""

Place = tuple[str, str, int]
"""Object id, part and first sequence number: identify a row independent of its key."""

NOWHERE: Place = ("", "", 0)
"""The place of entries that belong to no passage."""


def compared(wanted: Mapping[Place, int], actual: Mapping[Place, int]) -> Iterator[str]:
    """Yield a description of each difference between hashes of rows."""
    for place in sorted(wanted.keys() | actual.keys()):
        identity, part, seq = place
        name = " ".join(filter(None, (identity, part))) or "entries without a passage"
        if place not in actual:
            yield f"{name} (from {seq}) is missing"
        elif place not in wanted:
            yield f"{name} (from {seq}) should not be there"
        elif wanted[place] != actual[place]:
            yield f"{name} (from {seq}) does not match the ledger"


MOST_CANDIDATES = 2_000
"""The maximal number of passages with a matching ending that are ranked."""

_KEPT_CHARS = 24
_LAST = "\U0010ffff"


def endings_of(names: Iterable[str]) -> set[str]:
    """Return the reversed last characters of names: "ends with" becomes a range in an ordered index."""
    return {_backwards(name.casefold()) for name in names if name}


def ending_range(text: str) -> tuple[str, str] | None:
    """Return the range of endings of names that may end with a text, or `None` if the text is too short."""
    folded = text.casefold()
    if len(folded) < TUNING.question.min_name_end_chars:
        return None
    ending = _backwards(folded)
    return ending, ending + _LAST


def ranked_places(
    text: str, exact: Iterable[int], named: Iterable[tuple[int, Sequence[str]]], limit: int
) -> list[Scored]:
    """Rank passages by the share of their name that a text covers, 1 for the whole name.

    `exact`: passages with this id. `named`: other passages, with their names. A match that begins inside a word scores
    half.
    """
    best: dict[int, float] = dict.fromkeys(exact, 1.0)
    for key, names in named:
        best[key] = max(best.get(key, 0.0), name_share(tuple(names), text))
    return _first(best, limit)


def _first(shares: Mapping[int, float], limit: int) -> list[Scored]:
    ranked = sorted(((key, share) for key, share in shares.items() if share), key=lambda item: (-item[1], item[0]))
    return [Scored(key, share) for key, share in ranked[:limit]]


def _backwards(folded: str) -> str:
    return folded[: -_KEPT_CHARS - 1 : -1]


def _places(places: Iterable[str]) -> str:
    return "place_role IN (" + ", ".join(f"'{place}'" for place in sorted(places)) + ")"


# Not `CASE role WHEN`, because Citus generates incorrect SQL for it on its workers.
_TURNS = ", ".join(f"'{kind}'" for kind in sorted(DIALOGUE_KINDS))
_RANKS = (
    f"WHEN {_places({GENERATED})} OR (role IN ('code', 'data') AND NOT {_places({NO_PLACE})}) THEN NULL "
    f"WHEN role = 'code' THEN {CODE} WHEN role = 'data' THEN {DATA} WHEN kind IN ({_TURNS}) THEN {TURN} "
    f"WHEN {_places(SUPPORTING_PLACES)} THEN {SUPPORT} WHEN role = 'symbol' THEN {SYMBOL} ELSE {PARAGRAPH}"
)

PRIORITY = f"min(CASE {_RANKS} END)"
"""The priority for embedding a text, as an SQL aggregate over its passages (`projection.priority_of`).

Lower numbers come first. NULL if no passage benefits from an embedding.
"""


def gists_of(objects: Iterable[Object]) -> dict[str, str]:
    """Return the texts to embed of objects, by content hash."""
    return {gist_hash(passage): passage.gist for item in objects for passage in passages_of(item)}
