"""Search by meaning, and the queue of texts that wait for a vector."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from treering.core.errors import InvalidInput
from treering.core.objects import Object
from treering.core.patch import Erase, Transition
from treering.core.policy import CURRENT
from treering.ports.ledger import Selection
from treering.ports.passages import PassageRequest, Reach
from treering.ports.search import Lag, NamePart, NearRequest, TextRequest
from treering.retrieval.index.projection import entries_of
from treering.retrieval.index.rounds import make_whole, run
from treering.retrieval.search.question import Question
from treering.retrieval.search.retrieval import Hit, Retrieval, retrieval
from treering.testing.fakes import SteppingClock
from treering.testing.index_contract.histories import HistoryWriter, Step, answers, histories
from treering.testing.index_contract.stage import (
    EMBEDDER,
    NO_KEY,
    IndexedSpace,
    IndexStage,
    OpenIndex,
    cosines,
    days,
    heads,
    near,
    seen,
)


class ByMeaning(IndexStage):
    """`Vectors`."""

    def test_vectors_lag_behind_the_text_and_the_lag_is_told(self, space: IndexedSpace) -> None:
        assert space.index.vectors.lag() == Lag(0, 0)
        space.commit(space.make.source("Bees hum.", "Ants dig.", "Moths fly."))
        assert space.index.vectors.lag() == Lag(3, 3)
        assert space.near("bees") == []
        space.embed(1)
        assert space.index.vectors.lag() == Lag(2, 3)
        space.embed()
        assert space.index.vectors.lag() == Lag(0, 3)

    def test_prose_and_symbols_wait_in_front_of_code_and_code_in_front_of_data(self, space: IndexedSpace) -> None:
        source = space.make.source("{}", "def f(): ...", "f gives nothing", "Words.")
        roles = ("data", "code", "symbol", "prose")
        parts = [part.model_copy(update={"role": role}) for part, role in zip(source.segments, roles, strict=True)]
        space.commit(source.model_copy(update={"segments": tuple(parts)}))
        texts = [item.text for item in space.index.vectors.pending(9)]
        assert (set(texts[:2]), texts[2:]) == ({"f gives nothing", "Words."}, ["def f(): ...", "{}"])
        assert [item.text for item in space.index.vectors.pending(2)] == texts[:2]

    def test_paragraphs_wait_in_front_of_turns(self, space: IndexedSpace) -> None:
        space.commit(space.talk(("Bees hum.", None)))
        space.commit(space.make.source("Ants dig."))
        assert [item.text for item in space.index.vectors.pending(1)] == ["Ants dig."]

    def test_bodies_of_code_and_what_was_generated_in_a_project_wait_for_no_vector(self, space: IndexedSpace) -> None:
        code = space.make.source("def f(): ...", "f gives nothing", kind="file", origin="r#src/f.py")
        roles = ("code", "symbol")
        parts = [part.model_copy(update={"role": role}) for part, role in zip(code.segments, roles, strict=True)]
        space.commit(code.model_copy(update={"segments": tuple(parts)}))
        space.commit(space.make.source("Words.", origin="r#docs/g.md", metadata={"generated": "a tool"}))
        assert [item.text for item in space.index.vectors.pending(9)] == ["f gives nothing"]
        space.embed()
        assert space.index.vectors.lag() == Lag(0, 3)

    def test_a_text_is_embedded_once_however_many_passages_have_it(self, space: IndexedSpace) -> None:
        one, two = space.make.source("Bees hum.", origin="1"), space.make.source("Bees hum.", "Ants dig.", origin="2")
        space.commit(one)
        space.embed()
        space.commit(two)
        assert [item.text for item in space.index.vectors.pending(9)] == ["Ants dig."]
        assert sorted(space.near("bees hum")) == sorted([one.id, two.id])
        space.embed()
        space.reread(two, "Ants dig.", "Moths fly.", "Bees hum.")
        assert [item.text for item in space.index.vectors.pending(9)] == ["Moths fly."]

    def test_a_vector_outlives_one_of_two_passages_and_goes_with_the_last(self, space: IndexedSpace) -> None:
        one, two = space.make.source("Bees hum.", origin="1"), space.make.source("Bees hum.", origin="2")
        space.commit(one, two)
        space.embed()
        space.erase(one)
        assert space.near("bees hum") == [two.id]
        space.erase(two)
        assert space.near("bees hum", withdrawn=True) == []
        space.commit(space.make.source("Bees hum.", origin="3"))
        assert space.index.vectors.lag() == Lag(1, 1)

    def test_what_is_withdrawn_before_it_was_embedded_waits_no_more(self, space: IndexedSpace) -> None:
        source = space.make.source("Bees hum.")
        space.commit(source)
        space.move(source, "archived")
        assert list(space.index.vectors.pending(9)) == []
        assert space.index.vectors.lag() == Lag(0, 0)

    def test_a_vector_that_comes_after_its_text_was_erased_is_not_kept(self, space: IndexedSpace) -> None:
        source = space.make.source("Bees hum.")
        space.commit(source)
        [waiting] = space.index.vectors.pending(1)
        space.erase(source)
        space.index.vectors.add({waiting.text_hash: EMBEDDER.embed_query(waiting.text)})
        space.commit(space.make.source("Bees hum.", origin="again"))
        assert space.index.vectors.lag() == Lag(1, 1)

    def test_cosines_are_exact_for_whatever_has_a_vector_current_or_not(self, space: IndexedSpace) -> None:
        source = space.make.source("Bees hum.", "Ants dig.")
        space.commit(source)
        space.embed()
        bees, ants = space.key(source, 0), space.key(source, 1)
        space.reread(source, "Ants dig.", "Moths fly.")
        query = EMBEDDER.embed_query("bees hum loudly")
        hums, digs = EMBEDDER.embed_documents(["Bees hum.", "Ants dig."])
        wanted = {bees: float(hums @ query), ants: float(digs @ query)}
        others = [key for key in space.keys(source).values() if key not in wanted]
        assert cosines(space.index, query, [bees, ants, *others, NO_KEY]) == pytest.approx(wanted, abs=1e-3)

    def test_the_nearest_are_found_and_no_more_than_were_asked_for(self, space: IndexedSpace) -> None:
        texts = ("Bees hum loudly in summer.", "Bees hum.", "Ants dig.")
        sources = [space.make.source(text, origin=text) for text in texts]
        space.commit(*sources)
        space.embed()
        assert space.near("bees hum", limit=2) == [sources[1].id, sources[0].id]
        assert space.near("bees hum", limit=2, where={"origin": "Ants dig."}) == [sources[2].id]
        first = near(space.index, EMBEDDER.embed_query("bees hum"), reach=seen(), limit=1)
        assert list(first.values()) == pytest.approx([1.0], abs=1e-3)

    def test_several_vectors_are_compared_each_with_its_limit(self, space: IndexedSpace) -> None:
        sources = [space.make.source(text, origin=text) for text in ("Bees hum.", "Ants dig.", "Moths fly.")]
        space.commit(*sources)
        space.embed()
        bees, ants, moths = map(space.key, sources)
        asked = (EMBEDDER.embed_query("bees hum"), EMBEDDER.embed_query("ants dig"))
        [found] = space.index.vectors.search([NearRequest(seen(), asked, (1, 0), (moths, NO_KEY))])
        assert found.found == {bees}
        assert [set(scores) for scores in found.cosines] == [{bees, moths}, {bees, moths}]
        [both] = space.index.vectors.search([NearRequest(seen(), asked, (1, 1))])
        assert both.found == {bees, ants}

    def test_a_vector_of_another_dimension_is_refused(self, space: IndexedSpace) -> None:
        space.commit(space.make.source("Bees hum."))
        [waiting] = space.index.vectors.pending(1)
        with pytest.raises(InvalidInput, match="shape"):
            space.index.vectors.add({waiting.text_hash: np.ones(8, np.float32)})
        assert space.index.vectors.lag() == Lag(1, 1)


# What keeps an index right: what remains of the erased, making it anew, comparing it with the ledger.


class Upkeeping(IndexStage):
    """`Upkeep`."""

    def test_of_what_is_there_something_remains_and_of_what_was_erased_nothing(self, space: IndexedSpace) -> None:
        secret = space.make.source("Xyzzy Plugh met Ada Lovelace.", "More.", origin="1")
        other = space.make.source("Ada Lovelace met Charles Babbage.", origin="2")
        work = space.make.work("Look it up", source_refs=[secret.id])
        space.commit(secret, other, work)
        space.embed()
        space.reread(secret, "Nothing.")
        assert space.index.upkeep.remains([secret.id]) > 0
        space.erase(secret)
        assert space.index.upkeep.remains([secret.id]) == 0
        assert space.index.upkeep.remains([secret.id, other.id]) == space.index.upkeep.remains([other.id]) > 0

    def test_what_is_withdrawn_remains(self, space: IndexedSpace) -> None:
        source = space.make.source("Bees hum.")
        space.commit(source)
        space.move(source, "archived")
        assert space.index.upkeep.remains([source.id]) > 0

    def test_a_rebuild_changes_no_answer_and_keeps_the_vectors(self, space: IndexedSpace) -> None:
        source = space.make.source("Bees live in a hive.", "Ants live in a hill.")
        gone = space.make.source("Moths live in a wardrobe.", origin="gone")
        space.commit(source, gone)
        space.embed()
        space.reread(source, "Wasps live in a nest.", "Ants live in a hill.")
        space.erase(gone)
        before = answers(space)
        assert space.index.upkeep.rebuild() == 3
        assert answers(space) == before
        assert space.index.vectors.lag().pending == 1
        assert list(space.index.upkeep.differences()) == []

    def test_an_index_that_follows_its_ledger_does_not_differ_from_it(self, space: IndexedSpace) -> None:
        assert list(space.index.upkeep.differences()) == []
        source = space.make.source("Bees hum.", "Ants dig.")
        space.commit(source, space.make.fact("hive", "holds", "bees"))
        space.move(source, "archived")
        assert list(space.index.upkeep.differences()) == []

    def test_an_import_is_found_like_what_was_written_here(self, space: IndexedSpace, open_index: OpenIndex) -> None:
        source = space.make.source("Bees live in a hive.", "Ants live in a hill.")
        space.commit(source)
        space.reread(source, "Ants live in a hill.")
        copy = IndexedSpace(open_index(), space.clock)
        copy.ledger.load(space.ledger.records())
        copy.catch_up()
        assert copy.find("ants") == copy.find("bees", at=1) == [source.id]
        assert answers(copy) == answers(space)


# What an index must do that applies changes only when it is told to, however far it is behind.


_QUESTIONS = ("Do bees hum?", "Who met Ada Lovelace?", "Acme", "dig_hills in May 2022")


class LateIndexContract(IndexStage):
    """Inherit this in addition to `IndexContract` if `open_index` returns an index that catches up only on request."""

    def test_what_was_not_applied_yet_is_not_found_and_then_it_is(self, space: IndexedSpace) -> None:
        source = space.make.source("Bees hum.")
        space.ledger.commit(space.make.patch(source))
        assert space.find("bees") == []
        space.catch_up()
        assert space.find("bees") == [source.id]

    def test_it_says_how_far_it_is_behind_until_it_was_brought_up_to_date(self, space: IndexedSpace) -> None:
        source = space.make.source("Bees hum.")
        assert (space.index.upkeep.behind().waiting, space.index.vectors.lag().behind) == (0, 0)
        space.ledger.commit(space.make.patch(source))
        assert space.index.upkeep.behind().waiting > 0
        assert space.index.vectors.lag().behind > 0
        make_whole(space.index)
        assert (space.index.upkeep.behind().waiting, space.index.vectors.lag().behind) == (0, 0)
        assert space.find("bees") == [source.id]

    def test_what_was_erased_remains_until_it_is_told_so(self, space: IndexedSpace) -> None:
        source = space.make.source("Bees hum.")
        space.commit(source)
        space.ledger.commit(space.make.patch(Erase(id=source.id, expected_revision=1)))
        assert space.index.upkeep.remains([source.id]) > 0
        make_whole(space.index)
        assert space.index.upkeep.remains([source.id]) == 0

    def test_what_was_withdrawn_since_is_proposed_and_not_shown(self, space: IndexedSpace) -> None:
        kept, gone, hidden = (space.make.source("Bees hum.", origin=name) for name in ("kept", "gone", "hidden"))
        space.commit(kept, gone, hidden)
        erase = Erase(id=gone.id, expected_revision=1)
        space.ledger.commit(space.make.patch(erase, Transition(id=hidden.id, expected_revision=1, to="archived")))
        assert sorted(space.find("bees")) == sorted([kept.id, gone.id, hidden.id])
        assert [hit.head.object_id for hit in _hits(space, "Do bees hum?")] == [kept.id]

    def test_what_was_edited_since_is_shown_as_it_is_now(self, space: IndexedSpace) -> None:
        source = space.make.source("Bees hum.", "Ants dig.", title="Before")
        space.commit(source)
        late, space.catch_up = space.catch_up, lambda: None
        space.reread(source, "Ants dig.", "Moths fly.")
        space.update(source, title="After")
        shown = [*_hits(space, "Do bees hum?"), *_hits(space, "Do ants dig?")]
        assert {(hit.text, hit.head.title) for hit in shown} == {("Ants dig.", "After")}
        space.catch_up = late

    @settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
    @given(before=histories, since=histories)
    def test_it_finds_what_was_true_at_its_cursor_and_shows_what_is_true_now(
        self, open_index: OpenIndex, clock: SteppingClock, before: Sequence[Step], since: Sequence[Step]
    ) -> None:
        space = IndexedSpace(open_index(), clock)
        history = HistoryWriter(space)
        for step in (("source", 0, 2), ("source", 1, 3), *before):
            history.take(step)
        true_then = _passages(space)
        late, space.catch_up = space.catch_up, lambda: None
        for step in since:
            history.take(step)
        assert _found(space) <= true_then.keys()
        true_now = {(place[0], text) for place, text in _passages(space).items()}
        for question in _QUESTIONS:
            for hit in _hits(space, question):
                assert hit.state.status in CURRENT[hit.state.type]
                assert (hit.head.object_id, hit.text) in true_now
        late()
        assert _found(space) <= _passages(space).keys()
        grown = answers(space)
        space.index.upkeep.rebuild()
        assert answers(space) == grown


def _passages(space: IndexedSpace) -> dict[tuple[str, str], str]:
    """Return the texts of current passages, by object and part."""
    items: list[Object] = list(space.ledger.select(Selection(descend=True)))
    entries = (entry.passage for item in items for entry in entries_of(item))
    return {(passage.object_id, passage.part): passage.text for passage in entries if passage.live}


def _found(space: IndexedSpace) -> set[tuple[str, str]]:
    """Return object and part of whatever a few questions find."""
    [text] = space.index.text.search([TextRequest(seen(), 1_000, words=("bee", "hum", "ada", "dig", "may"))])
    close = near(space.index, EMBEDDER.embed_query("Bees hum."), reach=seen(), limit=1_000)
    found = heads(space.index, [*(hit.key for hit in text.words), *close])
    return {(head.object_id, head.part) for head in found.values()}


def _hits(space: IndexedSpace, question: str) -> Sequence[Hit]:
    asked = Question.of(question, embedder=EMBEDDER)
    found: Retrieval = run(retrieval(asked, reach=seen(), limit=20), index=space.index, ledger=space.ledger)
    return found.hits


# Asking for several things together gives what asking for each gives.


_YEAR = days("2023-01-01", "2023-12-31")


class Together(IndexStage):
    """Every part answers a batch as it answers each request alone."""

    def test_searches_by_text(self, space: IndexedSpace) -> None:
        fill(space)
        requests = [
            TextRequest(
                reach, 3, words=("bee", "hive box"), names=(NamePart("hive_box", "bee"),), place="a.md", days=(_YEAR,)
            )
            for reach in _reaches(space)
        ]
        requests += [TextRequest(seen(), 9, counted=("bee", "none")), TextRequest(seen(), 1, names=(NamePart("hive"),))]
        assert _same(space.index.text.search, requests)
        assert list(space.index.text.search([])) == []

    def test_searches_by_meaning(self, space: IndexedSpace) -> None:
        keys = fill(space)
        space.embed()
        asked = (EMBEDDER.embed_query("bees"), EMBEDDER.embed_query("hive box"))
        requests = [NearRequest(reach, asked, (2, 0), tuple(keys[:2])) for reach in _reaches(space)]
        requests.append(NearRequest(seen(), (), (), tuple(keys)))
        together = space.index.vectors.search(requests)
        alone = [space.index.vectors.search([request])[0] for request in requests]
        assert [near.found for near in together] == [near.found for near in alone]
        assert [_plain(near.cosines) for near in together] == [_plain(near.cosines) for near in alone]

    def test_reads_of_passages(self, space: IndexedSpace) -> None:
        keys = fill(space)
        requests = [PassageRequest(tuple(keys), reach, (_YEAR,), beside=True) for reach in _reaches(space)]
        requests += [PassageRequest(()), PassageRequest(tuple(keys[:1])), PassageRequest(tuple(reversed(keys)), seen())]
        assert _same(space.index.passages.read, requests)


def fill(space: IndexedSpace) -> list[int]:
    """Write something of every kind; return the keys of its passages."""
    talk = space.talk(("Bees hum.", datetime(2023, 5, 8, tzinfo=UTC)), ("The bees in June 2023.", None), scope="/a")
    source = space.make.source("Bees live in a hive box.", "Call hive_box of bees.", title="a.md")
    fact = space.make.fact("hive", "holds", "bees")
    space.commit(talk, source, fact)
    space.reread(source, "Bees live in a hive box.", "Wasps do not.")
    space.move(fact, "archived")
    return [key for item in (talk, source, fact) for key in space.keys(item, withdrawn=True).values()]


def _reaches(space: IndexedSpace) -> list[Reach]:
    where = {"type": "source"}
    return [
        seen(),
        seen("/a"),
        seen("/b"),
        seen(where=where),
        seen(withdrawn=True),
        seen(at=space.ledger.sequence() - 2),
    ]


def _same(ask: Any, requests: Sequence[Any]) -> bool:
    return [_told(found) for found in ask(requests)] == [_told(ask([request])[0]) for request in requests]


def _told(found: Any) -> dict[str, object]:
    fields = {name: getattr(found, name) for name in type(found).__dataclass_fields__}
    return {name: list(value) if isinstance(value, Sequence) else value for name, value in fields.items()}


def _plain(cosines: Sequence[Mapping[int, float]]) -> list[dict[int, float]]:
    return [{key: round(score, 5) for key, score in scores.items()} for scores in cosines]
