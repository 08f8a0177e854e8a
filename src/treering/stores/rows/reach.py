"""The scopes and passages that a read may see, and the index terms for them."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b

from treering.core.filters import EVERYTHING
from treering.core.scope import ROOT, is_within, lineage
from treering.ports.passages import Passage, Reach
from treering.retrieval.index.code_places import NO_PLACE
from treering.retrieval.index.tables import Keys

_MAX_CACHED_FILTERS = 8

Scopes = frozenset[int] | None
"""The numbers of the scopes that a reach includes; `None` for all scopes."""


@dataclass(frozen=True, slots=True)
class SeenReach:
    """A reach with the numbers of the scopes it includes in one space."""

    reach: Reach
    scopes: Scopes

    @property
    def of_history(self) -> bool:
        """Whether the reach includes passages that are not current."""
        return self.reach.withdrawn or self.reach.at is not None

    @property
    def filtered(self) -> bool:
        """Whether the reach has a filter besides its scope."""
        return self.reach.where != EVERYTHING


class PassingCache:
    """A cache of the passages that pass a filter, until the space changes. Thread-safe."""

    def __init__(self) -> None:
        self._cache: tuple[Hashable, dict[str, Keys]] = ((), {})

    def of(self, state: Hashable, reach: Reach, scopes: Scopes, read: Callable[[Reach, Scopes], Keys]) -> Keys:
        """Return the keys that `read` returns. The cache is cleared when `state` changes."""
        if self._cache[0] != state:
            self._cache = (state, {})
        # `now` does not affect the result, but differs in every read. The text is the key because Python considers
        # filters for 1 and for True equal.
        cached, key = self._cache[1], repr((replace(reach, now=None), scopes))
        if (keys := cached.get(key)) is None:
            if len(cached) >= _MAX_CACHED_FILTERS:
                cached.clear()
            keys = cached[key] = read(reach, scopes)
        return keys


def sees_all_scopes(reach: Reach) -> bool:
    """Return whether a reach includes every possible scope."""
    return reach.descend and reach.scope == reach.boundary.scope == ROOT


def scopes_seen(known: Sequence[tuple[int, str]], reach: Reach) -> Scopes:
    """Return the numbers of the scopes that a reach includes. `known`: number and name of each scope of the space."""
    if sees_all_scopes(reach):
        return None
    seen = frozenset(number for number, scope in known if reach.sees(scope))
    return None if len(seen) == len(known) else seen


def place_terms(passage: Passage) -> list[str]:
    """Return the index terms for the scope of a passage, the scopes that contain it, and the role of its place."""
    scopes = scope_terms(passage.scope)
    return [*scopes] if passage.place_role == NO_PLACE else [*scopes, role_term(passage.place_role)]


@lru_cache(maxsize=256)  # all passages of a source have the same scope
def scope_terms(scope: str) -> tuple[str, ...]:
    """Return a term for a scope itself, and one for each scope that contains it."""
    return (_exact(scope), *map(_within, lineage(scope)))


def seen_terms(reach: Reach) -> list[str]:
    """Return the scope terms of which a passage in reach has at least one."""
    limit = reach.boundary.scope
    lowest = limit if is_within(limit, reach.scope) else reach.scope
    terms = [_exact(scope) for scope in lineage(lowest) if reach.sees(scope)]
    return [*terms, _within(lowest)] if reach.descend and reach.sees(lowest) else terms


def role_term(role: str) -> str:
    """Return the index term for a role of places. It differs from all scope terms."""
    return f"_{role}"


def _exact(scope: str) -> str:
    return "_" + _hashed("=" + scope)


def _within(scope: str) -> str:
    return "_" + _hashed("<" + scope)


def _hashed(text: str) -> str:
    return blake2b(text.encode(), digest_size=6).hexdigest()
