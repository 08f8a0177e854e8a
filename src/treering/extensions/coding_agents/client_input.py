"""JSON from a client, checked before use: of a bounded depth, and every text valid Unicode without NUL."""

import json
from collections.abc import Mapping
from typing import Any

MAX_DEPTH = 100
_TEXTS = ("cwd", "hook_event_name", "session_id", "conversation_id", "prompt", "source", "transcript_path")


def read_hook_input(text: str) -> Mapping[str, Any]:
    """Return the object that a client sends to a hook, without fields that have to be texts and are not."""
    given = read_object(text)
    return {key: value for key, value in given.items() if key not in _TEXTS or isinstance(value, str)}


def read_object(text: str) -> Mapping[str, Any]:
    """Return a JSON object; an empty one if the text is no JSON object, or nests too deeply."""
    try:
        value = _cleaned(json.loads(text), MAX_DEPTH)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def object_in(value: Any) -> Mapping[str, Any]:
    """Return a field that is an object, or a text with one in JSON, as one; else an empty one."""
    if isinstance(value, str):
        return read_object(value) if value.lstrip().startswith("{") else {}
    return value if isinstance(value, dict) else {}


def _cleaned(value: Any, depth: int) -> Any:
    if depth == 0:
        raise ValueError("nests too deeply")
    match value:
        case str():
            return value if value.isprintable() else _valid(value)
        case dict():
            return {_valid(key): _cleaned(one, depth - 1) for key, one in value.items()}
        case list():
            return [_cleaned(one, depth - 1) for one in value]
    return value


def _valid(text: str) -> str:
    return text.encode("utf-8", "replace").decode().replace("\0", "?")
