"""An open transaction of one space: statements, and rows that wait to be written together."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, ClassVar

from treering.core.audit import GENESIS, Anchor, AuditEvent
from treering.core.ids import parse_time, render_time
from treering.core.policy import Policy
from treering.core.writing.journal import POLICY
from treering.ports.runtime import check_interrupt
from treering.stores.postgres.connection.exchange import PreparingConnection, Row, Statement, exchange
from treering.stores.postgres.connection.failures import body_of
from treering.stores.rows.packing import row_of
from treering.stores.rows.read_checks import policy_told

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


@dataclass(frozen=True, slots=True)
class Beginning:
    """A transaction that was begun, with its first statements in the same round trip."""

    connection: PreparingConnection
    space: int
    """The number of the space in the database where it was begun."""
    row: SpaceRow
    answers: list[list[Row]]
    """All rows of each of the first statements."""


Begin = Callable[[Sequence[Statement]], Beginning]
"""Begins a transaction with its first statements; `%(space)s` is not among their values yet."""


class Transaction:
    """Statements of a transaction, which begins with the first of them. `%(space)s` stands for the space in all.

    Statements that give no rows wait, and are sent together with the next query or with the commit.
    """

    def __init__(self, begin: Begin) -> None:
        self.numbers: dict[str, int] | None = None
        """What the index remembers by name, once it was read (`index.index_state`)."""
        self.changed_numbers: set[str] = set()
        """The names of those that the commit writes."""
        self.committing = False
        self._begin = begin
        self._connection: PreparingConnection | None = None
        self._row: SpaceRow | None = None
        self._begun_with: SpaceRow | None = None
        self._space = 0
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
        return self._begun()[1]

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
        """Collect the queries that are made inside, which find nothing yet; then ask them all in one round trip.

        Until something is written, the same queries are answered from what came.
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
        connection, _ = self._begun()
        with connection.cursor(name, binary=True) as cursor:
            cursor.itersize = at_once
            cursor.execute(sql, {"space": self._space})
            for row in cursor:
                check_interrupt()
                yield row

    def later(self, sql: str, /, **bindings: Any) -> None:
        """Have a statement that gives no rows run before the next query, and before the transaction ends."""
        self._answers = {}
        self._waiting.append((sql, bindings))

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Row], *, conflict: str = "") -> None:
        """Have rows inserted, all in one statement. `columns`: name and type of each, such as `id text`."""
        names = [column.split()[0] for column in columns]
        into = f"INSERT INTO {table}(space, {', '.join(names)})"
        if len(rows) == 1:
            # Most patches have one row for a table, and arrays of one cost more than what is in them.
            values = ", ".join(f"%({name})s" for name in names)
            self.later(f"{into} VALUES(%(space)s, {values}) {conflict}", **dict(zip(names, rows[0], strict=True)))
        elif rows:
            arrays = ", ".join(f"%({column.split()[0]})s::{column.split()[1]}[]" for column in columns)
            # From the space's row: with it, Citus lets the server of the space insert, where row-level security holds.
            given = f"SELECT own.space, given.* FROM spaces own, unnest({arrays}) AS given"  # noqa: S608 - only our own names
            sql = f"{into} {given} WHERE own.space = %(space)s {conflict}"
            self.later(sql, **{name: list(values) for name, values in zip(names, zip(*rows, strict=True), strict=True)})

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

    def _begun(self) -> tuple[PreparingConnection, SpaceRow]:
        """Return the connection, and what the space's row says now; begin where that is still to be done."""
        if self._connection is None:
            self._exchange(())
        if self._connection is None or self._row is None:
            raise RuntimeError("a transaction that begins gives its connection and the space's row")
        return self._connection, self._row

    def _exchange(self, queries: Sequence[Statement]) -> list[list[Row]]:
        """Send what waits and some queries in one round trip, which begins the transaction where it has not begun."""
        waiting, self._waiting = self._waiting, []
        statements = [*waiting, *queries]
        if self._connection is None:
            begun = self._begin(statements)
            self._connection, self._space, answers = begun.connection, begun.space, begun.answers
            self._row = self._begun_with = begun.row
        else:
            answers = exchange(self._connection, bound(statements, self._space)) if statements else []
        return answers[len(waiting) :]


def bound(statements: Sequence[Statement], space: int) -> list[Statement]:
    """Return statements with the number of the space among their values."""
    return [(sql, {"space": space, **bindings}) for sql, bindings in statements]
