"""Claude Agent SDK: transcripts in a space, memory as tools in the process, and hooks."""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from claude_agent_sdk import (
    HookMatcher,
    McpSdkServerConfig,
    SessionKey,
    SessionStore,
    create_sdk_mcp_server,
    fold_session_summary,
    tool,
)
from claude_agent_sdk.types import (
    HookContext,
    HookEvent,
    HookInput,
    HookJSONOutput,
    SessionListSubkeysKey,
    SessionStoreEntry,
    SessionStoreListEntry,
    SessionSummaryEntry,
)

from treering.core.arguments import check_count
from treering.core.errors import TreeringError
from treering.extensions.client.blocking import MOST_RETRIEVED, BlockingMemoryClient
from treering.extensions.client.hooks.execution_history import ToolRun
from treering.extensions.client.hooks.memory_access import model_metadata
from treering.extensions.client.items.documents import ROLE, TYPE
from treering.extensions.client.record_names import KeptRecord, RecordCollection, RecordDraft
from treering.extensions.client.records import Records, searchable
from treering.frameworks.client import AnyClient, blocking, content_text, in_thread, recalled_text
from treering.verbs.engine import retry_on_conflict

_HOME = "claude-agent-sdk"
_REASON = "A session of the Claude Agent SDK"
_MESSAGE = "message"
_LOG = logging.getLogger(__name__)

MEMORY_TOOLS = ["mcp__treering__retrieve_memory", "mcp__treering__store_memory"]
"""The names under which Claude calls the tools of `memory_server`."""


class TreeringSessionStore(SessionStore):
    """Store transcripts in a space: `ClaudeAgentOptions(session_store=TreeringSessionStore(client))`.

    Entries are returned as appended, except redacted secrets; one with a `uuid` is stored once. `client.retrieve` finds
    the messages of users and Claude. `erase`: delete permanently; otherwise deleted entries are withdrawn.
    """

    def __init__(self, client: AnyClient, *, erase: bool = False) -> None:
        self._client = blocking(client)
        self._erase = erase

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Put entries at the end of a transcript, in one patch."""
        await in_thread(lambda: retry_on_conflict(lambda: self._append(key, entries)))

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return the entries of a transcript; `None` if nothing was ever appended."""
        return await in_thread(lambda: self._load(key))

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """Return the sessions of a project with the times of their last change."""
        return [
            {"session_id": one.value["session_id"], "mtime": one.value["mtime"]}
            for one in await self._heads(project_key)
            if not one.value["subpath"]
        ]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """Return the SDK's summaries of the sessions of a project."""
        heads = await self._heads(project_key)
        found = [{**one.value["summary"], "mtime": one.value["mtime"]} for one in heads if not one.value["subpath"]]
        return cast("list[SessionSummaryEntry]", found)

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """Return the subpaths of a session."""
        heads = await self._heads(key["project_key"], key["session_id"])
        return [one.value["subpath"] for one in heads if one.value["subpath"]]

    async def delete(self, key: SessionKey) -> None:
        """Delete a transcript; for a session also the transcripts of its subagents."""
        await in_thread(lambda: self._delete(key))

    @property
    def _records(self) -> Records:
        return self._client.records

    async def _heads(self, project: str, session: str = "") -> list[KeptRecord]:
        return await in_thread(lambda: self._records.all_of(_index(project), session))

    def _append(self, key: SessionKey, entries: Sequence[SessionStoreEntry]) -> None:
        if not entries:
            return
        name = _index(key["project_key"]).name(_head_key(key))
        head = self._records.get([name]).get(name)
        new = self._new(key, entries)
        if head and not new:
            return
        value: Mapping[str, Any] = head.value if head else {"end": 0, "mtime": 0, "summary": None}
        # Later than the last one, even if the clock went back.
        now = max(int(self._records.engine.clock.now().timestamp() * 1000), value["mtime"] + 1)
        summary = None if key.get("subpath") else fold_session_summary(value["summary"], key, new)
        changed = {
            "session_id": key["session_id"],
            "subpath": key.get("subpath", ""),
            "end": value["end"] + len(new),
            "mtime": now,
            "summary": summary,
        }
        drafts = [self._draft(key, entry, number) for number, entry in enumerate(new, start=value["end"])]
        counted = RecordDraft(name, changed, expected_revision=head.revision if head else 0)
        self._records.write([counted, *drafts], reason=_REASON)

    def _new(self, key: SessionKey, entries: Sequence[SessionStoreEntry]) -> list[SessionStoreEntry]:
        """Return the entries that are not there yet; those without a `uuid` are always new."""
        transcript = _transcript(key)
        names = [transcript.name(entry["uuid"]) for entry in entries if entry.get("uuid")]
        seen = {name.key for name in self._records.get(names)}
        new: list[SessionStoreEntry] = []
        for entry in entries:
            uuid = entry.get("uuid")
            if not uuid or uuid not in seen:
                new.append(entry)
                seen |= {uuid} if uuid else set()
        return new

    def _draft(self, key: SessionKey, entry: SessionStoreEntry, number: int) -> RecordDraft:
        name = _transcript(key).name(entry.get("uuid") or f"entry-{number:09}")
        value = {"number": number, "entry": dict(entry)}
        role = entry.get("type")  # the role of its message
        metadata = {TYPE: _MESSAGE, **({ROLE: role} if role else {})}
        return RecordDraft(name, value, searchable(_text_of(entry)), metadata, expected_revision=0)

    def _load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        name = _index(key["project_key"]).name(_head_key(key))
        if name not in self._records.get([name]):
            return None
        there = sorted(self._records.all_of(_transcript(key)), key=lambda one: one.value["number"])
        return [cast("SessionStoreEntry", dict(one.value["entry"])) for one in there]

    def _delete(self, key: SessionKey) -> None:
        index = _index(key["project_key"])
        below = self._records.all_of(index, _head_key(key))
        heads = [head for head in below if key.get("subpath", head.value["subpath"]) == head.value["subpath"]]
        keys = [_key_of(key["project_key"], head) for head in heads]
        names = [_transcript(one).name(record.key) for one in keys for record in self._records.all_of(_transcript(one))]
        self._records.remove([*names, *(index.name(head.key) for head in heads)], reason=_REASON, erase=self._erase)


def _schema(required: str, **properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [required]}


_TOP_K, _MAX_TOP_K = 5, 50
_RETRIEVE = _schema(
    "query",
    query={"type": "string", "description": "The query, in words."},
    top_k={
        "type": "integer",
        "description": f"Number of memories, {_TOP_K} by default.",
        "minimum": 1,
        "maximum": _MAX_TOP_K,
    },
    filters={"type": "object", "description": 'Conditions on metadata, such as {"agent_type": "planner"}.'},
)
_STORE = _schema(
    "content",
    content={"type": "string", "description": "The text to remember."},
    metadata={"type": "object", "description": "More about it, such as tags."},
    importance={"type": "number", "description": "Its importance.", "minimum": 0, "maximum": 1},
)


def memory_server(client: AnyClient, *, session_id: str | None = None, name: str = "treering") -> McpSdkServerConfig:
    """Return an MCP server in this process with the tools `retrieve_memory` and `store_memory`.

    `ClaudeAgentOptions(mcp_servers={"treering": memory_server(client)}, allowed_tools=MEMORY_TOOLS)`.
    """
    used = blocking(client)

    @tool("retrieve_memory", "Retrieve memories that help with the current task, best first.", _RETRIEVE)
    async def retrieve_memory(given: dict[str, Any]) -> dict[str, Any]:
        def retrieved() -> str:
            top_k = given.get("top_k", _TOP_K)
            check_count(top_k, name="top_k", most=_MAX_TOP_K)
            found = used.retrieve(given["query"], top_k, given.get("filters"), session_id)
            return recalled_text(found) or "No memories match."

        return await _answered(retrieved)

    @tool("store_memory", "Store a memory for later tasks.", _STORE)
    async def store_memory(given: dict[str, Any]) -> dict[str, Any]:
        own = {"session_id": session_id} if session_id else {}
        importance = {"importance": given["importance"]} if "importance" in given else {}
        metadata = {**model_metadata(given.get("metadata")), **importance, **own}
        return await _answered(lambda: json.dumps({"memory_id": used.store(given["content"], metadata)}))

    return create_sdk_mcp_server(name, tools=[retrieve_memory, store_memory])


def memory_hooks(
    client: AnyClient, *, recall: bool = False, log_tools: bool = True, top_k: int = 5
) -> dict[HookEvent, list[HookMatcher]]:
    """Return hooks: `ClaudeAgentOptions(hooks=memory_hooks(client))`.

    `log_tools`: store every tool run as a memory, capped and without secrets. `recall`: add matching memories to the
    user's prompt as data. Errors of the memory never stop the agent.
    """
    hooks = _Hooks(blocking(client), top_k)
    found: dict[HookEvent, list[HookMatcher]] = {}
    if recall:
        found["UserPromptSubmit"] = [HookMatcher(hooks=[hooks.recall])]
    if log_tools:
        found["PostToolUse"] = found["PostToolUseFailure"] = [HookMatcher(hooks=[hooks.keep_run])]
    return found


class _Hooks:
    def __init__(self, client: BlockingMemoryClient, top_k: int) -> None:
        check_count(top_k, name="top_k", most=MOST_RETRIEVED)
        self._client = client
        self._top_k = top_k

    async def recall(self, given: HookInput, _tool_use_id: str | None, _context: HookContext) -> HookJSONOutput:
        """Add memories to a prompt of the user."""
        prompt = cast("Mapping[str, Any]", given)["prompt"]
        try:
            text = await in_thread(lambda: recalled_text(self._client.retrieve(prompt, self._top_k)))
        except TreeringError as error:
            _LOG.warning("Nothing was recalled: %s", error.message)
            return {}
        if not text:
            return {}
        return {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": text}}

    async def keep_run(self, given: HookInput, _tool_use_id: str | None, _context: HookContext) -> HookJSONOutput:
        """Store a tool run as a memory of its session, except runs of the memory tools."""
        run = _run_of(cast("Mapping[str, Any]", given))
        if run.tool not in MEMORY_TOOLS:
            try:
                await in_thread(lambda: self._client.store(*run.memory))
            except TreeringError as error:
                _LOG.warning("A run of the tool %s was not stored in memory: %s", run.tool, error.message)
        return {}


def _run_of(given: Mapping[str, Any]) -> ToolRun:
    """Return the tool run of a `PostToolUse` or `PostToolUseFailure` event."""
    failed = given["hook_event_name"] == "PostToolUseFailure"
    return ToolRun(
        given["tool_name"],
        given["tool_input"],
        given.get("duration_ms", 0) / 1000,
        success=not failed,
        result=given.get("tool_response"),
        error=given.get("error"),
        extra={"session_id": given["session_id"]},
    )


async def _answered(work: Callable[[], str]) -> dict[str, Any]:
    """Return the answer of a tool; errors are returned to the model."""
    try:
        return {"content": [{"type": "text", "text": await in_thread(work)}]}
    except TreeringError as error:
        return {"content": [{"type": "text", "text": f"{error.message} {error.hint}".strip()}], "is_error": True}


def _index(project: str) -> RecordCollection:
    """Return the collection that lists the transcripts of a project."""
    return RecordCollection((_HOME, project))


def _transcript(key: SessionKey) -> RecordCollection:
    """Return the collection with the entries of a transcript, among the memories of its session."""
    part = ("subagent", key["subpath"]) if key.get("subpath") else ("main",)
    return RecordCollection((_HOME, key["project_key"], key["session_id"], *part), session_id=key["session_id"])


def _head_key(key: SessionKey) -> str:
    return "/".join([key["session_id"], *([key["subpath"]] if key.get("subpath") else [])])


def _key_of(project: str, head: KeptRecord) -> SessionKey:
    """Return the key of a listed transcript."""
    key: SessionKey = {"project_key": project, "session_id": head.value["session_id"]}
    return {**key, "subpath": head.value["subpath"]} if head.value["subpath"] else key


def _text_of(entry: Mapping[str, Any]) -> str:
    """Return the text of a message in an entry, or "" for tool results and other entries."""
    message = entry.get("message") if entry.get("type") in {"user", "assistant"} else None
    return content_text(message.get("content")) if isinstance(message, Mapping) else ""
