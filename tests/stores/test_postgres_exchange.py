"""Statements that are sent to a server together: their answers, what fails among them, and what is prepared."""

import psycopg
import pytest
from psycopg import errors

from postgres_server import needs_own_server
from treering.extensions.postgres.connection import transactions as sending
from treering.extensions.postgres.connection.transactions import PreparingConnection, exchange

pytestmark = needs_own_server
_MUCH = 2_000_000
_ADDED = "SELECT %(one)s::integer + %(other)s::integer"


@pytest.fixture
def connection(server):
    with PreparingConnection.connect(server.url(), autocommit=True, prepare_threshold=None) as opened:
        yield opened


def prepared(connection):
    """Return how often the server was asked to run what is prepared, by statement."""
    return dict(connection.execute("SELECT statement, generic_plans + custom_plans FROM pg_prepared_statements"))


def test_each_statement_returns_its_rows_in_order(connection):
    statements = [
        ("SELECT generate_series(1, %(upto)s)", {"upto": 2}),
        ("SET LOCAL work_mem = '8MB'", {}),
        ("SELECT %(text)s::text, %(none)s::text, %(bytes)s::bytea", {"text": "é", "none": None, "bytes": b"\0a"}),
        ("SELECT unnest(%(many)s::bigint[]) %% 2 = 0, %(many)s::bigint[]", {"many": [4, 2**40]}),
    ]
    assert exchange(connection, statements) == [
        [(1,), (2,)],
        [],
        [("é", None, b"\0a")],
        [(True, [4, 2**40])] * 2,
    ]


def test_a_statement_is_prepared_once_it_was_sent_often(connection):
    for number in range(10):
        assert exchange(connection, [(_ADDED, {"one": number, "other": 1})]) == [[(number + 1,)]]
    [(statement, runs)] = prepared(connection).items()
    assert (statement, runs) == ("SELECT $1::integer + $2::integer", 8)


def test_prepared_statements_survive_a_rollback(connection):
    for number in range(5):
        exchange(connection, [("BEGIN", {}), (_ADDED, {"one": number, "other": 1})])
        connection.execute("ROLLBACK")
    assert prepared(connection)["SELECT $1::integer + $2::integer"] == 3


def test_the_first_failure_is_raised_and_nothing_behind_it_is_run(connection):
    connection.execute("CREATE TEMPORARY TABLE kept(number integer)")
    insert = "INSERT INTO kept VALUES (%(number)s / %(by)s)"
    for _ in range(4):  # sent as it is at first, prepared later
        statements = [(insert, {"number": 1, "by": each}) for each in (1, 0, 1)]
        with pytest.raises(errors.DivisionByZero):
            exchange(connection, [("BEGIN", {}), *statements, ("COMMIT", {})])
        connection.execute("ROLLBACK")
        assert exchange(connection, [("SELECT count(*) FROM kept", {})]) == [[(0,)]]
    exchange(connection, [(insert, {"number": 1, "by": 1})])
    assert exchange(connection, [("SELECT number FROM kept", {})]) == [[(1,)]]


def test_a_value_that_cannot_be_sent_sends_nothing(connection):
    with pytest.raises(psycopg.DataError):
        exchange(connection, [("BEGIN", {}), ("SELECT %(text)s::text", {"text": "a\0b"})])
    assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_much_that_is_sent_and_much_that_comes_do_not_wait_for_each_other(connection):
    statements = [("SELECT %(much)s::text", {"much": "é" * _MUCH})] * 4
    assert [len(rows[0][0]) for rows in exchange(connection, statements)] == [_MUCH] * 4


def test_of_very_many_statements_those_that_are_prepared_are_forgotten(connection, monkeypatch):
    monkeypatch.setattr(sending, "_MOST", 5)
    for _ in range(4):
        for number in range(7):
            assert exchange(connection, [(f"SELECT {number}", {})] * 4)[-1] == [(number,)]
    assert len(prepared(connection)) <= 6


def test_a_server_that_ends_the_connection_says_why_and_the_connection_is_closed(connection):
    with pytest.raises(errors.AdminShutdown):
        exchange(connection, [("SELECT pg_terminate_backend(pg_backend_pid())", {}), ("SELECT 1", {})])
    assert connection.closed
    with pytest.raises(psycopg.OperationalError):
        exchange(connection, [("SELECT 1", {})])


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("text", ["é", "", None, 'a"b\\,{}', "\U0010ffff"]),
        ("bytea", [b"", b"\0\xff", None]),
        ("bigint", [-(2**63), 0, 2**63 - 1]),
        ("integer", [-(2**31), None, 5]),
        ("smallint", [1, -2]),
        ("boolean", [True, False, None]),
        ("double precision", [0.1, -1e300]),
        ("jsonb", ['{"a": [1, "é"]}', "null", None]),
    ],
)
def test_an_array_arrives_as_it_was_sent(connection, kind, values):
    sent = sending.Array(kind, values)
    shown = "::text" if kind == "jsonb" else ""
    asked = f"SELECT each{shown} FROM unnest(%(sent)s::{kind}[]) WITH ORDINALITY AS s(each, place) ORDER BY place"
    for _ in range(4):  # sent as it is at first, prepared later
        assert exchange(connection, [(asked, {"sent": sent})]) == [[(value,) for value in values]]
    if kind in {"text", "bytea", "bigint"}:
        assert exchange(connection, [("SELECT %(sent)s", {"sent": values})]) == [[(values,)]]


def test_an_array_of_texts_with_a_nul_sends_nothing(connection):
    with pytest.raises(psycopg.DataError):
        exchange(connection, [("BEGIN", {}), ("SELECT %(texts)s::text[]", {"texts": ["a", "b\0"]})])
    assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
