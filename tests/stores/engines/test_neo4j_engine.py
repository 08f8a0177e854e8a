"""Neo4j, with a vector index and without: it passes the contracts against a real server that speaks Bolt."""

from dataclasses import replace
from itertools import count

import neo4j
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import neo4j_server
import space_parts
from treering.core.errors import Corrupt, InvalidInput, Unavailable
from treering.extensions.engines.engine_address import parse_engine_address
from treering.extensions.engines.neo4j_engine import open_neo4j
from treering.ports.vector_engine import DescribedPassage, EngineState, VectorChanges
from treering.testing.fakes import SteppingClock
from treering.testing.index_contract import EMBEDDER, LateIndexContract
from treering.testing.index_contract.histories import STEPS, HistoryWriter
from treering.testing.index_contract.stage import IndexedSpace
from treering.testing.index_contract.vectors import ByMeaning, Upkeeping
from treering.testing.vector_engine_contract import VectorEngineContract, some_vectors, take_over

_marks = count()


@pytest.fixture(scope="module")
def server():
    try:
        started = neo4j_server.new_server()
    except (neo4j_server.CannotStart, ModuleNotFoundError) as error:
        pytest.skip(f"no server that speaks Bolt can be started here: {error}")
    yield started
    neo4j_server.remove(started)


@pytest.fixture(params=["no index", "vector index"])
def searching(request):
    return request.param


@pytest.fixture
def new_mark(server, searching):
    """Make marks of spaces; the server has a vector index for each where it is to search."""

    def new_mark():
        mark = f"mark{next(_marks)}"
        if searching == "vector index":
            label = f"TreeringVector_{mark}"
            server.sql(f"CREATE VERTEX TYPE {label}")
            server.sql(f"CREATE PROPERTY {label}.embedding ARRAY_OF_FLOATS")
            options = f'{{dimensions: {EMBEDDER.dimension}, similarity: "COSINE"}}'
            server.sql(f"CREATE INDEX ON {label} (embedding) LSM_VECTOR METADATA {options}")
        return mark

    return new_mark


def engine_at(server, mark="mark"):
    return open_neo4j(parse_engine_address(server.url()), mark, EMBEDDER.dimension)


@pytest.fixture
def open_new_engine(server, new_mark):
    opened = []

    def open_new_engine():
        opened.append(engine_at(server, new_mark()))
        return opened[-1]

    yield open_new_engine
    for engine in opened:
        engine.drop()
        engine.close()


class TestNeo4jEngine(VectorEngineContract):
    @pytest.fixture
    def open_engine(self, server, new_mark):
        mark, opened = new_mark(), []

        def open_engine():
            opened.append(engine_at(server, mark))
            return opened[-1]

        yield open_engine
        for engine in opened:
            engine.close()


class TestIndexWithNeo4j(ByMeaning, Upkeeping):
    @pytest.fixture
    def searching(self):
        return "vector index"

    @pytest.fixture
    def open_index(self, open_composed):
        return open_composed


@pytest.mark.nightly
class TestLateIndexWithNeo4j(LateIndexContract):
    @pytest.fixture
    def searching(self):
        return "vector index"

    @pytest.fixture
    def open_index(self, open_late):
        return open_late


@pytest.fixture
def clock():
    return SteppingClock()


@pytest.fixture
def shows_graph():
    return True


@pytest.fixture
def ask(server):
    """Ask the server with its own driver, as people's tools do."""
    with neo4j.GraphDatabase.driver(
        f"bolt://127.0.0.1:{server.port}", auth=("root", neo4j_server.PASSWORD), telemetry_disabled=True
    ) as driver:
        yield lambda query, **given: [
            record.values() for record in driver.execute_query(query, given, database_="treering").records
        ]


@pytest.fixture
def empty(ask):
    """A server without nodes."""
    ask("MATCH (n) DETACH DELETE n")


@pytest.fixture
def told(open_space, tmp_path):
    """A space with a few texts and their vectors."""
    space = open_space(str(tmp_path / "space.db"), channel="user")
    for text in ("Ada Lovelace met Charles Babbage in London.", "Charles Babbage built engines."):
        tell(space, text)
    space.perform("vectors")
    return space


def tell(space, text):
    return space_parts.note(space, text, origin=text, title=f"About {text.partition(' ')[0]}")["source_id"]


def use(told, server, **options):
    return told.perform("index use", input={"address": server.url(**options)})


MENTIONS = "MATCH (p:TreeringPassage)-[:MENTIONS]->(e) RETURN p.title, e.name ORDER BY p.title, e.name"
RELATED = "MATCH (a:TreeringEntity)-[r:RELATED]->(b:TreeringEntity) RETURN a.name, r.passage, b.name ORDER BY a.name"
REFERENCES = "MATCH (a)-[r:REFERS_TO]->(b) RETURN a.title, r.field, b.title"
NODES = "MATCH (n) RETURN count(n)"


def test_people_find_passages_objects_and_entities_in_their_own_tools(told, server, ask, empty):
    assert use(told, server, space="acme").state == "ready"
    assert ask(MENTIONS) == [
        ["About Ada", "ada lovelace"],
        ["About Ada", "charles babbage"],
        ["About Ada", "london"],
        ["About Charles", "charles babbage"],
    ]
    assert ask(RELATED) == [["ada lovelace", 1, "charles babbage"], ["charles babbage", 1, "london"]]
    whose = "MATCH (p:TreeringPassage)-[:PART_OF]->(o:TreeringObject) RETURN p.passage, p.object, o.id, o.title"
    ids = [told.query("search", input={"query": name}).hits[0].source_id for name in ("Lovelace", "engines")]
    assert ask(f"{whose} ORDER BY p.passage") == [
        [1, ids[0], ids[0], "About Ada"],
        [2, ids[1], ids[1], "About Charles"],
    ]
    assert ask("MATCH (n) WHERE n.key IS NOT NULL RETURN DISTINCT n.space") == [["acme"]]


def test_references_are_shown_with_their_field(told, server, ask, empty):
    evidence = space_parts.note(told, "Bees hum.", title="About bees")
    decision = space_parts.decide(told, "Keep bees", evidence)
    told.perform("vectors")
    use(told, server)
    assert ask(REFERENCES) == [["Keep bees", "evidence_refs", "About bees"]]
    told.perform("erase", input={"ids": [evidence["source_id"]]})
    told.perform("index rebuild")
    as_it_was_made = ask(REFERENCES)
    assert as_it_was_made in ([["Keep bees", "evidence_refs", None]], [])
    told.perform("erase", input={"ids": [decision]})
    assert ask("MATCH (o:TreeringObject) WHERE o.title IS NULL OR o.title = 'Keep bees' RETURN o.id") == []


def test_erasure_removes_nodes_that_no_one_mentions(told, server, ask, empty):
    use(told, server)
    told_before = ask(MENTIONS)
    secret = tell(told, "Charles Babbage met Ada Lovelace in Boston with Grace Hopper.")
    told.perform("vectors")
    told.perform("index rebuild")
    before = ask(MENTIONS)
    assert ["About Charles", "grace hopper"] in before
    assert ["charles babbage", 3, "ada lovelace"] in ask(RELATED)
    report = told.perform("erase", input={"ids": [secret]})
    assert [probe.found for probe in report.probes if probe.name == "index rows"] == [0]
    assert ask(MENTIONS) == told_before
    assert ask(RELATED) == [["ada lovelace", 1, "charles babbage"], ["charles babbage", 1, "london"]]
    assert ask("MATCH (o:TreeringObject) WHERE o.id = $id RETURN o", id=secret) == []
    assert ask("MATCH (e:TreeringEntity) WHERE e.name IN ['grace hopper', 'boston'] RETURN e") == []


def test_two_spaces_in_one_database_share_no_node_and_one_is_dropped_alone(
    told, server, ask, empty, open_space, tmp_path
):
    use(told, server, space="acme")
    alone = ask(NODES)
    other = open_space(str(tmp_path / "other.db"), channel="user")
    tell(other, "Ada Lovelace met Charles Babbage in London.")
    other.perform("vectors")
    use(other, server, space="other")
    by_space = "MATCH (e:TreeringEntity {name: 'ada lovelace'}) RETURN e.space ORDER BY e.space"
    assert ask(by_space) == [["acme"], ["other"]]
    other.perform("index drop")
    assert (ask(by_space), ask(NODES)) == ([["acme"]], alone)
    assert (told.perform("index status").state, ask(MENTIONS)[0]) == ("ready", ["About Ada", "ada lovelace"])
    told.perform("index drop")
    assert ask(NODES) == [[0]]


def described(title, *mentions, statements=(), references=()):
    return DescribedPassage(
        f"src:{title}", "", "source", "note", "prose", "/", title, "", "", mentions, (title,), statements, references
    )


def test_taking_the_same_over_twice_changes_nothing(open_new_engine, ask, empty):
    engine = open_new_engine()
    take_over(engine, some_vectors(3))
    shown = {
        1: described("one", "ada", statements=(("ada", "bee"),), references=(("source_refs", "src:two"),)),
        2: described("two", "bee", "ant"),
    }
    changes = VectorChanges("m2", (1, 2), {key: some_vectors(3)[key] for key in shown}, described=shown)
    everything = "MATCH (a) OPTIONAL MATCH (a)-[r]->(b) RETURN a.key, type(r), b.key ORDER BY a.key, b.key, type(r)"
    engine.apply(changes, EngineState("a-space", "m2"))
    once = ask(everything)
    engine.apply(changes, EngineState("a-space", "m2"))
    assert ask(everything) == once
    assert len(once) > 10
    engine.apply(VectorChanges("m3", (1, 2)), EngineState("a-space", "m3"))
    assert ask("MATCH (n) WHERE n.key IS NOT NULL AND n.moment IS NULL RETURN n.key") == []
    assert engine.state() == EngineState("a-space", "m3", count=1)


def test_an_object_without_passages_keeps_its_id_while_others_refer_to_it(open_new_engine, ask, empty):
    engine = open_new_engine()
    take_over(engine, some_vectors(3))
    shown = {
        1: described("one", references=(("derived_from", "src:two"),)),
        2: described("three", references=(("derived_from", "src:one"),)),
    }
    vectors = {key: some_vectors(3)[key] for key in shown}
    engine.apply(VectorChanges("m2", (1, 2), vectors, described=shown), EngineState("a-space", "m2"))
    objects = "MATCH (o:TreeringObject) OPTIONAL MATCH (o)-[:REFERS_TO]->(to) RETURN o.id, o.title, to.id ORDER BY o.id"
    assert ask(objects) == [["src:one", "one", "src:two"], ["src:three", "three", "src:one"], ["src:two", None, None]]
    engine.apply(VectorChanges("m3", (1,)), EngineState("a-space", "m3"))
    assert ask(objects) == [["src:one", None, None], ["src:three", "three", "src:one"]]
    engine.apply(VectorChanges("m4", (2,)), EngineState("a-space", "m4"))
    assert ask(objects) == []


def test_names_of_any_length_and_letters_are_shown(open_new_engine, ask, empty):
    engine = open_new_engine()
    take_over(engine, some_vectors(3))
    names = ("x" * 20_000, "half \ud800", "quote ' \" ` {$key}", "žlutý kůň", "")
    vectors = {1: some_vectors(3)[1]}
    engine.apply(
        VectorChanges("m2", (1,), vectors, described={1: described("one", *names)}), EngineState("a-space", "m2")
    )
    found = {name for (name,) in ask("MATCH (:TreeringPassage)-[:MENTIONS]->(e) RETURN e.name")}
    assert found == {*names, "half ?"} - {"half \ud800"}


EVERYTHING = (
    "MATCH (n) WHERE n.key IS NOT NULL AND n.moment IS NULL RETURN properties(n) AS told ORDER BY n.key",
    "MATCH (a)-[r]->(b) RETURN a.key, type(r), properties(r), b.key ORDER BY a.key, type(r), b.key, r.passage, r.field",
)
_steps = st.lists(
    st.tuples(st.sampled_from((*STEPS, "embed", "follow", "follow")), st.integers(0, 99), st.integers(0, 999)),
    min_size=8,
    max_size=25,
)


@pytest.mark.parametrize("searching", ["no index"], indirect=True)
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=_steps)
def test_a_graph_that_followed_the_space_is_that_of_a_rebuild(open_composed, clock, ask, empty, steps):
    composed = open_composed()
    space = IndexedSpace(replace(composed, catch_up=lambda: None), clock)
    history = HistoryWriter(space)
    for step in (("source", 0, 3), ("fact", 0, 2), ("embed", 0, 0), *steps):
        composed.catch_up() if step[0] == "follow" else history.take(step)
    space.embed()
    composed.catch_up()
    followed = [ask(query) for query in EVERYTHING]
    composed.index.upkeep._selected.begin_anew()
    composed.catch_up()
    assert followed == [ask(query) for query in EVERYTHING]
    ask("MATCH (n) DETACH DELETE n")


def test_a_server_reports_how_it_searches(open_new_engine, searching):
    told = {"no index": "Neo4j, searched in the space", "vector index": "Neo4j vector index"}
    assert open_new_engine().kind == told[searching]


def test_damaged_state_is_refused_with_a_hint(open_new_engine, ask):
    engine = open_new_engine()
    take_over(engine, some_vectors(5))
    ask("MATCH (s:TreeringSpace) SET s.moment = 7")
    with pytest.raises(Corrupt) as refused:
        engine.state()
    assert "treering index rebuild" in refused.value.hint


def test_the_routed_scheme_is_the_same_engine(server):
    engine = open_neo4j(parse_engine_address(server.url("neo4j")), "mark", EMBEDDER.dimension)
    assert engine.state() is None
    engine.close()


def test_wrong_password_is_reported_without_it(server):
    address = server.url().replace(neo4j_server.PASSWORD, "guessed-it")
    engine = open_neo4j(parse_engine_address(address), "mark", EMBEDDER.dimension)
    for ask in (engine.state, lambda: engine.kind):
        with pytest.raises(Unavailable, match="Unauthorized") as refused:
            ask()
        assert "guessed-it" not in str(refused.value) + refused.value.hint
    engine.close()


def test_space_answers_if_the_engine_server_is_down(told, tmp_path, caplog):
    def titles():
        return [hit.title for hit in told.query("search", input={"query": "who built engines"}).hits]

    before = titles()
    port = neo4j_server._free_port()
    with pytest.raises(Unavailable) as refused:
        told.perform("index use", input={"address": f"bolt://ada:hunter22@127.0.0.1:{port}"})
    assert "hunter22" not in str(refused.value) + refused.value.hint
    assert (titles(), told.perform("index status").state) == (before, "none")


def test_options_and_hosts_that_there_are_not_are_refused():
    for address in ("bolt://localhost:7687?kind=flat", "neo4j://one:1,two:2/db", "bolt://.x/db", "bolt://[::1%25]/db"):
        with pytest.raises(InvalidInput):
            open_neo4j(parse_engine_address(address), "mark", 4)
