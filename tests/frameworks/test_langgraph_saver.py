"""The LangGraph saver: LangGraph's own conformance kit, real graphs, and channels that are rebuilt from writes."""

from typing import Annotated

import pytest
from framework_parts import blocking
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from treering import Denied, InvalidInput
from treering.langgraph import TreeringSaver

CONTRACTS = 81
"""Tests of the kit in the version that this was written against; a later one may have more."""

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("erase", [False, True])
async def test_the_conformance_kit_passes_in_full(erase):
    @checkpointer_test(name="TreeringSaver")
    async def make():
        with blocking(channel="user") as client:
            yield TreeringSaver(client, erase=erase)

    report = await validate(make)
    assert {name: result.failures for name, result in report.results.items() if result.failures} == {}
    assert report.conformance_level() == "FULL"
    assert sum(result.tests_passed for result in report.results.values()) >= CONTRACTS


class Counted(TypedDict):
    log: Annotated[list, lambda old, new: [*old, *new]]


def appended(old, updates):
    return [*old, *(part for update in updates for part in update)]


class Delta(TypedDict):
    log: Annotated[list, DeltaChannel(appended, snapshot_frequency=50)]


class OftenSnapshot(TypedDict):
    log: Annotated[list, DeltaChannel(appended, snapshot_frequency=3)]


def graph_of(state, saver):
    graph = StateGraph(state).add_node("count", lambda now: {"log": [len(now["log"])]}).add_edge(START, "count")
    return graph.compile(checkpointer=saver)


def thread(name):
    return {"configurable": {"thread_id": name}}


@pytest.fixture
def saver():
    with blocking(channel="user") as client:
        yield TreeringSaver(client)


@pytest.mark.parametrize("erase", [False, True])
@pytest.mark.parametrize("state", [Counted, Delta, OftenSnapshot])
def test_pruning_keeps_the_state_of_every_kind_of_channel(state, erase):
    with blocking(channel="user") as client:
        saver = TreeringSaver(client, erase=erase)
        graph = graph_of(state, saver)
        for number in range(4):
            graph.invoke({"log": [f"input {number}"]}, thread("t"))
        before, count = graph.get_state(thread("t")).values, len([*saver.list(thread("t"))])
        saver.prune(["t"])
        assert graph.get_state(thread("t")).values == before
        left = len([*saver.list(thread("t"))])
        assert left == 1 if state is Counted else left <= count
        graph.invoke({"log": ["after"]}, thread("t"))
        assert graph.get_state(thread("t")).values["log"][: len(before["log"]) + 1] == [*before["log"], "after"]


def test_pruning_removes_what_is_before_the_last_snapshot_of_a_channel(saver):
    graph = graph_of(OftenSnapshot, saver)
    for number in range(8):
        graph.invoke({"log": [f"input {number}"]}, thread("t"))
    count = len([*saver.list(thread("t"))])
    saver.prune(["t"])
    assert len([*saver.list(thread("t"))]) < count / 2


def test_a_run_goes_on_where_it_was_interrupted_in_another_process_of_the_space(tmp_path):
    def ask(state):
        return {"log": [interrupt("which?")]}

    def compiled(client):
        graph = StateGraph(Counted).add_node("ask", ask).add_edge(START, "ask")
        return graph.compile(checkpointer=TreeringSaver(client))

    space = {"backend": "sqlite", "sqlite": {"path": str(tmp_path / "memory.db")}}
    with blocking(space) as client:
        assert "__interrupt__" in compiled(client).invoke({"log": ["asked"]}, thread("t"))
    with blocking(space) as client:
        assert compiled(client).invoke(Command(resume="this one"), thread("t"))["log"] == ["asked", "this one"]


def test_two_branches_of_a_thread_have_their_own_values(saver):
    graph = graph_of(Counted, saver)
    graph.invoke({"log": ["root"]}, thread("t"))
    fork = graph.get_state(thread("t")).config
    graph.invoke({"log": ["left"]}, fork)
    left = graph.get_state(thread("t")).config
    graph.invoke({"log": ["right"]}, fork)
    assert graph.get_state(left).values["log"][2] == "left"
    assert graph.get_state(thread("t")).values["log"][2] == "right"


def test_checkpoints_are_no_memories_and_values_that_did_not_change_are_kept_once(saver):
    class Two(TypedDict):
        big: str
        log: Annotated[list, lambda old, new: [*old, *new]]

    graph = StateGraph(Two).add_node("count", lambda now: {"log": [len(now["log"])]}).add_edge(START, "count")
    compiled = graph.compile(checkpointer=saver)
    compiled.invoke({"big": "a wombat digs burrows", "log": []}, thread("t"))
    for _ in range(3):
        compiled.invoke({"log": []}, thread("t"))
    kept = saver._client.records.all_of(saver._collection)
    channels = [one.value["parts"][0] for one in kept if one.key.startswith("blob/")]
    assert channels.count("big") == 1
    assert channels.count("log") > 1
    assert saver._client.retrieve("a wombat digs burrows") == []
    assert saver._client.retrieve("langgraph checkpoints default") == []


def test_deleting_with_erase_leaves_nothing_of_a_thread_and_needs_the_right_to():
    with blocking(channel="user") as client:
        saver = TreeringSaver(client, erase=True)
        graph_of(Counted, saver).invoke({"log": ["x"]}, thread("secret-thread"))
        records = [*client.records.engine.ledger.records()]
        assert any("secret-thread" in str(record.row) for record in records)
        saver.delete_thread("secret-thread")
        records = [*client.records.engine.ledger.records()]
        assert not any("secret-thread" in str(record.row) for record in records)
    with blocking(channel="agent") as client:
        saver = TreeringSaver(client, erase=True)
        graph_of(Counted, saver).invoke({"log": ["x"]}, thread("t"))
        with pytest.raises(Denied, match="erase"):
            saver.delete_thread("t")


def test_an_unknown_strategy_is_refused(saver):
    with pytest.raises(InvalidInput, match="everything"):
        saver.prune(["t"], strategy="everything")


async def test_an_asynchronous_graph_uses_the_same_saver(saver):
    graph = graph_of(Counted, saver)
    await graph.ainvoke({"log": ["one"]}, thread("t"))
    assert [one async for one in saver.alist(thread("t"), limit=1)] == [*saver.list(thread("t"), limit=1)]
    assert (await graph.aget_state(thread("t"))).values == {"log": ["one", 1]}
