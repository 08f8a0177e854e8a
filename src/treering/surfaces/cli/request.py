"""Turn a command line into the envelope of a verb, without a space."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import JsonValue, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from treering.core.canonical import PREFIXES
from treering.core.errors import InvalidInput, nearest
from treering.core.objects import PAYLOADS
from treering.core.scope import parse_scope
from treering.surfaces.cli.flags import Calling, RecordFlags, known_kinds
from treering.verbs.catalog import TOOLS
from treering.verbs.envelope import Envelope, Mode, Verb, parse

_MODE_BY_PREFIX = {PREFIXES[name]: name for name in ("source", "node", "knowledge", "activity", "work_item")}
_PLURALS = {"alternative": "alternatives", "step": "steps", "target": "object", "evidence": "evidence_refs"}
_FLAGS = {
    _PLURALS.get(name, name): f"--{'object' if name == 'target' else name}" for name in RecordFlags.__dataclass_fields__
}
"""The option of each field of an input."""
_OF_PAYLOADS = frozenset(name for payload in PAYLOADS.values() for name in payload.model_fields)

_ONE_TEXT = {"context": "task", "search": "text", "related": "id", "recent": "since"}


def envelope_of(
    verb: Verb, mode: str, calling: Calling, *, given: Mapping[str, Any], options: Mapping[str, Any]
) -> Envelope:
    """Build a call from `--input`, the input `given` as arguments, `--option` and flags.

    A flag that is a field of the mode's input is moved there. Raises `InvalidInput` if a value cannot be read.
    """
    known = TOOLS[verb].modes.get(mode or TOOLS[verb].default)
    for name in options:
        if known and name not in {**known.input.model_fields, **known.options.model_fields}:
            raise InvalidInput(
                f"--{name.replace('_', '-')} does not apply to the mode {known.name}.",
                hint=f"See the options of each mode: treering {verb} --help",
            )
    merged = {**_pairs(calling.option or (), known), **options}
    moved = {name: merged.pop(name) for name in list(merged) if known and _is_input(name, known)}
    base = read_input(calling.input)
    if isinstance(base, str) and (moved or given):
        raise InvalidInput(
            "--input is plain text, but further fields were given.",
            hint='Give an object, such as --input \'{"task": "…"}\', or only the text.',
        )
    _check_text({"mode": mode, "input": {**moved, **given}, "options": merged})
    data: dict[str, Any] = {
        "mode": mode,
        "scope": parse_scope(calling.scope),
        "input": base if isinstance(base, str) else {**base, **moved, **given},
        "options": merged,
    }
    return parse(Envelope, data, where="call")


def read_input(text: str) -> dict[str, Any] | str:
    """Read the JSON of `--input`: the text itself, a file for `@file`, or stdin for `-`; empty: an empty input.

    It is an object, or a string if the mode takes one.
    """
    if not text:
        return {}
    try:
        data = json.loads(_content(text))
    except RecursionError as error:
        raise InvalidInput("--input is nested too deeply.", hint="Give fewer levels of objects and lists.") from error
    except json.JSONDecodeError as error:
        raise InvalidInput(
            f"--input is not JSON: {error.msg} at line {error.lineno}, column {error.colno}.",
            hint='Put the object in single quotes, such as \'{"task": "…"}\', or in a file: --input @file.json.',
        ) from error
    if not isinstance(data, dict | str):
        raise InvalidInput(
            "--input is JSON, but neither an object nor a text.", hint='Give an object such as {"task": "…"}.'
        )
    return data


def read_stdin() -> str:
    """Read all of stdin. Raises `InvalidInput` if it is not UTF-8."""
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput("Stdin is not UTF-8 text.", hint="Convert it, for instance with iconv.") from error


def question_from(words: Sequence[str], mode: str) -> dict[str, Any]:
    """Return the arguments of `query` as input: a task, a search text, or ids."""
    if not words:
        return {}
    match mode or TOOLS["query"].default:
        case "page":
            return {"name": " ".join(words)}
        case "expand":
            return {"ids": _places(words)}
        case other:
            return {_ONE_TEXT.get(other, "text"): " ".join(words)}


def mode_of(ids: Sequence[str], saying: RecordFlags) -> str:
    """Return the mode of `crystallize` for a kind or the type of an id; empty if there is neither."""
    if saying.by:
        return "supersede"
    if saying.kind in PAYLOADS:
        return "knowledge"
    if saying.kind in known_kinds()["Work"]:
        return "work_item"
    return _MODE_BY_PREFIX.get(ids[0].partition(":")[0], "") if ids else ""


def check_kind(kind: str) -> None:
    """Raise `InvalidInput`, listing all kinds, if `crystallize` does not know a kind."""
    known = {kind for kinds in known_kinds().values() for kind in kinds}
    if kind and kind not in known:
        listed = "; ".join(f"{what}: {', '.join(kinds)}" for what, kinds in known_kinds().items())
        raise InvalidInput(
            f"Unknown kind {kind!r}. {listed}.", hint=nearest(kind, sorted(known)), details={"known": sorted(known)}
        )


def naming_options(error: InvalidInput) -> InvalidInput:
    """Return the error with the options for the wrong or missing fields of a payload, if there are any."""
    fields = error.details.get("fields", ())
    foreign = [_FLAGS[one["field"]] for one in fields if one["kind"] == "extra_forbidden" and one["field"] in _FLAGS]
    if foreign:
        return InvalidInput(
            f"{' and '.join(foreign)} cannot be given here.",
            hint="See the options of each kind: treering crystallize --help. Nothing was changed.",
            details=error.details,
        )
    named = [one["field"].rpartition("payload.")[2] for one in fields]
    options = [_FLAGS[name] for name in dict.fromkeys(named) if name in _FLAGS and name in _OF_PAYLOADS]
    if not options:
        return error
    hint = f"Give {' and '.join(options)}. Nothing was changed."
    return InvalidInput(error.message, hint=hint, details=error.details)


def record_from(ids: Sequence[str], mode: str, saying: RecordFlags) -> dict[str, Any]:
    """Return ids and flags as the input of `crystallize`; the fields of a kind go into its payload."""
    fields = {_PLURALS.get(name, name): value for name, value in _given_flags(saying)}
    if mode == "promote":
        return {**fields, **({"ids": list(ids)} if ids else {})}
    if len(ids) > 1:
        raise InvalidInput(
            f"The mode {mode} changes one object at a time, and {len(ids)} ids were given.", hint="Give one id."
        )
    if ids:
        fields["id"] = ids[0]
    if saying.kind in PAYLOADS:
        return _with_payload(fields, PAYLOADS[saying.kind].model_fields)
    if ids and mode == "work_item":
        fields.pop("kind", None)  # it only selected the mode; the kind of an existing object does not change
    return fields


def _check_text(data: Mapping[str, Any]) -> None:
    """Raise `InvalidInput` for text that is not valid Unicode, such as bytes of another encoding."""
    try:
        json.dumps(data, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(
            "An argument is not valid text: it has a surrogate or bytes that are not UTF-8.",
            hint="Give it in UTF-8; check the encoding of your terminal and files.",
        ) from error


def _given_flags(saying: RecordFlags) -> Iterable[tuple[str, Any]]:
    for name in RecordFlags.__dataclass_fields__:
        value = getattr(saying, name)
        if value:
            yield name, _loose(value) if name == "value" else value


def _with_payload(flags: dict[str, Any], fields: Mapping[str, FieldInfo]) -> dict[str, Any]:
    payload = {name: value for name, value in flags.items() if name in fields}
    rest = {name: value for name, value in flags.items() if name not in fields}
    return {**rest, **({"payload": payload} if payload else {})}


def _places(words: Sequence[str]) -> list[str]:
    """Join an id and the segment after it if they are separate arguments."""
    joined: list[str] = []
    for word in words:
        if ":" in word or not joined:
            joined.append(word)
        else:
            joined[-1] += f" {word}"
    return joined


def _content(text: str) -> str:
    if text == "-":
        return read_stdin()
    if not text.startswith("@"):
        return text
    try:
        return Path(text[1:]).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{text[1:]} is not UTF-8 text.", hint="Convert it, for instance with iconv.") from error
    except OSError as error:
        raise InvalidInput(
            f"{text[1:]} cannot be read: {error.strerror}.", hint="Check the path after the @."
        ) from error


def _pairs(texts: Iterable[str], mode: Mode | None) -> dict[str, JsonValue]:
    given: dict[str, list[str]] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InvalidInput(f"--option needs KEY=VALUE, got {text!r}.", hint="For example: --option limit=5")
        given.setdefault(name.strip().replace("-", "_"), []).append(value)
    return {name: _value(values, _field(name, mode)) for name, values in given.items()}


def _field(name: str, mode: Mode | None) -> FieldInfo | None:
    return {**mode.input.model_fields, **mode.options.model_fields}.get(name) if mode else None


def _is_input(name: str, mode: Mode) -> bool:
    return name in mode.input.model_fields and name not in mode.options.model_fields


def _value(texts: Sequence[str], field: FieldInfo | None) -> JsonValue:
    """Read a value in the first form that its field accepts: JSON, plain text, or a list of either."""
    last, many = texts[-1], [_loose(text) for text in texts]
    if field is None:
        return _loose(last) if len(texts) == 1 else many
    kind: TypeAdapter[object] = TypeAdapter(field.rebuild_annotation())
    readings: tuple[JsonValue, ...] = (_loose(last), last, many, list(texts))
    return next((one for one in readings if _fits(kind, one)), _loose(last))


def _fits(kind: TypeAdapter[object], value: JsonValue) -> bool:
    try:
        kind.validate_python(value)
    except ValidationError:
        return False
    return True


def _loose(text: str) -> JsonValue:
    try:
        value: JsonValue = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        return text
    return value
