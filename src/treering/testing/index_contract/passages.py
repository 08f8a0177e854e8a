"""Passages by key: heads, who may see them, what stands beside them."""

from datetime import UTC, datetime

import numpy as np

from treering.core.times import render_time
from treering.derived.analysis import query_terms
from treering.testing.index_contract.stage import EMBEDDER, IndexedSpace, IndexStage
from treering.testing.index_questions import beside, by_words, days, heads, near, read, seen, visible

_NONE = 10**9
"""A key that no passage has."""


class PassagesByKey(IndexStage):
    """`Passages`."""

    def test_heads_say_what_a_hit_needs_and_leave_out_what_is_not_there(self, space: IndexedSpace) -> None:
        source = space.make.source("Bees live in a hive.", title="Swarm", scope="/a")
        space.commit(source)
        key = space.key(source)
        [(found, head)] = heads(space.index, [key, _NONE]).items()
        assert (found, head.key, head.object_id, head.part) == (key, key, source.id, source.segments[0].segment_id)
        assert (head.type, head.kind, head.scope, head.role) == ("source", "markdown", "/a", "prose")
        assert (head.title, head.heading, head.origin) == ("Swarm", "", "notes.md")

    def test_keys_stand_for_the_same_passage_in_all_parts(self, space: IndexedSpace) -> None:
        source = space.make.source("Bees hum.", "Ants dig.", title="Notes")
        space.commit(source)
        space.embed()
        view = space.index.graph.view(seen())
        for place, word in enumerate(("bees", "ants")):
            key = space.key(source, place)
            assert [hit.key for hit in by_words(space.index, query_terms(word), reach=seen(), limit=9)] == [key]
            assert list(near(space.index, EMBEDDER.embed_query(word), reach=seen(), limit=1)) == [key]
            assert view.passages_of(view.of_passages(np.array([key], np.int64))).tolist() == [key]

    def test_an_unchanged_passage_keeps_its_key_when_its_source_is_read_again(self, space: IndexedSpace) -> None:
        source = space.make.source("Bees live in a hive.", "Ants live in a hill.")
        space.commit(source)
        key = space.key(source, 1)
        space.reread(source, "Wasps live in a nest.", "Ants live in a hill.")
        assert space.key(source, 1) == key
        updated = render_time(space.ledger.get(source.id).updated_at)
        assert visible(space.index, [key], reach=seen(where={"updated_at": {"gte": updated}})) == {key}

    def test_what_may_be_seen_is_told_by_scope_state_filter_and_time(self, space: IndexedSpace) -> None:
        one, other = space.make.source("Bees.", scope="/a"), space.make.source("Ants.", origin="2", scope="/b")
        made = space.commit(one, other).sequence
        keys = [space.key(one), space.key(other), _NONE]
        assert visible(space.index, keys, reach=seen("/a")) == {keys[0]}
        assert visible(space.index, keys, reach=seen(where={"origin": "2"})) == {keys[1]}
        space.move(one, "archived")
        assert visible(space.index, keys, reach=seen()) == {keys[1]}
        assert visible(space.index, keys, reach=seen(at=made)) == set(keys[:2])
        assert visible(space.index, keys, reach=seen(at=made - 2)) == set()
        withdrawn = list(space.keys(one, withdrawn=True).values())
        assert visible(space.index, withdrawn, reach=seen(withdrawn=True)) == set(withdrawn)
        assert visible(space.index, withdrawn, reach=seen()) == set()

    def test_passages_in_reach_are_counted(self, space: IndexedSpace) -> None:
        one, other = space.make.source("Bees.", "Wasps.", scope="/a"), space.make.source("Ants.", origin="2")
        made = space.commit(one, other).sequence
        assert space.index.passages.count(seen()) == 3
        assert space.index.passages.count(seen("/a", descend=False)) == 3
        assert space.index.passages.count(seen(descend=False)) == 1
        assert space.index.passages.count(seen(where={"scope": "/a"})) == 2
        space.move(one, "archived")
        assert space.index.passages.count(seen()) == 1
        assert space.index.passages.count(seen(withdrawn=True)) == space.index.passages.count(seen(at=made)) == 3

    def test_beside_a_turn_of_a_conversation_stand_the_turns_before_and_after(self, space: IndexedSpace) -> None:
        talk = space.talk(("Hello.", None), ("Hello to you.", None), ("Goodbye.", None))
        other = space.make.source("One.", "Two.")
        space.commit(talk, other)
        one, two, three = (space.key(talk, place) for place in range(3))
        asked = [one, two, three, space.key(other), _NONE]
        assert {key: list(near) for key, near in beside(space.index, asked).items()} == {
            one: [two],
            two: [one, three],
            three: [two],
        }
        found = read(space.index, [one], beside=True)
        assert found.heads.keys() == {one, two}

    def test_hundreds_of_turns_are_read_at_once_each_with_those_beside_it(self, space: IndexedSpace) -> None:
        talk = space.talk(*((f"Turn {place}.", None) for place in range(502)))
        space.commit(talk)
        keys = {head.part: key for key, head in heads(space.index, space.keys(talk).values()).items()}
        turns = [keys[part.segment_id] for part in talk.segments]
        found = read(space.index, turns, seen(), beside=True)
        assert found.heads.keys() == found.visible == set(turns)
        assert {key: list(near) for key, near in found.beside.items()} == {
            key: [*turns[max(0, place - 1) : place], *turns[place + 1 : place + 2]] for place, key in enumerate(turns)
        }

    def test_beside_a_turn_stand_only_turns_of_the_same_time(self, space: IndexedSpace) -> None:
        talk = space.talk(("Hello.", None), ("Hello to you.", None))
        space.commit(talk)
        first = space.key(talk)
        space.reread(talk, "Hello.", "Good morning.")
        [now] = [key for key in space.keys(talk).values() if key != first]
        assert {key: list(near) for key, near in beside(space.index, [first]).items()} == {first: [now]}

    def test_turns_beside_are_dated_with_those_asked_for(self, space: IndexedSpace) -> None:
        talk = space.talk(("Bees hum.", datetime(2023, 5, 8, tzinfo=UTC)), ("In June 2023.", None))
        space.commit(talk)
        one, two = space.key(talk, 0), space.key(talk, 1)
        found = read(space.index, [one], beside=True, days=(days("2023-06-01", "2023-06-30"),))
        assert dict(found.dated) == {two: 1.0}

    def test_what_is_erased_is_in_no_answer(self, space: IndexedSpace) -> None:
        source = space.make.source("Bees hum.")
        made = space.commit(source).sequence
        key = space.key(source)
        space.erase(source)
        found = read(space.index, [key], seen(at=made), beside=True)
        assert (dict(found.heads), found.visible, dict(found.beside), dict(found.dated)) == ({}, frozenset(), {}, {})
        assert space.index.passages.count(seen(at=made)) == space.index.passages.count(seen(withdrawn=True)) == 0
