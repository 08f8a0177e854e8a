"""The graph in the ledger's database: one record per current passage, and the number of passages per name."""

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence

from treering.extensions.postgres.connection.failures import from_column
from treering.extensions.postgres.connection.transactions import Row, Statement, Transaction
from treering.extensions.postgres.index.index_state import NODES, next_numbers, write_state
from treering.ports.search import EdgeType
from treering.retrieval.index.ties import HEADER, Ties, pack_ties, reference, unpack_ties
from treering.stores.rows.damage import REINDEX, rows_of
from treering.stores.rows.fold import Part
from treering.stores.rows.graph import (
    content_hash,
    content_hashes,
    entity_name,
    graph_faults,
    name_digest,
    names_in,
    numbered,
    object_name,
    plain_name,
    stored_name,
    ties_kept,
)

_OWN = 4 * HEADER + 1  # position in a record of the reference to the passage's own object, counted from 1
_HELD = "SELECT body FROM graph_passages WHERE space = %(space)s AND key = ANY(%(keys)s::bigint[])"
# One index look-up for each. Without statistics of a growing table, the planner would read the whole space.
_KNOWN = (
    "SELECT found.id, asked.digest FROM unnest(%(digests)s::bytea[]) AS asked(digest) CROSS JOIN LATERAL "
    "(SELECT id FROM graph_nodes WHERE space = %(space)s AND digest = asked.digest LIMIT 1) AS found"
)
RECORDS = "SELECT key, body FROM graph_passages WHERE space = %(space)s"
_NAMES = "SELECT id, name FROM graph_nodes WHERE space = %(space)s"
_SOME_NAMES = f"{_NAMES} AND id = ANY(%(ids)s::bigint[])"
_OF_OBJECTS = (
    "SELECT p.object_id, p.part, g.body FROM unnest(%(ids)s::text[]) AS asked(id) CROSS JOIN LATERAL "
    "(SELECT object_id, part, key FROM passages WHERE space = %(space)s AND object_id = asked.id AND live "
    "AND until_seq IS NULL) AS p CROSS JOIN LATERAL "
    "(SELECT body FROM graph_passages WHERE space = %(space)s AND key = p.key LIMIT 1) AS g"
)
_COUNTS = "SELECT id, passages FROM graph_nodes WHERE space = %(space)s"
_NODE = ("id bigint", "digest bytea", "name bytea", "passages integer")
_REPLACE = "ON CONFLICT (space, key) DO UPDATE SET body = excluded.body"
_HOLD = "ON CONFLICT (space, digest) DO UPDATE SET passages = graph_nodes.passages + excluded.passages"
_RELEASE = (
    "UPDATE graph_nodes n SET passages = n.passages - less.count "
    "FROM unnest(%(ids)s::bigint[], %(counts)s::integer[]) AS less(id, count) "
    "WHERE n.space = %(space)s AND n.id = less.id"
)


def settle_ties(transaction: Transaction, ties: Mapping[int, Ties | None], *, new: Container[int] = ()) -> None:
    """Replace the ties of passages in the graph; `None` removes a passage.

    `new`: passages without earlier ties.
    """
    if not ties:
        return
    wanted = {key: each for key, each in ties.items() if each}
    held = Counter(name for each in wanted.values() for name in sorted(names_in(each)))
    names = {name: stored_name(name) for name in held}
    digests = {name: name_digest(stored) for name, stored in names.items()}
    changed = [key for key in ties if key not in new]
    queries: list[Statement] = [(_KNOWN, {"digests": list(digests.values())})]
    known, *more = transaction.together([*queries, (_HELD, {"keys": changed})] if changed else queries)
    before = more[0] if more else []
    by_digest = {digest: number for number, digest in known}
    there = {name: by_digest[digest] for name, digest in digests.items() if digest in by_digest}
    unknown = [name for name in names if name not in there]
    given = next_numbers(transaction, NODES, len(unknown)) if unknown else ()
    numbers = there | dict(zip(unknown, given, strict=True))
    # Add first, so that a name that moves from one passage to another keeps its number.
    for some, conflict in ((there, _HOLD), (unknown, "")):  # checking for conflicts costs a third more
        nodes = [(numbers[name], digests[name], names[name], held[name]) for name in some]
        transaction.insert("graph_nodes", _NODE, nodes, conflict=conflict)
    _release(transaction, before)
    if gone := [key for key in changed if key not in wanted]:
        sql = "DELETE FROM graph_passages WHERE space = %(space)s AND key = ANY(%(keys)s::bigint[])"
        transaction.later(sql, keys=gone)
    records = [(key, pack_ties(numbered(each, numbers))) for key, each in wanted.items()]
    transaction.insert("graph_passages", ("key bigint", "body bytea"), records, conflict=_REPLACE)


def numbers_of(transaction: Transaction, keys: Sequence[str]) -> dict[str, int]:
    """Return the numbers of entity keys. Unknown keys are left out."""
    by_digest = {name_digest(stored_name(entity_name(key))): key for key in keys}
    rows = transaction.rows(_KNOWN, digests=list(by_digest)) if by_digest else ()
    return {by_digest[digest]: number for number, digest in rows}


def names_of(transaction: Transaction, numbers: Sequence[int]) -> dict[int, str]:
    """Return the keys of entities and the ids of objects."""
    rows = transaction.rows(_SOME_NAMES, ids=list(numbers)) if numbers else ()
    return {number: plain_name(name) for number, name in rows}


def clear_ties(transaction: Transaction) -> None:
    """Delete all records and names. Numbers start again; the new epoch makes tables in memory load again."""
    for table in ("graph_passages", "graph_nodes"):
        transaction.later(f"DELETE FROM {table} WHERE space = %(space)s")  # noqa: S608 - our tables
    write_state(transaction, NODES, 0)


def records_of(transaction: Transaction, object_ids: Sequence[str]) -> int:
    """Count the records of objects, by the content of the records. Reads all records."""
    digests = [name_digest(stored_name(object_name(identity))) for identity in object_ids]
    own = [reference(number, EdgeType.PART) for number, _ in transaction.rows(_KNOWN, digests=digests)]
    if not own:
        return 0
    sql = (
        "SELECT count(*) FROM graph_passages WHERE space = %(space)s "  # noqa: S608 - a number
        f"AND substring(body FROM {_OWN} FOR 4) = ANY(%(first)s::bytea[])"
    )
    return int(transaction.first(sql, first=[number.to_bytes(4, "little") for number in own]))


def kept_ties(transaction: Transaction, parts: Sequence[Part]) -> dict[Part, Ties]:
    """Return the ties of current passages. Passages without a valid record are left out."""
    rows = transaction.rows(_OF_OBJECTS, ids=sorted({identity for identity, _ in parts}))
    wanted = set(parts)
    records = {
        place: body for *named, body in rows if (place := (from_column(named[0]), from_column(named[1]))) in wanted
    }
    return ties_kept(records, lambda ids: dict(transaction.rows(_SOME_NAMES, ids=list(ids))) if ids else {})


def graph_contents(transaction: Transaction) -> dict[int, int]:
    """Return a hash of the ties of each passage by name. The hash of a damaged record equals no other one."""
    names: dict[int, bytes] = dict(transaction.rows(_NAMES))
    return content_hashes(transaction.stream("graph", RECORDS), names)


def ties_contents(ties: Mapping[int, Ties | None]) -> dict[int, int]:
    """Return the hashes that `graph_contents` would return for passages with these ties."""
    return {key: content_hash(each) for key, each in ties.items() if each}


def graph_damage(transaction: Transaction) -> Iterator[str]:
    """Describe damaged records and wrong numbers of passages per name."""
    counted: dict[int, int] = dict(transaction.rows(_COUNTS))
    yield from graph_faults(transaction.stream("graph", RECORDS), counted)


def _release(transaction: Transaction, before: Sequence[Row]) -> None:
    """Subtract from the number of passages of names; delete names without passages."""
    with rows_of("the graph", hint=REINDEX):
        released = Counter(number for (body,) in before for number in unpack_ties(body).numbers())
    if released:
        transaction.later(_RELEASE, ids=list(released), counts=list(released.values()))
        sql = "DELETE FROM graph_nodes WHERE space = %(space)s AND id = ANY(%(ids)s::bigint[]) AND passages <= 0"
        transaction.later(sql, ids=list(released))
