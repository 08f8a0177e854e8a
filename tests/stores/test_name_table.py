"""Names of the graph in memory: found from either side, however many come and go."""

import random

import pytest

from treering.stores.rows.graph import NameTable, PackedNames, entity_name, object_name, stored_name


def packed(names):
    return PackedNames.of((number, stored_name(entity_name(name))) for number, name in names.items())


@pytest.mark.parametrize("count", [0, 1, 3_000])
def test_names_are_found_from_either_side(count):
    names = {number: f"name {number}" for number in range(1, count + 1)}
    table = NameTable()
    table.put(packed(names))
    assert table.names_of([*names, count + 1]) == names
    assert table.numbers_of([*names.values(), "another"]) == {name: number for number, name in names.items()}
    assert table.last == count


def test_an_object_is_named_but_found_by_no_entity_key():
    table = NameTable()
    table.put(PackedNames.of([(1, stored_name(object_name("source:1")))]))
    assert table.names_of([1]) == {1: "source:1"}
    assert table.numbers_of(["source:1"]) == {}


@pytest.mark.parametrize("most", [7, 3_000])
def test_names_that_were_discarded_are_not_found_and_their_letters_are_not_kept(most):
    names = {number: f"name {number}" for number in range(1, 4_001)}
    table = NameTable()
    table.put(packed(names))
    gone = range(1, most + 1)
    table.discard([*gone, 9_999])
    assert table.names_of(list(names)) == {number: name for number, name in names.items() if number not in gone}
    assert table.numbers_of(["name 7", "name 3500"]) == {"name 3500": 3_500}
    assert stored_name(entity_name("name 7")) not in {letters for _, letters in table._packed.pairs()}


def test_a_table_that_grew_and_shrank_says_what_is_left():
    chosen, table, left = random.Random(7), NameTable(), {}
    for step in range(60):
        names = {step * 200 + place: f"name {step} {place}" for place in range(1, 200)}
        table.put(packed(names))
        left |= names
        gone = chosen.sample(sorted(left), len(left) // 3)
        table.discard(gone)
        left = {number: name for number, name in left.items() if number not in set(gone)}
    assert table.names_of(range(60 * 200)) == left
    assert table.numbers_of([*left.values(), "name 0 1000"]) == {name: number for number, name in left.items()}


def test_two_names_with_the_same_code_are_told_apart(monkeypatch):
    monkeypatch.setattr("treering.stores.rows.graph.name_digest", lambda _: bytes(16))
    names = {number: f"name {number}" for number in range(1, 2_001)}
    table = NameTable()
    table.put(packed(names))
    assert table.numbers_of(["name 5", "name 1999", "name 2001"]) == {"name 5": 5, "name 1999": 1_999}
