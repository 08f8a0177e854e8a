"""What a read may see, as scope tokens for full text and as SQL over passages."""

from dataclasses import dataclass, replace
from weakref import ref

import apsw

from treering.core.filters import And, Compare
from treering.ports.passages import Reach
from treering.stores.rows.fold import role_term, seen_terms
from treering.stores.rows.passage_log import Scopes, SeenReach, scopes_seen, sees_all_scopes
from treering.stores.sqlite.filters import ALWAYS, Condition, condition, joined
from treering.stores.sqlite.index.tables import Integers, fts_query, integers


@dataclass(frozen=True, slots=True)
class Sight(SeenReach):
    """A reach worked out against the scopes a space has, as SQL and as scope tokens."""

    role: str = ""
    """The role of places to which it is narrowed, besides the filter; empty for all."""

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
    known = [] if sees_all_scopes(reach) else list(connection.execute("SELECT id, scope FROM passage_scopes"))
    # A scope token makes every query walk another list of postings; it is left out where it narrows nothing.
    return Sight(reach, scopes_seen(known, reach))


_State = tuple[ref[apsw.Connection], int, int]


def written_state(connection: apsw.Connection) -> _State:
    """Return what changes whenever anything is written, here or by another connection."""
    # Not its id(): a thread that ends leaves that to the connection of another one, whose counters begin alike.
    return ref(connection), int(connection.pragma("data_version")), connection.total_changes()


def passing_keys(connection: apsw.Connection, reach: Reach, scopes: Scopes) -> Integers:
    """Return the keys of the current passages in reach that pass its filter, in no order."""
    seen = Sight(replace(reach, withdrawn=False), scopes).condition()
    sql = f"SELECT group_concat(p.key) FROM passages p WHERE {seen.sql}"  # noqa: S608 - only our own SQL
    return integers(next(connection.execute(sql, seen.bindings))[0])
