"""What a message says: its words out of text, parts, pictures and the use of tools."""

import re
from dataclasses import dataclass

from treering.edges.sources.loose_json import Record, first_words, listed, record, words

OTHER_PARTS = "part(s) that are no text are only named where they stand"
"""What a conversation's notes say of parts that only have a name in it."""


@dataclass(frozen=True, slots=True)
class Said:
    """The words of a message, the tools it uses (one short line each), and how many parts are no text."""

    words: str = ""
    tools: tuple[str, ...] = ()
    other: int = 0

    @property
    def text(self) -> str:
        """Return the words, and below them the tools."""
        return "\n".join(filter(None, [self.words, *self.tools]))

    def __bool__(self) -> bool:
        return bool(self.words or self.tools)


def said(content: object) -> Said:
    """Read a content: a text, a list of parts, or an object with either. Thoughts and results of tools are left out."""
    inside = record(content).get("parts", content)
    found = [_part(part) for part in (listed(inside) or [inside])]
    return Said(
        words="\n\n".join(one.words for one in found if one.words),
        tools=tuple(line for one in found for line in one.tools),
        other=sum(one.other for one in found),
    )


def tool_line(name: str, given: object) -> str:
    """Say in one short line which tool was used on what; empty where it was given nothing that tells."""
    gist = " ".join((words(given) or first_words(record(given), *_TELLING)).split())
    shown = gist if len(gist) <= _GIST_CHARS else gist[: _GIST_CHARS - 1] + "…"
    return f"[{name}] {shown}" if shown else ""


_GIST_CHARS = 160
_TELLING = tuple("command pattern query url file_path notebook_path path description prompt name".split())
_TOOLS = frozenset({"tool_use", "function_call", "tool_call", "functioncall", "server_tool_use"})
_SILENT = frozenset(
    "thinking redacted_thinking reasoning thought thoughts reasoning_recap tool_result function_response "
    "function_call_output token_budget tool_response web_search_tool_result flag".split()
)
_AFFIXES = re.compile(r"^(?:input_|real_time_user_)|(?:_asset_pointer|_url)$")


def _part(part: object) -> Said:
    if isinstance(part, str):
        return Said(words(part).strip())
    found = record(part)
    kind = first_words(found, "type", "content_type").lower()
    if not found or kind in _SILENT or found.get("thought") is True:
        return Said()
    if kind in _TOOLS:
        line = tool_line(first_words(found, "name", "tool_name") or "tool", found.get("input", found.get("arguments")))
        return Said(tools=(line,) if line else ())
    text = first_words(found, "text", "value").strip()
    return Said(text) if text else _named(found, kind)


def _named(found: Record, kind: str) -> Said:
    if kind in _TEXTUAL:  # an empty text
        return Said()
    name = first_words(found, "file_name", "filename", "name")
    what = _AFFIXES.sub("", kind)[:_KIND_CHARS] or "attachment"
    return Said(f"[{what}: {name}]" if name else f"[{what}]", other=1)


_TEXTUAL = frozenset({"text", "input_text", "output_text", "audio_transcription", "markdown"})
_KIND_CHARS = 40
