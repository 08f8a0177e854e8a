"""Which current passages pass a filter: asked of the database once, and remembered until something is written."""

from collections.abc import Callable, Hashable
from dataclasses import replace

from treering.derived.vectors import Keys
from treering.ports.reach import Reach

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
