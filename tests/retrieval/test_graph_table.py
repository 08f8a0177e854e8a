"""The graph in memory, against a dictionary of what each passage says."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from treering.core.errors import Corrupt, InvalidInput
from treering.ports.search import EdgeType
from treering.retrieval.graph import graph_table
from treering.retrieval.graph import graph_table as graph_runs
from treering.retrieval.graph.graph_table import GraphTable
from treering.retrieval.index.ties import NumberedTies, pack_ties, statements_in

_KEYS = st.integers(0, 9)
_SCOPES = st.integers(1, 3)
_NUMBERS = st.integers(0, 6)
_TIES = st.builds(
    NumberedTies,
    st.lists(st.tuples(_NUMBERS, st.sampled_from([EdgeType.MENTION, EdgeType.TITLE, EdgeType.PART])), max_size=4).map(
        tuple
    ),
    st.lists(st.tuples(_NUMBERS, _NUMBERS, st.lists(st.integers(0, 99), max_size=3).map(tuple)), max_size=3).map(tuple),
    st.lists(st.tuples(_NUMBERS, _NUMBERS, st.sampled_from([EdgeType.FORM, EdgeType.LINK])), max_size=3).map(tuple),
)
_ALL_NODES = np.arange(24)


def keyed(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def put(table: GraphTable, *given: tuple[int, int, NumberedTies]) -> None:
    scopes = np.array([scope for _, scope, _ in given], np.int32)
    table.put(keyed(*(key for key, _, _ in given)), scopes, [pack_ties(ties) for _, _, ties in given])


def edges_of(table: GraphTable, nodes: np.ndarray, scopes=None) -> list[tuple[int, int, int]]:
    found = table.edges(nodes, scopes)
    return sorted(zip(nodes[found.source].tolist(), found.target.tolist(), found.tie.tolist(), strict=True))


def stated(*records: NumberedTies) -> list[tuple[int, int, int, tuple[int, ...]]]:
    found = statements_in([pack_ties(ties) for ties in records])
    words = [tuple(found.words[a:b].tolist()) for a, b in zip(found.bounds[:-1], found.bounds[1:], strict=True)]
    ends = (found.passage.tolist(), found.subject.tolist(), found.object.tolist())
    return list(zip(*ends, words, strict=True))


def naive_edges(ties: NumberedTies, key: int) -> list[tuple[int, int, int]]:
    ends = [(2 * key, 2 * number + 1, tie) for number, tie in ties.nodes]
    ends += [(2 * one + 1, 2 * other + 1, EdgeType.FACT) for one, other, _ in ties.facts]
    ends += [(2 * one + 1, 2 * other + 1, tie) for one, other, tie in ties.pairs]
    return [way for one, other, tie in ends for way in ((one, other, int(tie)), (other, one, int(tie)))]


class Tables(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.table = GraphTable()
        self.naive: dict[int, tuple[int, NumberedTies]] = {}

    @rule(given=st.lists(st.tuples(_KEYS, _SCOPES, _TIES), max_size=5))
    def put(self, given):
        put(self.table, *given)
        self.naive |= {key: (scope, ties) for key, scope, ties in given}

    @rule(keys=st.lists(_KEYS, max_size=5))
    def discard(self, keys):
        self.table.discard(keyed(*keys))
        self.naive = {key: value for key, value in self.naive.items() if key not in keys}

    @rule(nodes=st.lists(st.integers(0, 40), max_size=6), scopes=st.none() | st.lists(st.integers(0, 5), max_size=3))
    def ask(self, nodes, scopes):
        wanted = [
            edge
            for key, (scope, ties) in self.naive.items()
            if scopes is None or scope in scopes
            for edge in naive_edges(ties, key)
            for node in nodes
            if node == edge[0]
        ]
        assert edges_of(self.table, keyed(*nodes), scopes) == sorted(wanted)

    @rule(scopes=st.none() | st.lists(st.integers(0, 5), max_size=3))
    def count_the_edges_of_each_node(self, scopes):
        shown = [ties for ties in self.naive.items() if scopes is None or ties[1][0] in scopes]
        sources = [edge[0] for key, (_, ties) in shown for edge in naive_edges(ties, key)]
        wanted = [sources.count(node) for node in _ALL_NODES]
        assert self.table.degrees(_ALL_NODES, scopes).tolist() == wanted

    @invariant()
    def as_many_passages_are_there_as_were_put_and_not_discarded(self):
        assert len(self.table) == len(self.naive)


class SmallTables(Tables):
    """The same with so little room that runs are merged and rows dropped all the time."""

    room_for = (("FRESH", 2), ("_RATIO", 1), ("_LEAST_DEAD", 3), ("_BLOCK", 2), ("_RUN_ROWS", 2))

    def __init__(self):
        super().__init__()
        self.room = pytest.MonkeyPatch()
        self.room.setattr(graph_runs, "_MERGED_AT_ONCE", 3)
        for name, value in self.room_for:
            self.room.setattr(graph_table, name, value)

    def teardown(self):
        self.room.undo()


class PatientTables(SmallTables):
    """The same where every run is large, so that runs are merged late and one at a time."""

    room_for = (*SmallTables.room_for, ("_LARGE", 0), ("_PATIENCE", 2))


TestTables = Tables.TestCase
TestTables.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
TestSmallTables = SmallTables.TestCase
TestSmallTables.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)
TestPatientTables = PatientTables.TestCase
TestPatientTables.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)


def test_the_order_in_which_passages_came_does_not_show():
    rng = np.random.default_rng(3)
    given = [(key, 1 + key % 3, random_ties(rng)) for key in range(200)]
    one, other = GraphTable(), GraphTable()
    put(one, *given)
    for place in rng.permutation(len(given)):
        put(other, given[place])
        other.edges(_ALL_NODES)
    nodes = np.arange(500)
    for scopes in (None, [1], [2, 3], []):
        assert edges_of(one, nodes, scopes) == edges_of(other, nodes, scopes)


def test_what_many_changes_leave_behind_is_dropped_in_time():
    rng = np.random.default_rng(4)
    given = [(key, 1, random_ties(rng)) for key in range(300)]
    fresh, worn = GraphTable(), GraphTable()
    put(fresh, *given)
    for _ in range(12):
        put(worn, *given)
        worn.edges(_ALL_NODES)
        fresh.edges(_ALL_NODES)
    assert edges_of(worn, np.arange(700)) == edges_of(fresh, np.arange(700))
    assert worn.nbytes < 10 * fresh.nbytes


def test_large_runs_are_merged_one_at_a_time_and_not_before_edges_were_requested_often(monkeypatch):
    for name, value in (("_RUN_ROWS", 50), ("_LARGE", 100), ("_PATIENCE", 3)):
        monkeypatch.setattr(graph_table, name, value)
    merges = []
    merged = graph_table.merged
    monkeypatch.setattr(graph_table, "merged", lambda *given: (merges.append(1), merged(*given))[1])
    rng = np.random.default_rng(4)
    table = GraphTable()
    put(table, *((key, 1, random_ties(rng)) for key in range(202)))
    first = edges_of(table, np.arange(450))
    counts = []
    for _ in range(8):
        assert edges_of(table, np.arange(450)) == first
        counts.append(len(merges))
    assert counts == [0, 0, 1, 2, 3, 3, 3, 3]


def test_large_runs_are_merged_also_where_something_is_put_between_any_two_questions(monkeypatch):
    for name, value in (("_RUN_ROWS", 50), ("_LARGE", 500), ("_PATIENCE", 8)):
        monkeypatch.setattr(graph_table, name, value)
    rng = np.random.default_rng(4)
    table = GraphTable()
    put(table, *((key, 1, random_ties(rng)) for key in range(200)))
    sizes = []
    for key in range(1_000, 1_016):
        put(table, (key, 1, random_ties(rng)))
        table.edges(_ALL_NODES)
        sizes.append(len(table._runs))
    assert sizes[0] == 5
    assert sizes[-1] <= 3


def test_what_was_discarded_is_overwritten():
    table = GraphTable()
    put(table, (1, 1, NumberedTies(((3, EdgeType.PART),), ((4, 5, (0xBEEF, 0xBEEF)),))))
    table.discard(keyed(1))
    assert not table._rows.tied.words.any()
    assert not table._rows.pairs.words.any()


def test_two_passages_that_state_the_same_give_two_edges():
    table = GraphTable()
    ties = NumberedTies((), ((1, 2, ()),))
    put(table, (1, 1, ties), (2, 2, ties))
    assert edges_of(table, keyed(3)) == [(3, 5, EdgeType.FACT)] * 2
    assert edges_of(table, keyed(3), [2]) == [(3, 5, EdgeType.FACT)]


def test_a_node_that_is_asked_for_twice_is_answered_twice():
    table = GraphTable()
    put(table, (1, 1, NumberedTies(((7, EdgeType.MENTION),))))
    found = table.edges(keyed(15, 2, 15))
    assert sorted(found.source.tolist()) == [0, 1, 2]


@given(records=st.lists(_TIES, max_size=6))
def test_records_contain_statements_with_their_words(records):
    assert stated(*records) == [
        (place, 2 * one + 1, 2 * other + 1, words)
        for place, ties in enumerate(records)
        for one, other, words in ties.facts
    ]


def test_table_contains_no_words_of_statements():
    with_words, without = GraphTable(), GraphTable()
    put(with_words, (1, 1, NumberedTies((), ((4, 5, tuple(range(20))),))))
    put(without, (1, 1, NumberedTies((), ((4, 5, ()),))))
    assert with_words.nbytes == without.nbytes


def test_an_empty_table_has_no_edges():
    table = GraphTable()
    assert edges_of(table, _ALL_NODES) == edges_of(table, keyed()) == []
    put(table)
    table.discard(keyed(1))
    assert len(table) == 0


def test_a_damaged_record_changes_nothing():
    table = GraphTable()
    put(table, (1, 1, NumberedTies(((7, EdgeType.MENTION),))))
    with pytest.raises(Corrupt):
        table.put(keyed(1, 2), np.array([1, 1], np.int32), [pack_ties(NumberedTies(())), b"\1\0\0\0" * 3])
    assert edges_of(table, keyed(2)) == [(2, 15, EdgeType.MENTION)]


@pytest.mark.parametrize(("key", "scope"), [(-1, 1), (2**28, 1), (1, 0)])
def test_keys_and_scopes_out_of_range_are_refused(key, scope):
    with pytest.raises(InvalidInput):
        put(GraphTable(), (key, scope, NumberedTies(())))


def random_ties(rng: np.random.Generator) -> NumberedTies:
    numbers = [int(number) for number in rng.integers(0, 200, 12)]
    nodes = tuple((number, EdgeType.MENTION) for number in numbers[:6])
    facts = tuple((one, other, (one % 7, other)) for one, other in zip(numbers, numbers[4:8], strict=False))
    return NumberedTies((*nodes, (201, EdgeType.PART)), facts, ((numbers[0], numbers[1], EdgeType.FORM),))
