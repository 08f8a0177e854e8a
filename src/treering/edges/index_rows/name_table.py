"""Names of the nodes of the graph in memory: about 40 bytes for each beside its letters."""

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from treering.edges.index_rows.graph_names import entity_name, plain_name, stored_name

Numbers = npt.NDArray[np.int64]
Codes = npt.NDArray[np.uint64]

_DIGEST = 16
_CODE = 8
_MOST_RECENT = 1_024
_RECENT_SHARE = 8


def name_digest(stored: bytes) -> bytes:
    """Return what an index finds a name by, however long it is."""
    return blake2b(stored, digest_size=_DIGEST).digest()


@dataclass(frozen=True, slots=True)
class PackedNames:
    """Names in the order of their numbers: the stored form of the i-th is `text[ends[i - 1]:ends[i]]`.

    `codes`: the beginning of the digest of each, as a number.
    """

    numbers: Numbers
    codes: Codes
    ends: Numbers
    text: bytearray

    @classmethod
    def of(cls, names: Iterable[tuple[int, bytes]]) -> "PackedNames":
        """Pack names by number, which are in ascending order."""
        pairs = list(names)
        digests = b"".join(name_digest(name)[:_CODE] for _, name in pairs)
        return cls.joined(
            [number for number, _ in pairs], digests, [len(name) for _, name in pairs], b"".join(n for _, n in pairs)
        )

    @classmethod
    def joined(
        cls, numbers: Sequence[int] | Numbers, codes: bytes, lengths: Sequence[int] | Numbers, text: bytes
    ) -> "PackedNames":
        """Pack names whose parts are joined already."""
        ends = np.cumsum(np.asarray(lengths, np.int64))
        return cls(np.asarray(numbers, np.int64), np.frombuffer(codes, ">u8").astype(np.uint64), ends, bytearray(text))

    def __len__(self) -> int:
        return len(self.numbers)

    def name(self, row: int) -> bytes:
        """Return the stored form of one name."""
        return bytes(self.text[self._letters(row)])

    def blank(self, row: int) -> None:
        """Overwrite the letters of one name."""
        letters = self._letters(row)
        self.text[letters] = bytes(letters.stop - letters.start)

    def pairs(self) -> list[tuple[int, bytes]]:
        """Return numbers and names."""
        return [(number, self.name(row)) for row, number in enumerate(self.numbers.tolist())]

    def _letters(self, row: int) -> slice:
        return slice(int(self.ends[row - 1]) if row else 0, int(self.ends[row]))


class NameTable:
    """`NodeNames` in memory. Safe to use from many threads. A number is never given to another name.

    Most names are packed, and found by bisection; the newest lie beside them until there are many.
    """

    def __init__(self) -> None:
        self.last = 0
        """The greatest number that was ever put."""
        self._lock = threading.Lock()
        self._gone: set[int] = set()
        self._recent: dict[int, bytes] = {}
        self._recent_numbers: dict[bytes, int] = {}
        self._pack(PackedNames.of(()))

    def put(self, names: PackedNames) -> None:
        """Keep names whose numbers are greater than all before."""
        if not len(names):
            return
        with self._lock:
            self.last = int(names.numbers[-1])
            if len(names) > _MOST_RECENT and not len(self._packed) and not self._recent:
                self._pack(names)
                return
            for number, name in names.pairs():
                self._recent[number] = name
                self._recent_numbers[name] = number
            self._settle()

    def discard(self, numbers: Iterable[int]) -> None:
        """Forget names by number; one that is not there is no error. The letters are overwritten in memory."""
        with self._lock:
            for number in numbers:
                if (name := self._recent.pop(number, None)) is not None:
                    del self._recent_numbers[name]
                elif (row := self._row_of(number)) is not None:
                    self._packed.blank(row)
                    self._gone.add(number)
            self._settle()

    def numbers_of(self, keys: Sequence[str]) -> Mapping[str, int]:
        """Return the numbers of those of the entity keys that are known."""
        with self._lock:
            found = ((key, self._find(stored_name(entity_name(key)))) for key in keys)
            return {key: number for key, number in found if number is not None}

    def names_of(self, numbers: Sequence[int]) -> Mapping[int, str]:
        """Return the keys of entities, the ids of objects."""
        with self._lock:
            found = ((number, self._name(number)) for number in numbers)
            return {number: plain_name(name) for number, name in found if name is not None}

    def _find(self, name: bytes) -> int | None:
        if (number := self._recent_numbers.get(name)) is not None:
            return number
        [code] = np.frombuffer(name_digest(name)[:_CODE], ">u8").astype(np.uint64)
        first, last = (np.searchsorted(self._codes, code, side) for side in ("left", "right"))
        for row in self._rows[first:last].tolist():
            if self._packed.name(row) == name and (number := int(self._packed.numbers[row])) not in self._gone:
                return number
        return None

    def _name(self, number: int) -> bytes | None:
        if (name := self._recent.get(number)) is not None:
            return name
        row = self._row_of(number)
        return None if row is None or number in self._gone else self._packed.name(row)

    def _row_of(self, number: int) -> int | None:
        row = int(np.searchsorted(self._packed.numbers, number))
        return row if row < len(self._packed) and self._packed.numbers[row] == number else None

    def _settle(self) -> None:
        """Pack the newest names once there are many, without those that are gone."""
        if max(len(self._recent), len(self._gone)) > max(_MOST_RECENT, len(self._packed) // _RECENT_SHARE):
            kept = (pair for pair in self._packed.pairs() if pair[0] not in self._gone)
            self._pack(PackedNames.of((*kept, *self._recent.items())))

    def _pack(self, names: PackedNames) -> None:
        self._packed = names
        self._rows = np.argsort(names.codes, kind="stable")
        self._codes = names.codes[self._rows]
        self._recent.clear()
        self._recent_numbers.clear()
        self._gone.clear()
