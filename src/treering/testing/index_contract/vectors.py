"""Search by meaning, and the queue of texts that wait for a vector."""

import numpy as np
import pytest

from treering.core.errors import InvalidInput
from treering.ports.vectors import Lag, NearRequest
from treering.testing.index_contract.stage import EMBEDDER, IndexedSpace, IndexStage
from treering.testing.index_questions import cosines, near, seen

_NONE = 10**9
"""A key that no passage has."""


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
        assert cosines(space.index, query, [bees, ants, *others, _NONE]) == pytest.approx(wanted, abs=1e-3)

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
        [found] = space.index.vectors.search([NearRequest(seen(), asked, (1, 0), (moths, _NONE))])
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
