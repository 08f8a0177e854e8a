"""What the keys of `memory.neo4j` say is what the server is found to have: names, relations, batches, connections."""

import logging
import re
from threading import Thread
from uuid import uuid4

import client_parts
import pytest

import treering
from treering.client import BlockingMemoryClient, MemoryConfig
from treering.testing import HashingEmbedder

pytestmark = pytest.mark.usefixtures("own_folder")

FOLLOWED = "MATCH (a:TreeringObject)-[r:{}]->(b:TreeringObject) RETURN a.title, b.title ORDER BY a.title"
KEPT = "MATCH (s:TreeringSpace) RETURN s.key ORDER BY s.key"
SENT = re.compile(r"C: RUN [\"'](?P<statement>.*)", re.DOTALL)


@pytest.fixture(autouse=True)
def empty(bolt):
    bolt.empty()


@pytest.fixture
def open_client(bolt, open_with, tmp_path):
    """Open blocking clients, each on the space that is named."""

    def open_client(space="one", connection=None, **neo4j):
        given = neo4j if connection else {"url": bolt.url(), **neo4j}
        path = {"path": str(tmp_path / f"{space}.db")}
        return open_with(connection, backend="neo4j", sqlite=path, neo4j=given)().sync

    return open_client


def told(client):
    """Store a plan, and what follows it."""
    plan = client.store("The plan")
    client.store("The run", {"follows": plan})
    client.store("The failure", {"caused_by": [plan]})
    assert client.catch_up().state == "ready"
    return plan


def test_vectors_use_configured_node_and_property_names(bolt, open_client):
    index = {"node_label": "Remembered", "vector_property": "vector", "index_name": "remembered_vectors"}
    with open_client(vector_index=index) as client:
        plan = told(client)
        rows = bolt.ask("MATCH (v:Remembered) RETURN size(v.vector), v.object ORDER BY v.passage")
        assert rows[0] == [HashingEmbedder().dimension, plan]
        assert len(rows) == 3
    assert bolt.ask("MATCH (v:Memory) RETURN v") == []


def test_vectors_use_the_documented_defaults(bolt, open_client):
    with open_client() as client:
        told(client)
    assert bolt.ask("MATCH (v:Memory) WHERE v.embedding IS NOT NULL RETURN count(v)") == [[3]]


def test_spaces_with_the_same_label_find_their_own_and_one_is_dropped_alone(bolt, open_client):
    with open_client("one") as one, open_client("two") as two:
        one.store("BWA aligned the reads of one")
        two.store("BWA aligned the reads of two")
        for client, name in ((one, "one"), (two, "two")):
            assert client.catch_up().vectors == 1
            assert client_parts.texts(client.retrieve("BWA aligned reads")) == [f"BWA aligned the reads of {name}"]
    assert bolt.ask("MATCH (v:Memory) RETURN count(v)") == [[2]]
    config = {"sqlite": one.config.sqlite, "vector_store": {"backend": "sqlite"}, "backend": "sqlite"}
    with client_parts.blocking(client_parts.config(**config)) as client:
        client.store("Another of one")
    assert bolt.ask("MATCH (v:Memory) RETURN v.space") == bolt.ask("MATCH (s:TreeringSpace) RETURN s.key")
    assert len(bolt.ask(KEPT)) == 1


def test_relations_between_memories_are_relationships_of_their_types(bolt, open_client):
    with open_client() as client:
        told(client)
    assert bolt.ask(FOLLOWED.format("FOLLOWS")) == [["The run", "The plan"]]
    assert bolt.ask(FOLLOWED.format("CAUSED_BY")) == [["The failure", "The plan"]]


def test_relations_are_between_the_memories_themselves_which_have_their_texts(bolt, open_client):
    related = "MATCH (a:Memory)-[r:{}]->(b:Memory) RETURN a.text, b.text ORDER BY a.text"
    with open_client() as client:
        plan = client.store("The plan")
        run = client.store("The run", {"follows": plan, "similar_to": plan, "references": [plan]})
        client.store("The failure", {"caused_by": [run, plan], "part_of": run})
        client.catch_up()
        assert bolt.ask(related.format("FOLLOWS")) == [["The run", "The plan"]]
        assert bolt.ask(related.format("SIMILAR_TO")) == [["The run", "The plan"]]
        assert bolt.ask(related.format("REFERENCES")) == [["The run", "The plan"]]
        assert bolt.ask(related.format("PART_OF")) == [["The failure", "The run"]]
        assert sorted(bolt.ask(related.format("CAUSED_BY"))) == [
            ["The failure", "The plan"],
            ["The failure", "The run"],
        ]
        client.store("A later run", {"follows": run})
        client.catch_up()
        assert bolt.ask(related.format("FOLLOWS")) == [["A later run", "The run"], ["The run", "The plan"]]
        assert client.delete(run)
        client.catch_up()
        assert bolt.ask(related.format("CAUSED_BY")) == [["The failure", "The plan"]]


def test_what_is_merged_from_a_nested_context_is_part_of_it_in_the_graph(bolt, open_client):
    with open_client() as client:
        context = client.create_nested_context("run", "loop")
        client.store("A finding", {"session_id": context.session_id})
        client.catch_up()
        assert bolt.ask(FOLLOWED.format("PART_OF")) == []
        client.merge_nested_context(context)
        client.catch_up()
    assert bolt.ask(FOLLOWED.format("PART_OF")) == [["A finding", "Nested context loop"]]


def test_what_is_erased_leaves_no_relationship(bolt, open_client, tmp_path):
    with open_client() as client:
        told(client)
    config = client_parts.config(**client.config.model_dump())
    with client_parts.blocking(config, channel="user") as client:
        (run,) = client.retrieve("The run", top_k=1)
        assert client.delete(run.id, erase=True)
    assert bolt.ask(FOLLOWED.format("FOLLOWS")) == []
    assert bolt.ask(FOLLOWED.format("CAUSED_BY")) == [["The failure", "The plan"]]


@pytest.mark.parametrize(
    ("graph", "follows"),
    [
        ({"relationship_types": ["caused_by"]}, []),
        ({"relationship_types": ["FOLLOWS"]}, [["The run", "The plan"]]),
        ({"enable_relationships": False}, []),
    ],
)
def test_only_relationships_of_the_types_that_are_named_are_shown(bolt, open_client, graph, follows):
    with open_client(graph=graph) as client:
        plan = told(client)
        assert len(client.get_related_memories(plan)) == 2
    assert bolt.ask(FOLLOWED.format("FOLLOWS")) == follows
    caused = [["The failure", "The plan"]] if graph.get("relationship_types") == ["caused_by"] else []
    assert bolt.ask(FOLLOWED.format("CAUSED_BY")) == caused


def test_other_names_or_relations_fill_the_engine_again_and_another_batch_does_not(bolt, open_client):
    with open_client() as client:
        told(client)
    (before,) = bolt.ask(KEPT)
    with open_client(batch_size=7, connection_pool_size=3) as client:
        assert client.catch_up().state == "ready"
    assert bolt.ask(KEPT) == [before]
    with open_client(vector_index={"node_label": "Other"}) as client:
        assert client.catch_up().state == "ready"
    (after,) = bolt.ask(KEPT)
    assert after != before
    assert bolt.ask("MATCH (v:Memory) RETURN count(v)") == [[0]]
    assert bolt.ask("MATCH (v:Other) RETURN count(v)") == [[3]]


def statements(caplog):
    """Return the statements that were sent to the server."""
    found = (SENT.search(record.getMessage()) for record in caplog.records)
    return [match["statement"] for match in found if match]


@pytest.mark.parametrize(("size", "times"), [(2, 3), (100, 1)])
def test_a_statement_writes_as_many_rows_as_a_batch_has(open_client, caplog, size, times):
    with open_client(batch_size=size) as client:
        for number in range(5):
            client.store(f"Finding {number}")
        caplog.set_level(logging.DEBUG, "neo4j.io")
        client.catch_up()
        caplog.set_level(logging.WARNING, "neo4j.io")
    assert sum("MERGE (v:Memory" in statement for statement in statements(caplog)) == times
    assert sum("MERGE (p:TreeringPassage" in statement for statement in statements(caplog)) == times


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_the_metric_is_that_of_the_index_that_is_made(open_client, caplog, metric):
    caplog.set_level(logging.DEBUG, "neo4j.io")
    with open_client(vector_index={"metric": metric}) as client:
        client.store("A finding")
        client.catch_up()
    caplog.set_level(logging.WARNING, "neo4j.io")
    (made,) = {statement for statement in statements(caplog) if statement.startswith("CREATE VECTOR INDEX")}
    assert f"`vector.similarity_function`: '{metric}'" in made
    assert "`memory_embeddings`" in made
    assert "FOR (v:Memory) ON (v.embedding)" in made


def test_no_more_connections_are_open_than_the_pool_has(open_client, caplog):
    caplog.set_level(logging.DEBUG, "neo4j.io")
    with open_client(connection_pool_size=2) as client:
        client.store("A finding")
        client.catch_up()
        threads = [Thread(target=client.catch_up) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    caplog.set_level(logging.WARNING, "neo4j.io")
    open_now, most = 0, 0
    for message in (record.getMessage() for record in caplog.records):
        open_now += ("C: <OPEN>" in message) - ("C: <CLOSE>" in message)
        most = max(most, open_now)
    assert 1 <= most <= 2


def test_a_pool_of_ones_own_is_said_not_to_be_used_beside_a_driver(bolt, open_client, caplog):
    with bolt.driver() as driver, open_client(connection=driver, connection_pool_size=3, url=bolt.url()) as client:
        assert told(client)
    assert bolt.ask("MATCH (v:Memory) RETURN count(v)") == [[3]]
    assert bolt.ask(FOLLOWED.format("FOLLOWS")) == [["The run", "The plan"]]
    for key in ("neo4j.connection_pool_size", "neo4j.url"):
        assert f"memory.{key} is ignored: a connection was given" in caplog.text


def test_a_database_may_be_in_the_address_or_beside_it_and_not_differ(bolt, open_client):
    host = bolt.url().removesuffix("/treering")
    with open_client(url=host, database="treering") as client:
        told(client)
    with open_client(database="treering") as client:
        assert client.catch_up().vectors == 3
    with pytest.raises(treering.InvalidInput, match=r"neo4j\.database is 'other', but memory\.neo4j\.url names"):
        open_client(database="other")


@pytest.mark.parametrize(
    ("neo4j", "message"),
    [
        (
            {"graph": {"relationship_types": ["FOLOWS"]}},
            "memory.neo4j.graph.relationship_types: unknown relation 'FOLOWS'. Did you mean 'FOLLOWS'?",
        ),
        ({"vector_index": {"node_label": "My label"}}, "memory.neo4j: label='My label' is not a valid name."),
        ({"vector_index": {"vector_property": "x`y"}}, "memory.neo4j: property='x`y' is not a valid name."),
        (
            {"vector_index": {"node_label": "TreeringObject"}},
            "memory.neo4j: label='TreeringObject' is a label of the graph.",
        ),
    ],
)
def test_names_that_cannot_be_used_are_refused_before_anything_is_opened(neo4j, message, tmp_path):
    given = {"backend": "neo4j", "neo4j": {"url": "bolt://localhost:1/db", **neo4j}}
    with pytest.raises(treering.InvalidInput) as refused:
        BlockingMemoryClient(given)
    assert refused.value.message == message
    assert list(tmp_path.iterdir()) == []


def test_a_dimension_of_the_index_that_the_vectors_do_not_have_is_refused(bolt):
    index = {"backend": "neo4j", "neo4j": {"url": bolt.url(), "vector_index": {"dimensions": 768}}}
    with pytest.raises(treering.InvalidInput, match=r"dimensions is 768, but the vectors have 384 components"):
        BlockingMemoryClient(index)
    with pytest.raises(treering.InvalidInput, match=r"dimensions is 768, but the vectors have 12 components"):
        MemoryConfig.read({**index, "vector_store": {"embedding_model": "own", "embedding_dimension": 12}})
    own = HashingEmbedder().dimension
    with pytest.raises(treering.InvalidInput, match=rf"dimensions is 768, but the vectors have {own} components"):
        BlockingMemoryClient(index, embedder=HashingEmbedder())
    client = BlockingMemoryClient(index, embedder=lambda texts: [[1.0, 0.0] for _ in texts], background=False)
    with pytest.raises(treering.InvalidInput, match="dimensions is 768, but the vectors have 2 components"):
        client.store("A finding")
    client.close()


def test_an_index_that_several_spaces_share_finds_each_its_own_nearest(bolt, open_with, tmp_path):
    label = f"Shared{uuid4().hex[:8]}"
    bolt.sql(f"CREATE VERTEX TYPE {label}")
    bolt.sql(f"CREATE PROPERTY {label}.embedding ARRAY_OF_FLOATS")
    options = f'{{dimensions: {HashingEmbedder().dimension}, similarity: "COSINE"}}'
    bolt.sql(f"CREATE INDEX ON {label} (embedding) LSM_VECTOR METADATA {options}")
    texts = [f"BWA aligned the reads of sample {number} {number * 7919}" for number in range(30)]
    index = {"node_label": label, "index_name": f"{label}[embedding]"}
    neo4j = {"url": bolt.url(), "vector_index": index}
    for space, part in (("crowd", texts[5:]), ("few", texts[:5])):
        given = {"backend": "neo4j", "sqlite": {"path": str(tmp_path / f"{space}.db")}, "neo4j": neo4j}
        with open_with(**given)().sync as client:
            for text in part:
                client.store(text)
            report = client.catch_up()
            assert (report.kind, report.vectors) == ("Neo4j vector index", len(part))
            found = client_parts.texts(client.retrieve(part[0], top_k=5))
            assert found[0] == part[0]
            assert set(found) <= set(part)
            assert len(found) == 5
