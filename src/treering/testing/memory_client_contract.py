"""The contract of every backend of the memory client, independent of its ledger and engine."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from threading import Thread
from typing import Any, TypeVar

import pytest

_Answer = TypeVar("_Answer")

OpenClient = Callable[..., Any]
"""Opens a `MemorySystemClient` over the space of the test. Named arguments override its configuration."""

_WRITTEN_AT_ONCE = {"enable_async_writes": False}
_TEXTS = (
    "Test execution of BWA tool",
    "BWA aligned 40 million reads of sample seven",
    "Samtools sorted the alignment by coordinate",
    "The planner put quality control before trimming",
    "Trimming removed adapters from the reads",
    "BLAST found a kinase with 98 percent identity",
    "The executor ran out of memory while assembling",
    "A paper of 2021 describes the kinase domain",
)


class MemoryClientContract:
    """Inherit this in a test class and return the fixture `open_client`.

    `lasting`: whether stored memories remain when a client is opened again. `engine`: whether an engine next to the
    ledger searches vectors, and `kind` the kind that `catch_up` reports for it.
    """

    lasting = True
    engine = ""

    # The three example tests of the interface, as hosts write them.

    def test_store_and_retrieve(self, open_client: OpenClient) -> None:
        async def use(client: Any) -> None:
            memory_id = await client.store(
                content="Test execution of BWA tool", metadata={"tool": "bwa", "status": "success"}
            )
            assert memory_id is not None
            memories = await client.retrieve(query="BWA tool execution", top_k=5)
            assert len(memories) > 0
            assert memories[0].content == "Test execution of BWA tool"
            assert memories[0].metadata["tool"] == "bwa"

        used(open_client(), use)

    def test_profile_filtering(self, open_client: OpenClient) -> None:
        async def use(client: Any) -> None:
            await client.store(content="Planner created execution plan", metadata={"agent_type": "planner"})
            await client.store(content="Executor ran BWA tool", metadata={"agent_type": "executor"})
            memories = await client.retrieve(query="execution", filters={"agent_type": "planner"}, top_k=5)
            assert len(memories) == 1
            assert "Planner" in memories[0].content

        used(open_client(), use)

    def test_graph_relationships(self, open_client: OpenClient) -> None:
        async def use(client: Any) -> None:
            parent_id = await client.store(content="Parent memory")
            child_id = await client.store(content="Child memory", metadata={"follows": parent_id})
            related = await client.get_related_memories(parent_id)
            assert len(related) == 1
            assert related[0].id == child_id

        used(open_client(), use)

    def test_the_backend_is_the_one_that_was_named(self, open_client: OpenClient) -> None:
        async def use(client: Any) -> str:
            await client.store("Anything")
            report = await client.catch_up()
            assert report.state == ("ready" if self.engine else "none")
            return str(report.kind)

        assert self.engine in used(open_client(), use)

    def test_the_same_is_found_before_and_after_vectors_are_made_and_taken_over(self, open_client: OpenClient) -> None:
        async def use(client: Any) -> None:
            await stored(client, _TEXTS)
            await client.catch_up()
            before = [await found(client, text) for text in _TEXTS]
            assert [texts[0] for texts in before] == list(_TEXTS)
            # New memories are not in an engine yet, but are found together with old ones.
            await stored(client, ["BWA aligned the reads of sample eight"])
            late = await found(client, "BWA aligned reads of a sample")
            assert {"BWA aligned the reads of sample eight", _TEXTS[1]} <= set(late[:3])
            await client.catch_up()
            assert set(await found(client, "BWA aligned reads of a sample")) >= set(late)

        used(open_client(), use)

    def test_what_was_withdrawn_never_shows(self, open_client: OpenClient) -> None:
        async def use(client: Any) -> None:
            ids = await stored(client, _TEXTS)
            await client.catch_up()
            assert await client.delete(ids[0])
            assert not await client.delete(ids[0])
            assert _TEXTS[0] not in await found(client, _TEXTS[0])
            await client.catch_up()
            assert _TEXTS[0] not in await found(client, _TEXTS[0])

        used(open_client(), use)

    def test_what_was_erased_is_gone_everywhere(self, open_client: OpenClient) -> None:
        async def use(client: Any) -> None:
            ids = await stored(client, _TEXTS)
            await client.catch_up()
            assert await client.delete(ids[1], erase=True)
            assert _TEXTS[1] not in await found(client, _TEXTS[1])
            report = await client.catch_up()
            assert report.vectors == report.total

        used(open_client(channel="user"), use)

    def test_what_was_stored_is_there_for_the_next_client_if_it_lasts(self, open_client: OpenClient) -> None:
        async def store(client: Any) -> None:
            await stored(client, _TEXTS)
            await client.catch_up()

        async def find(client: Any) -> None:
            assert (await found(client, _TEXTS[3]))[:1] == ([_TEXTS[3]] if self.lasting else [])

        used(open_client(), store)
        used(open_client(), find)

    def test_buffered_and_durable_writes_are_found_alike(self, open_client: OpenClient) -> None:
        async def use(client: Any) -> None:
            await stored(client, _TEXTS[:3])
            assert (await found(client, _TEXTS[2]))[0] == _TEXTS[2]

        used(open_client(), use)
        used(open_client(storage=_WRITTEN_AT_ONCE), use)

    def test_filters_leave_out_what_they_do_not_name(self, open_client: OpenClient) -> None:
        async def use(client: Any) -> None:
            for number, tool in enumerate(("bwa", "samtools", "blast")):
                told = {"tool_name": tool, "importance": number / 2, **({"run": 7} if number else {})}
                await client.store(f"Tool {tool} ran on sample {number}", told)
            await client.catch_up()
            for filters, wanted in _FILTERS:
                memories = await client.retrieve("tool ran on a sample", filters=filters)
                assert {memory.metadata["tool"] for memory in memories} == wanted, filters

        used(open_client(), use)

    def test_a_session_sees_its_lineage_and_no_sibling(self, open_client: OpenClient) -> None:
        async def use(client: Any) -> None:
            first = client.create_nested_context(parent_session_id="run", loop_id="first")
            second = client.create_nested_context(parent_session_id="run", loop_id="second")
            await client.store("Finding of the run about a kinase", {"session_id": "run"})
            for context in (first, second):
                told = f"Finding of loop {context.loop_id} about a kinase"
                await client.store(told, {"session_id": context.session_id})
            await client.catch_up()
            seen = await found(client, "kinase finding", session_id=first.session_id)
            assert set(seen) == {"Finding of the run about a kinase", "Finding of loop first about a kinase"}
            assert await client.merge_nested_context(first) == 1
            assert await client.merge_nested_context(first) == 0
            assert await client.discard_nested_context(second) == 1
            seen = await found(client, "kinase finding", session_id="run")
            assert set(seen) == {"Finding of the run about a kinase", "Finding of loop first about a kinase"}

        used(open_client(), use)

    def test_relations_have_types_directions_and_depth(self, open_client: OpenClient) -> None:
        async def use(client: Any) -> None:
            plan = await client.store("The plan")
            run = await client.store("The run", {"follows": plan})
            failure = await client.store("The failure", {"caused_by": [run]})
            near = await client.get_related_memories(plan)
            assert [memory.id for memory in near] == [run]
            far = await client.get_related_memories(plan, depth=2)
            assert [memory.id for memory in far] == [run, failure]
            assert await client.get_related_memories(plan, types=["CAUSED_BY"]) == []
            assert [one.id for one in await client.get_related_memories(failure, direction="out")] == [run]
            assert await client.get_related_memories(failure, direction="in") == []

        used(open_client(), use)

    def test_profiles_and_switches_weigh_what_was_found(self, open_client: OpenClient) -> None:
        async def use(client: Any) -> None:
            await client.store("BWA run on sample 7 was a success", {"success": True})
            await client.store("BWA run on sample 7", {"success": False})
            await client.catch_up()
            for profile, success in (("executor", False), ("planner", True)):
                memories = await client.retrieve("BWA run on sample 7", profile=profile)
                assert memories[0].metadata["success"] is success

        used(open_client(), use)

    def test_a_memory_of_long_ago_is_retrieved(self, open_client: OpenClient) -> None:
        async def use(client: Any) -> None:
            await client.store("An old alignment", {"timestamp": 1_000_000_000})
            await client.store("A new alignment")
            await client.catch_up()
            assert sorted(await found(client, "alignment")) == ["A new alignment", "An old alignment"]

        used(open_client(), use)

    def test_many_threads_use_one_client(self, open_client: OpenClient) -> None:
        failures: list[Exception] = []

        def store(client: Any, number: int) -> None:
            try:
                client.sync.store(f"Alignment {number} of many")
                client.sync.retrieve("alignment")
            except Exception as error:  # noqa: BLE001 - it is told below
                failures.append(error)

        async def use(client: Any) -> None:
            threads = [Thread(target=store, args=(client, number)) for number in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert failures == []
            await client.catch_up()
            assert len(await client.retrieve("alignment of many", top_k=20)) == 8

        used(open_client(), use)

    def test_a_client_that_is_off_opens_nothing(self, open_client: OpenClient) -> None:
        async def use(client: Any) -> None:
            assert await client.store("Anything") == ""
            assert await client.retrieve("anything") == []
            assert (await client.catch_up()).state == "none"

        used(open_client(enabled=False), use)


class MemoryEngineContract(MemoryClientContract):
    """The same contract for a backend with an engine next to a ledger. Also return the fixture `lose_engine`.

    The fixture deletes all data of the engine without the client's knowledge.
    """

    @pytest.fixture
    def lose_engine(self) -> Callable[[], None]:
        raise NotImplementedError("return a function that deletes all data of the engine")

    def test_what_the_engine_lost_is_found_and_taken_over_again(
        self, open_client: OpenClient, lose_engine: Callable[[], None]
    ) -> None:
        async def store(client: Any) -> None:
            await stored(client, _TEXTS)
            assert (await client.catch_up()).vectors == len(_TEXTS)

        async def find(client: Any) -> None:
            assert [(await found(client, text))[0] for text in _TEXTS] == list(_TEXTS)
            report = await client.catch_up()
            assert (report.state, report.vectors) == ("ready", len(_TEXTS))
            assert [(await found(client, text))[0] for text in _TEXTS] == list(_TEXTS)

        used(open_client(), store)
        lose_engine()
        used(open_client(), find)

    def test_a_space_goes_back_to_its_own_vectors_and_to_the_engine_again(self, open_client: OpenClient) -> None:
        async def use(client: Any) -> None:
            await stored(client, _TEXTS)
            await client.catch_up()

        async def find(client: Any) -> None:
            assert (await client.catch_up()).state == "none"
            assert [(await found(client, text))[0] for text in _TEXTS] == list(_TEXTS)

        async def again(client: Any) -> None:
            await client.store("One more")
            assert (await client.catch_up()).vectors == len(_TEXTS) + 1

        used(open_client(), use)
        used(open_client(backend="sqlite", vector_store={"backend": "sqlite"}), find)
        used(open_client(), again)


_FILTERS: tuple[tuple[Mapping[str, Any], set[str]], ...] = (
    ({"tool": "bwa"}, {"bwa"}),
    ({"tool": ["bwa", "blast"]}, {"bwa", "blast"}),
    ({"importance_score": {"gte": 0.5}}, {"samtools", "blast"}),
    ({"run": {"exists": True}}, {"samtools", "blast"}),
    ({"run": 7, "importance": {"lt": 1}}, {"samtools"}),
    ({"tool": "salmon"}, set()),
)


def used(client: Any, use: Callable[[Any], Coroutine[Any, Any, _Answer]]) -> _Answer:
    """Use a client in an event loop of its own, and close it."""

    async def use_and_close() -> _Answer:
        async with client:
            return await use(client)

    return asyncio.run(use_and_close())


async def stored(client: Any, texts: Any) -> list[str]:
    """Store texts, and return their ids."""
    return [await client.store(text) for text in texts]


async def found(client: Any, query: str, **options: Any) -> list[str]:
    """Return the retrieved texts, best first."""
    return [memory.content for memory in await client.retrieve(query, **options)]
