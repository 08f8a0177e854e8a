import client_parts
import pytest

import treering


def found(client, query, **options):
    return client_parts.texts(client.retrieve(query, **options))


def test_child_sees_parent_but_not_vice_versa(client):
    client.store("Kinase plan of the parent", {"session_id": "run"})
    context = client.create_nested_context(parent_session_id="run", loop_id="loop-1")
    client.store("Kinase finding of the child", {"session_id": context.session_id})
    assert sorted(found(client, "kinase", session_id=context.session_id)) == [
        "Kinase finding of the child",
        "Kinase plan of the parent",
    ]
    assert found(client, "kinase", session_id="run") == ["Kinase plan of the parent"]
    assert found(client, "kinase") == ["Kinase plan of the parent"]
    assert found(client, "kinase", session_id=context.session_id, scope="session") == ["Kinase finding of the child"]


def test_siblings_are_isolated(client):
    one, other = (client.create_nested_context("run", loop) for loop in ("a", "b"))
    client.store("Kinase finding", {"session_id": one.session_id})
    assert found(client, "kinase", session_id=other.session_id) == []


def test_session_sees_memories_without_session(client):
    client.store("Kinase of all")
    client.store("Kinase of another", {"session_id": "other"})
    assert found(client, "kinase", session_id="run") == ["Kinase of all"]
    assert sorted(found(client, "kinase")) == ["Kinase of all", "Kinase of another"]


def test_merging_gives_the_parent_what_the_child_found_once(client):
    context = client.create_nested_context("run", "loop-1")
    memory_id = client.store("Kinase finding", {"session_id": context.session_id})
    assert client.merge_nested_context(context) == 1
    assert client.merge_nested_context(context) == 0
    (memory,) = client.retrieve("kinase", session_id="run")
    assert (memory.id, memory.metadata["part_of"]) == (memory_id, context.session_id)
    assert found(client, "kinase") == ["Kinase finding"]
    assert found(client, "kinase", session_id="other") == []
    (loop,) = client.get_related_memories(memory_id, types=["PART_OF"])
    assert loop.content == "Nested context loop-1"


def test_what_is_stored_after_a_merge_is_merged_by_the_next(client):
    context = client.create_nested_context("run", "loop-1")
    client.store("Kinase one", {"session_id": context.session_id})
    client.merge_nested_context(context)
    client.store("Kinase two", {"session_id": context.session_id})
    assert found(client, "kinase", session_id="run") == ["Kinase one"]
    assert client.merge_nested_context(context) == 1
    assert len(found(client, "kinase", session_id="run")) == 2


@pytest.mark.parametrize("depth", [2, 5, 30])
def test_contexts_nest_to_any_depth_and_merge_level_by_level(client, depth):
    contexts, session_id = [], "run"
    for level in range(depth):
        contexts.append(client.create_nested_context(session_id, f"level-{level}"))
        session_id = contexts[-1].session_id
    client.store("Kinase finding", {"session_id": session_id})
    for context in reversed(contexts):
        assert found(client, "kinase", session_id=context.session_id) == ["Kinase finding"]
        assert found(client, "kinase", session_id=context.parent_session_id) == []
        assert found(client, "kinase") == []
        assert client.merge_nested_context(context) == 1
    assert found(client, "kinase", session_id="run") == ["Kinase finding"]


def test_merging_a_level_leaves_what_is_below_it(client):
    outer = client.create_nested_context("run", "outer")
    inner = client.create_nested_context(outer.session_id, "inner")
    client.store("Kinase inner", {"session_id": inner.session_id})
    client.store("Kinase outer", {"session_id": outer.session_id})
    assert client.merge_nested_context(outer) == 1
    assert found(client, "kinase", session_id="run") == ["Kinase outer"]
    client.merge_nested_context(inner)
    client.merge_nested_context(outer)
    assert len(found(client, "kinase", session_id="run")) == 2


def test_discarding_a_context_archives_nested_ones(client):
    outer = client.create_nested_context("run", "outer")
    inner = client.create_nested_context(outer.session_id, "inner")
    beside = client.create_nested_context("run", "outer-2")
    for context in (outer, inner, beside):
        client.store(f"Kinase of {context.loop_id}", {"session_id": context.session_id})
    assert client.discard_nested_context(outer) == 2
    assert found(client, "kinase", session_id=inner.session_id) == []
    assert client.merge_nested_context(outer) == 0
    assert found(client, "kinase", session_id=beside.session_id) == ["Kinase of outer-2"]


def test_the_same_loop_of_the_same_parent_is_the_same_context_elsewhere(tmp_path):
    config = client_parts.config(backend="sqlite", sqlite={"path": str(tmp_path / "memory.db")})
    with client_parts.blocking(config) as client:
        context = client.create_nested_context("run", "loop-1")
        client.store("Kinase finding", {"session_id": context.session_id})
    with client_parts.blocking(config) as client:
        assert client.create_nested_context("run", "loop-1") == context
        assert client.merge_nested_context(context) == 1


@pytest.mark.parametrize("odd", ["a/b", "../..", " spaces ", "ü" * 300, "x>y%z", "."])
def test_any_text_can_be_a_session_and_a_loop(client, odd):
    session = odd.replace(">", "-")
    client.store("Kinase plan", {"session_id": session})
    context = client.create_nested_context(session, odd)
    client.store("Kinase finding", {"session_id": context.session_id})
    assert found(client, "kinase", session_id=session) == ["Kinase plan"]
    assert len(found(client, "kinase", session_id=context.session_id)) == 2
    assert client.merge_nested_context(context) == 1
    assert len(found(client, "kinase", session_id=session)) == 2


def test_context_without_parent_merges_into_root(client):
    context = client.create_nested_context(None, "loop")
    client.store("Kinase finding", {"session_id": context.session_id})
    assert found(client, "kinase") == []
    client.merge_nested_context(context)
    assert found(client, "kinase", session_id="any") == ["Kinase finding"]


def test_relations_do_not_show_what_is_in_another_context(client):
    parent = client.store("Kinase plan", {"session_id": "run"})
    context = client.create_nested_context("run", "loop")
    child = client.store("Kinase finding", {"session_id": context.session_id, "follows": parent})
    assert client.get_related_memories(parent) == []
    assert [one.id for one in client.get_related_memories(child)] == [parent]


def test_a_context_that_is_too_deep_is_refused(client):
    deepest = ">".join(["run", *map(str, range(62))])
    assert client.create_nested_context(">".join(deepest.split(">")[:-1]), "loop")
    with pytest.raises(treering.InvalidInput, match="scope"):
        client.create_nested_context(deepest, "loop")


@pytest.mark.parametrize("loop_id", [None, ""])
def test_nested_context_without_a_loop_is_refused(client, loop_id):
    with pytest.raises(treering.InvalidInput, match="loop_id"):
        client.create_nested_context("run-1", loop_id)
