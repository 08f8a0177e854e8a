"""Requests that a chat client makes for its own use: a title, tags, follow-up questions, a summary of the chat.

They have the id of the chat and include its messages, but they are not part of the conversation, so they are not
stored. They are recognized by the task that the prompts of Open WebUI, LibreChat, NextChat, LobeChat and SillyTavern
have in common: a short text of that kind, about the chat, and nothing else.
"""

import re
from collections.abc import Sequence

from treering.verbs.ingest.turns import Message


def is_client_task(messages: Sequence[Message]) -> bool:
    """Return whether the last message of a request is a task of the client itself."""
    last = next((message for message in reversed(messages) if message.content.strip()), None)
    if last is None or last.role == "assistant":
        return False
    goes_on = any(message.role == "assistant" for message in messages)
    # Some clients put the task into the system message, and only the chat into the user message.
    is_pasted = not goes_on and _PASTED.search(last.content)
    system = (message.content for message in messages if is_pasted and message.role in _SYSTEM)
    return any(_asks_for_label(text) for text in (last.content, *system)) or (goes_on and _asks_for_recap(last.content))


def _asks_for_label(text: str) -> bool:
    begin = text[:_LOOKED_AT]
    return bool(_LABEL.search(begin) and _CHAT.search(text) and (_TEMPLATE.match(begin) or _ONLY.search(text)))


def _asks_for_recap(text: str) -> bool:
    return len(text) <= _LOOKED_AT and bool(_RECAP.match(text) and _CHAT.search(text) and _ONLY.search(text))


_SYSTEM = frozenset({"system", "developer"})
_LOOKED_AT = 600
"""The number of characters in which a prompt states its task."""
_MAKE = r"(?:generate|create|provide|write|suggest|give|make|produce|propose|name|come up with|determine|predict)"
_SHORT_TEXT = r"(?:titles?|tags|topic|emoji|follow[- ]?up (?:questions?|prompts?)|search quer(?:y|ies)|completion)"
_LABEL = re.compile(rf"\b{_MAKE}\b[^.\n]{{0,120}}\b{_SHORT_TEXT}\b|\bautocomplet|\btitle generator\b", re.IGNORECASE)
_TEMPLATE = re.compile(r"\s*#{1,4} ?task\b", re.IGNORECASE)
_CHAT = re.compile(
    r"\b(?:this|the|our|a|user['’]s|following|above|entire)\b[^.\n]{0,40}\b(?:conversation|chat|dialog(?:ue)?|discussion|"
    r"exchange|messages|story so far)\b|<(?:chat_history|conversation|messages)>",
    re.IGNORECASE,
)
_PASTED = re.compile(
    r"<(?:chat_history|conversation|messages)>|^[^\w\n]{0,5}(?:user|human)[^\w\n]{0,5}:", re.IGNORECASE | re.MULTILINE
)
_ONLY = re.compile(
    r"\b(?:only|just|solely)\b|\bnothing (?:but|else)\b|\bwithout any\b|\bjson\b|"
    r"\bno (?:quotes|quotation|punctuation|extra|additional|other|explanation)|"
    r"\b(?:\d+|three|four|five|six|ten)(?:\s?(?:-|to|or)\s?(?:\d+|\w+))?[- ](?:words?|characters?)\b|"
    r"\bwords? or (?:less|fewer)\b|-or-less\b",
    re.IGNORECASE,
)
_RECAP = re.compile(
    r"\W*(?:ignore (?:all )?previous instructions\W+|please )?(?:briefly )?summari[sz]e\b", re.IGNORECASE
)
