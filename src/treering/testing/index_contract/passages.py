"""Passages by key: heads, visibility, neighbors."""

from datetime import UTC, date, datetime, timedelta

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from treering.core.canonical import render_time
from treering.core.evidence import Definition, Lines
from treering.core.objects import Object, Source
from treering.ports.ledger import Selection
from treering.ports.passages import AskedDays, PassageRequest, Reach
from treering.retrieval.index.passages import passages_of
from treering.retrieval.index.projection import entries_of
from treering.retrieval.search.fusion import day_share
from treering.retrieval.text.analysis import query_terms
from treering.testing.fakes import SteppingClock
from treering.testing.index_contract.stage import (
    EMBEDDER,
    NO_KEY,
    IndexedSpace,
    IndexStage,
    LedgerWriter,
    OpenIndex,
    beside,
    by_days,
    by_words,
    days,
    heads,
    near,
    on_days,
    read,
    seen,
    visible,
)


class PassagesByKey(IndexStage):
    """`Passages`."""

    def test_heads_say_what_a_hit_needs_and_leave_out_what_is_not_there(self, space: IndexedSpace) -> None:
        source = space.make.source("Bees live in a hive.", title="Swarm", scope="/a")
        space.commit(source)
        key = space.key(source)
        [(found, head)] = heads(space.index, [key, NO_KEY]).items()
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
        keys = [space.key(one), space.key(other), NO_KEY]
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

    def test_places_of_passages_in_reach_are_listed(self, space: IndexedSpace) -> None:
        one, other = space.make.source("Bees.", "Wasps.", scope="/a"), space.make.source("Ants.", origin="2")
        space.commit(one, other)
        everything = {(item.id, segment.segment_id) for item in (one, other) for segment in item.segments}
        assert set(space.index.passages.places(seen())) == everything
        assert [place[0] for place in space.index.passages.places(seen(where={"scope": "/a"}))] == [one.id, one.id]
        space.move(one, "archived")
        assert [place[0] for place in space.index.passages.places(seen())] == [other.id]

    def test_beside_a_turn_of_a_conversation_stand_the_turns_before_and_after(self, space: IndexedSpace) -> None:
        talk = space.talk(("Hello.", None), ("Hello to you.", None), ("Goodbye.", None))
        other = space.make.source("One.", "Two.")
        space.commit(talk, other)
        one, two, three = (space.key(talk, place) for place in range(3))
        asked = [one, two, three, space.key(other), NO_KEY]
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


# Names of code: which passages define, import and use what, as far as each says so itself.


_CART, _SHOP = ("def total(): ...",), ("from app import cart", "cart.total()")
_USED = "u py app/cart#total"


class CodeNames(IndexStage):
    """`Passages.read` with `PassageRequest.named`."""

    def test_a_passage_of_code_is_found_by_what_it_defines_imports_and_uses(self, space: IndexedSpace) -> None:
        cart, shop = _shop(space)
        first, second = space.key(shop), space.key(shop, 1)
        wanted = {
            "m py /app/cart": [space.key(cart)],
            "m py cart": [space.key(cart)],
            "d py /app/cart#total": [space.key(cart)],
            "i py app/cart": [first],
            _USED: [second],
        }
        assert named(space, seen(), *wanted, "i py cart", "m py art") == wanted
        [found] = space.index.passages.read([PassageRequest((), seen(), named=tuple(wanted))])
        assert set(found.heads) == {space.key(cart), first, second}
        require_the_names_of_the_ledger(space)

    def test_nothing_is_found_by_name_where_nobody_says_what_may_be_seen(self, space: IndexedSpace) -> None:
        _shop(space)
        [found] = space.index.passages.read([PassageRequest((), named=(_USED,))])
        assert dict(found.named) == {}

    def test_only_what_is_current_and_in_scope_is_found_by_name(self, space: IndexedSpace) -> None:
        _, shop = _shop(space, scope="/a")
        there = {_USED: [space.key(shop, 1)]}
        assert named(space, seen("/a"), _USED) == there
        assert named(space, seen("/b"), _USED) == {}
        assert named(space, seen(where={"type": "knowledge"}), _USED) == {}
        space.move(shop, "invalid")
        assert named(space, seen(), _USED) == named(space, seen(withdrawn=True), _USED) == {}
        space.move(shop, "active")
        assert named(space, seen(), _USED) == {_USED: [space.key(shop, 1)]}

    def test_a_text_that_stays_is_found_by_what_it_uses_now(self, space: IndexedSpace) -> None:
        _, shop = _shop(space)
        as_code(space, shop, "app/shop.py", "i app.till#", "c app.till#total")
        assert named(space, seen(), _USED, "u py app/till#total") == {"u py app/till#total": [space.key(shop, 1)]}
        require_the_names_of_the_ledger(space)

    def test_what_is_erased_is_found_by_no_name(self, space: IndexedSpace) -> None:
        cart, shop = _shop(space)
        space.erase(shop)
        assert named(space, seen(), _USED, "i py app/cart", "m py cart") == {"m py cart": [space.key(cart)]}
        assert list(space.index.upkeep.differences()) == []


def named(space: IndexedSpace, reach: Reach, *names: str) -> dict[str, list[int]]:
    """Return the passages found by each name of code, by key."""
    [found] = space.index.passages.read([PassageRequest((), reach, named=names)])
    return {name: sorted(keys) for name, keys in found.named.items()}


def as_code(space: LedgerWriter, item: Object, path: str, *uses: str) -> None:
    """Make the segments of a source Python code at a path, each of which uses one thing and defines `run`."""
    source = space.ledger.get(item.id)
    assert isinstance(source, Source)
    parts = []
    for at, part in enumerate(source.segments):
        place = Lines(path=path, start=at + 1, end=at + 1)
        defined = (Definition(name="total" if "def total" in part.excerpt else "run", first=1, last=1),)
        code = {"locator": place, "definitions": defined, "uses": uses[at : at + 1], "role": "code"}
        parts.append(part.model_copy(update=code).model_dump())
    space.update(item, segments=parts, metadata={"language": "python"})


def require_the_names_of_the_ledger(space: IndexedSpace) -> None:
    """Raise `AssertionError` where passages are found by other names than the ledger's current ones vouch for."""
    wanted: dict[str, list[int]] = {}
    for item in space.ledger.select(Selection(descend=True)):
        entries = [entry for entry in entries_of(item) if entry.passage.live]
        keys = space.keys(item) if entries else {}
        for entry in entries:
            for name in entry.code_names:
                wanted.setdefault(name, []).append(keys[entry.passage.part])
    assert named(space, seen(), *wanted) == {name: sorted(keys) for name, keys in wanted.items()}


def _shop(space: IndexedSpace, scope: str = "/") -> tuple[Source, Source]:
    cart = space.make.source(*_CART, origin="repo:x#app/cart.py", title="app/cart.py", scope=scope)
    shop = space.make.source(*_SHOP, origin="repo:x#app/shop.py", title="app/shop.py", scope=scope)
    space.commit(cart, shop)
    as_code(space, cart, "app/cart.py")
    as_code(space, shop, "app/shop.py", "i app#cart", "c app#cart.total")
    return cart, shop


# Search by the days that turns were said on, or speak of.


MAY, JUNE = days("2023-05-01", "2023-05-31"), days("2023-06-01", "2023-06-30")
SAID = datetime(2023, 5, 8, 12, tzinfo=UTC)

_DAYS = st.dates(date(2022, 1, 1), date(2024, 12, 31))
_ASKED = st.builds(
    lambda one, other, weight: AskedDays(min(one, other), max(one, other), weight),
    _DAYS,
    _DAYS,
    st.sampled_from([1.0, 0.5]),
)
_TEXTS = st.sampled_from(["Yes.", "Last week.", "In 2023.", "In May.", "Yesterday, and last year.", "since 2015"])


class Days(IndexStage):
    """`TextSearch` by days."""

    def test_turns_said_on_a_day_or_speaking_of_it_are_found_by_it(self, space: IndexedSpace) -> None:
        later = SAID + timedelta(days=60)
        talk = space.talk(("Bees hum.", SAID), ("The bees of May 2023 were many.", later), ("Ants dig.", later))
        space.commit(talk)
        assert _scores(space, MAY) == {space.key(talk, 0): 1.0, space.key(talk, 1): 1.0}
        assert _scores(space, JUNE) == _scores(space) == {}

    def test_a_longer_time_counts_by_the_part_of_it_that_is_asked_for(self, space: IndexedSpace) -> None:
        talk = space.talk(("In May 2023.", None), ("The first half of May 2023 and 2023-05-31.", None))
        space.commit(talk)
        one, other = space.key(talk, 0), space.key(talk, 1)
        day = days("2023-05-31", weight=0.5)
        assert _scores(space, day) == pytest.approx({one: 0.5 / 31, other: 0.5})
        assert _scores(space, day, MAY) == {one: 1.0, other: 1.0}

    def test_the_best_come_first_then_the_newest_and_no_more_than_asked_for(self, space: IndexedSpace) -> None:
        talk, later = space.talk(("In 2023.", None), ("Bees.", SAID)), space.talk(("Ants.", SAID), origin="later")
        space.commit(talk)
        space.commit(later)
        wanted = [space.key(later), space.key(talk, 1), space.key(talk, 0)]
        assert [hit.key for hit in by_days(space.index, [MAY], reach=seen(), limit=10)] == wanted
        assert [hit.key for hit in by_days(space.index, [MAY], reach=seen(), limit=2)] == wanted[:2]

    def test_some_turns_have_the_scores_they_have_among_all(self, space: IndexedSpace) -> None:
        turns = [(f"Bee {n}, and in May 2023.", SAID + timedelta(days=20 * n)) for n in range(40)]
        talk = space.talk(*turns)
        space.commit(talk)
        every = _scores(space, MAY, JUNE)
        assert len(every) == 40
        assert on_days(space.index, [MAY, JUNE], [*every, 10**9]) == pytest.approx(every)
        first = space.key(talk)
        assert on_days(space.index, [MAY, JUNE], [first]) == pytest.approx({first: every[first]})
        assert on_days(space.index, [], every) == on_days(space.index, [MAY], []) == {}

    def test_days_are_found_within_reach_alone(self, space: IndexedSpace) -> None:
        one, other = space.talk(("Bees.", SAID), scope="/a"), space.talk(("Ants.", SAID), scope="/b", origin="b")
        space.commit(one, other)
        by_scope = by_days(space.index, [MAY], reach=seen("/a"), limit=9)
        by_filter = by_days(space.index, [MAY], reach=seen(where={"scope": "/b"}), limit=9)
        assert (space.objects(by_scope), space.objects(by_filter)) == ([one.id], [other.id])

    def test_days_of_what_was_said_otherwise_are_found_as_of_then(self, space: IndexedSpace) -> None:
        talk = space.talk(("Bees came in May 2023.", None))
        made = space.commit(talk).sequence
        before = space.key(talk)
        space.reread(talk, "Bees came in June 2023.")
        assert (_scores(space, MAY), list(_scores(space, JUNE).values())) == ({}, [1.0])
        then = by_days(space.index, [MAY], reach=seen(at=made), limit=9)
        assert [(hit.key, hit.score) for hit in then] == [(before, 1.0)]

    def test_erased_turns_are_found_by_no_day(self, space: IndexedSpace) -> None:
        talk, other = space.talk(("Bees came yesterday.", SAID)), space.talk(("Ants.", SAID), origin="other")
        space.commit(talk, other)
        gone = space.key(talk)
        space.erase(talk)
        assert _scores(space, MAY) == {space.key(other): 1.0}
        assert on_days(space.index, [MAY], [gone]) == {}

    @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        turns=st.lists(st.tuples(_TEXTS, _DAYS), min_size=1, max_size=6), asked=st.lists(_ASKED, min_size=1, max_size=4)
    )
    def test_a_score_is_the_best_share_of_a_told_period(
        self, open_index: OpenIndex, clock: SteppingClock, turns: list[tuple[str, date]], asked: list[AskedDays]
    ) -> None:
        space = IndexedSpace(open_index(), clock)
        talk = space.talk(*((text, datetime(day.year, day.month, day.day, tzinfo=UTC)) for text, day in turns))
        space.commit(talk)
        keys = space.keys(talk)
        wanted = {keys[passage.part]: day_share(passage, asked) for passage in passages_of(talk)}
        assert _scores(space, *asked) == pytest.approx({key: share for key, share in wanted.items() if share})


def _scores(space: IndexedSpace, *asked: AskedDays) -> dict[int, float]:
    return {hit.key: hit.score for hit in by_days(space.index, asked, reach=seen(), limit=1_000)}
