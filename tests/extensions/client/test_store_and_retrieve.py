import asyncio
import copy
import gc
import inspect
import pickle
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum

import client_parts
import pytest

import treering
from treering.client import BlockingMemoryClient, MemoryConfig, MemoryDocument, MemorySystemClient
from treering.extensions.client.items.documents import RELATIONS


def test_what_was_stored_is_found_with_its_metadata(configured):
    async def use():
        async with client_parts.asynchronous(configured) as client:
            memory_id = await client.store("Test execution of BWA tool", {"tool": "bwa", "status": "success"})
            memories = await client.retrieve("BWA tool execution", top_k=5)
            return memory_id, memories

    memory_id, (memory,) = asyncio.run(use())
    assert (memory.id, memory.content) == (memory_id, "Test execution of BWA tool")
    assert memory.metadata["tool"] == "bwa"
    assert memory.metadata["status"] == "success"


def test_agent_filter_returns_only_its_memories(configured):
    async def use():
        async with client_parts.asynchronous(configured) as client:
            await client.store("Planner created execution plan", {"agent_type": "planner"})
            await client.store("Executor ran BWA tool", {"agent_type": "executor"})
            return await client.retrieve(query="execution", filters={"agent_type": "planner"}, top_k=5)

    assert client_parts.texts(asyncio.run(use())) == ["Planner created execution plan"]


@pytest.mark.parametrize("writes_later", [True, False])
@pytest.mark.parametrize("relation", RELATIONS)
def test_every_relation_links_a_memory_to_the_one_it_names(relation, writes_later):
    config = client_parts.config(storage={"enable_async_writes": writes_later})
    with client_parts.blocking(config) as client:
        one = client.store("Alignment of sample 7")
        other = client.store("Alignment of sample 8", {relation: one})
        assert [memory.id for memory in client.get_related_memories(one, types=[relation.upper()])] == [other]
        assert len(client.retrieve("alignment of a sample")) == 2


def test_a_memory_that_follows_another_is_related_to_it(configured):
    async def use():
        async with client_parts.asynchronous(configured) as client:
            parent = await client.store(content="Parent memory")
            child = await client.store(content="Child memory", metadata={"follows": parent})
            return child, await client.get_related_memories(parent)

    child, related = asyncio.run(use())
    assert [memory.id for memory in related] == [child]


def test_the_blocking_client_is_the_same_memory():
    async def use():
        async with client_parts.asynchronous() as client:
            memory_id = await client.store("Salmon quantified 12 samples")
            (memory,) = client.sync.retrieve("salmon samples")
            return memory_id, memory.id

    first, second = asyncio.run(use())
    assert first == second


def test_what_is_stored_stays_when_the_client_is_opened_again(tmp_path):
    config = client_parts.config(backend="sqlite", sqlite={"path": str(tmp_path / "memory.db")})
    with client_parts.blocking(config) as client:
        memory_id = client.store("The staging host is called quince.")
    with client_parts.blocking(config) as client:
        assert [memory.id for memory in client.retrieve("staging host")] == [memory_id]


def test_a_disabled_client_opens_stores_and_finds_nothing(tmp_path):
    path = tmp_path / "memory.db"
    config = MemoryConfig.read({"enabled": False, "backend": "neo4j", "sqlite": {"path": str(path)}})

    async def use():
        async with MemorySystemClient(config, connection=object()) as client:
            context = client.create_nested_context("run", "loop")
            return [
                await client.store("Anything"),
                await client.retrieve("anything"),
                await client.get_related_memories("src:1"),
                await client.merge_nested_context(context),
            ]

    assert asyncio.run(use()) == ["", [], [], 0]
    assert list(tmp_path.iterdir()) == []


def test_the_constructor_opens_nothing(tmp_path):
    client = client_parts.blocking(client_parts.config(backend="sqlite", sqlite={"path": str(tmp_path / "memory.db")}))
    client.create_nested_context("run", "loop")
    assert list(tmp_path.iterdir()) == []
    client.close()


@pytest.mark.parametrize(
    ("stored", "asked"),
    [({"tool_name": "bwa"}, {"tool": "bwa"}), ({"tool": "bwa"}, {"tool_name": "bwa"})],
)
def test_both_names_of_a_tool_mean_the_same(client, stored, asked):
    client.store("Ran an alignment", stored)
    (memory,) = client.retrieve("alignment", filters=asked)
    assert stored.items() <= memory.metadata.items()
    assert memory.metadata["tool"] == "bwa"


def test_importance_is_kept_under_one_name(client):
    client.store("Ran an alignment", {"importance": 0.9})
    (memory,) = client.retrieve("alignment", filters={"importance_score": {"gte": 0.8}})
    assert memory.metadata["importance_score"] == 0.9


@pytest.mark.parametrize("importance", [1.5, -0.1, "high", True])
def test_an_importance_that_is_no_share_is_refused(client, importance):
    with pytest.raises(treering.InvalidInput, match="importance_score"):
        client.store("Ran an alignment", {"importance": importance})


MOMENT = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    "told",
    [
        MOMENT,
        MOMENT.isoformat(),
        MOMENT.timestamp(),
        MOMENT.timestamp() * 1000,
        MOMENT.astimezone().replace(tzinfo=None).isoformat(),
    ],
    ids=["datetime", "iso", "seconds", "milliseconds", "local"],
)
def test_times_are_read_in_all_formats(told):
    with client_parts.blocking(client_parts.config(retrieval={"max_age_seconds": None})) as client:
        client.store("Ran an alignment", {"timestamp": told})
        (memory,) = client.retrieve("alignment", filters={"timestamp": {"gte": told, "lt": "2026-03-02T00:00:00Z"}})
        assert memory.timestamp == MOMENT
        assert client.retrieve("alignment", filters={"timestamp": {"gt": "2026-03-02T00:00:00Z"}}) == []


def test_a_time_that_is_none_is_refused(client):
    with pytest.raises(treering.InvalidInput, match="timestamp: 'tomorrow' is not a valid time"):
        client.store("Ran an alignment", {"timestamp": "tomorrow"})


class Status(Enum):
    GOOD = "success"


@dataclass
class Parameters:
    threads: int = 4
    paths: set[str] = field(default_factory=lambda: {"b", "a"})


def test_metadata_of_any_kind_is_kept_as_json(client):
    given = {"status": Status.GOOD, "parameters": Parameters(), "raw": b"1234", "nothing": None, "share": float("nan")}
    client.store("Ran an alignment", given)
    (memory,) = client.retrieve("alignment")
    expected = {
        "status": "success",
        "parameters": {"threads": 4, "paths": ["a", "b"]},
        "raw": "4 bytes",
        "nothing": None,
        "share": "nan",
    }
    assert expected.items() <= memory.metadata.items()


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"runs": 3}, ["Alignment three"]),
        ({"runs": [1, 2]}, ["Alignment one"]),
        ({"runs": {"in": [1, 3]}}, ["Alignment one", "Alignment three"]),
        ({"runs": {"gt": 1, "lte": 3}}, ["Alignment three"]),
        ({"sample": {"exists": True}}, ["Alignment one"]),
        ({"sample": None}, ["Alignment three"]),
        ({"runs": 1, "sample": "x"}, ["Alignment one"]),
        ({"runs": 3, "sample": "x"}, []),
    ],
)
def test_filters_hold_all_at_once(client, filters, found):
    client.store("Alignment one", {"runs": 1, "sample": "x"})
    client.store("Alignment three", {"runs": 3})
    assert sorted(client_parts.texts(client.retrieve("alignment", filters=filters))) == found


def test_a_filter_never_starves_the_result(client):
    for number in range(60):
        client.store(f"Alignment run {number}", {"agent_type": "executor"})
    client.store("An alignment was planned among many other things", {"agent_type": "planner"})
    assert len(client.retrieve("alignment run", filters={"agent_type": "planner"}, top_k=3)) == 1


def test_an_unknown_operator_names_the_nearest(client):
    with pytest.raises(treering.InvalidInput) as refused:
        client.retrieve("alignment", filters={"runs": {"gtee": 1}})
    assert refused.value.hint == "Did you mean 'gte'?"


def test_a_document_is_stored_with_all_it_says(client):
    cause = client.store("The index was missing")
    document = MemoryDocument(
        content="BWA failed",
        memory_type="tool_execution",
        agent_type="executor",
        importance_score=0.8,
        caused_by=[cause],
        quality_score=0.5,
        created_at=datetime.now(UTC) - timedelta(hours=1),
        metadata={"tool": "bwa"},
    )
    client.store(document)
    (memory,) = client.retrieve("BWA failed", top_k=1)
    assert memory.metadata["memory_type"] == "tool_execution"
    assert memory.metadata["quality_score"] == 0.5
    assert memory.timestamp == document.created_at
    assert [one.id for one in client.get_related_memories(memory.id, types=["CAUSED_BY"])] == [cause]
    assert client.get_related_memories(memory.id, types=["FOLLOWS"]) == []


def test_a_document_is_stored_under_its_generated_id(client):
    first, second = MemoryDocument(content="First step"), MemoryDocument(content="Second step")
    third = MemoryDocument(content="Third step", follows=second.id)
    assert len({first.id, second.id, third.id}) == 3
    for document in (first, second, third):
        assert client.store(document) == document.id
    assert client_parts.texts(client.get_related_memories(second.id)) == ["Third step"]
    (memory,) = client.retrieve("First step", top_k=1)
    assert (memory.id, "document_id" in memory.metadata) == (first.id, False)


def test_storing_a_document_again_creates_another_memory(client):
    document = MemoryDocument(content="BWA run one")
    first = client.store(document)
    document.content = "BWA run two"
    assert client.store(document) != first == document.id
    assert sorted(client_parts.texts(client.retrieve("BWA run"))) == ["BWA run one", "BWA run two"]


@pytest.mark.parametrize(
    "copied",
    [
        lambda one: one.model_copy(update={"content": "BWA run two"}),
        lambda one: one.model_copy(update={"content": "BWA run two"}, deep=True),
        copy.copy,
        copy.deepcopy,
    ],
)
def test_copies_of_a_document_are_memories_of_their_own(client, copied):
    template = MemoryDocument(content="BWA run one", memory_type="plan")
    other = copied(template)
    other.content = "BWA run two"
    assert client.store(template) != client.store(other)
    assert len(client.retrieve("BWA run")) == 2
    assert copy.deepcopy(template).id == template.id


def test_a_document_without_an_id_gets_one():
    assert MemoryDocument(content="Step", id=None).id
    assert MemoryDocument(content="Step", id="doc_7").model_copy(update={"content": "Other"}).id == "doc_7"


@dataclass
class HostDocument:
    content: str
    id: str = "doc_1"
    metadata: dict[str, object] = field(default_factory=lambda: {"genes": ["BRCA1"]})


def test_a_hosts_own_document_is_stored(client):
    client.store(HostDocument("BRCA1 repairs DNA"))
    (memory,) = client.retrieve("DNA repair BRCA1")
    assert memory.metadata["genes"] == ["BRCA1"]
    assert memory.metadata["document_id"] == "doc_1"


def test_an_unknown_relation_names_the_nearest(client):
    memory_id = client.store("Parent memory")
    with pytest.raises(treering.InvalidInput) as refused:
        client.get_related_memories(memory_id, types=["FOLLOW"])
    assert refused.value.hint == "Did you mean 'FOLLOWS'?"


def test_relations_have_directions_and_depth(client):
    first = client.store("First step")
    second = client.store("Second step", {"follows": first})
    third = client.store("Third step", {"follows": second})
    ids = lambda memories: [memory.id for memory in memories]  # noqa: E731
    assert ids(client.get_related_memories(second, direction="out")) == [first]
    assert ids(client.get_related_memories(second, direction="in")) == [third]
    assert ids(client.get_related_memories(first, depth=2)) == [second, third]


def test_a_relation_to_nothing_stays_in_the_metadata_alone(client):
    memory_id = client.store("Child memory", {"follows": "src:01k00000000000000000000000"})
    assert client.get_related_memories(memory_id) == []
    (memory,) = client.retrieve("child memory")
    assert memory.metadata["follows"] == "src:01k00000000000000000000000"


def test_a_long_text_comes_back_word_for_word(client):
    text = "\n\n".join(f"Chapter {n}. " + "The  aligner ran again.\t" * 400 for n in range(12)) + "\n"
    client.store(text)
    (memory,) = client.retrieve("aligner chapter", top_k=1)
    assert memory.content == text


SECRET = "ghp_" + "a1B2c3D4e5F6" * 3


def test_secrets_are_redacted_before_anything_is_kept(client):
    client.store(f"Called with {SECRET} today", {"parameters": {"env": f"GITHUB_TOKEN={SECRET}"}})
    (memory,) = client.retrieve("called today", top_k=1)
    assert SECRET not in memory.content
    assert SECRET not in str(memory.metadata)


@pytest.mark.parametrize("content", ["", "  \n", 7, None])
def test_what_is_no_text_is_refused(client, content):
    with pytest.raises(treering.InvalidInput):
        client.store(content)


@pytest.mark.parametrize("top_k", [0, -1, 201, True, "5"])
def test_a_count_that_makes_no_sense_is_refused(client, top_k):
    with pytest.raises(treering.InvalidInput, match="top_k"):
        client.retrieve("anything", top_k=top_k)


def test_an_agent_that_is_excluded_stores_and_finds_nothing():
    config = client_parts.config(excluded_agents=["evaluator"])
    with client_parts.blocking(config, agent_type="evaluator") as client:
        assert client.store("Alignment scored 7") == ""
        assert client.retrieve("alignment") == []
    with client_parts.blocking(config) as client:
        assert client.store("Alignment scored 7", {"agent_type": "evaluator"}) == ""
        assert client.store("Alignment scored 8", {"agent_type": "planner"})
        assert client_parts.texts(client.retrieve("alignment scored")) == ["Alignment scored 8"]


def test_agent_and_user_scopes_give_what_is_theirs(tmp_path):
    config = client_parts.config(backend="sqlite", sqlite={"path": str(tmp_path / "memory.db")})
    with client_parts.blocking(config, agent_type="planner", user_id="ada") as planner:
        planner.store("Alignment was planned", {"session_id": "one"})
        planner.flush()
        with client_parts.blocking(config, agent_type="executor", user_id="bob") as executor:
            executor.store("Alignment was executed", {"session_id": "two"})
            executor.flush()
        of = lambda scope: sorted(client_parts.texts(planner.retrieve("alignment", scope=scope, session_id="one")))  # noqa: E731
        assert of("agent") == of("user") == of("lineage") == of("session") == ["Alignment was planned"]
        assert of("space") == ["Alignment was executed", "Alignment was planned"]


def test_agent_scope_without_agent_raises(client):
    with pytest.raises(treering.InvalidInput) as refused:
        client.retrieve("alignment", scope="agent")
    assert "agent_type" in refused.value.message


def test_a_deleted_memory_is_found_no_more(client):
    memory_id = client.store("Alignment was planned")
    assert client.delete(memory_id)
    assert not client.delete(memory_id)
    assert client.retrieve("alignment") == []


def test_an_erased_memory_leaves_nothing():
    with client_parts.blocking(channel="user") as client:
        memory_id = client.store("Alignment was planned")
        assert client.delete(memory_id, erase=True)
        with pytest.raises(treering.NotFound):
            client.get_related_memories(memory_id)


def test_a_copy_of_a_client_is_the_client_and_pickled_it_is_found_again():
    client = client_parts.asynchronous()
    assert copy.deepcopy({"memory_client": client})["memory_client"] is client
    assert pickle.loads(pickle.dumps(client)) is client
    asyncio.run(client.aclose())
    again = pickle.loads(pickle.dumps(client))
    assert again is not client
    assert again.config == client.config
    asyncio.run(again.aclose())


def test_closed_client_raises(client):
    client.close()
    with pytest.raises(treering.InvalidInput, match="closed"):
        client.store("Too late")


def test_the_event_loop_goes_on_while_a_memory_is_stored():
    async def use():
        async with client_parts.asynchronous() as client:
            ids = await asyncio.gather(*(client.store(f"Alignment {n}") for n in range(20)))
            found = await asyncio.gather(*(client.retrieve(f"alignment {n}", top_k=1) for n in range(20)))
            return ids, found

    ids, found = asyncio.run(use())
    assert len(set(ids)) == 20
    assert [memory.content for (memory,) in found] == [f"Alignment {n}" for n in range(20)]


def test_every_store_is_in_the_audit_log(tmp_path):
    path = tmp_path / "memory.db"
    with client_parts.blocking(
        client_parts.config(backend="sqlite", sqlite={"path": str(path)}), actor="ada"
    ) as client:
        memory_id = client.store("Alignment was planned")
    with treering.open(str(path), background=False, embedder=client_parts.PARTS["embedder"]) as space:
        (event,) = [one for one in space.engine.ledger.events(after=0) if one.target == memory_id]
        assert (event.actor, event.channel, event.event_type) == ("ada", "agent", "created")
        assert space.lint(mode="audit").status == "ok"


def test_the_blocking_client_lives_without_the_one_it_came_from():
    blocking = client_parts.asynchronous().sync
    gc.collect()
    blocking.store("Salmon quantified 12 samples")
    assert len(blocking.retrieve("salmon samples")) == 1
    blocking.close()


def test_what_nobody_closes_is_written_when_it_is_dropped(tmp_path):
    path = tmp_path / "memory.db"
    config = client_parts.config(backend="sqlite", sqlite={"path": str(path)}, storage={"flush_interval": 10_000})
    client_parts.blocking(config).store("Salmon quantified 12 samples")
    gc.collect()
    assert not list(tmp_path.glob("memory.db.journal/*"))
    with client_parts.blocking(config) as client:
        assert len(client.retrieve("salmon samples")) == 1


def test_closed_client_raises_and_closing_is_idempotent():
    async def use():
        client = client_parts.asynchronous()
        await client.aclose()
        await client.aclose()
        with pytest.raises(treering.InvalidInput, match="This memory client was closed"):
            await client.store("Kinase")

    asyncio.run(use())


def test_memory_is_stored_without_awaiting_it(caplog):
    async def use():
        async with client_parts.asynchronous() as client:
            for number in range(40):
                client.store(f"Alignment {number} of a sample")  # as a synchronous tool runner would
            found = await client.retrieve("alignment of a sample", top_k=50)
            client.store("", {"number": 1})
            return len(found)

    assert asyncio.run(use()) == 40
    gc.collect()
    assert "in the background failed: The content is empty." in caplog.text


def test_what_storing_returns_is_awaited_run_as_a_task_or_waited_for():
    async def use(client):
        task = asyncio.create_task(client.store("Alignment one"))
        several = await asyncio.gather(client.store("Alignment two"), task)
        return [*several, await asyncio.wait_for(client.store("Alignment three"), 60)]

    client = client_parts.asynchronous()
    ids = [*asyncio.run(use(client)), asyncio.run(client.store("Alignment four")), client.store("Alignment 5").result()]
    with pytest.raises(treering.InvalidInput, match="content is empty"):
        client.store("").result()
    assert {one.id for one in client.sync.retrieve("alignment", top_k=10)} == set(ids)
    assert len(ids) == 5
    asyncio.run(client.aclose())


def test_a_hosts_document_keeps_all_its_fields_but_its_vector(client):
    @dataclass
    class HostDocument:
        id: str = "doc-1"
        content: str = "BRCA1 variant of sample 7"
        chunks: list = field(default_factory=lambda: [{"id": "c1", "text": "BRCA1"}])
        metadata: dict = field(default_factory=dict)
        embedding: list = field(default_factory=lambda: [0.25] * 768)
        created_at: datetime = datetime(2026, 11, 1, tzinfo=UTC)
        updated_at: datetime | None = None
        bioinformatics_type: str | None = "variant"
        source_database: str | None = "ClinVar"
        cross_references: dict = field(default_factory=lambda: {"uniprot": ["P38398"]})
        quality_score: float | None = 0.9

    host = HostDocument(created_at=datetime.now(UTC), updated_at=datetime.now(UTC))
    client.store(host)
    (memory,) = client.retrieve("BRCA1 variant", filters={"source_database": "ClinVar"})
    kept = {name: memory.metadata[name] for name in ("document_id", "bioinformatics_type", "quality_score", "chunks")}
    assert kept == {
        "document_id": "doc-1",
        "bioinformatics_type": "variant",
        "quality_score": 0.9,
        "chunks": [{"id": "c1", "text": "BRCA1"}],
    }
    assert memory.metadata["cross_references"] == {"uniprot": ["P38398"]}
    assert datetime.fromisoformat(memory.metadata["updated_at"]) == host.updated_at
    assert "embedding" not in memory.metadata


@pytest.mark.parametrize("wanted", [120, 200])
def test_as_many_memories_as_are_requested_are_retrieved(wanted):
    config = client_parts.config(retrieval={"min_similarity": 0})
    with client_parts.blocking(config) as client:
        for number in range(210):
            client.store(f"Alignment run {number} of a sample")
        assert len(client.retrieve("alignment run sample", top_k=wanted)) == wanted


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"tags": "kinase"}, {"one", "two"}),
        ({"tags": "assay"}, {"one"}),
        ({"tags": ["assay", "plan"]}, {"one", "three"}),
        ({"tags": {"exists": True}}, {"one", "two", "three"}),
        ({"tags": None}, {"four"}),
        ({"tags": {"ne": "kinase"}}, {"three", "four"}),
        ({"tags": "kin"}, set()),
        ({"runs": 7}, {"one"}),
        ({"runs": 7.0}, {"one"}),
        ({"runs": True}, {"two"}),
        ({"tags": "kinase", "runs": 7}, {"one"}),
    ],
)
def test_filter_matches_values_in_lists(configured, filters, found):
    with client_parts.blocking(configured) as client:
        client.store("Finding one", {"tags": ["kinase", "assay"], "runs": [7, 8], "name": "one"})
        client.store("Finding two", {"tags": ("kinase",), "runs": [True], "name": "two"})
        client.store("Finding three", {"tags": "plan", "name": "three"})
        client.store("Finding four", {"name": "four"})
        memories = client.retrieve("finding", top_k=10, filters=filters)
        assert {memory.metadata["name"] for memory in memories} == found
        assert all(set(memory.metadata) <= {"tags", "runs", "name", "timestamp"} for memory in memories)


def test_the_two_clients_take_the_same_arguments_and_tell_what_they_do():
    assert inspect.signature(MemorySystemClient) == inspect.signature(BlockingMemoryClient)
    assert "vector_store" in inspect.signature(MemorySystemClient).parameters
    for name in ("store_once", "retrieve", "get_related_memories", "merge_nested_context", "delete", "catch_up"):
        waited, blocking = getattr(MemorySystemClient, name), getattr(BlockingMemoryClient, name)
        assert inspect.iscoroutinefunction(waited)
        assert inspect.signature(waited) == inspect.signature(blocking)
        assert waited.__doc__
        assert blocking.__doc__
    assert [*inspect.signature(BlockingMemoryClient.delete).parameters] == ["self", "memory_id", "erase"]


def test_long_memory_names_its_lines_that_answer(client):
    client.store("Notes\n" + "The kettle is blue.\n" * 9 + "The kinase assay runs at 37 degrees.")
    client.store("The kinase assay takes an hour.")
    lines = {one.content: one.lines for one in client.retrieve("kinase assay")}
    assert [10 in lines[content] if "\n" in content else lines[content] == () for content in lines] == [True, True]


def test_erased_text_can_be_stored_as_a_new_statement():
    with client_parts.blocking(channel="user") as client:
        text = "The alignment of sample 7 was planned for Monday"
        client.delete(client.store(text), erase=True)
        client.store(text)
        assert client_parts.texts(client.retrieve("alignment of sample 7")) == [text]


@pytest.mark.parametrize("query", ["where is the cellar key", ""])
def test_filter_on_an_unknown_metadata_key_gives_a_warning(client, query):
    client.store("The cellar key hangs behind the door", {"agent_type": "planner", "topic": "house"})
    client.catch_up()
    unknown = client.retrieve(query, filters={"agent_typ": "planner"})
    assert list(unknown) == []
    assert unknown.trace["warnings"] == [
        "filters: no memory has the metadata key 'agent_typ'. Did you mean 'agent_type'?"
    ]
    for known in ({"agent_type": "executor"}, {"toppic": None, "topic": "garden"}, {"tool": {"exists": False}}):
        assert client.retrieve(query, filters=known).trace["warnings"] == []


def test_document_has_a_field_for_each_relation(client):
    first, second = (client.store(f"Kinase note {number}") for number in range(2))
    related = client.store(MemoryDocument(content="Kinase plan", similar_to=[first], part_of=second))
    for name, other in (("SIMILAR_TO", first), ("PART_OF", second)):
        assert [one.id for one in client.get_related_memories(related, types=[name])] == [other]
