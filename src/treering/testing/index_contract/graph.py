"""The entity graph: which passages speak of what, held against what the ledger says."""

import numpy as np

from treering.core.evidence import Triple
from treering.core.objects import Object, Source
from treering.derived.extraction.built_in import BuiltInExtractor
from treering.derived.projection import entries_of, ties_in
from treering.ports.ledger import Selection
from treering.ports.reach import Reach
from treering.testing.index_contract.stage import IndexedSpace, IndexStage
from treering.testing.index_questions import edges_around, edges_between, seen, statements_of
from treering.testing.memory_graph import MemoryGraph

ADA, BABBAGE, HOPPER = "ada lovelace", "charles babbage", "grace hopper"
_MET = "Ada Lovelace met Charles Babbage."
_REACHES = (seen(), seen("/a"), seen("/a", descend=False), seen("/other"))


class EntityGraph(IndexStage):
    """`Graph`."""

    def test_a_passage_is_tied_to_what_it_mentions_its_title_and_its_object(self, space: IndexedSpace) -> None:
        source = space.make.source(_MET, title="Engines")
        space.commit(source)
        key = space.key(source)
        view = space.index.graph.view(seen())
        ties = edges_between(view, view.of_passages(_keys(key)).tolist())
        wanted = {(ADA, "MENTION"), (BABBAGE, "MENTION"), ("engines", "TITLE"), (source.id, "PART")}
        assert {(key, name, tie) for name, tie in wanted} <= set(ties)
        assert (key, "MENTION") in _around(space, ADA)

    def test_given_triples_are_added_to_what_the_text_says(self, space: IndexedSpace) -> None:
        source = space.make.source(_MET, title="")
        space.commit(source)
        with_triples(space, source, ("Grace Hopper", "wrote", "COBOL"), (" ", "is", "blank"))
        key = space.key(source)
        assert set(_around(space, HOPPER)) >= {(key, "MENTION"), ("cobol", "FACT")}
        assert set(space.index.graph.view(seen()).named([ADA, "blank", ""])) == {ADA}
        told = [row[1:3] for row in statements_of(space.index.graph.view(seen()), [key])]
        assert set(told) == {(HOPPER, "cobol"), (ADA, BABBAGE)}

    def test_an_object_is_tied_to_those_it_refers_to_and_no_longer_when_it_does_not(self, space: IndexedSpace) -> None:
        source, other = space.make.source("Bees hum."), space.make.source("Ants dig.", origin="2")
        work = space.make.work("Count bees", source_refs=[source.id])
        space.commit(source, other, work)
        assert _links(space, work) == {source.id}
        space.update(work, source_refs=[other.id])
        assert _links(space, work) == {other.id}
        require_the_graph_of_the_ledger(space)

    def test_an_entity_called_like_an_object_is_another_node(self, space: IndexedSpace) -> None:
        source = space.make.source("Bees hum.", title="")
        space.commit(source)
        with_triples(space, source, (source.id, "is", "a source"))
        tied = _around(space, source.id)
        assert ("source", "FACT") in tied
        assert {tie for _, tie in tied} == {"FACT", "MENTION"}

    def test_only_what_is_current_is_in_the_graph(self, space: IndexedSpace) -> None:
        source = space.make.source(_MET)
        space.commit(source)
        key = space.key(source)
        space.reread(source, "Grace Hopper met Howard Aiken.")
        view = space.index.graph.view(seen())
        assert view.named([ADA, BABBAGE]) == {}
        assert edges_between(view, view.of_passages(_keys(key)).tolist()) == []
        assert _around(space, HOPPER)
        space.move(source, "archived")
        assert space.index.graph.view(seen()).named([HOPPER]) == {}

    def test_edges_are_given_only_as_passages_in_scope_vouch_for_them(self, space: IndexedSpace) -> None:
        sources = [space.make.source(_MET, origin=scope, scope=scope) for scope in ("/a", "/b", "/a/c")]
        space.commit(*sources)
        one, other, below = map(space.key, sources)

        def mentions(scope: str) -> set[object]:
            return {key for key, tie in _around(space, ADA, scope=scope) if tie == "MENTION"}

        assert (mentions("/b"), mentions("/a"), mentions("/d")) == ({other}, {one, below}, set())
        view = space.index.graph.view(seen("/b"))
        assert edges_between(view, view.of_passages(_keys(one)).tolist()) == []

    def test_degrees_count_the_edges_that_are_given(self, space: IndexedSpace) -> None:
        space.commit(*(space.make.source(_MET, origin=scope, scope=scope) for scope in ("/", "/a", "/b")))
        for reach in _REACHES:
            view = space.index.graph.view(reach)
            nodes = np.array([*view.named([ADA, BABBAGE]).values(), 10**6], np.int64)
            edges = view.edges(nodes)
            assert view.degrees(nodes).tolist() == np.bincount(edges.source, minlength=len(nodes)).tolist()
            assert len(edges.source) == len(edges.target) == len(edges.tie)

    def test_node_numbers_lead_back_to_what_they_stand_for(self, space: IndexedSpace) -> None:
        source = space.make.source(_MET, title="Engines")
        space.commit(source)
        key, view = space.key(source), space.index.graph.view(seen())
        [node] = view.of_passages(_keys(key)).tolist()
        ada = view.named([ADA])[ADA]
        assert view.passages_of(_keys(node, ada)).tolist() == [key, -1]
        assert view.names([ada, node]) == {ada: ADA}
        assert min(node, ada) >= 0

    def test_names_of_other_scripts_stay_apart(self, space: IndexedSpace) -> None:
        names = ("東京タワー", "大阪城", "анна каренина", "анна карелина", "نجيب محفوظ", "نجيب سرور")
        space.commit(*(space.make.source("x", origin=name, title=name) for name in names))
        view = space.index.graph.view(seen())
        nodes = view.named(names)
        assert len(set(nodes.values())) == len(names)
        assert view.names(list(nodes.values())) == {node: name for name, node in nodes.items()}

    def test_what_is_erased_leaves_no_name(self, space: IndexedSpace) -> None:
        secret = space.make.source("Xyzzy Plugh met Ada Lovelace in Abracadabra.", title="Opensesame", origin="1")
        other = space.make.source(_MET, origin="2")
        space.commit(secret, other)
        key = space.key(secret)
        assert _around(space, "xyzzy plugh")
        space.erase(secret)
        view = space.index.graph.view(seen())
        assert view.named(["xyzzy plugh", "abracadabra", "opensesame"]) == {}
        assert {end for end, tie in _around(space, ADA) if tie == "MENTION"} == {space.key(other)}
        assert statements_of(view, [key]) == []
        require_the_graph_of_the_ledger(space)


def require_the_graph_of_the_ledger(space: IndexedSpace) -> None:
    """Raise `AssertionError` where the graph says anything else than what the ledger's current passages do."""
    items = list(space.ledger.select(Selection(descend=True)))
    known = _graph_of(space, items)
    for reach in _REACHES:
        wanted = edges_around(known.view(reach), known.ties)
        assert edges_around(space.index.graph.view(reach), known.ties) == wanted
    keys = list(known.ties)
    everywhere = seen()
    assert statements_of(space.index.graph.view(everywhere), keys) == statements_of(known.view(everywhere), keys)


def with_triples(space: IndexedSpace, item: Object, *triples: tuple[str, str, str]) -> None:
    """Give the first segment of a source what it states."""
    source = space.ledger.get(item.id)
    assert isinstance(source, Source)
    first, *others = [part.model_dump() for part in source.segments]
    given = [Triple(subject=one, relation=how, object=other).model_dump() for one, how, other in triples]
    space.update(item, segments=[{**first, "triples": given}, *others])


def _graph_of(space: IndexedSpace, items: list[Object]) -> MemoryGraph:
    """Make the graph of what is current, by the keys that the index has for it."""
    graph, extractor = MemoryGraph(), BuiltInExtractor()
    for item in items:
        entries = [entry for entry in entries_of(item) if entry.passage.live]
        keys = space.keys(item) if entries else {}
        for entry, ties in zip(entries, ties_in(entries, extractor), strict=True):
            graph.put(keys[entry.passage.part], ties, entry.passage.scope)
    return graph


def _around(space: IndexedSpace, name: str, scope: str = "/") -> list[tuple[object, str]]:
    """Return what the edges out of an entity lead to, and why."""
    view = space.index.graph.view(Reach(scope, descend=True))
    nodes = list(view.named([name]).values())
    return [(target, tie) for _, target, tie in edges_between(view, nodes)]


def _links(space: IndexedSpace, item: Object) -> set[str]:
    """Return what an object is linked to, over the only passage it has."""
    view = space.index.graph.view(seen())
    edges = edges_around(view, [space.key(item)])
    return {str(other) for one, other, tie in edges if one == item.id and tie == "LINK"}


def _keys(*keys: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(keys, np.int64)
