"""Making passages from the histories of objects: all at once, or a few at a time beside reads.

Beside reads, every object is one of two: it waits, and has no passage, or all its history is applied. A change to one
that waits applies all its history. So what is written is found at once, and the end equals a rebuild at once.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from zlib import crc32

from treering.ports.index import Behind, Change
from treering.ports.models import Extractor
from treering.stores.postgres.connection.transactions import Transaction
from treering.stores.postgres.index.graph_rows import clear_ties
from treering.stores.postgres.index.index_state import (
    EPOCH,
    PASSAGES,
    PROJECTION_VERSION,
    SHOWN,
    TARGET,
    VERSION,
    count_waiting,
    is_under_way,
    read_state,
    write_state,
)
from treering.stores.postgres.index.projection import apply_changes
from treering.stores.postgres.index.vectors import drop_damaged, forget_unused
from treering.stores.postgres.index.words import clear_words
from treering.stores.postgres.ledger.object_reads import ObjectReads

_EXTRACTOR = "extractor"
_TARGET_EXTRACTOR = "rebuild_extractor"
_TOTAL = "rebuild_total"
_AT_ONCE = 50  # objects whose histories are applied together
_OF_PASSAGES = ("passage_endings", "passage_days", "code_names", "passage_scopes", "vector_queue", "passages")
_COUNTS = (
    "SELECT greatest((SELECT count(DISTINCT id) FROM revisions WHERE space = %(space)s), "
    "(SELECT count(*) FROM passages WHERE space = %(space)s))"
)


def is_made(transaction: Transaction, extractor: Extractor) -> bool:
    """Tell whether this version and this extractor made the passages, or are at it."""
    if is_under_way(transaction):
        return read_state(transaction, _TARGET_EXTRACTOR) == _number(extractor)
    made = read_state(transaction, VERSION), read_state(transaction, _EXTRACTOR)
    return made == (PROJECTION_VERSION, _number(extractor))


def note_made(transaction: Transaction, extractor: Extractor) -> None:
    """Note that this version and this extractor made the passages, of all objects."""
    write_state(transaction, VERSION, PROJECTION_VERSION)
    write_state(transaction, _EXTRACTOR, _number(extractor))
    _stop_waiting(transaction)


def clear_passages(transaction: Transaction) -> None:
    """Throw away the passages; texts and their vectors stay. Tables in memory start over."""
    for table in _OF_PASSAGES:
        transaction.later(f"DELETE FROM {table} WHERE space = %(space)s")  # noqa: S608 - our tables
    clear_words(transaction)
    clear_ties(transaction)
    write_state(transaction, SHOWN, 0)
    write_state(transaction, PASSAGES, 0)
    write_state(transaction, EPOCH, read_state(transaction, EPOCH) + 1)


def is_worth_waiting(transaction: Transaction, *, most_at_once: int) -> bool:
    """Tell whether making the passages takes long."""
    return int(transaction.first(_COUNTS)) > most_at_once


def begin_replay(transaction: Transaction, extractor: Extractor) -> None:
    """Throw away the passages and let all objects wait for theirs. In a write transaction."""
    if read_state(transaction, VERSION):  # else an earlier replay was interrupted: its texts still wait
        transaction.later("DELETE FROM waiting_texts WHERE space = %(space)s")
    transaction.later("DELETE FROM waiting_objects WHERE space = %(space)s")
    transaction.later(
        "INSERT INTO waiting_texts(space, object_id, text_id) "
        "SELECT DISTINCT space, object_id, text_id FROM passages WHERE space = %(space)s ON CONFLICT DO NOTHING"
    )
    clear_passages(transaction)
    transaction.later(
        "INSERT INTO waiting_objects(space, object_id) SELECT DISTINCT space, id FROM revisions WHERE space = %(space)s"
    )
    write_state(transaction, VERSION, 0)
    write_state(transaction, TARGET, PROJECTION_VERSION)
    write_state(transaction, _TARGET_EXTRACTOR, _number(extractor))
    write_state(transaction, _TOTAL, count_waiting(transaction))


def advance_replay(transaction: Transaction, extractor: Extractor, *, seconds: float) -> Behind:
    """Make the passages of waiting objects for about so long, of one object at least. In a write transaction."""
    if not is_under_way(transaction):
        return Behind(0, 0)
    end = time.monotonic() + seconds
    while waiting := _first_waiting(transaction):
        _replay_waiting(transaction, waiting, extractor)
        if time.monotonic() >= end:
            break
    behind = progress_of(transaction)
    if not behind.waiting:
        note_made(transaction, extractor)
    return behind


def progress_of(transaction: Transaction) -> Behind:
    """Tell how many objects have their passages, of how many."""
    if not is_under_way(transaction):
        return Behind(0, 0)
    total = read_state(transaction, _TOTAL)
    return Behind(total - count_waiting(transaction), total)


def follow_changes(transaction: Transaction, changes: Sequence[Change], extractor: Extractor) -> None:
    """Apply changes in the transaction that wrote them; of an object that waits, all its history."""
    waiting = waiting_of(transaction, [change.object_id for change in changes])
    _replay_waiting(transaction, waiting, extractor)
    left = [change for change in changes if change.object_id not in waiting]
    if left:
        apply_changes(transaction, left, extractor)


def waiting_of(transaction: Transaction, object_ids: Iterable[str]) -> frozenset[str]:
    """Return those of the objects whose passages are still to be made."""
    if not is_under_way(transaction):
        return frozenset()
    sql = "SELECT object_id FROM waiting_objects WHERE space = %(space)s AND object_id = ANY(%(ids)s::text[])"
    return frozenset(transaction.column(sql, ids=list(object_ids)))


def texts_waiting(transaction: Transaction, object_ids: Sequence[str]) -> int:
    """Count the texts that are kept for objects whose passages are still to be made."""
    sql = "SELECT count(*) FROM waiting_texts WHERE space = %(space)s AND object_id = ANY(%(ids)s::text[])"
    return int(transaction.first(sql, ids=list(object_ids)))


def all_objects(transaction: Transaction) -> list[str]:
    """Return the ids of all objects, erased ones apart."""
    sql = "SELECT DISTINCT id FROM revisions WHERE space = %(space)s ORDER BY id"
    return transaction.column(sql)


def replay_objects(transaction: Transaction, object_ids: Sequence[str], extractor: Extractor) -> None:
    """Apply whole histories to passages that know nothing of these objects."""
    for start in range(0, len(object_ids), _AT_ONCE):
        apply_changes(transaction, list(histories_of(transaction, object_ids[start : start + _AT_ONCE])), extractor)


def histories_of(transaction: Transaction, object_ids: Sequence[str]) -> Iterator[Change]:
    """Return all changes of some objects, of each from its first revision on."""
    sql = (
        "SELECT id, revision, seq FROM revisions WHERE space = %(space)s AND id = ANY(%(ids)s::text[]) "
        "ORDER BY id, revision"
    )
    places = transaction.rows(sql, ids=list(object_ids))
    items = ObjectReads(transaction).some_revisions([(identity, number) for identity, number, _ in places])
    before = None
    for identity, number, seq in places:
        after = items[identity, number]
        yield Change(seq, identity, before if before and before.id == identity else None, after)
        before = after


def _replay_waiting(transaction: Transaction, object_ids: Iterable[str], extractor: Extractor) -> None:
    """Make the passages of some that wait; forget the texts that were theirs and are no more."""
    waiting = sorted(object_ids)
    if not waiting:
        return
    replay_objects(transaction, waiting, extractor)
    sql = "SELECT DISTINCT text_id FROM waiting_texts WHERE space = %(space)s AND object_id = ANY(%(ids)s::text[])"
    texts = transaction.column(sql, ids=waiting)
    for table in ("waiting_texts", "waiting_objects"):
        forget = f"DELETE FROM {table} WHERE space = %(space)s AND object_id = ANY(%(ids)s::text[])"  # noqa: S608 - our tables
        transaction.later(forget, ids=waiting)
    forget_unused(transaction, texts)


def _first_waiting(transaction: Transaction) -> list[str]:
    sql = "SELECT object_id FROM waiting_objects WHERE space = %(space)s ORDER BY object_id LIMIT %(most)s"
    return transaction.column(sql, most=_AT_ONCE)


def _stop_waiting(transaction: Transaction) -> None:
    for table in ("waiting_texts", "waiting_objects"):
        transaction.later(f"DELETE FROM {table} WHERE space = %(space)s")  # noqa: S608 - our tables


def _number(extractor: Extractor) -> int:
    return crc32(extractor.extractor_id.encode())


# Making passages anew from the ledger.


def prepare_passages(transaction: Transaction, extractor: Extractor, *, most_at_once: int) -> None:
    """Make passages anew that another version or extractor made, or none. In a write transaction.

    Where these are more than `most_at_once`, it only begins with it: `advance_replay` goes on.
    """
    if is_made(transaction, extractor):
        return
    if is_worth_waiting(transaction, most_at_once=most_at_once):
        begin_replay(transaction, extractor)
    else:
        rebuild_passages(transaction, extractor)


def rebuild_passages(transaction: Transaction, extractor: Extractor) -> int:
    """Throw away the passages and make them anew; vectors of texts that are still there stay. Give their number."""
    drop_damaged(transaction)
    clear_passages(transaction)
    replay_objects(transaction, all_objects(transaction), extractor)
    note_made(transaction, extractor)
    for table, column in (("passage_vectors", "text_id"), ("passage_texts", "id")):
        transaction.later(
            f"DELETE FROM {table} t WHERE t.space = %(space)s AND NOT EXISTS "  # noqa: S608 - our tables
            f"(SELECT 1 FROM passages p WHERE p.space = t.space AND p.text_id = t.{column})"
        )
    return int(transaction.first("SELECT count(*) FROM passages WHERE space = %(space)s"))
