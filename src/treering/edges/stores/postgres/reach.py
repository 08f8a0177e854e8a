"""What a read may see, as SQL over passages."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from treering.core.filters import EVERYTHING
from treering.core.scope import ROOT, sees
from treering.edges.stores.postgres.exchange import Row
from treering.edges.stores.postgres.filters import PassageCondition, condition
from treering.edges.stores.postgres.transactions import Transaction
from treering.ports.reach import Reach

SCOPES = "SELECT id, scope FROM passage_scopes WHERE space = %(space)s"


@dataclass(frozen=True, slots=True)
class PassageSight:
    """A reach worked out against the scopes a space has. `scopes` is `None` where all of them are seen."""

    reach: Reach
    scopes: frozenset[int] | None

    @property
    def of_history(self) -> bool:
        """Tell whether more than what is current now is seen."""
        return self.reach.withdrawn or self.reach.at is not None

    @property
    def filtered(self) -> bool:
        """Tell whether more than the scope narrows what is seen."""
        return self.reach.where != EVERYTHING

    def condition(self) -> PassageCondition:
        """Write all of it as SQL over `passages p`, the space apart."""
        where = condition(self.reach.where)
        bindings = dict(where.bindings)
        parts = [self._state(), where.sql]
        if self.reach.at is not None:
            bindings["at"] = self.reach.at
        if self.scopes is not None:
            bindings["seen_scopes"] = sorted(self.scopes)
            parts.append("p.scope_id = ANY(%(seen_scopes)s::integer[])")
        return PassageCondition(f"({' AND '.join(parts)})", bindings)

    def beyond_scope(self) -> PassageCondition:
        """Write all of it but the scope, of what is current."""
        return replace(self, scopes=None).condition()

    def _state(self) -> str:
        if self.reach.at is not None:
            return "(p.from_seq <= %(at)s AND (p.until_seq IS NULL OR p.until_seq > %(at)s))"
        return "p.until_seq IS NULL" if self.reach.withdrawn else "(p.live AND p.until_seq IS NULL)"


def sight(transaction: Transaction, reach: Reach) -> PassageSight:
    """Work out which of the space's scopes a reach sees."""
    return sights(transaction, [reach])[0]


def sights(transaction: Transaction, reaches: Sequence[Reach]) -> list[PassageSight]:
    """Work out which of the space's scopes each reach sees. The scopes are read once, where any of them asks."""
    known = transaction.rows(SCOPES) if any(map(_asks, reaches)) else []
    return [sight_among(known, reach) for reach in reaches]


def sight_among(known: Sequence[Row], reach: Reach) -> PassageSight:
    """Work out which of some scopes (number and name) a reach sees."""
    if not _asks(reach):
        return PassageSight(reach, None)
    seen = frozenset(number for number, scope in known if sees(reach.scope, scope, descend=reach.descend))
    return PassageSight(reach, None if len(seen) == len(known) else seen)


def _asks(reach: Reach) -> bool:
    return not (reach.descend and reach.scope == ROOT)
