"""Tables of objects, read: revisions, segments and links in one transaction, many objects with few queries.

`ObjectReads` is also the `View` that planning a patch asks for.
"""

from collections.abc import Iterable, Sequence

from treering.core.patch import Link
from treering.edges.ledger_rows.row_failures import row_of
from treering.edges.stores.postgres.columns import (
    NAME_CHARS,
    ORIGIN_CHARS,
    SCOPE_CHARS,
    to_column,
)
from treering.edges.stores.postgres.exchange import Row
from treering.edges.stores.postgres.segment_reads import SegmentReads

_SCOPE = f"left(scope, {SCOPE_CHARS}) = left(%(scope)s, {SCOPE_CHARS}) AND scope = %(scope)s"


class ObjectReads(SegmentReads):
    """The object tables of one space, in a transaction.

    With `checks` each object and segment is checked against the audit log as it is read; `Corrupt` names what was
    changed behind the ledger's back.
    """

    def exists(self, identity: str) -> bool:
        """Tell whether an object has this id."""
        return self.scope_of(identity) is not None

    def scope_of(self, identity: str) -> str | None:
        """Return the scope of an object, without reading it."""
        sql = "SELECT scope FROM objects WHERE space = %(space)s AND id = %(id)s"
        found: str | None = self._transaction.first(sql, id=identity)
        return found

    def ever_existed(self, identity: str) -> bool:
        """Tell whether the audit log knows of this id."""
        sql = "SELECT 1 FROM audit WHERE space = %(space)s AND target = %(id)s LIMIT 1"
        return self._transaction.first(sql, id=identity) is not None

    def source_by_origin(self, scope: str, origin: str) -> str | None:
        """Return the id of the source with this origin that is not archived."""
        sql = (
            f"SELECT id FROM objects WHERE space = %(space)s AND {_SCOPE} "  # noqa: S608 - only our own SQL
            f"AND left(origin, {ORIGIN_CHARS}) = left(%(origin)s, {ORIGIN_CHARS}) AND origin = %(origin)s "
            "AND status <> 'archived'"
        )
        found: str | None = self._transaction.first(sql, scope=scope, origin=to_column(origin))
        return found

    def node_by_slug(self, scope: str, kind: str, slug: str) -> str | None:
        """Return the id of the active node with this slug."""
        sql = (
            f"SELECT id FROM objects WHERE space = %(space)s AND {_SCOPE} AND kind = %(kind)s "  # noqa: S608 - only our own SQL
            f"AND left(slug, {NAME_CHARS}) = left(%(slug)s, {NAME_CHARS}) AND slug = %(slug)s AND status = 'active'"
        )
        found: str | None = self._transaction.first(sql, scope=scope, kind=kind, slug=to_column(slug))
        return found

    def knowledge_by_duplicate_key(self, key: str) -> Sequence[str]:
        """Return ids of knowledge with this key, oldest first."""
        sql = "SELECT id FROM objects WHERE space = %(space)s AND duplicate_key = %(key)s ORDER BY id"
        return self._transaction.column(sql, key=key)

    def knowledge_by_claim_key(self, key: str) -> Sequence[str]:
        """Return ids of claims with this key, oldest first."""
        sql = "SELECT id FROM objects WHERE space = %(space)s AND claim_key = %(key)s ORDER BY id"
        return self._transaction.column(sql, key=key)

    def dependents(self, identity: str) -> Sequence[str]:
        """Return ids of knowledge that names this id, in order."""
        return self.dependents_of([identity])[identity]

    def dependents_of(self, identities: Sequence[str]) -> dict[str, list[str]]:
        """Return, by id, the ids of knowledge that names it, in order."""
        sql = (
            "SELECT target, dependent FROM dependencies WHERE space = %(space)s AND target = ANY(%(ids)s) "
            "ORDER BY dependent"
        )
        return _grouped(identities, self._transaction.rows(sql, ids=list(identities)))

    def referrers_of(self, identities: Sequence[str]) -> dict[str, list[str]]:
        """Return, by id, the ids of objects of which a revision names it, in order."""
        sql = (
            "SELECT target, referrer FROM referrers WHERE space = %(space)s AND target = ANY(%(ids)s) ORDER BY referrer"
        )
        return _grouped(identities, self._transaction.rows(sql, ids=list(identities)))

    def links_of(self, identity: str) -> Sequence[Link]:
        """Return the links that start or end here now."""
        return self.links_as_of(identity, None)

    def links_as_of(self, identity: str, seq: int | None) -> list[Link]:
        """Return the links that started or ended here at an audit sequence number, checked where this checks."""
        return self.links_of_all([identity], seq)[identity]

    def links_of_all(self, identities: Sequence[str], seq: int | None) -> dict[str, list[Link]]:
        """Return, by id, the links that started or ended there at an audit sequence number."""
        when = "removed IS NULL" if seq is None else "added <= %(seq)s AND (removed IS NULL OR removed > %(seq)s)"
        sql = (
            "SELECT l.type, l.source, l.target, l.patch_id, l.added, a.body FROM links l "  # noqa: S608 - one of two literals
            "LEFT JOIN audit a ON a.space = %(space)s AND a.seq = l.added WHERE l.space = %(space)s "
            f"AND (l.source = ANY(%(ids)s) OR l.target = ANY(%(ids)s)) AND {when} ORDER BY l.type, l.source, l.target"
        )
        links: dict[str, list[Link]] = {identity: [] for identity in identities}
        for kind, source, target, patch_id, added, event in self._transaction.rows(sql, ids=list(links), seq=seq):
            with row_of(source):
                link = Link(type=kind, source=source, target=target, patch_id=patch_id)
            if self._checks:
                self._events.note(added, event)
                self._checks.check_link(self._events, link, added)
            for end in {source, target} & links.keys():
                links[end].append(link)
        return links


def _grouped(keys: Iterable[str], rows: Iterable[Row]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {key: [] for key in keys}
    for key, value in rows:
        groups[key].append(value)
    return groups
