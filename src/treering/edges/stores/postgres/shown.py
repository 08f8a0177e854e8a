"""The current passages of a space in memory, as of one moment: where each stands, and how long it is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from treering.derived.roles import PLACE_ROLES
from treering.edges.stores.postgres.exchange import Row
from treering.edges.stores.postgres.transactions import Transaction

Keys = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]

_COLUMNS = ("key", "scope_id", "terms", "trigrams", "array_position(%(roles)s::text[], place_role)")
_JOINED = ", ".join(f"string_agg(int4send(coalesce({column}, 0)::integer), ''::bytea)" for column in _COLUMNS)
_CURRENT = f"SELECT {_JOINED} FROM passages WHERE space = %(space)s AND live AND until_seq IS NULL"  # noqa: S608 - ours
_SOME = f"{_CURRENT} AND key = ANY(%(keys)s::bigint[])"


@dataclass(frozen=True, slots=True)
class Shown:
    """What is current, by key: arrays that have a 0 where a passage is not."""

    scopes: Numbers
    terms: Numbers
    trigrams: Numbers
    roles: Numbers
    """The number of the role in `PLACE_ROLES`, counted from 1."""

    def among(self, keys: Keys) -> Keys:
        """Return the places of the keys, in their array, that are current."""
        inside = np.flatnonzero(keys < len(self.scopes))
        return inside[self.scopes[keys[inside]] > 0]

    def keys(self) -> Keys:
        """Return all keys."""
        return np.flatnonzero(self.scopes)

    def in_scopes(self, scopes: frozenset[int]) -> npt.NDArray[np.bool_]:
        """Tell, by key, which stand in some scopes."""
        seen = np.zeros(max(int(self.scopes.max(initial=0)), *scopes, 0) + 1, np.bool_)
        seen[list(scopes)] = True
        seen[0] = False
        return seen[self.scopes]

    def in_role(self, role: str) -> npt.NDArray[np.bool_]:
        """Tell, by key, which are of places in a role."""
        number = PLACE_ROLES.index(role) + 1 if role in PLACE_ROLES else -1
        of_role: npt.NDArray[np.bool_] = self.roles == number
        return of_role


def load_shown(transaction: Transaction) -> Shown:
    """Read all current passages."""
    found = _columns(transaction.rows(_CURRENT, roles=list(PLACE_ROLES))[0])
    size = int(found[0].max(initial=-1)) + 1
    return Shown(*(_placed(np.zeros(size, np.int32), found[0], column) for column in found[1:]))


def renewed_shown(transaction: Transaction, shown: Shown, changed: Sequence[int]) -> Shown:
    """Read some passages again; those of them that are not current are left out."""
    found = _columns(transaction.rows(_SOME, roles=list(PLACE_ROLES), keys=list(changed))[0])
    size = max(len(shown.scopes), max(changed, default=-1) + 1)
    columns: list[Any] = []
    for old, column in zip((shown.scopes, shown.terms, shown.trigrams, shown.roles), found[1:], strict=True):
        grown = np.zeros(size, np.int32)
        grown[: len(old)] = old
        grown[list(changed)] = 0
        columns.append(_placed(grown, found[0], column))
    return Shown(*columns)


def _columns(row: Row) -> list[Numbers]:
    return [integers(column) for column in row]


def integers(joined: bytes | None) -> Numbers:
    """Return the integers whose bytes the server put one behind the other (`int4send`)."""
    return np.frombuffer(joined or b"", ">i4").astype(np.int32)


def _placed(column: Numbers, keys: Numbers, values: Numbers) -> Numbers:
    column[keys] = values
    return column
