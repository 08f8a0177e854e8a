"""What an index must do that applies changes only when it is told to, however far it is behind."""

from collections.abc import Sequence

from hypothesis import HealthCheck, given, settings

from treering.core.lifecycle import CURRENT
from treering.core.objects import Object
from treering.core.patch import Erase, Transition
from treering.derived.lookup import make_whole
from treering.derived.projection import entries_of
from treering.derived.question import Question
from treering.derived.retrieval import Hit, retrieve
from treering.ports.ledger import Selection
from treering.ports.text import TextRequest
from treering.testing.clocks import SteppingClock
from treering.testing.index_contract.histories import HistoryWriter, Step, answers, histories
from treering.testing.index_contract.stage import EMBEDDER, IndexedSpace, IndexStage, OpenIndex
from treering.testing.index_questions import heads, near, seen

_QUESTIONS = ("Do bees hum?", "Who met Ada Lovelace?", "Acme", "dig_hills in May 2022")


class LateIndexContract(IndexStage):
    """Inherit this besides `IndexContract` where `open_index` gives an index that catches up only when told to."""

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
    return retrieve(asked, index=space.index, ledger=space.ledger, reach=seen(), limit=20).hits
