"""Secrets of memories and tool runs: values under names such as `password`, whatever the values look like.

Ingested documents are screened less strictly, because there such a name is often followed by an example.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from treering.core.screening import screened
from treering.core.secrets.places import MARK, names_secret

_MARK = f"{MARK}assigned_secret]"


def without_secrets(value: Any) -> Any:
    """Return JSON data without secrets, including every value whose name indicates a secret.

    The name is a key; the `name` or `key` next to a `value`; the first item of a pair; or before a `:` or `=` in text.
    """
    return screened(_without_named(value)).value


def _without_named(value: Any) -> Any:
    match value:
        case Mapping():
            label = str(value.get("name") or value.get("key") or "value")
            names = {key: label if key == "value" else str(key) for key in value}
            return {
                key: _MARK if part not in ("", [], {}) and names_secret(names[key], part) else _without_named(part)
                for key, part in value.items()
            }
        case list():
            return [_MARK if _is_named(value, at) else _without_named(part) for at, part in enumerate(value)]
        case str():
            data = _json_in(value)
            if data is None:
                return _without_assigned(value)
            clean = _without_named(data)
            return value if clean == data else json.dumps(clean, ensure_ascii=False)
        case _:
            return value


def _is_named(items: Sequence[Any], at: int) -> bool:
    """Return whether the item before names this one as a secret: an option of a command, or the name in a pair."""
    name, value = items[at - 1] if at else None, items[at]
    if not isinstance(name, str) or not isinstance(value, str | int | float):
        return False
    is_name = _OPTION.fullmatch(name) or (len(items) == 2 and _WORD.fullmatch(name))
    is_other_name = isinstance(value, str) and (_OPTION.fullmatch(value) or names_secret(value, ""))
    return bool(is_name and value != "" and not is_other_name and names_secret(name, value))


def _json_in(text: str) -> Any:
    """Return the object or list that a text is the JSON of; `None` for other texts."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _without_assigned(text: str) -> str:
    """Return a text without the values that follow the name of a secret and a separator."""
    parts, at = [], 0
    for start, end in _assigned_secrets(text):
        parts += [text[at:start], _MARK]
        at = end
    return "".join([*parts, text[at:]])


def _assigned_secrets(text: str) -> Iterator[tuple[int, int]]:
    stop = 0
    for name in _NAME.finditer(text):
        if name.start() >= stop and (value := _value_of(text, name)):
            yield value
            stop = value[1]


def _value_of(text: str, name: re.Match[str]) -> tuple[int, int] | None:
    """Return start and end of the value after a name, or `None` unless it is a secret."""
    names, at = name["option"] or name["name"], name.end()
    if quoted := _QUOTED.match(text, at):
        is_secret = bool(_WORD.search(quoted[2])) and not _STAND_IN.fullmatch(quoted[2])
        return quoted.span(2) if is_secret and names_secret(names, quoted[2]) else None
    if not names_secret(names, "0000"):
        return None
    if cookies := _COOKIE_NAME.search(names) and _COOKIES.match(text, at):
        return cookies.span(1)
    bare = _BARE.match(text, at)
    if (
        not bare
        or not names_secret(names, _number(bare[2]))
        or _is_ordinary(bare[2], names, text[bare.end() : bare.end() + 1])
    ):
        return None
    is_clear = name["sign"] != ":" or bool(bare[1]) or _fills_line(text, name.start(), bare.end())
    return bare.span(2) if is_clear or _MIXED.match(bare[2]) else None


def _number(value: str) -> str | int:
    return int(value) if _NUMBER.fullmatch(value) else value


def _is_ordinary(value: str, name: str, follower: str) -> bool:
    """Return whether a bare value is a word about a secret, a placeholder or code."""
    plain, named = value.rstrip(".:!?").casefold(), name.casefold().lstrip("-")
    own = {named, _SEPARATORS.split(named)[-1]}
    is_call = follower in tuple("([") and _CODE.fullmatch(value)
    is_expression = plain.partition(".")[0] in own or (set("._") & set(plain) and names_secret(plain, ""))
    is_code = is_call or (is_expression and _CODE.fullmatch(value))
    return bool(plain in _WORDS or plain in own or is_code or _STAND_IN.fullmatch(value))


def _fills_line(text: str, start: int, end: int) -> bool:
    lead = text[max(0, start - _LEAD_CHARS) : start].rpartition("\n")[2]
    return not lead.strip(" \t\"'-") and bool(_LINE_END.match(text, end))


_SEPARATORS = re.compile(r"[\W_]+")
_LEAD_CHARS = 40
_LINE_END = re.compile(r"[ \t\r]*+(?=\n|\Z)")
_WORD = re.compile(r"[\w.\-]+")
_OPTION = re.compile(r"--?(?!no-)[A-Za-z][\w\-]{0,60}")
_NAME = re.compile(
    r"(?<![\w.\-])(?<!\[redacted:)(?:"
    r"(?P<option>--?(?!no-)[A-Za-z][\w\-]{0,60}+)[ =]"
    r"|(?P<name>[\w.\-]{1,80}+(?:[ ][\w.\-]{1,80}+)?+)\\?[\"'`]?\]?[ \t]{0,9}"
    r"(?P<sign>=>|:=|=(?!=)|:[ \t]?[\w.]{1,30}[ \t]{1,9}=(?!=)|:(?![:/=])))"
)
"""A name of one or two words and a separator, with the type before `=` in code, or an option of a command."""
_QUOTED = re.compile(r"\s{0,9}[bBrRuU]?(\\?[\"'`])((?:(?!\1)(?:[^\\]|\\.))+)", re.DOTALL)
_BARE = re.compile(r"[ \t]{0,9}((?:(?i:basic|bearer|digest|token)[ \t]{1,4})?)([^\s\"'`&;,<>(){}\[\]|\\]{2,}+)")
_COOKIE_NAME = re.compile(r"(?i:cookies?)\Z")
_COOKIES = re.compile(r"[ \t]{0,9}([\w.\-]{1,80}=[^\r\n\"'`]+)")
_MIXED = re.compile(r"(?=[^\d]*\d)(?=.*[^\W\d_]).{6}")
"""Letters and digits: after a colon within a sentence, other values are taken for its next word."""
_NUMBER = re.compile(r"[0-9]{1,15}")
_CODE = re.compile(r"[A-Za-z_]+(?:\.[A-Za-z_]+)*")
_STAND_IN = re.compile(r"\$(?:[A-Z0-9_]+|[a-z_]+)|\$\{.*|\{.*\}|<.*>|%\(?\w*\)?s|:[a-z_]+|\?|[*.•…-]+|[xX]{3,}")
_WORDS = frozenset(
    "a an and any are await bool boolean bytes client default denied disabled empty enabled expired false"
    " field float for hidden if in incorrect int integer invalid is missing must new nil no none not null of"
    " off on option optional or parameter redacted required revoked secretstr server set str string text the to"
    " token true undefined unknown unset valid value was with wrong yes".split()
)
"""Words that follow the name of a secret in messages, declarations and help texts."""
