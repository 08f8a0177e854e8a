"""What a read may see, as scope tokens for full text and as SQL over passages."""

from dataclasses import dataclass, replace
from weakref import ref

import apsw

from treering.core.filters import EVERYTHING, And, Compare
from treering.core.scope import ROOT, sees
from treering.ports.passages import Reach
from treering.stores.rows.fold import role_term, seen_terms
from treering.stores.sqlite.filters import ALWAYS, Condition, condition, joined
from treering.stores.sqlite.index.tables import Integers, fts_query, integers


@dataclass(frozen=True, slots=True)
class Sight:
    """A reach worked out against the scopes a space has. `scopes` is `None` where all of them are seen."""

    reach: Reach
    scopes: frozenset[int] | None
    role: str = ""
    """The role of places to which it is narrowed, besides the filter; empty for all."""

    @property
    def of_history(self) -> bool:
        """Tell whether more than what is current now is seen."""
        return self.reach.withdrawn or self.reach.at is not None

    @property
    def filtered(self) -> bool:
        """Tell whether more than the scope narrows what is seen."""
        return self.reach.where != EVERYTHING

    def condition(self) -> Condition:
        """Write all of it as SQL over passages."""
        return joined([self.state(), self.place(), self.filter()], "AND")

    def state(self) -> Condition:
        """Write as SQL which rows are seen by their state."""
        if (at := self.reach.at) is not None:
            return Condition("(p.from_seq <= ? AND (p.until_seq IS NULL OR p.until_seq > ?))", (at, at))
        return Condition("(p.until_seq IS NULL)" if self.reach.withdrawn else "(p.live = 1 AND p.until_seq IS NULL)")

    def place(self) -> Condition:
        """Write as SQL which rows are seen by their scope."""
        if self.scopes is None:
            return ALWAYS
        return Condition(f"(p.scope_id IN ({','.join(map(str, sorted(self.scopes)))}))")

    def filter(self) -> Condition:
        """Write as SQL which rows pass the filter."""
        return condition(self.reach.where)

    def in_role(self, role: str) -> "Sight":
        """Narrow it to places in one role."""
        if self.of_history:  # of what is past the rows alone know the role
            narrowed = And((self.reach.where, Compare("role", "eq", role)))
            return replace(self, reach=replace(self.reach, where=narrowed))
        return replace(self, role=role)

    def match(self, terms: str) -> str:
        """Narrow an FTS5 expression over the word tables to the scopes and the role that are seen."""
        scopes = self.match_of_scopes()
        return f"{scopes} AND {terms}" if scopes else terms

    def match_of_scopes(self) -> str:
        """Write the scopes and the role that are seen as an FTS5 expression; empty where there is no such bound."""
        bounds = [] if self.scopes is None else [f"scope : {fts_query(seen_terms(self.reach))}"]
        if self.role:
            bounds.append(f"scope : {fts_query([role_term(self.role)])}")
        return " AND ".join(bounds)


def sight(connection: apsw.Connection, reach: Reach) -> Sight:
    """Work out which of the space's scopes a reach sees."""
    if reach.descend and reach.scope == ROOT:
        return Sight(reach, None)
    known = list(connection.execute("SELECT id, scope FROM passage_scopes"))
    seen = frozenset(scope_id for scope_id, scope in known if sees(reach.scope, scope, descend=reach.descend))
    # A scope token makes every query walk another list of postings; it is left out where it narrows nothing.
    return Sight(reach, None if len(seen) == len(known) else seen)


# Which current passages pass a filter: asked of SQL once, and remembered until something is written.


_FILTERS_KEPT = 8

_State = tuple[ref[apsw.Connection], int, int]


class PassingKeys:
    """Keys of current passages by what a read may see of them. Safe to use from many threads."""

    def __init__(self) -> None:
        self._known: tuple[_State | None, dict[str, Integers]] = (None, {})

    def of(self, connection: apsw.Connection, sight: Sight) -> Integers:
        """Return the keys of the current passages in sight, in no order."""
        # The time a read asks for decides nothing here, and is another for every read.
        seen = replace(sight, reach=replace(sight.reach, now=None, withdrawn=False))
        asked = repr(seen)  # not the value: Python takes a filter for 1 and one for True to be equal
        state = written_state(connection)
        known_state, known = self._known
        if known_state != state:
            known = {}
            self._known = (state, known)
        if (keys := known.get(asked)) is None:
            if len(known) >= _FILTERS_KEPT:
                known.clear()
            keys = known[asked] = _keys(connection, seen)
        return keys


def written_state(connection: apsw.Connection) -> _State:
    """Return what changes whenever anything is written, here or by another connection."""
    # Not its id(): a thread that ends leaves that to the connection of another one, whose counters begin alike.
    return ref(connection), int(connection.pragma("data_version")), connection.total_changes()


def _keys(connection: apsw.Connection, sight: Sight) -> Integers:
    seen = sight.condition()
    sql = f"SELECT group_concat(p.key) FROM passages p WHERE {seen.sql}"  # noqa: S608 - only our own SQL
    return integers(next(connection.execute(sql, seen.bindings))[0])
