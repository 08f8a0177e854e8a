"""The log by which tables in memory follow a database: of the passages whose vector, words or ties came or went."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from treering.ports.passages import Reach
from treering.retrieval.index.tables import Keys

Moment = tuple[int, int]
"""Epoch and position in the log: what a table in memory has seen.

The epoch is counted up when passages get new keys, so that tables start over.
"""

LOG_KEPT = 50_000
"""Entries that are kept. Who has fallen further behind loads everything anew."""


class PassageLog(Protocol):
    """The log, as one transaction sees it."""

    def moment(self) -> Moment:
        """Return the moment of the transaction's snapshot."""
        ...

    def logged_after(self, position: int) -> Sequence[int] | None:
        """Return the passages logged after a position, or `None` where the log does not reach back so far."""
        ...


def follow_log(
    log: PassageLog, seen: Moment | None, *, load: Callable[[], None], reread: Callable[[Sequence[int]], None]
) -> Moment:
    """Bring a table in memory to the moment of a snapshot; return what it has seen then.

    `reread` is told the passages logged since; `load` starts over where the log does not reach back so far. A
    snapshot older than the table changes nothing: what has gone since is re-checked in the ledger.
    """
    now = log.moment()
    if seen is not None and now <= seen:
        return seen
    changed = log.logged_after(seen[1]) if seen and seen[0] == now[0] else None
    if changed is None:
        load()
    elif changed:
        reread(changed)
    return now


# A moment of the feed that engines follow, where a log of passages and the audit log lie in a database.


@dataclass(frozen=True, slots=True)
class FeedPlace:
    """The epoch of passage keys, a position in the log of passages, and the head of the audit log.

    The head tells a copy of the space that went another way. Written `epoch:position:sequence:hash`.
    """

    epoch: int
    position: int
    sequence: int
    hash: str

    def __str__(self) -> str:
        return f"{self.epoch}:{self.position}:{self.sequence}:{self.hash}"

    @classmethod
    def read(cls, moment: str) -> "FeedPlace | None":
        """Read a moment; `None` where it is not a moment of such a feed."""
        match moment.split(":"):
            case [epoch, position, sequence, told] if all(part.isdecimal() for part in (epoch, position, sequence)):
                return cls(int(epoch), int(position), int(sequence), told)
        return None

    def at(self, position: int) -> "FeedPlace":
        """Return the same at another position of the log."""
        return replace(self, position=position)


def short_hash(text: str) -> str:
    """Return as much of the hash of an audit event as a moment keeps."""
    return text.removeprefix("sha256:")[:16]


# Which current passages pass a filter: asked of the database once, and remembered until something is written.


_KEPT = 8

Scopes = frozenset[int] | None
"""The numbers of the scopes that a reach sees; `None` for all of them."""


class PassingCache:
    """Keys of passages by what a read may see of them. Safe to use from many threads."""

    def __init__(self) -> None:
        self._known: tuple[Hashable, dict[str, Keys]] = ((), {})

    def of(self, state: Hashable, reach: Reach, scopes: Scopes, read: Callable[[Reach, Scopes], Keys]) -> Keys:
        """Return the keys that `read` gives; `state` changes whenever anything is written."""
        if self._known[0] != state:
            self._known = (state, {})
        # The time a read asks for decides nothing here, and is another for every read. And Python takes a filter for 1
        # and one for True to be equal.
        known, asked = self._known[1], repr((replace(reach, now=None), scopes))
        if (keys := known.get(asked)) is None:
            if len(known) >= _KEPT:
                known.clear()
            keys = known[asked] = read(reach, scopes)
        return keys
