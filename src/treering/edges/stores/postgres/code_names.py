"""Finding passages of code by the names they vouch for: what they define, import and use."""

from collections.abc import Iterable, Mapping, Sequence

from treering.derived.code_names import name_code
from treering.edges.stores.postgres.reach import PassageSight
from treering.edges.stores.postgres.transactions import Transaction
from treering.ports.passages import MOST_NAMED

_FORGET = (
    "DELETE FROM code_names n USING unnest(%(names)s::bigint[], %(keys)s::bigint[]) AS gone(name, key) "
    "WHERE n.space = %(space)s AND n.name = gone.name AND n.key = gone.key"
)


def settle_names(
    transaction: Transaction, *, gone: Mapping[int, Sequence[str]], come: Mapping[int, Sequence[str]]
) -> None:
    """Forget names that passages vouched for, then keep those that they vouch for now, both by key."""
    if left := _rows(gone):
        names, keys = ([row[place] for row in left] for place in range(2))
        transaction.later(_FORGET, names=names, keys=keys)
    transaction.insert("code_names", ("name bigint", "key bigint"), _rows(come), conflict="ON CONFLICT DO NOTHING")


def purge_names(transaction: Transaction, keys: Sequence[int]) -> None:
    """Forget all names of passages of which nothing else is known any more."""
    if keys:
        sql = "DELETE FROM code_names WHERE space = %(space)s AND key = ANY(%(keys)s::bigint[])"
        transaction.later(sql, keys=list(keys))


def passages_named(transaction: Transaction, names: Sequence[str], seen: PassageSight) -> dict[str, list[int]]:
    """Return the current passages that vouch for each name and that are seen, by key: `MOST_NAMED` of each."""
    if not names:
        return {}
    where = seen.condition()
    sql = (
        "SELECT asked.name, found.key FROM unnest(%(codes)s::bigint[]) AS asked(name) CROSS JOIN LATERAL ("  # noqa: S608 - only our own SQL
        "SELECT n.key FROM code_names n JOIN passages p ON p.space = n.space AND p.key = n.key "
        f"WHERE n.space = %(space)s AND n.name = asked.name AND {where.sql} ORDER BY n.key LIMIT {MOST_NAMED}) "
        "AS found ORDER BY found.key"
    )
    by_code: dict[int, list[int]] = {}
    codes = {name: name_code(name) for name in names}
    for code, key in transaction.rows(sql, codes=sorted(set(codes.values())), **where.bindings):
        by_code.setdefault(code, []).append(key)
    return {name: by_code[code] for name, code in codes.items() if code in by_code}


def _rows(names: Mapping[int, Iterable[str]]) -> list[tuple[int, int]]:
    return sorted({(name_code(name), key) for key, each in names.items() for name in each})
