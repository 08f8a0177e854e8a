"""Sessions of Codex ("rollouts"): a line per event, of which messages and the use of tools are read."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from treering.edges.sources.conversations.conversation import ConversationDraft, Parsed, Unread
from treering.edges.sources.conversations.parts import OTHER_PARTS, said, tool_line
from treering.edges.sources.loose_json import Malformed, Record, first_moment, first_words, listed, parse, record, words
from treering.tools.turns import Message

Line = tuple[int, object]


def is_line(found: object) -> bool:
    """Tell whether this is a line of a session: something that was said or done, or what the session is."""
    line = record(found)
    return line.get("type") in ("session_meta", "response_item") and bool(record(line.get("payload")))


def read(lines: Iterable[Line]) -> Iterator[Parsed]:
    """Read the session of a file: what the user and the assistant said, and shortly which tools were used.

    Results of tools, thoughts, instructions and what the program tells the model are left out.
    """
    session = _Session()
    for number, line in lines:
        if not words(record(line).get("type")):
            yield Unread(f"line {number}", "it is not an event")
        session.take(record(line))
    yield session.draft.finished()


_TOLD = re.compile(r"<(?P<name>[A-Za-z_][\w-]*)>.*</(?P=name)>\s*\Z", re.DOTALL)
_INSTRUCTIONS = "# AGENTS.md instructions"
_TOOLS = ("function_call", "custom_tool_call", "local_shell_call")


@dataclass(slots=True)
class _Session:
    draft: ConversationDraft = field(default_factory=lambda: ConversationDraft("codex"))

    def take(self, line: Record) -> None:
        payload, at = record(line.get("payload")), first_moment(line, "timestamp")
        # A session that goes on from another one tells of that one, too, behind its own beginning.
        if line.get("type") == "session_meta" and not self.draft.id:
            self.draft.id = first_words(payload, "id", "session_id")
            if folder := first_words(payload, "cwd"):
                self.draft.metadata["folder"] = folder
        elif line.get("type") == "response_item":
            kind, role = payload.get("type"), words(payload.get("role"))
            if kind in _TOOLS and (used := _used(payload)):
                self.draft.messages.append(Message(content=used, role="tool", at=at))
            elif kind == "message" and role in ("user", "assistant"):
                spoken = said(payload.get("content"))
                own = "" if role == "user" and _is_told(spoken.words) else spoken.words
                self.draft.counts.update({OTHER_PARTS: spoken.other} if own and spoken.other else {})
                if own:
                    self.draft.messages.append(Message(content=own, role=role, id=words(payload.get("id")), at=at))


def _is_told(text: str) -> bool:
    """Tell whether the program wrote a text of the user's, such as where the session runs."""
    return text.startswith(_INSTRUCTIONS) or _TOLD.match(text) is not None


def _used(call: Record) -> str:
    name = first_words(call, "name") or "shell"
    given = call.get("arguments") or call.get("input") or call.get("action")
    told = parse(given.encode("utf-8", "replace")) if isinstance(given, str) else given
    inside = record(None if isinstance(told, Malformed) else told)
    command = inside.get("command")
    line = " ".join(map(words, listed(command))).strip() if isinstance(command, list) else ""
    return tool_line(name, line or first_words(inside, "cmd") or inside or words(given))
