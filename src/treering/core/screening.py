"""What comes in, screened: every text in a value without its secrets, however deep it stands.

A new field or a new kind of object is screened without a word about it here: what is a text is looked at.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
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
    found: list[Secret] = []
    return Screened(_screen(value, place, found), tuple(found))


def kept_key(key: str | None) -> str | None:
    """Return an idempotency key as it is kept: a digest where it holds a secret, so that different ones stay so."""
    return f"redacted:{digest(key)}" if key and redact(key).findings else key


def _screen(value: Any, place: str, found: list[Secret]) -> Any:
    match value:
        case str():
            return _text(value, place, found)
        case BaseModel():
            stated = {name: getattr(value, name) for name in type(value).model_fields}
            changes = _changes(stated, place, found, named=False)
            return value.model_copy(update=changes) if changes else value
        case Mapping():
            return _mapping(value, place, found)
        case tuple() | list():
            parts = [_screen(part, _inside(place, str(at)), found) for at, part in enumerate(value)]
            same = all(part is before for part, before in zip(parts, value, strict=True))
            return value if same else type(value)(parts)
        case _ if is_dataclass(value) and not isinstance(value, type):
            stated = {field.name: getattr(value, field.name) for field in fields(value)}
            changes = _changes(stated, place, found, named=False)
            return replace(value, **changes) if changes else value
        case _:
            return value


def _text(text: str, place: str, found: list[Secret]) -> str:
    result = redact(text)
    found += [Secret(finding.kind, place) for finding in result.findings]
    return result.text


def _mapping(value: Mapping[Any, Any], place: str, found: list[Secret]) -> Mapping[Any, Any]:
    changes = _changes(value, place, found, named=True)
    keys = {key: _text(key, place, found) if isinstance(key, str) else key for key in value}
    if not changes and all(keys[key] is key for key in value):
        return value
    return {keys[key]: changes.get(key, part) for key, part in value.items()}


def _changes(stated: Mapping[Any, Any], place: str, found: list[Secret], *, named: bool) -> dict[Any, Any]:
    """Return the fields that change. `named`: a field's name says what its value is, as `password` does."""
    names = {key: redact(str(key)).text for key in stated}
    about = {**(names if named else {}), **_statement(stated)}
    changes = {}
    for key, before in stated.items():
        inside = _inside(place, names[key])
        after = _screen(before, inside, found)
        if after is before and isinstance(before, str) and key in about:
            after = _assigned(before, about[key], inside, found)
        if after is not before:
            changes[key] = after
    return changes


def _statement(stated: Mapping[Any, Any]) -> Mapping[str, str]:
    """Name the ends of a fact by what it states: `database password` for the value of the database's password."""
    if not isinstance(stated.get("predicate"), str):
        return {}
    return dict.fromkeys(("object", "value"), redact(f"{stated.get('subject', '')} {stated['predicate']}").text)


def _assigned(value: str, name: str, place: str, found: list[Secret]) -> str:
    """Return a value, or a mark in its place where its name and its look say that it is a secret."""
    findings = redact(f'{_NO_WORD.sub("_", name)[-_NAME_CHARS:]} = "{value}"').findings
    found += [Secret(finding.kind, place) for finding in findings]
    return f"[redacted:{findings[0].kind}]" if findings else value


def _inside(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _told(secret: Secret, count: int) -> str:
    what = "a secret was" if count == 1 else f"{count} secrets were"
    return f"{what} redacted: {secret.kind}, {secret.place}" if secret.place else f"{what} redacted: {secret.kind}"


_NO_WORD = re.compile(r"\W+")
_NAME_CHARS = 40
