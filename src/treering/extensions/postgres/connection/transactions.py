"""A transaction of one space: statements that are sent together, and rows that are inserted together."""

import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

import psycopg
from psycopg import abc, pq
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.pq.abc import PGconn, PGresult
from psycopg.waiting import Ready, Wait

from treering.core.audit import GENESIS, Anchor, AuditEvent
from treering.core.canonical import render_time
from treering.core.writing.journal import POLICY
from treering.extensions.postgres.connection.failures import Array, array_of, body_of
from treering.extensions.postgres.connection.schema import PARTITIONS, in_partition
from treering.ports.runtime import check_interrupt
from treering.stores.rows.ledger_log import StoredLogEnd
from treering.stores.rows.read_checks import Body

# Statements are sent in one message and prepared once per connection. The driver's own pipeline wakes both sides for
# every statement, which costs more than the statements of a commit. Here, all are sent first, then all results are
# read.


Row = tuple[Any, ...]
Statement = tuple[str, Mapping[str, Any]]
"""SQL with `%(name)s` for each value, and the values by name."""

_USES = 2  # times sent before a statement is prepared; filters make statements that are sent once
_MOST = 300 * PARTITIONS  # statements that a connection remembers; more than these reset those that are not prepared
_SMALL, _GROWN = (
    250,
    4,
)  # the number of events below which any plan is good enough, and the growth after which plans are renewed
_BYTEA = 17  # OIDs of the server
_INTEGERS = ((2**15, 21, 2), (2**31, 23, 4), (2**63, 20, 8))  # the limit of a number, its type and its size
_PLACE = re.compile(r"%\((\w+)\)s|%%")
_Key = tuple[bytes, tuple[int, ...]]
"""SQL with the types of its values."""


class PreparingConnection(psycopg.Connection[Row]):
    """A connection that counts and prepares statements itself. The driver prepares none."""

    prepares = True
    """Whether statements may be prepared."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.known: dict[_Key, int | bytes] = {}
        """The number of times each statement was sent, or its name once it is prepared."""
        self.names = 0
        """The number of names given to statements."""
        self.planned_at: dict[int, int] = {}
        """The event at which statements were last planned, by space."""
        self.plans: list[Statement] = []
        """Statements about plans for the next transaction."""

    def note_growth(self, space: int, sequence: int) -> None:
        """Renew all plans from the next transaction on, if a space has become four times as large."""
        self.plans = []
        if self.prepares and sequence > _GROWN * self.planned_at.get(space, _SMALL):
            if len(self.planned_at) >= _MOST:
                self.planned_at.clear()
            self.planned_at[space] = sequence
            self.plans = [("DISCARD PLANS", {})]


class UnpreparedConnection(PreparingConnection):
    """A connection behind a pooler, which may run each transaction in another session of the server."""

    prepares = False


class _Message(NamedTuple):
    """A statement in the form of the server."""

    key: _Key
    values: Sequence[abc.Buffer | None]
    formats: Sequence[pq.Format]


def exchange(connection: PreparingConnection, statements: Sequence[Statement]) -> list[list[Row]]:
    """Run statements in one message; return all rows of each.

    Raises the driver's error for the first one that fails. Later statements are not run.
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
    """Forget statements that were sent once or twice; if too many are prepared, forget all."""
    prepared = {key: name for key, name in connection.known.items() if isinstance(name, bytes)}
    connection.known.clear()
    if len(prepared) > _MOST // 2:
        connection.execute("DEALLOCATE ALL")
    else:
        connection.known.update(prepared)


def _results(connection: PreparingConnection, messages: Sequence[_Message]) -> list[PGresult]:
    """Send statements; return the result of each. Raises the error of the first one that failed."""
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
        # The server may have prepared them. A name is never used again.
        for key in prepared:
            connection.known.pop(key, None)
        raise
    finally:
        _leave(connection)
    return [results[number] for number in of_messages]


def _check(connection: PreparingConnection, results: Sequence[PGresult]) -> None:
    """Raise the first error among results."""
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
    """Return a value with its type and form for the server. Rare types are left to the driver.

    Types are the same as those of the driver: unknown for text, and the smallest type for integers. Raises
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
    """Return SQL with `$1`, `$2` etc., and the names of the values in order."""
    names: dict[str, int] = {}

    def placed(found: re.Match[str]) -> str:
        name = found[1]
        return f"${names.setdefault(name, len(names) + 1)}" if name else "%"

    text = _PLACE.sub(placed, sql)
    return text.encode(), tuple(names)


def _prepare(connection: PreparingConnection, key: _Key) -> bool:
    """Count a statement; return whether to prepare it now."""
    known = connection.known.setdefault(key, 0)
    if not connection.prepares or isinstance(known, bytes) or known < _USES:
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
    """Send data and read results until everything is answered. Raises `OperationalError` if the connection is lost.

    An error that the server sent before is a result, and not raised here.
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
    """Leave the pipeline. A connection with unread results is unusable."""
    try:
        connection.pgconn.exit_pipeline_mode()
    except psycopg.OperationalError:
        connection.close()


_STREAMED = 500
_KEPT = ("sequence", "hash", "last_time", "policy_seq", "policy")
_KEEP_ROW = f"UPDATE spaces SET {', '.join(f'{name} = %({name})s' for name in _KEPT)} WHERE space = %(space)s"  # noqa: S608 - our own names


@dataclass(frozen=True, slots=True)
class SpaceRow(StoredLogEnd):
    """The space's row at the beginning of the transaction: the end of the audit log, and the policy."""

    policy: bytes | None = None
    server_seconds: float = 0
    """The server's time, in seconds since 1970."""
    engine: str | None = None
    """The engine of the space, as stored by `PostgresVectorFeed`."""

    @property
    def server_time(self) -> datetime:
        """The server's time."""
        return datetime.fromtimestamp(self.server_seconds, UTC)

    @property
    def policy_body(self) -> Body | None:
        """The stored event with the policy, in the form for `rows.packing.unpack`."""
        return None if self.policy is None else body_of(self.policy)

    def with_event(self, event: AuditEvent, stored: bytes) -> "SpaceRow":
        """Return the row after another event."""
        row = replace(self, sequence=event.seq, hash=event.hash, last_time=render_time(event.timestamp))
        return replace(row, policy_seq=event.seq, policy=stored) if event.target == POLICY else row

    def without_events(self) -> "SpaceRow":
        """Return the row of an empty space."""
        return replace(self, sequence=0, hash=GENESIS, last_time=None, policy_seq=None, policy=None)


class SpacePlace(NamedTuple):
    """The place of a space's rows: its number in a database, and the number of their partitions.

    `None`: the server has to find the partitions, on Citus or if the role may use only tables.
    """

    number: int
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class Beginning:
    """A transaction that was begun together with its first statements."""

    connection: PreparingConnection | None
    """`None` if it has ended already."""
    row: SpaceRow
    answers: list[list[Row]]
    """All rows of each of the first statements."""


Begin = Callable[[Sequence[Statement]], Beginning]
"""Begins a transaction with its first statements, whose values do not include `%(space)s` yet."""


class _Insert(NamedTuple):
    """The statements that insert rows into a table."""

    names: Sequence[str]
    kinds: Sequence[str]
    one: str
    """Inserts one row, because most patches have one per table, and an array of one costs more than its content."""
    in_table: str
    """Inserts many rows, joined with the space's row. With it, Citus inserts on the server of the space, where
    row-level security applies.
    """
    in_partition: str
    """Inserts many rows into a named partition."""

    @classmethod
    @lru_cache(maxsize=200)
    def of(cls, table: str, columns: Sequence[str], conflict: str) -> "_Insert":
        """Return the statements for a table."""
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
    """A transaction that begins with its first statement. `%(space)s` is the number of the space in all statements.

    Statements without results wait, and are sent together with the next query or the commit.
    """

    def __init__(self, begin: Begin, place: SpacePlace) -> None:
        self.numbers: dict[str, int] | None = None
        """The state of the index, once it was read (`index.index_state`)."""
        self.changed_numbers: set[str] = set()
        """The names of changed states, which the commit writes."""
        self.committing: bool = False
        self._begin = begin
        self._connection: PreparingConnection | None = None
        self._row: SpaceRow | None = None
        self._begun_with: SpaceRow | None = None
        self._place = place
        self._waiting: list[Statement] = []
        self._asked: dict[str, Statement] | None = None
        """Collected queries by key; `None` if queries are sent at once."""
        self._finishing: dict[Callable[[Transaction], None], None] = {}
        """Functions called before the commit."""
        self._answers: dict[str, list[Row]] = {}
        """Results of collected queries by key, until the next write."""

    @property
    def row(self) -> SpaceRow:
        """The content of the space's row. The commit writes changes to it."""
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
        """The head of the log after this transaction, or `None` if it wrote no event."""
        return None if self._row is None or self._row == self._begun_with else self._row.head

    @property
    def has_ended(self) -> bool:
        """Whether the transaction is over for the server, or the connection to it is lost.

        If a commit then reports an error, the rows may be committed: a coordinator of Citus may lose its worker.
        """
        connection = self._connection
        return connection is not None and (
            connection.closed or connection.info.transaction_status == pq.TransactionStatus.IDLE
        )

    def rows(self, sql: str, /, **bindings: Any) -> list[Row]:
        """Return all rows of a query, which sees earlier writes."""
        key = f"{sql}{bindings}"
        if self._asked is not None:
            self._asked[key] = (sql, bindings)
            return []
        if (known := self._answers.get(key)) is not None:
            return known
        return self.together([(sql, bindings)])[0]

    @contextmanager
    def asking_ahead(self) -> Iterator[None]:
        """Collect the queries in the block, which return nothing yet, then send them in one round trip.

        Until the next write, the same queries return these results.
        """
        self._asked = {}
        try:
            yield
            queries = self._asked
        finally:
            self._asked = None
        self._answers = dict(zip(queries, self.together(list(queries.values())), strict=True))

    def together(self, queries: Sequence[Statement]) -> list[list[Row]]:
        """Return all rows of several queries, sent in one round trip. They see earlier writes."""
        check_interrupt()
        return self._exchange(queries)

    def first(self, sql: str, /, **bindings: Any) -> Any:
        """Return the first value of the first row, or `None`."""
        rows = self.rows(sql, **bindings)
        return rows[0][0] if rows else None

    def column(self, sql: str, /, **bindings: Any) -> list[Any]:
        """Return the first value of each row."""
        return [value for (value,) in self.rows(sql, **bindings)]

    def stream(self, name: str, sql: str, *, at_once: int = _STREAMED) -> Iterator[Row]:
        """Yield the rows of a large query in parts. `name`: of the cursor."""
        self.flush()
        with self._begun().cursor(name, binary=True) as cursor:
            cursor.itersize = at_once
            # A cursor is planned with its values. With the number of a space that it does not know yet, the planner
            # expects one row and compares all rows of one table with all rows of the other.
            [(placed, bindings)] = bound([(sql.replace("%(space)s", "(SELECT %(space)s::bigint)"), {})], self._place)
            cursor.execute(placed, bindings)
            for row in cursor:
                check_interrupt()
                yield row

    def later(self, sql: str, /, **bindings: Any) -> None:
        """Add a statement without results, to be run before the next query and before the transaction ends."""
        self._answers = {}
        self._waiting.append((sql, bindings))

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Row], *, conflict: str = "") -> None:
        """Add rows to insert in one statement. `columns`: name and type of each, such as `id text`."""
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
        """Call a function just before the commit, once for each key."""
        self._finishing[finish] = None

    def flush(self) -> None:
        """Send waiting statements in one round trip."""
        if self._waiting:
            self._exchange(())

    def commit(self) -> None:
        """Send waiting statements and commit, in one round trip, if the transaction has begun."""
        self._finish()
        if self._connection is None and not self._waiting:
            return
        if self.row != self._begun_with:
            self.later(_KEEP_ROW, **{name: getattr(self.row, name) for name in _KEPT})
        self.later("COMMIT")
        self.committing = True
        self.flush()

    def _finish(self) -> None:
        """Call the functions that write accumulated changes."""
        finishing, self._finishing = self._finishing, {}
        for finish in finishing:
            finish(self)

    def _begun(self) -> PreparingConnection:
        """Return the connection, after beginning the transaction if necessary."""
        if self._connection is None:
            self._exchange(())
        if self._connection is None:
            raise RuntimeError("a transaction that ends with its answers has no connection")
        return self._connection

    def _exchange(self, queries: Sequence[Statement]) -> list[list[Row]]:
        """Send waiting statements and queries in one round trip, which begins the transaction if necessary."""
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
    """Return statements with the number of the space among their values, for its partitions."""
    number, part = place
    return [
        (sql if part is None else in_partition(sql, part), {"space": number, **bindings})
        for sql, bindings in statements
    ]
