"""A model server that answers coding agents by a script, in the four protocols that they speak."""

import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SAID = "We decided to keep sessions for thirty days, because shops ask for it."
FAILING = "echo 'OperationalError: database is locked'; exit 1"
_OLD, _NEW = "return sqlite3.connect(path)", "return sqlite3.connect(path, timeout=5)"
_PATCH = f"*** Begin Patch\n*** Update File: src/sessions.py\n@@\n-    {_OLD}\n+    {_NEW}\n*** End Patch\n"
Call = tuple[str, dict[str, Any]]
"""The name of a tool, and what it is given."""


def calls_of(tools: frozenset[str], file: str, command: str = "") -> list[Call]:
    """Return what the script has an agent do with the tools it has: read a file, edit it, run a command that fails.

    `command`: what it runs before.
    """
    shell = {"Bash": "command", "run_shell_command": "command", "exec_command": "cmd", "bash": "command"}
    calls = _work_of(tools, file)
    name = next((one for one in shell if one in tools), "")
    return [(name, {shell[name]: command, "description": "Ask"}), *calls] if command and name and calls else calls


def _work_of(tools: frozenset[str], file: str) -> list[Call]:
    change = {"old_string": _OLD, "new_string": _NEW}
    if "Edit" in tools:
        return [("Read", {"file_path": file}), ("Edit", {"file_path": file, **change}), ("Bash", {"command": FAILING})]
    if "replace" in tools:
        edit = {"file_path": file, **change, "instruction": "Wait for a lock."}
        return [("read_file", {"file_path": file}), ("replace", edit), ("run_shell_command", {"command": FAILING})]
    if "view" in tools and "edit" in tools:
        edit = {"path": file, "old_str": _OLD, "new_str": _NEW}
        return [("view", {"path": file}), ("edit", edit), ("bash", {"command": FAILING, "description": "Fail"})]
    if "apply_patch" in tools:
        return [("apply_patch", {"input": _PATCH}), ("exec_command", {"cmd": FAILING})]
    if "edit" in tools:
        edit = {"filePath": file, "oldString": _OLD, "newString": _NEW}
        told = {"command": FAILING, "description": "Fail"}
        return [("read", {"filePath": file}), ("edit", edit), ("bash", told)]
    return []  # a request beside the work, such as for the title of a session


_CONTEXT = re.compile(r"[^\n]*<<treering:recalled.*?<<treering:end[^\n]*(?:\n\nAsk wiki[^\n]*)?", re.DOTALL)


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts in JSON data, in order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)


@dataclass
class ScriptedModel:
    """What was asked of the model, and where it listens."""

    file: str
    """The file that the script reads and edits."""
    url: str = ""
    command: str = ""
    """What an agent runs before."""
    asked: list[dict[str, Any]] = field(default_factory=list)

    def told(self) -> str:
        """Return all that the longest request told."""
        texts = [json.dumps(one.get("messages", one.get("input", one.get("contents", "")))) for one in self.asked]
        return max(texts, key=len, default="").replace("&lt;", "<").replace('\\"', '"')

    def contexts(self) -> list[str]:
        """Return the recalled texts that reached the model, each once, with the rest of the line around them."""
        texts = [text for request in self.asked for text in _texts({**request, "tools": None})]
        found = [one for text in texts for one in _CONTEXT.findall(text.replace("&lt;", "<").replace("&gt;", ">"))]
        return list(dict.fromkeys(found))

    def next_call(self, tools: frozenset[str], done: int) -> Call | None:
        """Return what is done after so many calls; `None` where the script has come to what it says."""
        calls = calls_of(tools, self.file, self.command)
        return calls[done] if done < len(calls) else None


@contextmanager
def scripted_model(file: str, command: str = "") -> Iterator[ScriptedModel]:
    """Run the server until the block ends."""
    model = ScriptedModel(file, command=command)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"model": model}))
    model.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    model: ScriptedModel
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._send(json.dumps({"data": [], "models": []}), "application/json")

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])) or b"{}")
        self.model.asked.append(asked)
        path = self.path.partition("?")[0]
        for end, answer in _PROTOCOLS.items():
            if path.endswith(end):
                events = answer(self.model, asked)
                self._send("".join(events), "text/event-stream")
                return
        self._send("{}", "application/json")

    def _send(self, body: str, kind: str) -> None:
        data = body.encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _event(told: Mapping[str, Any]) -> str:
    name = f"event: {told['type']}\n" if "type" in told else ""
    return f"{name}data: {json.dumps(told)}\n\n"


def _messages(model: ScriptedModel, asked: Mapping[str, Any]) -> Iterator[str]:
    """Answer by the protocol of Anthropic."""
    done = json.dumps(asked["messages"]).count('"tool_result"')
    call = model.next_call(frozenset(one["name"] for one in asked.get("tools") or ()), done)
    usage = {"input_tokens": 9, "output_tokens": 9}
    message = {"id": f"msg_{done}", "type": "message", "role": "assistant", "model": asked["model"], "content": []}
    message |= {"stop_reason": None, "stop_sequence": None, "usage": usage}
    block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": SAID}
    if call:
        block = {"type": "tool_use", "id": f"toolu_{done}", "name": call[0], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(call[1])}
    end = {"stop_reason": "tool_use" if call else "end_turn", "stop_sequence": None}
    yield _event({"type": "message_start", "message": message})
    yield _event({"type": "content_block_start", "index": 0, "content_block": block})
    yield _event({"type": "content_block_delta", "index": 0, "delta": delta})
    yield _event({"type": "content_block_stop", "index": 0})
    yield _event({"type": "message_delta", "delta": end, "usage": usage})
    yield _event({"type": "message_stop"})


def _responses(model: ScriptedModel, asked: Mapping[str, Any]) -> Iterator[str]:
    """Answer by the protocol of OpenAI's responses."""
    done = sum(str(one.get("type", "")).endswith("_output") for one in asked["input"])
    call = model.next_call(frozenset(one.get("name", "") for one in asked.get("tools") or ()), done)
    said = [{"type": "output_text", "text": SAID, "annotations": []}]
    item: dict[str, Any] = {"type": "message", "id": f"msg_{done}", "role": "assistant", "content": said}
    if call and call[0] == "apply_patch":
        item = {"type": "custom_tool_call", "id": f"c_{done}", "call_id": f"call_{done}", "name": call[0], **call[1]}
    elif call:
        item = {"type": "function_call", "id": f"c_{done}", "call_id": f"call_{done}", "name": call[0]}
        item["arguments"] = json.dumps(call[1])
    response = {"id": f"resp_{done}", "object": "response", "model": asked["model"], "output": [item]}
    usage = {"input_tokens": 9, "output_tokens": 9, "total_tokens": 18}
    yield _event({"type": "response.created", "response": {**response, "output": []}})
    yield _event({"type": "response.output_item.done", "output_index": 0, "item": item})
    yield _event({"type": "response.completed", "response": {**response, "status": "completed", "usage": usage}})


def _completions(model: ScriptedModel, asked: Mapping[str, Any]) -> Iterator[str]:
    """Answer by the protocol of OpenAI's chat completions."""
    done = sum(one["role"] == "tool" for one in asked["messages"])
    call = model.next_call(frozenset(one["function"]["name"] for one in asked.get("tools") or ()), done)
    delta: dict[str, Any] = {"role": "assistant", "content": SAID}
    if call:
        function = {"name": call[0], "arguments": json.dumps(call[1])}
        delta = {"role": "assistant", "tool_calls": [{"index": 0, "id": f"call_{done}", "type": "function"}]}
        delta["tool_calls"][0]["function"] = function
    chunk = {"id": f"c{done}", "object": "chat.completion.chunk", "created": 1, "model": asked["model"]}
    yield _event({**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    end = {"index": 0, "delta": {}, "finish_reason": "tool_calls" if call else "stop"}
    usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
    yield _event({**chunk, "choices": [end], "usage": usage})
    yield "data: [DONE]\n\n"


def _contents(model: ScriptedModel, asked: Mapping[str, Any]) -> Iterator[str]:
    """Answer by the protocol of Gemini."""
    done = json.dumps(asked["contents"]).count('"functionResponse"')
    declared = [one for tool in asked.get("tools") or () for one in tool.get("functionDeclarations") or ()]
    call = model.next_call(frozenset(one["name"] for one in declared), done)
    part = {"functionCall": {"name": call[0], "args": call[1]}} if call else {"text": SAID}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 9, "totalTokenCount": 18}
    yield _event({"candidates": [candidate], "usageMetadata": usage})


_PROTOCOLS = {
    "/messages": _messages,
    "/responses": _responses,
    "/chat/completions": _completions,
    ":streamGenerateContent": _contents,
}
