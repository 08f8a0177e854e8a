"""The entity graph: the entities of each passage, compared with the ledger."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from treering.core.evidence import Triple
from treering.core.objects import Object, Source
from treering.core.scope import ROOT
from treering.ports.ledger import Selection
from treering.ports.passages import Reach
from treering.ports.search import Edges, EdgeType, Nodes, Statements
from treering.retrieval.extraction.built_in import BuiltInExtractor
from treering.retrieval.index.projection import entries_of, ties_in
from treering.retrieval.index.ties import Ties
from treering.testing.index_contract.passages import as_code
from treering.testing.index_contract.stage import (
    IndexedSpace,
    IndexStage,
    edges_around,
    edges_between,
    names_in,
    seen,
    statements_of,
)

# An entity graph in plain dictionaries: what `ports.search.Graph` means, written as plainly as possible.


_OF_OBJECTS = frozenset({EdgeType.PART, EdgeType.LINK})


@dataclass(slots=True)
class MemoryGraph:
    """A `Graph` one fills by hand, for tests of what is built on the port, and for stores that keep it in memory.

    The passage with key k is node `width * k`; the n-th name is node `width * n + 1`. Tests must not rely on that.
    """

    width: int = 2
    ties: dict[int, tuple[str, Ties]] = field(default_factory=dict)
    """The scope and the entities of each passage, by key."""
    entities: dict[str, int] = field(default_factory=dict)
    objects: dict[str, int] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    """By node: the key of the entity, the id of the object."""
    edges_by_node: dict[int, list[tuple[int, EdgeType, int]]] = field(default_factory=dict)
    """The edges of each node: target, reason, and source passage."""
    numbered: int = 0
    """All names that ever had a number; numbers are not reused."""

    def put(self, key: int, ties: Ties, scope: str = ROOT) -> None:
        """Tie a passage in. A passage is put once, or again after it was discarded."""
        self.ties[key] = (scope, ties)
        for one, other, tie in self._pairs(key, ties):
            self.edges_by_node.setdefault(one, []).append((other, tie, key))
            self.edges_by_node.setdefault(other, []).append((one, tie, key))

    def discard(self, key: int) -> None:
        """Take a passage out, and the names that no other passage has."""
        _, ties = self.ties.pop(key, (ROOT, Ties((), ())))
        for node in {end for one, other, _ in self._pairs(key, ties) for end in (one, other)}:
            kept = [edge for edge in self.edges_by_node.pop(node) if edge[2] != key]
            if kept:
                self.edges_by_node[node] = kept
            else:
                self._forget(node)

    def view(self, reach: Reach) -> "MemoryGraphView":
        """Return the part of the graph that is visible at the scope of `reach`."""
        return MemoryGraphView(self, reach)

    def _pairs(self, key: int, ties: Ties) -> list[tuple[int, int, EdgeType]]:
        """Return the nodes that a passage connects, by node."""
        own = [(self.width * key, self._number(name, tie), tie) for name, tie in ties.nodes]
        return own + [
            (self._number(pair.one, pair.tie), self._number(pair.other, pair.tie), pair.tie) for pair in ties.pairs
        ]

    def _number(self, name: str, tie: EdgeType) -> int:
        """Return the node of an entity, or of an object that may be called the same."""
        known = self.objects if tie in _OF_OBJECTS else self.entities
        if name not in known:
            known[name] = self.width * self.numbered + 1
            self.names[known[name]] = name
            self.numbered += 1
        return known[name]

    def _forget(self, node: int) -> None:
        name = self.names.pop(node, "")
        for known in (self.entities, self.objects):
            if known.get(name) == node:
                del known[name]


@dataclass(frozen=True, slots=True)
class MemoryGraphView:
    """`ports.search.GraphView` of a `MemoryGraph`."""

    graph: MemoryGraph
    reach: Reach

    def of_passages(self, keys: npt.NDArray[np.int64]) -> Nodes:
        """Return the nodes of passages, by key."""
        return self.graph.width * keys

    def passages_of(self, nodes: Nodes) -> npt.NDArray[np.int64]:
        """Return the passage key of each node, or -1 for nodes without a passage."""
        return np.where(nodes % self.graph.width == 0, nodes // self.graph.width, -1)

    def named(self, keys: Sequence[str]) -> Mapping[str, int]:
        """Return the nodes of the known entity keys."""
        return {key: self.graph.entities[key] for key in keys if key in self.graph.entities}

    def names(self, nodes: Sequence[int]) -> Mapping[int, str]:
        """Return the keys of entities, the ids of objects."""
        return {node: self.graph.names[node] for node in nodes if node in self.graph.names}

    def edges(self, nodes: Nodes) -> Edges:
        """Return all edges out of some nodes that passages in reach vouch for."""
        ties = self.graph.ties
        found = [
            (at, target, tie)
            for at, node in enumerate(nodes.tolist())
            for target, tie, owner in self.graph.edges_by_node.get(node, ())
            if self.reach.sees(ties[owner][0])
        ]
        table = np.array(found, np.int64).reshape(-1, 3)
        return Edges(table[:, 0], table[:, 1], table[:, 2].astype(np.uint8))

    def degrees(self, nodes: Nodes) -> npt.NDArray[np.int64]:
        """Count the edges that `edges` would give for each node."""
        return np.bincount(self.edges(nodes).source, minlength=len(nodes))

    def statements(self, passages: Sequence[int]) -> Statements:
        """Return the statements of passages."""
        facts = [
            (at, pair)
            for at, key in enumerate(passages)
            for pair in (self.graph.ties[key][1].pairs if key in self.graph.ties else ())
            if pair.tie == EdgeType.FACT
        ]
        return Statements(
            np.array([at for at, _ in facts], np.int64),
            np.array([self.graph.entities[pair.one] for _, pair in facts], np.int64),
            np.array([self.graph.entities[pair.other] for _, pair in facts], np.int64),
            np.cumsum([0, *(len(pair.words) for _, pair in facts)], dtype=np.int64),
            np.array([word for _, pair in facts for word in pair.words], np.uint16),
        )


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

    def test_code_is_tied_again_when_only_its_language_changes(self, space: IndexedSpace) -> None:
        talk = space.talk((_MET, None))
        space.commit(talk)
        as_code(space, talk, "app/engine.py")
        key = space.key(talk)
        assert ADA not in names_in(space.index.graph.view(seen()), [key])
        for metadata, is_tied in (({}, True), ({"language": "python"}, False)):
            space.update(talk, metadata=metadata)
            assert space.key(talk) == key
            assert (ADA in names_in(space.index.graph.view(seen()), [key])) == is_tied
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
    """Raise `AssertionError` if the graph differs from the current passages of the ledger."""
    items = list(space.ledger.select(Selection(descend=True)))
    known = _graph_of(space, items)
    for reach in _REACHES:
        wanted = edges_around(known.view(reach), known.ties)
        assert edges_around(space.index.graph.view(reach), known.ties) == wanted
    keys = list(known.ties)
    everywhere = seen()
    assert statements_of(space.index.graph.view(everywhere), keys) == statements_of(known.view(everywhere), keys)


def with_triples(space: IndexedSpace, item: Object, *triples: tuple[str, str, str]) -> None:
    """Add statements to the first segment of a source."""
    source = space.ledger.get(item.id)
    assert isinstance(source, Source)
    first, *others = [part.model_dump() for part in source.segments]
    given = [Triple(subject=one, relation=how, object=other).model_dump() for one, how, other in triples]
    space.update(item, segments=[{**first, "triples": given}, *others])


def _graph_of(space: IndexedSpace, items: list[Object]) -> MemoryGraph:
    """Build the graph of the current passages, with the keys of the index."""
    graph, extractor = MemoryGraph(), BuiltInExtractor()
    for item in items:
        entries = [entry for entry in entries_of(item) if entry.passage.live]
        keys = space.keys(item) if entries else {}
        for entry, ties in zip(entries, ties_in(entries, extractor), strict=True):
            graph.put(keys[entry.passage.part], ties, entry.passage.scope)
    return graph


def _around(space: IndexedSpace, name: str, scope: str = "/") -> list[tuple[object, str]]:
    """Return the targets of the edges of an entity, with the reasons."""
    view = space.index.graph.view(Reach(scope, descend=True))
    nodes = list(view.named([name]).values())
    return [(target, tie) for _, target, tie in edges_between(view, nodes)]


def _links(space: IndexedSpace, item: Object) -> set[str]:
    """Return the link targets of an object, over its only passage."""
    view = space.index.graph.view(seen())
    edges = edges_around(view, [space.key(item)])
    return {str(other) for one, other, tie in edges if one == item.id and tie == "LINK"}


def _keys(*keys: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(keys, np.int64)
