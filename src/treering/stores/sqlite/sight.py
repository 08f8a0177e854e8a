"""Search filters as SQL and as FTS5 expressions."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial

import apsw

from treering.core.canonical import PREFIXES
from treering.core.filters import And, Compare, Filter, asked_texts
from treering.ports.passages import Reach
from treering.stores.rows.reach import Scopes, SeenReach, role_term, scopes_seen, seen_terms, sees_all_scopes
from treering.stores.sqlite.filters import ALWAYS, Condition, condition, joined, of_types
from treering.stores.sqlite.readers import remembered
from treering.stores.sqlite.reading import Integers, integers


def fts_query(terms: Iterable[str]) -> str:
    """Return an FTS5 expression that matches rows with any of the terms; without terms it matches none.

    A term of several words is a phrase. Terms are quoted, so that they contain no syntax. The expression is in
    parentheses and can be combined by `AND`.
    """
    quoted = " OR ".join('"{}"'.format(term.replace('"', '""').replace("\0", " ")) for term in terms)
    return f"({quoted})" if quoted else '("")'


@dataclass(frozen=True, slots=True)
class Sight(SeenReach):
    """A search filter in one space, as SQL and as terms of scopes."""

    role: str = ""
    """The role of places to which it is limited, in addition to the filter; empty for all."""

    def condition(self) -> Condition:
        """Return the condition for matching passages."""
        return joined([self.state(), self.place(), self.filter()], "AND")

    def state(self) -> Condition:
        """Return the condition on the state of passages."""
        if (at := self.reach.at) is not None:
            return Condition("(p.from_seq <= ? AND (p.until_seq IS NULL OR p.until_seq > ?))", (at, at))
        return Condition("(p.until_seq IS NULL)" if self.reach.withdrawn else "(p.live = 1 AND p.until_seq IS NULL)")

    def place(self) -> Condition:
        """Return the condition on the scope of passages."""
        if self.scopes is None:
            return ALWAYS
        return Condition(f"(p.scope_id IN ({','.join(map(str, sorted(self.scopes)))}))")

    def filter(self) -> Condition:
        """Return the condition of the filter."""
        return condition(self.reach.where)

    def in_role(self, role: str) -> "Sight":
        """Limit the filter to places in one role."""
        if self.of_history:  # the role of earlier passages is only in their rows
            narrowed = And((self.reach.where, Compare("role", "eq", role)))
            return replace(self, reach=replace(self.reach, where=narrowed))
        return replace(self, role=role)

    def match(self, terms: str) -> str:
        """Limit an FTS5 expression over the word tables to the visible scopes and the role."""
        scopes = self.match_of_scopes()
        return f"{scopes} AND {terms}" if scopes else terms

    def match_of_scopes(self) -> str:
        """Return the FTS5 expression for the visible scopes and the role; empty if there is no limit."""
        bounds = [] if self.scopes is None else [f"scope : {fts_query(seen_terms(self.reach))}"]
        if self.role:
            bounds.append(f"scope : {fts_query([role_term(self.role)])}")
        return " AND ".join(bounds)


def sight(connection: apsw.Connection, reach: Reach) -> Sight:
    """Return the SQL conditions of a search filter in this space."""
    known = [] if sees_all_scopes(reach) else remembered(connection, "scopes", partial(_scopes, connection))
    # A scope term makes every query read another list of postings. It is left out if it excludes nothing.
    return Sight(reach, scopes_seen(known, reach))


def _scopes(connection: apsw.Connection) -> list[tuple[int, str]]:
    return list(connection.execute("SELECT id, scope FROM passage_scopes"))


def passing_keys(connection: apsw.Connection, reach: Reach, scopes: Scopes) -> Integers:
    """Return the keys of the matching current passages, unordered."""
    seen = Sight(replace(reach, withdrawn=False), scopes).condition()
    index, types = _index_for(reach.where)
    sql = f"SELECT group_concat(p.key) FROM passages p {index}WHERE {types.sql} AND {seen.sql}"  # noqa: S608 - only our own SQL
    return integers(next(connection.execute(sql, (*types.bindings, *seen.bindings)))[0])


def _index_for(where: Filter) -> tuple[str, Condition]:
    """Return the index for a filter by type, and the condition that uses it.

    Without it, all current passages are read. The index is not used for sources, which are the majority.
    """
    types = next((texts for field, texts in asked_texts(where) if field == "type"), ())
    if not types or "source" in types or not PREFIXES.keys() >= set(types):
        return "", ALWAYS
    return "INDEXED BY passages_by_object ", of_types(types, "p.object_id")
