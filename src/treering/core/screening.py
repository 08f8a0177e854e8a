"""What comes in, screened: every text in a value without its secrets, however deep it stands.

A new field or a new kind of object is screened without a word about it here: what is a text is looked at.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from treering.core.canonical import digest
from treering.core.redaction import redact

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret that was taken out: its kind and the field it stood in; never the secret."""

    kind: str
    place: str


@dataclass(frozen=True, slots=True)
class Screened(Generic[_Value]):
    """A value as it is kept, and what was taken out of it."""

    value: _Value
    secrets: tuple[Secret, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Say what was redacted, once for each kind and field."""
        return tuple(_told(secret, self.secrets.count(secret)) for secret in dict.fromkeys(self.secrets))


def screened(value: _Value, *, place: str = "") -> Screened[_Value]:
    """Return a text, a mapping, a list, a model or a dataclass with the secrets in all its texts redacted.

    What holds no secret is returned as it is. `place` names the value in what is said of it.
    """
    # Most values hold none. All their texts are looked through at once, in a row: no pattern reaches over the gap.
    texts = list(_texts(value))
    if not redact(_GAP.join(texts)).findings:
        return Screened(value)
    found: list[Secret] = []
    return Screened(_screen(value, place, found), tuple(found))


def kept_key(key: str | None) -> str | None:
    """Return an idempotency key as it is kept: a digest where it holds a secret, so that different ones stay so."""
    return f"redacted:{digest(key)}" if key and redact(key).findings else key


def _texts(value: Any) -> Iterator[str]:
    """Return every text in a value, as it stands and as what its name says that it is."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif parts := _parts(one):
            waiting += parts.values()
            is_mapping = isinstance(one, Mapping)
            waiting += parts if is_mapping else ()
            if is_mapping or "predicate" in parts:  # nothing else names its texts
                yield from (_assignment(name, parts[key]) for key, name in _names(one, parts).items())


def _screen(value: Any, place: str, found: list[Secret]) -> Any:
    if isinstance(value, str):
        return _text(value, place, found)
    changes = _changes(value, place, found)
    match value:
        case Mapping():
            return _mapping(value, changes, place, found)
        case _ if not changes:
            return value
        case BaseModel():
            return value.model_copy(update=changes)
        case tuple() | list():
            return type(value)(changes.get(at, part) for at, part in enumerate(value))
        case _:
            return replace(value, **changes)


def _text(text: str, place: str, found: list[Secret]) -> str:
    result = redact(text)
    found += [Secret(finding.kind, place) for finding in result.findings]
    return result.text


def _mapping(
    value: Mapping[Any, Any], changes: Mapping[Any, Any], place: str, found: list[Secret]
) -> Mapping[Any, Any]:
    keys = {key: _text(key, place, found) if isinstance(key, str) else key for key in value}
    if not changes and all(keys[key] is key for key in value):
        return value
    return {keys[key]: changes.get(key, part) for key, part in value.items()}


def _changes(value: Any, place: str, found: list[Secret]) -> dict[Any, Any]:
    """Return the parts of a value that change."""
    parts = _parts(value)
    # Read without the secrets in them: else a subject that holds one would make a secret of what is said of it.
    names = {key: redact(name).text for key, name in _names(value, parts).items()}
    changes = {}
    for key, before in parts.items():
        inside = _inside(place, redact(str(key)).text)
        after = _screen(before, inside, found)
        if after is before and key in names:
            after = _assigned(before, names[key], inside, found)
        if after is not before:
            changes[key] = after
    return changes


def _parts(value: Any) -> Mapping[Any, Any]:
    """Return what a value holds, by its key, field or place: nothing for what may hold no text."""
    return _opener(value.__class__)(value)


@cache
def _opener(kind: type) -> Callable[[Any], Mapping[Any, Any]]:
    """Return what tells the parts of values of a type."""
    if issubclass(kind, Mapping):
        return dict
    if issubclass(kind, tuple | list):
        return lambda value: dict(enumerate(value))
    if issubclass(kind, BaseModel):
        names = tuple(kind.model_fields)
    elif is_dataclass(kind):
        names = tuple(field.name for field in fields(kind))
    else:
        names = ()
    return lambda value: {name: getattr(value, name) for name in names}


def _names(value: Any, parts: Mapping[Any, Any]) -> Mapping[Any, str]:
    """Return the names of the texts among the parts of a value that say what they are, such as `password`."""
    named = {key: str(key) for key in parts} if isinstance(value, Mapping) else {}
    if isinstance(parts.get("predicate"), str):
        # The ends of a fact are named by what it states: `database password` is the value of the database's password.
        named |= dict.fromkeys(("object", "value"), f"{parts.get('subject', '')} {parts['predicate']}")
    return {key: name for key, name in named.items() if isinstance(parts.get(key), str)}


def _assigned(value: str, name: str, place: str, found: list[Secret]) -> str:
    """Return a value, or a mark in its place where its name and its look say that it is a secret."""
    findings = redact(_assignment(name, value)).findings
    found += [Secret(finding.kind, place) for finding in findings]
    return f"[redacted:{findings[0].kind}]" if findings else value


def _assignment(name: str, value: str) -> str:
    return f'{_NO_WORD.sub("_", name)[-_NAME_CHARS:]} = "{value}"'


def _inside(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _told(secret: Secret, count: int) -> str:
    what = "a secret was" if count == 1 else f"{count} secrets were"
    return f"{what} redacted: {secret.kind}, {secret.place}" if secret.place else f"{what} redacted: {secret.kind}"


_NO_WORD = re.compile(r"\W+")
_NAME_CHARS = 40
_GAP = "\n" * 10
"""Longer than any white space that a pattern takes between two words."""
