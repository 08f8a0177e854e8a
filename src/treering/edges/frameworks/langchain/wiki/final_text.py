"""The last message of a run is the page: a model that speaks of its memory afterwards does not replace it."""

import re
from collections.abc import Sequence

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from treering.edges.frameworks.langchain.wiki.tools import MEMORY_TOOLS

_ASIDE = MEMORY_TOOLS | {"write_todos"}
"""Tools whose results a page does not rest on: what a model says after them is not a new answer."""
_HEADING = re.compile(r"\s*#{1,6} ")
_OF_MEMORY = re.compile(r"\b(memor(y|ies|i[sz]ed)|remember(ed)?|stored?|saved?|recorded|noted)\b", re.IGNORECASE)


def final_text(messages: Sequence[AnyMessage]) -> AnyMessage | None:
    """Return the message that has to end a run instead of the one that does; `None` where that is as it should be.

    A model often writes its page and calls a memory tool in one message, and then says no more than that the memory is
    stored. That remark is replaced by the page. It is one where it is empty, or at most half as long as the page,
    without a heading, and either the page has a heading or the remark speaks of memory.
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
    """Return the messages at the end of a run, but the final answer, whose calls are asides."""
    found: list[AIMessage] = []
    end = len(messages) - 1 if messages and _is_answer(messages[-1]) else len(messages)
    for message in reversed(messages[:end]):
        if isinstance(message, AIMessage) and _calls_asides(message):
            found.append(message)
        elif not (isinstance(message, ToolMessage) and message.name in _ASIDE):
            break
    return found


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
