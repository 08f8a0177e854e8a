"""An open transaction of one space: statements, sent together, and rows that wait to be written together."""

import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import psycopg
from psycopg import abc, pq
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.pq.abc import PGconn, PGresult
from psycopg.waiting import Ready, Wait

from treering.core.audit import GENESIS, Anchor, AuditEvent
from treering.core.canonical import parse_time, render_time
from treering.core.policy import Policy
from treering.core.writing.journal import POLICY
from treering.extensions.postgres.connection.failures import Array, array_of, body_of
from treering.extensions.postgres.connection.schema import PARTITIONS, in_partition
from treering.ports.runtime import check_interrupt
from treering.stores.rows.packing import row_of
from treering.stores.rows.read_checks import policy_told

# Statements sent to a server together: one message each way, and each statement prepared once on its connection. The
# driver's own pipeline wakes the server, and is woken itself, for every statement. For a commit that costs both of them
# more than the statements do. Here all are sent first, and then all answers are read.


Row = tuple[Any, ...]
Statement = tuple[str, Mapping[str, Any]]
"""SQL with `%(name)s` for each value, and the values by name."""

_USES = 2  # a statement is prepared when it is sent for the third time: filters make statements that come once
_MOST = 300 * PARTITIONS  # statements that a connection remembers; then all that are not prepared are forgotten
_SMALL, _GROWN = 250, 4  # events of a space for which any plan will do; how much larger it is when plans are made anew
_BYTEA = 17  # as the server's catalogue numbers types
_INTEGERS = ((2**15, 21, 2), (2**31, 23, 4), (2**63, 20, 8))  # below which number, its type, and how many bytes
_PLACE = re.compile(r"%\((\w+)\)s|%%")
_Key = tuple[bytes, tuple[int, ...]]
"""SQL, and the types of its values."""


class PreparingConnection(psycopg.Connection[Row]):
    """A connection that knows what was sent on it, and what is prepared. Its driver prepares nothing itself."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.known: dict[_Key, int | bytes] = {}
        """How often a statement was sent, or its name once it is prepared."""
        self.names = 0
        """How many names were given to statements."""
        self.planned_at: dict[int, int] = {}
        """By space, the event at which statements were planned last."""
        self.plans: list[Statement] = []
        """What the next transaction has to do about plans."""

    def note_growth(self, space: int, sequence: int) -> None:
        """Have all statements planned anew, from the next transaction on, once a space is four times as large."""
        self.plans = []
        if sequence > _GROWN * self.planned_at.get(space, _SMALL):
            if len(self.planned_at) >= _MOST:
                self.planned_at.clear()
            self.planned_at[space] = sequence
            self.plans = [("DISCARD PLANS", {})]


class _Message(NamedTuple):
    """A statement in the form that the server takes."""

    key: _Key
    values: Sequence[abc.Buffer | None]
    formats: Sequence[pq.Format]


def exchange(connection: PreparingConnection, statements: Sequence[Statement]) -> list[list[Row]]:
    """Run statements one after the other, sent in one message; return all rows of each.

    Raises what the driver raises for the first one that fails. Those behind it are not run.
    """
    transformer = Transformer(connection)
    messages = [_message(transformer, sql, bindings) for sql, bindings in statements]
    if len(connection.known) > _MOST:
        _forget(connection)
    return [_rows_of(transformer, result) for result in _results(connection, messages)]


def _rows_of(transformer: abc.Transformer, result: PGresult) -> list[Row]:
    count = result.ntuples
    if not count:
        return []
    transformer.set_pgresult(result)
    return transformer.load_rows(0, count, tuple)


def _forget(connection: PreparingConnection) -> None:
    """Forget statements that came once or twice; where too many are prepared, forget all."""
    prepared = {key: name for key, name in connection.known.items() if isinstance(name, bytes)}
    connection.known.clear()
    if len(prepared) > _MOST // 2:
        connection.execute("DEALLOCATE ALL")
    else:
        connection.known.update(prepared)


def _results(connection: PreparingConnection, messages: Sequence[_Message]) -> list[PGresult]:
    """Send statements; return the result of each. Raises the error of the first that failed."""
    pgconn, prepared, of_messages = connection.pgconn, list[_Key](), list[int]()
    pgconn.enter_pipeline_mode()
    try:
        for message in messages:
            if _prepare(connection, message.key):
                prepared.append(message.key)
            of_messages.append(len(of_messages) + len(prepared))
            _send(connection, message)
        pgconn.pipeline_sync()
        results = connection.wait(_answers(pgconn))
        _check(connection, results)
    except BaseException:
        # Whether the server has them is not known. A name is never given twice.
        for key in prepared:
            connection.known.pop(key, None)
        raise
    finally:
        _leave(connection)
    return [results[number] for number in of_messages]


def _check(connection: PreparingConnection, results: Sequence[PGresult]) -> None:
    """Raise the first error that the server told."""
    for result in results:
        if result.status == pq.ExecStatus.FATAL_ERROR:
            raise error_from_result(result, connection.info.encoding)


def _message(transformer: abc.Transformer, sql: str, bindings: Mapping[str, Any]) -> _Message:
    text, names = _parsed(sql)
    values: list[abc.Buffer | None] = []
    types: list[int] = []
    formats: list[pq.Format] = []
    for name in names:
        value, oid, form = _encoded(transformer, bindings[name])
        values.append(value)
        types.append(oid)
        formats.append(form)
    return _Message((text, tuple(types)), values, formats)


def _encoded(transformer: abc.Transformer, value: Any) -> tuple[abc.Buffer | None, int, pq.Format]:
    """Return a value, its type and its form as the server takes them. What is rare is left to the driver.

    The types are those that the driver gives: a text has none, and a number the smallest that holds it. Raises
    `psycopg.DataError` for a text with NUL.
    """
    kind = type(value)
    if kind is str:
        if "\0" in value:
            raise psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
        return value.encode(transformer.encoding), 0, pq.Format.TEXT
    if value is None:
        return None, 0, pq.Format.TEXT
    if kind is bytes:
        return value, _BYTEA, pq.Format.BINARY
    if kind is int:
        for most, oid, size in _INTEGERS:
            if -most <= value < most:
                return value.to_bytes(size, "big", signed=True), oid, pq.Format.BINARY
    if array := array_of(value):
        return array.packed(transformer.encoding), array.oid, pq.Format.BINARY
    [dumped] = transformer.dump_sequence([value], [PyFormat.AUTO])
    return dumped, *(transformer.types or (0,)), *(transformer.formats or (pq.Format.TEXT,))


@lru_cache(maxsize=1_000)
def _parsed(sql: str) -> tuple[bytes, tuple[str, ...]]:
    """Return SQL with `$1` for the first value and so on, and the names of the values."""
    names: dict[str, int] = {}

    def placed(found: re.Match[str]) -> str:
        name = found[1]
        return f"${names.setdefault(name, len(names) + 1)}" if name else "%"

    text = _PLACE.sub(placed, sql)
    return text.encode(), tuple(names)


def _prepare(connection: PreparingConnection, key: _Key) -> bool:
    """Have a statement prepared once it was sent often enough; tell whether that is asked for now."""
    known = connection.known.setdefault(key, 0)
    if isinstance(known, bytes) or known < _USES:
        return False
    connection.names += 1
    name = connection.known[key] = b"treering%d" % connection.names
    connection.pgconn.send_prepare(name, key[0], key[1])
    return True


def _send(connection: PreparingConnection, message: _Message) -> None:
    known, values, formats = connection.known[message.key], message.values, message.formats
    if isinstance(known, bytes):
        connection.pgconn.send_query_prepared(known, values, formats, pq.Format.BINARY)
    else:
        connection.known[message.key] = known + 1
        connection.pgconn.send_query_params(message.key[0], values, message.key[1], formats, pq.Format.BINARY)


def _answers(pgconn: PGconn) -> Generator[Wait, Ready | int, list[PGresult]]:
    """Write what is sent, and read what comes, until all is answered. Raises `OperationalError` where the server goes.

    An error that the server told before it went is a result, and not raised here.
    """
    while pgconn.flush():
        if (yield Wait.RW) & Ready.R:
            pgconn.consume_input()
    results: list[PGresult] = []
    try:
        while True:
            while pgconn.is_busy():
                yield Wait.R
                pgconn.consume_input()
            result = pgconn.get_result()
            if result is None:
                _check_alive(pgconn)
            elif result.status == pq.ExecStatus.PIPELINE_SYNC:
                return results
            else:
                results.append(result)
    except psycopg.OperationalError:
        if any(result.status == pq.ExecStatus.FATAL_ERROR for result in results):
            return results
        raise


def _check_alive(pgconn: PGconn) -> None:
    if pgconn.status == pq.ConnStatus.BAD:
        raise psycopg.OperationalError("the connection to the server is lost")


def _leave(connection: PreparingConnection) -> None:
    """Leave the pipeline. A connection whose answers were not all read is of no use any more."""
    try:
        connection.pgconn.exit_pipeline_mode()
    except psycopg.OperationalError:
        connection.close()


# An open transaction of one space: statements, and rows that wait to be written together.


_STREAMED = 500
_KEPT = ("sequence", "hash", "last_time", "policy_seq", "policy")
_KEEP_ROW = f"UPDATE spaces SET {', '.join(f'{name} = %({name})s' for name in _KEPT)} WHERE space = %(space)s"  # noqa: S608 - our own names


@dataclass(frozen=True, slots=True)
class SpaceRow:
    """What the space's row said when the transaction began: the end of the audit log, and the policy."""

    EMPTY_HASH: ClassVar[str] = GENESIS

    sequence: int
    hash: str
    last_time: str | None
    policy_seq: int | None
    policy: bytes | None
    """The event that tells of the policy, as it is stored."""
    server_seconds: float
    """The server's time, in seconds since 1970."""
    engine: str | None = None
    """The engine that searches the space's vectors, as `PostgresVectorFeed` writes it."""

    @property
    def head(self) -> Anchor:
        """Return the head of the audit log."""
        return Anchor(seq=self.sequence, hash=self.hash)

    @property
    def time_of_last(self) -> datetime | None:
        """Return the time of the last event, or `None` before the first."""
        with row_of("the audit log"):
            return parse_time(self.last_time) if self.last_time is not None else None

    @property
    def server_time(self) -> datetime:
        """Return the server's time."""
        return datetime.fromtimestamp(self.server_seconds, UTC)

    @property
    def recorded_policy(self) -> Policy | None:
        """Return the policy that the log tells of last, or `None`. Raises `Corrupt` where its event was changed."""
        if self.policy_seq is None or self.policy is None:
            return None
        return policy_told(self.policy_seq, body_of(self.policy))

    def with_event(self, event: AuditEvent, stored: bytes) -> "SpaceRow":
        """Return what the row says behind another event."""
        row = replace(self, sequence=event.seq, hash=event.hash, last_time=render_time(event.timestamp))
        return replace(row, policy_seq=event.seq, policy=stored) if event.target == POLICY else row

    def without_events(self) -> "SpaceRow":
        """Return what the row of an empty space says."""
        return replace(self, sequence=0, hash=self.EMPTY_HASH, last_time=None, policy_seq=None, policy=None)


class SpacePlace(NamedTuple):
    """Where the rows of a space are: its number in a database, and that of their partitions.

    `None`: which partitions these are is for the server to find, on Citus, or where a role may name tables only.
    """

    number: int
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class Beginning:
    """A transaction that was begun, with its first statements in the same round trip."""

    connection: PreparingConnection | None
    """`None` where it has ended already."""
    row: SpaceRow
    answers: list[list[Row]]
    """All rows of each of the first statements."""


Begin = Callable[[Sequence[Statement]], Beginning]
"""Begins a transaction with its first statements; `%(space)s` is not among their values yet."""


class _Insert(NamedTuple):
    """How rows are inserted into a table."""

    names: Sequence[str]
    kinds: Sequence[str]
    one: str
    """Inserts one row: most patches have one for a table, and arrays of one cost more than what is in them."""
    in_table: str
    """Inserts many, from the space's row: with it, Citus lets the server of the space insert, where row-level security
    holds."""
    in_partition: str
    """Inserts many where the partition is named."""

    @classmethod
    @lru_cache(maxsize=200)
    def of(cls, table: str, columns: Sequence[str], conflict: str) -> "_Insert":
        """Write the statements."""
        names, _, kinds = zip(*(column.partition(" ") for column in columns), strict=True)
        into = f"INSERT INTO {table}(space, {', '.join(names)})"
        values = ", ".join(f"%({name})s" for name in names)
        arrays = ", ".join(f"%({name})s::{kind}[]" for name, kind in zip(names, kinds, strict=True))
        given = f"given.* FROM {{own}}unnest({arrays}) AS given"
        return cls(
            names,
            kinds,
            f"{into} VALUES(%(space)s, {values}) {conflict}",
            f"{into} SELECT own.space, {given.format(own='spaces own, ')} WHERE own.space = %(space)s {conflict}",
            f"{into} SELECT %(space)s::bigint, {given.format(own='')} {conflict}",
        )


class Transaction:
    """Statements of a transaction, which begins with the first of them. `%(space)s` stands for the space in all.

    Statements that give no rows wait, and are sent together with the next query or with the commit.
    """

    def __init__(self, begin: Begin, place: SpacePlace) -> None:
        self.numbers: dict[str, int] | None = None
        """What the index remembers by name, once it was read (`index.index_state`)."""
        self.changed_numbers: set[str] = set()
        """The names of those that the commit writes."""
        self.committing: bool = False
        self._begin = begin
        self._connection: PreparingConnection | None = None
        self._row: SpaceRow | None = None
        self._begun_with: SpaceRow | None = None
        self._place = place
        self._waiting: list[Statement] = []
        self._asked: dict[str, Statement] | None = None
        """By key, the queries that are to be asked together; `None` where each is asked at once."""
        self._finishing: dict[Callable[[Transaction], None], None] = {}
        """What is called before the commit."""
        self._answers: dict[str, list[Row]] = {}
        """By key, what was asked ahead; good until the next statement that writes."""

    @property
    def row(self) -> SpaceRow:
        """What the space's row says; what is changed here is written with the commit."""
        if self._row is None:
            self._exchange(())
        if self._row is None:
            raise RuntimeError("a transaction that begins gives the space's row")
        return self._row

    @row.setter
    def row(self, row: SpaceRow) -> None:
        self._row = row

    @property
    def reached(self) -> Anchor | None:
        """The head of the log that is kept, where something was added to it."""
        return None if self._row is None or self._row == self._begun_with else self._row.head

    @property
    def is_lost(self) -> bool:
        """Whether the connection to the server is gone."""
        return self._connection is not None and self._connection.closed

    def rows(self, sql: str, /, **bindings: Any) -> list[Row]:
        """Return all rows of one query, which sees what was written before."""
        key = f"{sql}{bindings}"
        if self._asked is not None:
            self._asked[key] = (sql, bindings)
            return []
        if (known := self._answers.get(key)) is not None:
            return known
        return self.together([(sql, bindings)])[0]

    @contextmanager
    def asking_ahead(self) -> Iterator[None]:
        """Collect the queries inside the block, which return nothing yet, then send them in one round trip.

        Until the next write, the same queries are answered from these results.
        """
        self._asked = {}
        try:
            yield
            asked = self._asked
        finally:
            self._asked = None
        self._answers = dict(zip(asked, self.together(list(asked.values())), strict=True))

    def together(self, queries: Sequence[Statement]) -> list[list[Row]]:
        """Return all rows of several queries, asked in one round trip; they see what was written before."""
        check_interrupt()
        return self._exchange(queries)

    def first(self, sql: str, /, **bindings: Any) -> Any:
        """Return the first value of the first row, or `None`."""
        found = self.rows(sql, **bindings)
        return found[0][0] if found else None

    def column(self, sql: str, /, **bindings: Any) -> list[Any]:
        """Return the first value of each row."""
        return [value for (value,) in self.rows(sql, **bindings)]

    def stream(self, name: str, sql: str, *, at_once: int = _STREAMED) -> Iterator[Row]:
        """Return the rows of a query that may have very many, some at a time. `name`: of the cursor."""
        self.flush()
        with self._begun().cursor(name, binary=True) as cursor:
            cursor.itersize = at_once
            # A cursor is planned for its values. A planner that reads the number of a space which it does not know yet
            # takes all of it for one row, and compares each of one table with each of the other.
            [(placed, bindings)] = bound([(sql.replace("%(space)s", "(SELECT %(space)s::bigint)"), {})], self._place)
            cursor.execute(placed, bindings)
            for row in cursor:
                check_interrupt()
                yield row

    def later(self, sql: str, /, **bindings: Any) -> None:
        """Have a statement that gives no rows run before the next query, and before the transaction ends."""
        self._answers = {}
        self._waiting.append((sql, bindings))

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Row], *, conflict: str = "") -> None:
        """Have rows inserted, all in one statement. `columns`: name and type of each, such as `id text`."""
        if not rows:
            return
        form = _Insert.of(table, tuple(columns), conflict)
        if len(rows) == 1:
            self.later(form.one, **dict(zip(form.names, rows[0], strict=True)))
        else:
            sql = form.in_table if self._place.partition is None else form.in_partition
            given = zip(form.names, form.kinds, zip(*rows, strict=True), strict=True)
            self.later(sql, **{name: Array(kind, values) for name, kind, values in given})

    def at_end(self, finish: Callable[["Transaction"], None]) -> None:
        """Have something written just before the commit, once however often it is asked for."""
        self._finishing[finish] = None

    def flush(self) -> None:
        """Send what waits, in one round trip."""
        if self._waiting:
            self._exchange(())

    def commit(self) -> None:
        """Send what waits, and commit, in one round trip; what has not begun has nothing to commit."""
        self._finish()
        if self._connection is None and not self._waiting:
            return
        if self.row != self._begun_with:
            self.later(_KEEP_ROW, **{name: getattr(self.row, name) for name in _KEPT})
        self.later("COMMIT")
        self.committing = True
        self.flush()

    def _finish(self) -> None:
        """Write what is written once, however often it changed."""
        finishing, self._finishing = self._finishing, {}
        for finish in finishing:
            finish(self)

    def _begun(self) -> PreparingConnection:
        """Return the connection; begin where that is still to be done."""
        if self._connection is None:
            self._exchange(())
        if self._connection is None:
            raise RuntimeError("a transaction that ends with its answers has no connection")
        return self._connection

    def _exchange(self, queries: Sequence[Statement]) -> list[list[Row]]:
        """Send what waits and some queries in one round trip, which begins the transaction where it has not begun."""
        waiting, self._waiting = self._waiting, []
        statements = [*waiting, *queries]
        if self._connection is None:
            begun = self._begin(statements)
            self._connection, answers = begun.connection, begun.answers
            self._row = self._begun_with = begun.row
        else:
            answers = exchange(self._connection, bound(statements, self._place)) if statements else []
        return answers[len(waiting) :]


def bound(statements: Sequence[Statement], place: SpacePlace) -> list[Statement]:
    """Return statements with the number of the space among their values, about its partitions."""
    number, part = place
    return [
        (sql if part is None else in_partition(sql, part), {"space": number, **bindings})
        for sql, bindings in statements
    ]
