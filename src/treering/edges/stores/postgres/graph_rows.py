"""The graph in the ledger's database: one record per current passage, and the names it takes, counted."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from treering.derived.graph_records import HEADER, pack_ties, reference, unpack_ties
from treering.derived.ties import Ties
from treering.edges.index_rows.graph_checks import content_hash, content_hashes, graph_faults
from treering.edges.index_rows.graph_names import names_in, numbered, object_name, stored_name
from treering.edges.index_rows.name_table import name_digest
from treering.edges.ledger_rows.row_failures import REINDEX, rows_of
from treering.edges.stores.postgres.index_state import NODES, next_numbers, write_state
from treering.edges.stores.postgres.transactions import Row, Transaction
from treering.ports.graph import EdgeType

_OWN = 4 * HEADER + 1  # where in a record the reference to the passage's own object stands, counted from 1
_HELD = "SELECT body FROM graph_passages WHERE space = %(space)s AND key = ANY(%(keys)s::bigint[])"
_KNOWN = "SELECT id, digest FROM graph_nodes WHERE space = %(space)s AND digest = ANY(%(digests)s::bytea[])"
_RECORDS = "SELECT key, body FROM graph_passages WHERE space = %(space)s"
_NAMES = "SELECT id, name FROM graph_nodes WHERE space = %(space)s"
_COUNTS = "SELECT id, passages FROM graph_nodes WHERE space = %(space)s"
_NODE = ("id bigint", "digest bytea", "name bytea", "passages integer")
_REPLACE = "ON CONFLICT (space, key) DO UPDATE SET body = excluded.body"
_COUNTED = (
    "UPDATE graph_nodes n SET passages = n.passages + more.count "
    "FROM unnest(%(ids)s::bigint[], %(counts)s::integer[]) AS more(id, count) "
    "WHERE n.space = %(space)s AND n.id = more.id"
)


def settle_ties(transaction: Transaction, ties: Mapping[int, Ties | None]) -> None:
    """Bring what the graph holds of passages to what they tie together now; `None` for those that are gone from it."""
    if not ties:
        return
    wanted = {key: each for key, each in ties.items() if each}
    held = Counter(name for each in wanted.values() for name in sorted(names_in(each)))
    names = {name: stored_name(name) for name in held}
    digests = {name: name_digest(stored) for name, stored in names.items()}
    before, known = transaction.together([(_HELD, {"keys": list(ties)}), (_KNOWN, {"digests": list(digests.values())})])
    numbers_by_digest = {digest: number for number, digest in known}
    numbers = {name: numbers_by_digest[digest] for name, digest in digests.items() if digest in numbers_by_digest}
    new = [name for name in names if name not in numbers]
    # What is there already changes by what is held more than before: a name that goes with one passage and comes with
    # another keeps its number.
    _count(transaction, before, {numbers[name]: count for name, count in held.items() if name in numbers})
    numbers |= zip(new, next_numbers(transaction, NODES, len(new)) if new else (), strict=True)
    transaction.insert("graph_nodes", _NODE, [(numbers[name], digests[name], names[name], held[name]) for name in new])
    if gone := [key for key in ties if key not in wanted]:
        sql = "DELETE FROM graph_passages WHERE space = %(space)s AND key = ANY(%(keys)s::bigint[])"
        transaction.later(sql, keys=gone)
    records = [(key, pack_ties(numbered(each, numbers))) for key, each in wanted.items()]
    transaction.insert("graph_passages", ("key bigint", "body bytea"), records, conflict=_REPLACE)


def clear_ties(transaction: Transaction) -> None:
    """Throw the records and names away. Numbers begin anew: the epoch tells tables in memory to do so, too."""
    for table in ("graph_passages", "graph_nodes"):
        transaction.later(f"DELETE FROM {table} WHERE space = %(space)s")  # noqa: S608 - our tables
    write_state(transaction, NODES, 0)


def records_of(transaction: Transaction, object_ids: Sequence[str]) -> int:
    """Count the records of objects, by what the records say. Reads all of them."""
    digests = [name_digest(stored_name(object_name(identity))) for identity in object_ids]
    own = [reference(number, EdgeType.PART) for number, _ in transaction.rows(_KNOWN, digests=digests)]
    if not own:
        return 0
    sql = (
        "SELECT count(*) FROM graph_passages WHERE space = %(space)s "  # noqa: S608 - a number
        f"AND substring(body FROM {_OWN} FOR 4) = ANY(%(first)s::bytea[])"
    )
    return int(transaction.first(sql, first=[number.to_bytes(4, "little") for number in own]))


def graph_contents(transaction: Transaction) -> dict[int, int]:
    """Give, by passage key, a hash of its ties by name; of what is damaged another than any."""
    names: dict[int, bytes] = dict(transaction.rows(_NAMES))
    return content_hashes(((key, body) for key, body in transaction.stream("graph", _RECORDS)), names)


def ties_contents(ties: Mapping[int, Ties | None]) -> dict[int, int]:
    """Give, by passage key, the hash that `graph_contents` gives of a passage with these ties."""
    return {key: content_hash(each) for key, each in ties.items() if each}


def graph_damage(transaction: Transaction) -> Iterator[str]:
    """Say what is wrong with the graph in itself."""
    counted: dict[int, int] = dict(transaction.rows(_COUNTS))
    yield from graph_faults(((key, body) for key, body in transaction.stream("graph", _RECORDS)), counted)


def _count(transaction: Transaction, before: Sequence[Row], held: Mapping[int, int]) -> None:
    """Count names that are known already by how many more passages hold them than before; forget those of none."""
    with rows_of("the graph", hint=REINDEX):
        released = Counter(number for (body,) in before for number in unpack_ties(body).numbers())
    more = {number: held.get(number, 0) - released[number] for number in held.keys() | released.keys()}
    changed = {number: count for number, count in sorted(more.items()) if count}
    if changed:
        transaction.later(_COUNTED, ids=list(changed), counts=list(changed.values()))
    if less := [number for number, count in changed.items() if count < 0]:
        sql = "DELETE FROM graph_nodes WHERE space = %(space)s AND id = ANY(%(ids)s::bigint[]) AND passages <= 0"
        transaction.later(sql, ids=less)
