"""Statements sent to a server together: one message each way, and each statement prepared once on its connection.

The driver's own pipeline wakes the server, and is woken itself, for every statement. For a commit that costs both of
them more than the statements do. Here all are sent first, and then all answers are read.
"""

import re
from collections.abc import Generator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import psycopg
from psycopg import abc, pq
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.pq.abc import PGconn, PGresult
from psycopg.waiting import Ready, Wait

Row = tuple[Any, ...]
Statement = tuple[str, Mapping[str, Any]]
"""SQL with `%(name)s` for each value, and the values by name."""

_USES = 2  # a statement is prepared when it is sent for the third time: filters make statements that come once
_MOST = 300  # statements that are remembered on a connection; then all are forgotten
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
        connection.execute("DEALLOCATE ALL")
        connection.known.clear()
    results = _results(connection, messages)
    rows = []
    for result in results:
        transformer.set_pgresult(result)
        rows.append(transformer.load_rows(0, result.ntuples, tuple) if result.ntuples else [])
    return rows


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
    values = transformer.dump_sequence([bindings[name] for name in names], [PyFormat.AUTO] * len(names))
    return _Message((text, tuple(transformer.types or ())), values, list(transformer.formats or ()))


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
