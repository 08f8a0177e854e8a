import asyncio
import contextlib
import functools
import inspect
import json
import logging
import sqlite3
import threading
from dataclasses import dataclass, field
from typing import Any

import client_parts
import pytest
import zstandard
from mcp import Client
from mcp.server import MCPServer
from mcp_types import CallToolResult, TextContent

import treering
from treering.client import BlockingMemoryClient, MemoryDependencies, log_tool_runs, memory_node
from treering.stores.rows.packing import unpack_sealed

SECRET = "ghp_" + "a1B2" * 9


@dataclass
class ToolSpec:
    name: str


@dataclass
class ExecutionResult:
    success: bool
    data: dict[str, Any] = field(default_factory=dict)
    error: str | None = None


class ToolRunner:
    """A runner as hosts have it, which checks its input and answers with what went wrong."""

    memory_client: Any = None

    def __init__(self, name="bwa"):
        self.spec = ToolSpec(name)

    def run(self, params):
        if "reads" not in params:
            return ExecutionResult(False, error="reads: missing")
        if params["reads"] == "broken":
            raise ValueError("reads: cannot be read")
        return ExecutionResult(True, data={"mapped": 97})


def kept(client):
    """Return all tool runs that a client keeps, those first stored first."""
    found = client.retrieve("tool executed with params", top_k=100, scope="space", profile=EVERYTHING)
    return sorted(found, key=lambda one: one.metadata["timestamp"])


EVERYTHING = treering.client.AgentProfile(agent_type="", relevance_threshold=0)


def told(memory):
    """Return what is known of a run, without what differs from one to the next."""
    names = ("memory_type", "tool_name", "success", "parameters", "result_summary", "error")
    return {name: memory.metadata[name] for name in names}


def run_all(runner):
    """Run with good input, with invalid input and with what raises."""
    runner.run({"reads": "a.fq"})
    runner.run({"index": "hg38"})
    with pytest.raises(ValueError, match="cannot be read"):
        runner.run({"reads": "broken"})


def runner_of_a_logged_class(client):
    runner = log_tool_runs(type("BwaRunner", (ToolRunner,), {}))()
    runner.memory_client = client
    return runner


@pytest.mark.parametrize(
    "make",
    [
        runner_of_a_logged_class,
        lambda client: log_tool_runs(ToolRunner(), client=client),
        lambda client: log_tool_runs(client=client)(type("BwaRunner", (ToolRunner,), {}))(),
        lambda client: log_tool_runs(log_tool_runs(client=client)(type("Bwa", (ToolRunner,), {}))(), client=client),
    ],
    ids=["class", "object", "class with a client", "wrapped twice"],
)
def test_each_run_of_a_runner_is_one_memory(client, make):
    run_all(make(client))
    success, invalid, raised = kept(client)
    assert success.content == "Tool bwa executed with params: {'reads': 'a.fq'}\nResult: {'mapped': 97}"
    assert told(success) == {
        "memory_type": "tool_execution",
        "tool_name": "bwa",
        "success": True,
        "parameters": {"reads": "a.fq"},
        "result_summary": {"mapped": 97},
        "error": None,
    }
    assert success.metadata["tool"] == "bwa"
    assert 0 <= success.metadata["duration"] < 60
    assert invalid.content == "Tool bwa executed with params: {'index': 'hg38'}\nError: reads: missing"
    assert told(invalid) == {
        **told(success),
        "success": False,
        "parameters": {"index": "hg38"},
        "result_summary": None,
        "error": "reads: missing",
    }
    assert raised.content == "Tool bwa executed with params: {'reads': 'broken'}\nError: reads: cannot be read"
    assert (raised.metadata["success"], raised.metadata["error"]) == (False, "reads: cannot be read")


def test_a_run_that_calls_the_one_it_inherits_is_one_memory(client):
    base = log_tool_runs(type("Base", (ToolRunner,), {"memory_client": client}))

    @log_tool_runs
    class Careful(base):
        def run(self, params):
            return super().run(params)

    Careful().run({"reads": "a.fq"})
    assert len(kept(client)) == 1


def test_method_decorated_in_its_class_is_logged(client):
    class Registry:
        memory_client = client

        @log_tool_runs
        def execute_tool(self, tool_name, parameters):
            return {"mapped": 97}

    Registry().execute_tool("bwa", {"reads": "a.fq"})
    (run,) = kept(client)
    assert run.metadata["tool"] == "execute_tool"
    assert run.metadata["parameters"] == {"tool_name": "bwa", "parameters": {"reads": "a.fq"}}


@pytest.mark.parametrize("before", [True, False], ids=["defined before", "defined after"])
def test_runs_of_subclasses_are_logged(client, before):
    names = []

    class Base:
        memory_client = client

        def __init_subclass__(cls, **named):
            names.append(cls.__name__)

        def run(self, params):
            raise NotImplementedError

    def define(base):
        class Aligner(base):
            tool_spec = ToolSpec("bwa")

            def run(self, params):
                return ExecutionResult(True, data={"mapped": params["reads"]})

        return type("Fast", (Aligner,), {"run": lambda self, params: super(self.fast, self).run(params)})

    fast = define(Base) if before else None
    log_tool_runs(Base)
    fast = fast or define(Base)
    fast.fast = fast
    assert fast().run({"reads": "a.fq"}).data == {"mapped": "a.fq"}
    assert [one.content for one in kept(client)] == [
        "Tool bwa executed with params: {'reads': 'a.fq'}\nResult: {'mapped': 'a.fq'}"
    ]
    assert names == ["Aligner", "Fast"]


def test_a_tool_that_calls_another_is_a_run_beside_it(client):
    align = log_tool_runs(lambda reads: reads, client=client, name="bwa")
    log_tool_runs(lambda reads: align(reads), client=client, name="pipeline")("a.fq")
    assert sorted(one.metadata["tool"] for one in kept(client)) == ["bwa", "pipeline"]


def test_a_tool_that_calls_itself_with_something_else_is_a_run_of_its_own(client):
    def count(down):
        return counting(down - 1) if down else "done"

    counting = log_tool_runs(count, client=client)
    counting(2)
    assert sorted(one.metadata["parameters"]["down"] for one in kept(client)) == [0, 1, 2]


def test_a_function_keeps_its_name_its_signature_and_its_result(client):
    def align(reads: str, *, index: str = "hg38", **rest: int) -> dict[str, Any]:
        """Align reads."""
        return {"reads": reads}

    logged = log_tool_runs(align, client=client)
    assert logged("a.fq", threads=4) == {"reads": "a.fq"}
    assert (logged.__name__, logged.__doc__) == ("align", "Align reads.")
    assert inspect.signature(logged) == inspect.signature(align)
    assert told(kept(client)[0])["parameters"] == {"reads": "a.fq", "threads": 4}


def test_a_run_that_is_put_off_is_no_run(client):
    def align(reads):
        raise InterruptedError(reads)

    for unfinished, count in (((InterruptedError,), 0), ((), 1)):
        with pytest.raises(InterruptedError):
            log_tool_runs(align, client=client, unfinished=unfinished)("S7")
        assert len(kept(client)) == count


def test_arguments_that_a_function_does_not_take_are_a_failed_run(client):
    logged = log_tool_runs(lambda reads: reads, client=client, name="bwa")
    with pytest.raises(TypeError, match="unexpected keyword"):
        logged(index="hg38")
    (run,) = kept(client)
    assert (run.metadata["success"], run.metadata["parameters"]) == (False, {"index": "hg38"})
    assert "unexpected keyword argument 'index'" in run.metadata["error"]


@pytest.mark.parametrize("name", ["coroutine", "returns a coroutine", "partial", "object"])
def test_an_asynchronous_function_is_one_memory_of_a_run(client, name):
    async def align(reads):
        if reads == "broken":
            raise ValueError("cannot be read")
        return {"mapped": 97}

    class Align:
        async def __call__(self, reads):
            return await align(reads)

    forms = {
        "coroutine": align,
        "returns a coroutine": lambda reads: align(reads),
        "partial": functools.partial(align),
        "object": Align(),
    }
    logged = log_tool_runs(forms[name], client=client, name="bwa")

    async def use():
        assert await logged("a.fq") == {"mapped": 97}
        with pytest.raises(ValueError, match="cannot be read"):
            await logged("broken")

    asyncio.run(use())
    assert [told(one)["success"] for one in kept(client)] == [True, False]
    assert kept(client)[0].metadata["result_summary"] == {"mapped": 97}


def test_runs_side_by_side_are_a_memory_each(client):
    async def align(reads):
        await asyncio.sleep(0)
        return reads

    logged = log_tool_runs(align, client=client)

    async def use():
        await asyncio.gather(*(logged("a.fq") for _ in range(20)))

    asyncio.run(use())
    assert len(kept(client)) == 20


def test_a_cancelled_run_is_one_failed_memory(client):
    async def align(reads):
        await asyncio.sleep(3600)

    async def use():
        run = asyncio.create_task(log_tool_runs(align, client=client)("a.fq"))
        await asyncio.sleep(0)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    asyncio.run(use())
    (run,) = kept(client)
    assert (run.metadata["success"], run.metadata["error"]) == (False, "CancelledError")


def test_a_run_whose_caller_is_cancelled_as_it_is_stored_is_one_memory(client, monkeypatch):
    storing, go_on = threading.Event(), threading.Event()
    store = client.store

    def slow_store(*given):
        storing.set()
        go_on.wait(60)
        return store(*given)

    monkeypatch.setattr(client, "store", slow_store)

    async def align(reads):
        return reads

    async def use():
        run = asyncio.create_task(log_tool_runs(align, client=client)("a.fq"))
        await asyncio.to_thread(storing.wait, 60)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        go_on.set()

    asyncio.run(use())
    assert [one.metadata["success"] for one in kept(client)] == [True]


def test_storing_does_not_hold_up_the_event_loop(client, monkeypatch):
    go_on = threading.Event()
    store = client.store

    def slow_store(*given):
        assert go_on.wait(60)
        return store(*given)

    monkeypatch.setattr(client, "store", slow_store)

    async def align(reads):
        return reads

    async def use():
        run = asyncio.create_task(log_tool_runs(align, client=client)("a.fq"))
        await asyncio.sleep(0.01)
        go_on.set()  # which nobody could do if the loop waited for the memory
        return await run

    assert asyncio.run(use()) == "a.fq"
    assert len(kept(client)) == 1


class Unprintable:
    def __str__(self):
        raise RuntimeError("cannot be shown")

    __repr__ = __str__


@pytest.mark.parametrize("fault", ["parameters", "result", "closed"])
def test_a_memory_that_fails_leaves_the_tool_alone(client, caplog, fault):
    async def align(reads):
        return Unprintable() if fault == "result" else {"mapped": 97}

    def align_now(reads):
        return Unprintable() if fault == "result" else {"mapped": 97}

    given = Unprintable() if fault == "parameters" else "a.fq"
    if fault == "closed":
        client.close()
    with caplog.at_level(logging.WARNING):
        results = (
            log_tool_runs(align_now, client=client)(given),
            asyncio.run(log_tool_runs(align, client=client)(given)),
        )
    assert all(isinstance(one, Unprintable) if fault == "result" else one == {"mapped": 97} for one in results)
    warned = len([one for one in caplog.records if "tool" in one.message])
    assert (warned, 0 if fault == "closed" else len(kept(client))) == ((2, 0) if fault == "closed" else (0, 2))


def test_without_a_client_a_tool_is_what_it_was(caplog):
    def align(reads):
        return reads

    off = BlockingMemoryClient(client_parts.config(enabled=False))
    for logged in (log_tool_runs(align), log_tool_runs(align, client=off)):
        assert logged("a.fq") == "a.fq"
    assert log_tool_runs(ToolRunner()).run({"reads": "a.fq"}).success
    assert caplog.records == []


def test_a_function_of_one_mapping_has_it_as_its_parameter(client):
    log_tool_runs(lambda reads: reads, client=client, name="bwa")({"file": "a.fq"})
    assert kept(client)[0].metadata["parameters"] == {"reads": {"file": "a.fq"}}


def test_an_excluded_agent_has_no_tool_runs():
    with client_parts.blocking(client_parts.config(excluded_agents=["executor"])) as client:
        log_tool_runs(lambda reads: reads, client=client, name="bwa", agent_type="executor")("a.fq")
        assert kept(client) == []


def test_secrets_are_not_kept(client):
    def refused(url, password, options):
        raise ValueError(f"401 for {SECRET}")

    def fetch(url, password, options):
        return {"token": SECRET, "deep": [{"line": f"key {SECRET}"}]}

    given = (f"https://me:{SECRET}@example.org/x", "Hunter2-and-more!", {"api_key": SECRET})
    assert log_tool_runs(fetch, client=client)(*given)["token"] == SECRET  # the tool's own result stays as it is
    with pytest.raises(ValueError, match=SECRET):
        log_tool_runs(refused, client=client)(*given)
    runs = kept(client)
    assert len(runs) == 2
    for run in runs:
        stored = run.content + json.dumps(dict(run.metadata))
        assert SECRET not in stored
        assert "Hunter2" not in stored
        assert stored.count("[redacted:") >= 4


PLAIN_SECRETS = (
    "sk-abcdefghijklmnopqrstuvwx",
    "hunter2",
    "tulip-river-9",
    "open sesame",
    "4711",
    "oatmeal",
    "marzipan",
)


def all_bytes_in(path):
    """Return the bytes of a file, and of a database also its rows, decompressed."""
    data = path.read_bytes()
    if not data.startswith(b"SQLite format 3"):
        return data
    with contextlib.closing(sqlite3.connect(path)) as database:
        plain = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
        tables = [name for (name,) in database.execute(plain)]
        cells = [cell for table in tables for row in database.execute(f'SELECT * FROM "{table}"') for cell in row]
    return b"\n".join([data, *(unpack_sealed(one, name=None).encode() for one in cells if is_packed(one))])


def is_packed(cell):
    return isinstance(cell, bytes) and cell.startswith(zstandard.FRAME_HEADER)


def test_arguments_and_results_with_the_name_of_a_secret_are_in_no_file(tmp_path):
    key, password, secret, phrase, code, cookie, token = PLAIN_SECRETS

    def connect(api_key, login, **options):
        return {"accessToken": token, "users": [{"name": "ada", "passwd": password}], "rows": 3}

    configuration = client_parts.config(backend="sqlite", sqlite={"path": str(tmp_path / "memory.db")})
    with client_parts.blocking(configuration) as client:
        logged = log_tool_runs(connect, client=client)
        logged(
            key,
            [{"password": password, "credentials": {"phrase": phrase}}],
            secret=secret,
            Authorization=f"Basic {phrase}",
            passcode=int(code),
            cookies={"session": cookie},
        )
        (run,) = kept(client)
        mark = "[redacted:assigned_secret]"
        assert run.metadata["parameters"] == {
            "api_key": mark,
            "login": [{"password": mark, "credentials": mark}],
            **dict.fromkeys(("secret", "Authorization", "passcode", "cookies"), mark),
        }
        assert run.metadata["result_summary"] == {
            "accessToken": mark,
            "users": [{"name": "ada", "passwd": mark}],
            "rows": 3,
        }
    stored = b"".join(all_bytes_in(path) for path in tmp_path.rglob("*") if path.is_file())
    assert b"accessToken" in stored
    assert [one for one in PLAIN_SECRETS if len(one) > 4 and one.encode() in stored] == []


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ('{"user": "ada", "password": "hunter2"}', '{"user": "ada", "password": "MARK"}'),
        ('[{"credentials": {"phrase": "hunter2"}}]', '[{"credentials": "MARK"}]'),
        ('{"body": "{\\"password\\": \\"hunter2\\"}"}', '{"body": "{\\"password\\": \\"MARK\\"}"}'),
        ('{"rows": 3, "password": "hunt', '{"rows": 3, "password": "MARK'),
        ('200 {"password": "hunter2", "rows": 3}', '200 {"password": "MARK", "rows": 3}'),
        ("{'password': 'hunter2', 'rows': 3}", "{'password': 'MARK', 'rows': 3}"),
        ({"name": "password", "value": "hunter2"}, {"name": "password", "value": "MARK"}),
        ('[{"key": "DB_PASSWORD", "value": "hunter2"}]', '[{"key": "DB_PASSWORD", "value": "MARK"}]'),
        ('{"name":"Ada","value":3,\n"password":""}', '{"name":"Ada","value":3,\n"password":""}'),
    ],
)
def test_named_secrets_in_json_text_are_redacted(client, given, stored):
    log_tool_runs(lambda body: body, client=client, name="send")(given)
    (run,) = kept(client)
    shown = json.loads(json.dumps(stored).replace("MARK", "[redacted:assigned_secret]"))
    assert run.metadata["parameters"] == {"body": shown}
    assert run.metadata["result_summary"] == shown
    assert "hunt" not in run.content


def test_arguments_that_only_describe_a_secret_are_stored(client):
    given = {
        "max_tokens": 512,
        "token_count": 7,
        "secret_santa_budget": 20,
        "forgot_password": True,
        "password": "",
        "token": None,
        "secret_name": "db/main",
        "author": "ada",
        "public_key": "ssh-ed25519",
    }
    log_tool_runs(lambda **options: "done", client=client, name="call")(**given)
    assert kept(client)[0].metadata["parameters"] == given


@pytest.mark.parametrize("cut", [1990, 1999, 2008])
def test_a_secret_is_not_kept_where_the_text_is_cut(client, cut):
    log_tool_runs(lambda: "x " * (cut // 2) + SECRET, client=client, name="fetch")()
    (run,) = kept(client)
    assert SECRET[:12] not in run.content
    assert SECRET[:12] not in run.metadata["result_summary"]


@pytest.mark.parametrize(
    "large",
    [
        "x" * 1_000_000,
        ["row"] * 1_000_000,
        {str(key): "value" for key in range(100_000)},
        [[[[["deep"] * 40] * 40] * 40]],
    ],
    ids=["text", "list", "mapping", "deep"],
)
def test_what_is_large_is_cut(client, large):
    log_tool_runs(lambda reads: large, client=client, name="bwa")(large)
    (run,) = kept(client)
    assert len(run.content) < 5_000
    assert len(json.dumps(dict(run.metadata))) < 6_000


@pytest.mark.parametrize(
    ("result", "success", "summary", "error"),
    [
        ({"success": False, "error": "no index"}, False, None, "no index"),
        ({"success": False}, False, None, "unknown error"),
        ({"success": True, "data": {"mapped": 97}}, True, {"mapped": 97}, None),
        ({"success": True, "mapped": 97}, True, {"success": True, "mapped": 97}, None),
        (ExecutionResult(True, data={"mapped": 97}), True, {"mapped": 97}, None),
        (CallToolResult(content=[TextContent(type="text", text="no index")], is_error=True), False, None, "no index"),
        (None, True, None, None),
        (b"1234", True, "4 bytes", None),
    ],
)
def test_what_a_tool_says_of_its_success_is_kept(client, result, success, summary, error):
    log_tool_runs(lambda: result, client=client, name="bwa")()
    (run,) = kept(client)
    assert (run.metadata["success"], run.metadata["result_summary"]) == (success, summary)
    assert error is None or error in run.metadata["error"]


def test_the_session_and_the_agent_of_the_dependencies_are_known():
    @dataclass
    class RunContext:
        deps: Any

    @dataclass
    class GenomeContext:
        build: str

    async def align(ctx, reads, genome):
        return reads

    async def use():
        async with client_parts.asynchronous() as client:
            deps = MemoryDependencies(memory_client=client, session_id="run-1", agent_profile="executor")
            await log_tool_runs(align)(RunContext(deps), "a.fq", GenomeContext("hg38"))
            return kept(client.sync)

    (run,) = asyncio.run(use())
    assert run.metadata["session_id"] == "run-1"
    assert run.metadata["agent_type"] == "executor"
    assert run.metadata["parameters"] == {"reads": "a.fq", "genome": {"build": "hg38"}}


def test_a_tool_that_a_node_calls_is_kept_in_its_memory():
    @log_tool_runs
    def align(reads):
        return reads

    @memory_node(agent_type="executor", store=False)
    async def execute(state):
        return align("a.fq")

    async def use():
        async with client_parts.asynchronous() as client:
            await execute({"memory_client": client, "memory_session_id": "run-1"})
            align("b.fq")
            return kept(client.sync)

    (run,) = asyncio.run(use())
    assert (run.metadata["session_id"], run.metadata["agent_type"]) == ("run-1", "executor")


def aligning_server(client, *, whole):
    server = MCPServer("aligning")

    async def align(reads: str, threads: int = 4) -> dict[str, Any]:
        """Align reads."""
        if reads == "broken":
            raise ValueError("cannot be read")
        return {"mapped": 97}

    server.tool()(align if whole else log_tool_runs(align, client=client))
    return log_tool_runs(server, client=client) if whole else server


@pytest.mark.parametrize("whole", [False, True], ids=["function", "server"])
def test_the_tools_of_an_mcp_server_are_logged(client, whole):
    async def use():
        async with Client(aligning_server(client, whole=whole)) as session:
            (tool,) = (await session.list_tools()).tools
            answers = [await session.call_tool("align", {"reads": reads}) for reads in ("a.fq", "broken")]
            invalid = await session.call_tool("align", {"threads": "many"})
            return tool, [one.is_error for one in (*answers, invalid)]

    tool, errors = asyncio.run(use())
    assert sorted(tool.input_schema["properties"]) == ["reads", "threads"]
    assert errors == [False, True, True]
    runs = kept(client)
    assert [(one.metadata["tool"], one.metadata["success"]) for one in runs[:2]] == [("align", True), ("align", False)]
    assert {"reads": "a.fq"}.items() <= runs[0].metadata["parameters"].items()
    assert "97" in runs[0].content
    assert "cannot be read" in runs[1].content
    # What the server refuses never reaches the function.
    assert [one.metadata["parameters"] for one in runs[2:]] == ([{"threads": "many"}] if whole else [])


def test_a_server_and_its_functions_both_wrapped_store_one_memory_of_a_run(client):
    server = log_tool_runs(aligning_server(client, whole=False), client=client)

    async def use():
        async with Client(server) as session:
            await session.call_tool("align", {"reads": "a.fq"})

    asyncio.run(use())
    assert len(kept(client)) == 1


def rows():
    yield 1


async def rows_later():
    yield 1


@pytest.mark.parametrize("what", [7, rows, rows_later, type("NoTool", (), {})])
def test_what_cannot_be_run_is_refused(what):
    with pytest.raises(treering.InvalidInput):
        log_tool_runs(what)


class Slotted:
    __slots__ = ()

    def run(self, params):
        return params


def test_an_object_whose_method_cannot_be_replaced_is_refused(client):
    with pytest.raises(treering.InvalidInput, match="The method 'run' of Slotted cannot be replaced"):
        log_tool_runs(Slotted(), client=client)
    log_tool_runs(type("Open", (Slotted,), {"__slots__": ()}), client=client)().run({"reads": "a.fq"})
    assert [one.metadata["tool"] for one in kept(client)] == ["Open"]


def test_a_run_without_an_event_loop_is_stored(client):
    async def align(reads):
        return reads

    run = log_tool_runs(align, client=client)("a.fq")
    with pytest.raises(StopIteration, match=r"a\.fq"):
        run.send(None)
    assert len(kept(client)) == 1


def test_cancelled_tool_run_is_stored(client):
    class Forever:
        def __await__(self):
            yield

    async def align(reads):
        await Forever()

    run = log_tool_runs(align, client=client)("a.fq")
    run.send(None)
    run.close()
    assert [one.metadata["error"] for one in kept(client)] == ["GeneratorExit"]


@pytest.mark.parametrize(
    ("tool", "name"),
    [
        (functools.partial(lambda reads, index: reads, index="hg38"), "<lambda>"),
        (type("Aligner", (), {"run": lambda self, params: params})(), "Aligner"),
        (type("Aligner", (), {"run": lambda self, params: params, "name": "bwa"})(), "bwa"),
    ],
)
def test_tool_name_comes_from_spec_or_function(client, tool, name):
    logged = log_tool_runs(tool, client=client)
    (logged.run if hasattr(logged, "run") else logged)({"reads": "a.fq"})
    assert [one.metadata["tool"] for one in kept(client)] == [name]


def test_missing_key_is_stored_with_the_type_of_the_error(client):
    with pytest.raises(KeyError):
        log_tool_runs({}.__getitem__, client=client, name="lookup")("bad")
    assert [one.metadata["error"] for one in kept(client)] == ["KeyError: 'bad'"]


def test_tool_error_without_message_is_stored_by_name(client):
    def silent():
        raise KeyError

    def caused():
        try:
            silent()
        except KeyError as error:
            raise ValueError("no alignment") from OSError(f"the disk is full: {error}")

    for tool in (silent, caused):
        with pytest.raises((KeyError, ValueError)):
            log_tool_runs(tool, client=client)()
    assert [one.metadata["error"] for one in kept(client)] == ["KeyError", "no alignment: the disk is full: "]


def test_data_of_any_kind_is_kept_as_far_as_there_is_room(client):
    deep: list[Any] = ["bottom"]
    for _ in range(50):
        deep = [deep]
    result = {
        "set": {"a"},
        "item": ExecutionResult(True),
        "spec": ToolSpec("bwa"),
        "tuple": (1, None, 2.5),
        "deep": deep,
    }
    log_tool_runs(lambda: result, client=client, name="bwa")()
    (run,) = kept(client)
    summary = run.metadata["result_summary"]
    assert summary["item"] == {"success": True, "data": {}, "error": None}
    assert (summary["set"], summary["spec"], summary["tuple"]) == (["a"], {"name": "bwa"}, [1, None, 2.5])
    assert "bottom" not in str(summary["deep"])
