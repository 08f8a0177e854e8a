"""The graph follows the ledger: whatever happens, it is what a graph made anew would be."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from graph_stage import all_nodes, edges_of, known_graph, stated
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from index_stage import open_space, seen

from treering.core.errors import TreeringError
from treering.core.evidence import Triple
from treering.core.patch import MoveScope, Supersede

_TEXTS = st.lists(
    st.sampled_from(["Ada Lovelace met Charles Babbage.", "Müller founded Acme in 1931.", "東京タワーは高い。", ""]),
    max_size=3,
    unique=True,
)
_SCOPES = st.sampled_from(["/", "/a", "/a/b"])
_NAMES = st.sampled_from(["Ada Lovelace", "Acme", " ", "Ada"])
_TRIPLES = st.lists(st.builds(Triple, subject=_NAMES, relation=st.just("knows"), object=_NAMES), max_size=2)


class Graphs(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.space = open_space()
        self.items = []

    @rule(texts=_TEXTS, scope=_SCOPES, title=st.sampled_from(["Acme", "Notes", "The Notes", ""]))
    def add_source(self, texts, scope, title):
        self.add(self.space.make.source(*texts, origin=f"o{len(self.items)}", title=title, scope=scope))

    @rule(subject=_NAMES, scope=_SCOPES, data=st.data())
    def add_knowledge(self, subject, scope, data):
        others = [self.pick(data).id] if self.items else []
        self.add(self.space.make.fact(f"{subject} Inc", "likes", len(self.items), subject_refs=others, scope=scope))

    @precondition(lambda self: self.items)
    @rule(data=st.data())
    def add_work(self, data):
        self.add(self.space.make.work("Ask Ada Lovelace", source_refs=[self.pick(data).id]))

    @precondition(lambda self: self.items)
    @rule(data=st.data())
    def refer_to_others(self, data):
        field = {"knowledge": "subject_refs", "work_item": "source_refs"}
        item = self.pick(data)
        if item.type in field:
            refs = list({self.pick(data).id, self.pick(data).id})
            self.attempt(lambda: self.space.update(item, **{field[item.type]: refs}))

    @precondition(lambda self: self.items)
    @rule(data=st.data(), texts=_TEXTS, triples=_TRIPLES)
    def read_again(self, data, texts, triples):
        item = self.pick(data)
        if item.type == "source":
            parts = self.space.make.segments(self.space.ledger.get(item.id), *texts)
            given = [{**part, "triples": triples} for part in parts]
            self.attempt(lambda: self.space.update(item, segments=given))

    @precondition(lambda self: self.items)
    @rule(data=st.data(), to=st.sampled_from(["active", "archived", "invalid", "contested", "closed"]))
    def move(self, data, to):
        item = self.pick(data)
        self.attempt(lambda: self.space.move(item, to))

    @precondition(lambda self: self.items)
    @rule(data=st.data(), to=_SCOPES)
    def move_scope(self, data, to):
        item = self.pick(data)
        revision = self.space.revision(item)
        self.attempt(lambda: self.space.commit(MoveScope(id=item.id, expected_revision=revision, to=to)))

    @precondition(lambda self: self.items)
    @rule(data=st.data())
    def supersede(self, data):
        old, new = self.pick(data), self.pick(data)
        revision = self.space.revision(old)
        self.attempt(lambda: self.space.commit(Supersede(id=old.id, by=new.id, expected_revision=revision)))

    @precondition(lambda self: self.items)
    @rule(data=st.data())
    def erase(self, data):
        item = self.pick(data)
        self.attempt(lambda: self.space.erase(item))
        self.items = [other for other in self.items if other.id in self.space.ledger.heads([other.id])]
        if item not in self.items:
            assert self.space.index.upkeep.remains([item.id]) == 0

    @invariant()
    def nothing_differs_from_a_graph_made_anew(self):
        assert self.space.index.upkeep.differences() == []

    @invariant()
    def the_table_in_memory_says_what_the_ledger_does(self):
        known, graph = known_graph(self.space), self.space.index.graph
        nodes = all_nodes(self.space)
        named = known.names
        assert sorted(graph.view(seen()).names(nodes).values()) == sorted(named.values())
        for reach in (seen(), seen("/a"), seen("/a", descend=False), seen("/other")):
            assert edges_of(graph, nodes, reach) == edges_of(known, [*named, *(2 * key for key in known.ties)], reach)
        assert stated(graph, list(known.ties)) == stated(known, list(known.ties))

    def teardown(self):
        grown = edges_of(self.space.index.graph, all_nodes(self.space))
        self.space.index.upkeep.rebuild()
        assert len(edges_of(self.space.index.graph, all_nodes(self.space))) == len(grown)
        self.the_table_in_memory_says_what_the_ledger_does()
        self.space.ledger.close()

    def pick(self, data):
        return data.draw(st.sampled_from(self.items))

    def add(self, item):
        if self.attempt(lambda: self.space.commit(item)) and self.space.ledger.heads([item.id]):
            self.items.append(item)

    def attempt(self, action):
        """Do what the rules of the objects may refuse."""
        try:
            return action()
        except TreeringError:
            return None


TestGraphs = Graphs.TestCase
TestGraphs.settings = settings(max_examples=30, stateful_step_count=15, deadline=None)


@pytest.mark.nightly
def test_the_graph_is_the_same_in_every_process_however_it_grew():
    def digest(seed: str, way: str) -> str:
        script = Path(__file__).with_name("graph_process.py")
        done = subprocess.run(
            [sys.executable, str(script), way],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parents[1])},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    together = digest("1", "together")
    assert len(together.strip()) == 64
    assert digest("2", "together") == digest("3", "one by one") == together
