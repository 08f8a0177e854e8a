import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treering.core.filters import FIELDS, MOST_CONDITIONS, MOST_VALUES, And, Compare, Not, Or, matches
from treering.ports.index import Change
from treering.retrieval.extraction.built_in import BuiltInExtractor
from treering.retrieval.index.passages import passages_of, record_of
from treering.stores.sqlite.database import Database
from treering.stores.sqlite.filters import (
    ALWAYS,
    INDEXED_FIELDS,
    NEVER,
    OBJECT_FIELDS,
    condition,
    equalities,
    stored_scalar,
)
from treering.stores.sqlite.index.projection import apply_changes
from treering.stores.sqlite.index.tables import create_tables
from treering.stores.sqlite.readers import remembered
from treering.testing.builders import Builder, day
from treering.testing.fakes import SteppingClock

# Few values, so that they often meet; of every type, and with what SQLite is known to treat in its own way.
_TEXTS = st.sampled_from(["", "a", "A", "ab", "a\0b", "é", "é", "蜂", "𝒳", "%", "a_", "'; --", "1", "true", "/", "/a"])
_TEXT = _TEXTS | st.text(st.characters(codec="utf-8"), max_size=4)
_NUMBERS = st.sampled_from([0, 1, -1, 0.0, -0.0, 1.0, 0.1 + 0.2, 1e300, 2**53, 2**53 + 1, float(2**53), -(2**63)])
_NUMBER = _NUMBERS | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
_SCALAR = _TEXT | _NUMBER | st.booleans()
_NAME = st.sampled_from(["n", "path", "a.b", '"', "$", "é", "a\0b"])
_METADATA = st.dictionaries(_NAME, _SCALAR, max_size=3)

# A caller's filter may hold more than any record does: halves of surrogate pairs, infinities, what is not a number.
_WANTED = _SCALAR | st.sampled_from(["\ud800", "a\udfff", float("inf"), float("-inf"), float("nan")])
_FIELD = st.sampled_from([*sorted(FIELDS), "unknown"]) | _NAME.map("metadata.{}".format)
_COMPARE = (
    st.builds(Compare, _FIELD, st.sampled_from(["eq", "ne", "lt", "lte", "gt", "gte"]), _WANTED)
    | st.builds(Compare, _FIELD, st.just("in"), st.lists(_WANTED, max_size=4).map(tuple))
    | st.builds(Compare, _FIELD, st.just("exists"), st.booleans())
    | st.builds(Compare, _FIELD, st.just("prefix"), _TEXT)
)
_FILTER = st.recursive(
    _COMPARE,
    lambda part: (
        st.builds(Not, part)
        | st.builds(And, st.lists(part, max_size=3).map(tuple))
        | st.builds(Or, st.lists(part, max_size=3).map(tuple))
    ),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def connection():
    opened = apsw.Connection(":memory:")
    create_tables(opened)
    yield opened
    opened.close()


def store(connection, *items):
    for table in ("passages", "passage_metadata", "passage_endings", "passage_days", "passage_words", "passage_names"):
        connection.execute(f"DELETE FROM {table}")
    apply_changes(connection, [Change(1, item.id, None, item) for item in items], BuiltInExtractor())


def found(connection, where):
    wanted = condition(where)
    sql = f"SELECT p.object_id FROM passages p WHERE {wanted.sql} ORDER BY p.key"
    return [identity for (identity,) in connection.execute(sql, wanted.bindings)]


def expected(items, where):
    return [item.id for item in items if matches(where, record_of(passages_of(item)[0]))]


def a_source(make, title, metadata, scope="/"):
    return make.source("Text.", origin=title or "o", title=title, metadata=metadata, scope=scope)


@settings(max_examples=2000, deadline=None)
@given(title=_TEXT, metadata=_METADATA, other=_METADATA, where=_FILTER)
def test_sql_takes_exactly_the_passages_the_reference_takes(connection, title, metadata, other, where):
    make = Builder(SteppingClock())
    items = [a_source(make, title, metadata), a_source(make, "b", other, scope="/a"), make.node("蜂")]
    store(connection, *items)
    assert found(connection, where) == expected(items, where)


@settings(max_examples=200, deadline=None)
@given(value=_SCALAR, wanted=_WANTED, operator=st.sampled_from(["eq", "ne", "lt", "lte", "gt", "gte"]))
def test_every_kind_of_value_compares_with_every_other_as_the_reference_says(connection, value, wanted, operator):
    items = [a_source(Builder(SteppingClock()), "t", {"n": value})]
    store(connection, *items)
    where = Compare("metadata.n", operator, wanted)
    assert found(connection, where) == expected(items, where)


_KINDS = ("", "a", "ab", "1", "true", 0, 1, 1.0, -1.5, 2**70, True, False)


@pytest.mark.parametrize("field", ["metadata.n", "metadata.none", "title", "origin", "role", "unknown"])
def test_every_kind_of_value_is_compared_with_every_kind_in_every_way(connection, field):
    items = [
        a_source(Builder(SteppingClock(seed=f"{at}")), str(value), {"n": value}) for at, value in enumerate(_KINDS)
    ]
    store(connection, *items)
    asked = [
        *(Compare(field, operator, value) for operator in ("eq", "ne", "lt", "lte", "gt", "gte") for value in _KINDS),
        *(Compare(field, "in", (one, other)) for one in _KINDS for other in _KINDS),
        *(Compare(field, "in", values) for values in ((), ("a", 1, True), "a")),
        *(Compare(field, "prefix", value) for value in ("", "a", "ab", "1")),
        *(Compare(field, "exists", value) for value in (True, False, "maybe")),
        *(Compare(field, operator, ("a", 1)) for operator in ("eq", "ne", "lt")),
    ]
    assert [(where, found(connection, where)) for where in asked] == [
        (where, expected(items, where)) for where in asked
    ]


def test_no_conditions_at_all_are_met_by_everything_and_none_of_no_conditions_by_nothing(connection):
    items = [Builder(SteppingClock()).node("hive")]
    store(connection, *items)
    assert (found(connection, And(())), found(connection, Or(()))) == ([items[0].id], [])
    both = (Compare("title", "eq", "hive"), Compare("type", "eq", "node"), Compare("title", "eq", "tent"))
    assert (found(connection, And(both)), found(connection, And(both[:2]))) == ([], [items[0].id])
    assert (found(connection, Or(both)), found(connection, Or(both[2:]))) == ([items[0].id], [])


@pytest.mark.parametrize("field", ["metadata.n", "role", "unknown"])
@pytest.mark.parametrize("operator", ["eq", "exists", "gte", "prefix"])
def test_filter_on_an_unknown_column_matches_nothing(field, operator):
    value = True if operator == "exists" else "x"
    assert condition(Compare(field, operator, value), OBJECT_FIELDS) == NEVER


def test_an_index_is_asked_for_up_to_a_hundred_values():
    asked = [equalities(Compare("title", "in", tuple(map(str, range(count)))), INDEXED_FIELDS) for count in range(102)]
    assert [len(one.bindings) for one in asked] == [*range(101), 0]
    assert asked[0] == asked[101] == ALWAYS
    assert equalities(Compare("kind", "in", ("a", "b")), INDEXED_FIELDS) == ALWAYS


def test_whole_numbers_are_kept_as_they_are_as_far_as_the_store_can():
    numbers = (2**63 - 1, -(2**63), 2**63, -(2**63) - 1, 2**80, 130, 7, True)
    assert (stored_scalar(10**400), stored_scalar(-(10**400))) == (float("inf"), float("-inf"))
    kept = [stored_scalar(number) for number in numbers]
    assert kept == [2**63 - 1, -(2**63), float(2**63), float(-(2**63)), float(2**80), 130, 7, b"\x01"]
    assert [type(number) for number in kept] == [int, int, float, float, float, int, int, bytes]


def test_a_very_long_filter_is_no_error(connection):
    make = Builder(SteppingClock())
    items = [make.node("hive"), make.node("tent")]
    store(connection, *items)
    either = Or(tuple(Compare("title", "eq", f"name {n}") for n in range(3_000)))
    assert found(connection, either) == []
    assert found(connection, Not(either)) == [item.id for item in items]
    among = Compare("title", "in", (*(f"name {n}" for n in range(3_000)), "hive"))
    assert found(connection, among) == [items[0].id]


def test_everything_that_is_text_begins_with_nothing(connection):
    make = Builder(SteppingClock())
    items = [a_source(make, "a", {"n": ""}), a_source(make, "b", {"n": "x"}), a_source(make, "c", {"n": 1})]
    store(connection, *items)
    assert found(connection, Compare("metadata.n", "prefix", "")) == [item.id for item in items[:2]]


def test_times_compare_as_times(connection):
    clock = SteppingClock(day("2026-03-01"))
    early = Builder(clock).node("early")
    clock.set(day("2026-04-01"))
    late = Builder(clock).node("late")
    late = late.model_copy(update={"id": "node:" + "z" * 26})
    store(connection, early, late)
    assert found(connection, Compare("created_at", "gte", "2026-03-15T00:00:00Z")) == [late.id]


def test_a_whole_number_too_great_for_the_store_compares_as_a_float(connection):
    source = a_source(Builder(SteppingClock()), "t", {"n": 10**30})
    store(connection, source)
    assert found(connection, Compare("metadata.n", "gt", 10**29)) == [source.id]
    assert found(connection, Compare("metadata.n", "gt", 10**400)) == []


def test_the_work_of_a_list_grows_with_its_values_and_not_with_values_times_passages(connection):
    builder = Builder(SteppingClock())
    store(connection, *(builder.source(f"text {n}", origin=f"o:{n}") for n in range(50)))
    for field in ("title", "scope", "metadata.n"):
        few, many = (
            steps(connection, Compare(field, "in", tuple(f"v{n}" for n in range(count)))) for count in (100, 5_000)
        )
        assert many < few + 5_000 * 20, field


def test_a_filter_at_the_limits_is_within_those_of_sqlite(connection):
    wide = tuple(Compare(f"metadata.n{n}", "in", (n, f"{n}", True)) for n in range(MOST_CONDITIONS - 2))
    assert found(connection, And((Or(wide), Compare("title", "in", tuple(map(str, range(MOST_VALUES))))))) == []


def steps(connection, where):
    """Count the steps of SQLite's machine, by tens."""
    counted = []
    connection.set_progress_handler(lambda: bool(counted.append(10)), 10)
    try:
        found(connection, where)
    finally:
        connection.set_progress_handler(None, 0)
    return sum(counted)


def test_reader_caches_values_until_a_write(tmp_path):
    database = Database(str(tmp_path / "space.db"))
    with database.write() as writer:
        writer.execute("CREATE TABLE said(word)")
        writer.execute("INSERT INTO said VALUES ('one')")
    reads = []

    def said(connection):
        def read():
            reads.append(1)
            return [word for (word,) in connection.execute("SELECT word FROM said")]

        return remembered(connection, "said", read)

    for _ in range(3):
        with database.read() as connection:
            assert said(connection) == ["one"]
    assert len(reads) == 1
    with database.read() as connection:
        said(connection)
        with database.write() as writer:
            writer.execute("INSERT INTO said VALUES ('two')")
        with database.read() as inner:
            assert said(inner) == ["one"]
    with database.read() as connection:
        assert said(connection) == ["one", "two"]
    with database.write() as writer:
        assert said(writer) == ["one", "two"]
    database.close()


def test_readers_have_smaller_page_caches_than_the_writer(tmp_path):
    database = Database(str(tmp_path / "space.db"))
    with database.write() as writer, database.read() as reader:
        assert abs(reader.pragma("cache_size")) * 4 == abs(writer.pragma("cache_size"))
    database.close()
