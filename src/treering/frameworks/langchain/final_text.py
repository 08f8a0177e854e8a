"""Choose the final message of a run: a remark about the memory does not replace the page."""

import re
from collections.abc import Sequence

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from treering.frameworks.langchain.wiki_tools import MEMORY_TOOLS

_ASIDE = MEMORY_TOOLS | {"write_todos"}
"""Tools without an effect on a page; text after calling them is not a new answer."""
_HEADING = re.compile(r"\s*#{1,6} ")
_OF_MEMORY = re.compile(r"\b(memor(y|ies|i[sz]ed)|remember(ed)?|stored?|saved?|recorded|noted)\b", re.IGNORECASE)


def final_text(messages: Sequence[AnyMessage]) -> AnyMessage | None:
    """Return the message that should end a run instead of the last one; `None` if the last one is right.

    A model often writes its page and calls a memory tool in one message, and then only states that the memory was
    stored. That remark is replaced by the page. It counts as a remark if it is empty, or at most half as long as the
    page, without a heading, and either the page has a heading or the remark mentions memory.
    """
    last = messages[-1] if messages else None
    before = _asides(messages)
    page = max(before, key=lambda message: len(_text(message)), default=None)
    if last is None or page is None or not _text(page):
        return None
    if not _is_answer(last):  # the run was stopped before the model could answer
        return AIMessage(content=_text(page))
    return last.model_copy(update={"content": _text(page)}) if _is_remark(_text(last), _text(page)) else None


def _asides(messages: Sequence[AnyMessage]) -> list[AIMessage]:
    """Return the messages before the final answer that only call tools in `_ASIDE`."""
    asides: list[AIMessage] = []
    end = len(messages) - 1 if messages and _is_answer(messages[-1]) else len(messages)
    for message in reversed(messages[:end]):
        if isinstance(message, AIMessage) and _calls_asides(message):
            asides.append(message)
        elif not (isinstance(message, ToolMessage) and message.name in _ASIDE):
            break
    return asides


def _is_answer(message: AnyMessage) -> bool:
    return isinstance(message, AIMessage) and not message.tool_calls


def _calls_asides(message: AIMessage) -> bool:
    names = {call["name"] for call in message.tool_calls}
    return bool(names & MEMORY_TOOLS) and names <= _ASIDE


def _is_remark(said: str, page: str) -> bool:
    if not said:
        return True
    if _HEADING.match(said) or 2 * len(said) > len(page):
        return False
    return bool(_HEADING.match(page) or _OF_MEMORY.search(said))


def _text(message: AnyMessage) -> str:
    return str(message.text).strip()
