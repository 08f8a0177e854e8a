import anyio
import pytest
from mcp import Client
from mcp_parts import Caller, commit, over_stdio, shop, text_of

_TASK = {"task": "when do retries stop"}


def test_an_agent_goes_through_the_whole_loop_over_stdio(tmp_path):
    root = shop(tmp_path)

    async def loop():
        async with Client(over_stdio(f"sqlite:{tmp_path / 'space.db'}", "--files", str(tmp_path))) as client:
            call = Caller(client)
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert names == ["wiki.ingest", "wiki.query", "wiki.crystallize", "wiki.lint"]
            assert client.server_info.name == "treering"
            assert "wiki.crystallize" in (client.instructions or "")

            ingested = await call("ingest", "repo", {"path": str(root)})
            assert ingested["counts"] == {"created": 10}
            hits = (await call("query", "search", {"text": "how often is a call tried again"}))["hits"]
            assert hits[0]["place"].startswith("retry.py#L")

            known = await _decide(call, hits[0])
            before = await call.result("query", "context", _TASK)
            assert "Retries stop after three" in text_of(before)
            stood = before.structured_content["as_of"]

            (root / "retry.py").write_text('"""Nothing of the old is here."""\n\nBREAKER = "open"\n')
            commit(root, "Replace retries")
            again = await call("ingest", "repo", {"path": str(root)})
            assert again["staled"] == [known]

            findings = (await call("lint", "semantic"))["findings"]
            assert [(one["rule"], known in one["ids"]) for one in findings] == [("stale", True)]
            assert "retry.py" in findings[0]["explanation"]
            now = await call("query", "context", _TASK)
            assert known not in {item["object_id"] for item in now["pack"]["items"]}
            then = await call("query", "search", {"text": _TASK["task"]}, as_of=stood)
            assert (known, "active") in {(hit["object_id"], hit["status"]) for hit in then["hits"]}

    anyio.run(loop)


def test_tools_are_called_with_an_underscore_where_the_setting_says_so(tmp_path):
    async def names():
        async with Client(over_stdio(f"sqlite:{tmp_path / 'space.db'}", TREERING_MCP_UNDERSCORE="1")) as client:
            result = await client.call_tool("wiki_ingest", {"mode": "source", "input": {"text": "A note."}})
            assert not result.is_error
            assert "wiki_query" in (client.instructions or "")
            return [tool.name for tool in (await client.list_tools()).tools]

    assert anyio.run(names) == ["wiki_ingest", "wiki_query", "wiki_crystallize", "wiki_lint"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_both_eras_of_the_protocol_are_served(tmp_path, mode):
    async def version():
        async with Client(over_stdio(f"sqlite:{tmp_path / 'space.db'}"), mode=mode) as client:
            await Caller(client)("ingest", "source", {"text": "A note."})
            return client.protocol_version

    assert anyio.run(version)


async def _decide(call, hit):
    """Crystallize an activity that led to a decision resting on a hit; return the decision's id."""
    decision = {
        "kind": "decision",
        "title": "Retries stop after three",
        "status": "active",
        "payload": {
            "question": "When do we stop retrying?",
            "outcome": "After three",
            "rationale": "The gateway bans.",
        },
        "evidence_refs": [{"source_id": hit["source_id"], "segment_id": hit["segment_id"]}],
    }
    work = {"kind": "implementation", "title": "Bounded retries", "outcome": "success", "knowledge": [decision]}
    report = await call("crystallize", "activity", work)
    assert report["status"] == "ok"
    return next(identity for identity in report["ids"] if identity.startswith("know:"))
