"""From the steps of changes to rows of passages, and what the other parts of an index have to settle afterwards."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from treering.derived.projection import Began, Ended, Entry, Forgotten, Step, Touched, ties_in
from treering.derived.ties import Ties
from treering.ports.extractor import Extractor
from treering.ports.projection import Change

_BATCH = 500  # passages read for the graph at a time


class PlacedRow(NamedTuple):
    """A row of a passage: its key, and the number of its text."""

    key: int
    text: int


class ErasedRow(NamedTuple):
    """A row that was erased, and whether it was current."""

    key: int
    text: int
    current: bool


class PassageRows(Protocol):
    """The rows of passages of one space, inside its write transaction."""

    def open_rows(self, object_id: str) -> Mapping[str, int]:
        """Return the keys of the rows of an object that have not ended, by part."""
        ...

    def begin(self, entry: Entry, seq: int) -> PlacedRow:
        """Keep a passage that stands from `seq` on, with all that it is found by but vector, ties and names."""
        ...

    def end(self, key: int, entry: Entry, seq: int) -> PlacedRow:
        """Note that a passage stood until before `seq`, as `entry` says it."""
        ...

    def touch(self, key: int, entry: Entry) -> None:
        """Change what of a passage may change while it stays."""
        ...

    def erase(self, object_id: str) -> Iterable[ErasedRow]:
        """Remove all rows of an object, of whatever time."""
        ...


@dataclass(slots=True)
class PassageFold:
    """One run of changes, applied to rows; its fields say what has to be settled at its end."""

    rows: PassageRows
    texts: set[int] = field(default_factory=set)
    """Texts that gained or lost a passage."""
    lost: set[int] = field(default_factory=set)
    """Texts that lost a passage."""
    revealed: list[int] = field(default_factory=list)
    """Passages that begin or cease to be current, or whose ties change."""
    told: dict[int, Entry | None] = field(default_factory=dict)
    """What the graph has to hold of passages that came, went or say something else."""
    come: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Names of code that passages vouch for now and did not before, by key."""
    gone: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Names of code that passages vouched for before and may do no longer."""
    unnamed: list[int] = field(default_factory=list)
    """Passages of erased objects that may have vouched for names, of which nobody knows which."""
    erased: bool = False
    shown: int = 0
    """How many more passages are current than before."""

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
                    pass  # it was not there
                case Touched(entry) if entry.passage.part in rows:
                    self._touch(rows[entry.passage.part], step)
                case Began(entry, seq) | Touched(entry, seq):
                    self._begin(entry, seq)

    def ties(self, extractor: Extractor) -> Iterator[Mapping[int, Ties | None]]:
        """Read what the graph has to hold of passages, some at a time; `None` for those that are gone from it."""
        waiting = list(self.told)
        for start in range(0, len(waiting), _BATCH):
            keys = waiting[start : start + _BATCH]
            known = {key: entry for key in keys if (entry := self.told[key])}
            read = dict(zip(known, ties_in(list(known.values()), extractor), strict=True))
            yield {key: read.get(key) for key in keys}

    def _begin(self, entry: Entry, seq: int) -> None:
        key, text = self.rows.begin(entry, seq)
        self.texts.add(text)
        if entry.passage.live:
            self.shown += 1
            self._tell(key, entry)
            self._name(key, come=entry)

    def _end(self, key: int, entry: Entry, seq: int) -> None:
        self._lose(self.rows.end(key, entry, seq).text)
        if entry.passage.live:
            self.shown -= 1
            self._tell(key, None)
            self._name(key, gone=entry)

    def _touch(self, key: int, step: Touched) -> None:
        entry = step.entry
        self.rows.touch(key, entry)
        if entry.passage.live and step.retied:
            self._tell(key, entry)
        if entry.passage.live and entry.code_names != step.was.code_names:
            self._name(key, gone=step.was, come=entry)

    def _erase(self, object_id: str) -> None:
        for key, text, current in self.rows.erase(object_id):
            self.shown -= current
            self._lose(text)
            self._tell(key, None)
            self.come.pop(key, None)
            self.gone.pop(key, None)
            self.unnamed += [key] if current else []
        self.erased = True

    def _lose(self, text: int) -> None:
        self.texts.add(text)
        self.lost.add(text)

    def _tell(self, key: int, told: Entry | None) -> None:
        self.told[key] = told
        self.revealed.append(key)

    def _name(self, key: int, *, gone: Entry | None = None, come: Entry | None = None) -> None:
        """Note which names of code a passage vouches for no longer, and which from now on."""
        if gone and key not in self.come:
            self.gone.setdefault(key, gone.code_names)
        self.come.pop(key, None)
        if come and (names := come.code_names):
            self.come[key] = names
