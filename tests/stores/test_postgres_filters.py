"""Filters on Postgres have the meaning of the reference, whatever values they compare."""

from contextlib import closing

import pytest
from postgres_spaces import new_space, open_target

from treering.core.canonical import render_time
from treering.core.filters import Compare, matches, parse_filter
from treering.extensions.postgres.index.index import PostgresIndex
from treering.extensions.postgres.ledger.ledger import PostgresLedger
from treering.ports.passages import PassageRequest, Reach
from treering.ports.search import TextRequest
from treering.testing.builders import Builder
from treering.testing.fakes import SteppingClock

VALUES = (
    *(0, 1, -1, 2**53, 2**53 + 1, 2**63, -(2**70), 10**23, 0.5, 1.0, 1e23, -2.5),
    *(True, False, "", "a", "ab", "b", "\0", "a\0b", "\U000f0000", "ä", "\U0010ffff", "1"),
)
OPERATORS = ("eq", "ne", "lt", "lte", "gt", "gte")


@pytest.fixture(scope="module")
def passages(server):
    """An index of passages with metadata of all kinds, and by object what filters ask of each."""
    clock = SteppingClock()
    make = Builder(clock)
    sources = [
        make.source(f"Bees {n}.", origin=f"{n}", title=f"Title {value!s:.20}", metadata={"v": value, "é'\"": n})
        for n, value in enumerate(VALUES)
    ]
    sources.append(make.source("Bees without.", origin="none", title="Without"))
    with closing(open_target(server, new_space())) as space:
        index = PostgresIndex(space, model_id="hashing/64", dimension=64)
        ledger = PostgresLedger(space, clock=clock, server_time=False, followers=[index])
        ledger.commit(make.patch(*sources))
        yield index, {one.id: record_of(ledger.get(one.id)) for one in sources}


def record_of(source):
    fields = {name: getattr(source, name) for name in ("type", "kind", "status", "scope", "origin", "title")}
    metadata = {f"metadata.{name}": value for name, value in source.metadata.items()}
    return {**fields, "created_at": render_time(source.created_at), "role": "prose", **metadata}


def require_what_the_reference_passes(passages, where):
    index, records = passages
    reach = Reach("/", descend=True, where=where)
    [found] = index.text.search([TextRequest(reach, 100, words=("bee",))])
    [read] = index.passages.read([PassageRequest(tuple(hit.key for hit in found.words))])
    wanted = {identity for identity, record in records.items() if matches(where, record)}
    assert {head.object_id for head in read.heads.values()} == wanted, where
    assert index.passages.count(reach) == len(wanted)


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("field", ["metadata.v", "title", "created_at"])
def test_comparisons_equal_the_reference(passages, field, operator):
    for value in (*VALUES, "\1", "Title \0", "Title \1", "\ud800", "a\udfff", 10**400):
        if not (isinstance(value, bool) and operator not in {"eq", "ne"}):
            require_what_the_reference_passes(passages, Compare(field, operator, value))


@pytest.mark.parametrize(
    "where",
    [
        {"metadata.v": {"in": ["a", 1, True, "\0"]}},
        {"metadata.v": {"in": []}},
        {"metadata.v": {"prefix": "a"}},
        {"metadata.v": {"prefix": ""}},
        {"metadata.v": {"prefix": "\ud800"}},
        {"metadata.v": {"exists": True}},
        {"not": {"metadata.v": {"exists": True}}},
        {"metadata.é'\"": {"gte": 3, "lt": 7}},
        {"metadata.\ud800": {"exists": False}},
        {"title": {"in": ["Title a", "Title b"]}},
        {"or": [{"origin": "1"}, {"not": {"metadata.v": {"gt": 0}}}]},
        {"scope": {"prefix": "/"}, "role": "prose"},
        {"created_at": {"gte": "2000-01-01T00:00:00Z"}},
    ],
    ids=str,
)
def test_lists_prefixes_and_existence_equal_the_reference(passages, where):
    require_what_the_reference_passes(passages, parse_filter(where))
