"""The port of search by meaning: vectors of passages, and the queue of texts that wait for one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from treering.ports.reach import Reach

Vector = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class NearRequest:
    """What to compare with some vectors (`float32[dimension]`, unit length).

    The `limits[i]` passages nearest to `vectors[i]` are looked for, and `keys` are compared besides.
    """

    reach: Reach
    vectors: tuple[Vector, ...]
    limits: tuple[int, ...]
    keys: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Near:
    """The passages that are nearest to any of the vectors, and exact cosines."""

    found: frozenset[int]
    cosines: Sequence[Mapping[int, float]]
    """By vector: the cosine of each passage in `found` or asked for by key that has a vector."""


@dataclass(frozen=True, slots=True)
class Lag:
    """How many live passages wait for their vector, of how many.

    `behind`: how many objects or changes the index does not know yet, because it is being made anew, or lives
    elsewhere and is late (`ports.index.Behind`). Their passages are in neither of the two numbers.
    """

    pending: int
    total: int
    behind: int = 0


@dataclass(frozen=True, slots=True)
class Pending:
    """A text that waits to be embedded, by content hash."""

    text_hash: str
    text: str


class Vectors(Protocol):
    """The vectors that one model made for one space; what another model made is never mixed with them."""

    def search(self, requests: Sequence[NearRequest]) -> Sequence[Near]:
        """Compare for several requests, in one round trip; the answers are in their order."""
        ...

    def lag(self) -> Lag:
        """Tell how far vectors lag behind."""
        ...

    def pending(self, limit: int) -> Sequence[Pending]:
        """Return texts that wait for a vector: prose and symbols first, bodies of code and data last."""
        ...

    def add(self, vectors: Mapping[str, Vector]) -> None:
        """Keep vectors by content hash, durably; a text never needs embedding twice.

        Raises `InvalidInput` for a vector of another dimension.
        """
        ...


@runtime_checkable
class KeptVectors(Protocol):
    """An ability that an index may have: it gives back the vectors it keeps, so that another one need not make them."""

    def known(self, text_hashes: Sequence[str]) -> Mapping[str, Vector]:
        """Return the vectors of those of the texts, by content hash, that have one of this model."""
        ...


class VectorClaims(Protocol):
    """Shares out the texts that wait for a vector among any number of processes, each text to one of them.

    A claim is given up by `Vectors.add` of its text, by `give_back`, or by not being renewed: what a process that died
    had claimed is anybody's once its time is over. `owner` is new for every run.
    """

    def claim(self, owner: str, limit: int, *, seconds: float) -> Sequence[Pending]:
        """Claim texts that nobody has claimed, at most so many, for so many seconds; return them.

        Nobody is waited for. The order is that of `Vectors.pending`.
        """
        ...

    def renew(self, owner: str, *, seconds: float) -> None:
        """Keep what `owner` still has claimed for so many seconds from now on."""
        ...

    def give_back(self, owner: str) -> None:
        """Let others have what `owner` has claimed and not done."""
        ...

    def claimed_by_others(self, owner: str) -> int:
        """Count the texts that others are at."""
        ...
