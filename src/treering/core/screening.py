"""Screening of input: redact the secrets in all texts of a value, at any depth; flag instructions to a model.

Every text of a value is screened, so new fields and new kinds of objects need no change here.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache
from itertools import accumulate, chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import BaseModel

from treering.core.canonical import digest

if TYPE_CHECKING:
    from numpy import intp, uint16
    from numpy.typing import NDArray

    from treering.core.secrets.redaction import Redacted

_Value = TypeVar("_Value")
_NO_VALUES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Secret:
    """A redacted secret: its kind and the field it was in; never the secret."""

    kind: str
    place: str


@dataclass(frozen=True, slots=True)
class Screened(Generic[_Value]):
    """A value as it is stored, and the secrets that were redacted in it."""

    value: _Value
    secrets: tuple[Secret, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """A warning for each kind and field."""
        return tuple(_warning(secret, self.secrets.count(secret)) for secret in dict.fromkeys(self.secrets))


class _Secrets(list[Secret]):
    """The secrets found in a value, and by value the kinds of secrets that may be repeated in it."""

    def __init__(self, repeated: Mapping[str, str]) -> None:
        super().__init__()
        self.repeated = repeated


@dataclass(slots=True)
class RecentDigests:
    """Digests of values that were screened lately and contain no secrets; between `most` and twice as many."""

    most: int
    young: set[str] = field(default_factory=set)
    old: set[str] = field(default_factory=set)

    def __contains__(self, item: str) -> bool:
        return item in self.young or item in self.old

    def add(self, item: str) -> None:
        """Add a digest, and drop the older half if there are too many."""
        if len(self.young) >= self.most:
            self.young, self.old = set(), self.young
        self.young.add(item)


def screened(value: _Value, *, place: str = "", repeated: Mapping[str, str] = _NO_VALUES) -> Screened[_Value]:
    """Return a text, a mapping, a list, a model or a dataclass with the secrets in all its texts redacted.

    A password that one of its texts calls so is redacted in all of them. A value without secrets is returned unchanged.
    `place` names the value in warnings; `repeated` are secrets of other texts (`repeatable_secrets`).
    """
    # Most values contain no secrets, so all texts are first searched at once; no pattern matches across the gap.
    texts = list(_texts(value))
    if not redact(PIECE_GAP.join(texts), repeated).findings:
        return Screened(value)
    secrets = _Secrets({**repeated, **repeatable_secrets(texts)})
    return Screened(_screen(value, place, secrets), tuple(secrets))


def kept_key(key: str | None) -> str | None:
    """Return an idempotency key as it is stored: hashed if it contains a secret, so that different keys differ."""
    return f"redacted:{digest(key)}" if key and redact(key).findings else key


def redact(text: str, repeated: Mapping[str, str] = _NO_VALUES) -> "Redacted":
    """Redact the secrets of a text, and the given secrets of other texts (`repeatable_secrets`)."""
    # Imported here: reading needs no patterns of secrets, and compiling them is slow.
    from treering.core.secrets.redaction import redact

    return redact(text, repeated)


def repeatable_secrets(texts: Iterable[str]) -> Mapping[str, str]:
    """Return the secrets that other texts may repeat, by value (`core.secrets.redaction`)."""
    from treering.core.secrets.redaction import repeatable_secrets

    return repeatable_secrets(texts)


def _texts(value: Any) -> Iterator[str]:
    """Yield every text in a value, by itself and as an assignment to its name."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif parts := _parts(one):
            waiting += parts.values()
            is_mapping = isinstance(one, Mapping)
            waiting += parts if is_mapping else ()
            if is_mapping or "predicate" in parts:  # other values do not name their texts
                yield from (_assignment(name, parts[key]) for key, name in _names(one, parts).items())


def _screen(value: Any, place: str, secrets: _Secrets) -> Any:
    if isinstance(value, str):
        return _text(value, place, secrets)
    changes = _changes(value, place, secrets)
    match value:
        case Mapping():
            return _mapping(value, changes, place, secrets)
        case _ if not changes:
            return value
        case BaseModel():
            return value.model_copy(update=changes)
        case tuple() | list():
            return type(value)(changes.get(at, part) for at, part in enumerate(value))
        case _:
            return replace(value, **changes)


def _text(text: str, place: str, secrets: _Secrets) -> str:
    result = redact(text, secrets.repeated)
    secrets += [Secret(finding.kind, place) for finding in result.findings]
    return result.text


def _mapping(value: Mapping[Any, Any], changes: Mapping[Any, Any], place: str, secrets: _Secrets) -> Mapping[Any, Any]:
    keys = {key: _text(key, place, secrets) if isinstance(key, str) else key for key in value}
    if not changes and all(keys[key] is key for key in value):
        return value
    return {keys[key]: changes.get(key, part) for key, part in value.items()}


def _changes(value: Any, place: str, secrets: _Secrets) -> dict[Any, Any]:
    """Return the changed parts of a value."""
    parts = _parts(value)
    # The names are redacted, too: otherwise a subject with a secret would make its value look like a secret.
    names = {key: redact(name).text for key, name in _names(value, parts).items()}
    changes = {}
    for key, before in parts.items():
        inside = _inside(place, redact(str(key)).text)
        after = _screen(before, inside, secrets)
        if after is before and key in names:
            after = _assigned(before, names[key], inside, secrets)
        if after is not before:
            changes[key] = after
    return changes


def _parts(value: Any) -> Mapping[Any, Any]:
    """Return the parts of a value by key, field or index; empty for values that contain no text."""
    return _opener(value.__class__)(value)


@cache
def _opener(kind: type) -> Callable[[Any], Mapping[Any, Any]]:
    """Return a function that reads the parts of values of a type."""
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
    """Return the names of those texts among the parts of a value that have a telling name, such as `password`."""
    named = {key: str(key) for key in parts} if isinstance(value, Mapping) else {}
    if isinstance(parts.get("predicate"), str):
        # The value of a fact is named by subject and predicate: `database password` is the password of the database.
        named |= dict.fromkeys(("object", "value"), f"{parts.get('subject', '')} {parts['predicate']}")
    return {key: name for key, name in named.items() if isinstance(parts.get(key), str)}


def _assigned(value: str, name: str, place: str, secrets: _Secrets) -> str:
    """Return a value, or a mark in its place if its name and form indicate a secret."""
    findings = redact(_assignment(name, value)).findings
    secrets += [Secret(finding.kind, place) for finding in findings]
    return f"[redacted:{findings[0].kind}]" if findings else value


def _assignment(name: str, value: str) -> str:
    return f'{_NO_WORD.sub("_", name)[-_NAME_CHARS:]} = "{value}"'


def _inside(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _warning(secret: Secret, count: int) -> str:
    subject = "a secret was" if count == 1 else f"{count} secrets were"
    return (
        f"{subject} redacted: {secret.kind}, {secret.place}" if secret.place else f"{subject} redacted: {secret.kind}"
    )


_NO_WORD = re.compile(r"\W+")
_NAME_CHARS = 40
PIECE_GAP = "\n" * 10
"""Between texts that are searched at once: longer than any white space that a pattern matches between two words."""


def instruction_flags(text: str) -> tuple[str, ...]:
    """Return the flags of instructions to a model found in `text`, in a fixed order; empty for ordinary text.

    `ignore_instructions`, `new_identity`, `system_tag`, `tool_call`, `exfiltration`, `concealment`, `request` (a
    polite order about property of the writer: "please transfer $500 from my account"), `hidden_unicode` (tag
    characters, bidirectional overrides, runs of invisible characters).
    """
    plain = without_disguise(text)
    shown = _shown_in(plain) if len(plain) < _LONG else _shown_in_long(plain)
    flags = dict.fromkeys(shape.flag for shape in shown)
    hidden = ("hidden_unicode",) if _is_hiding(text) else ()
    return (*flags, *hidden)


def _is_hiding(text: str) -> bool:
    """Return whether invisible characters in a text could hide words."""
    return not text.isascii() and bool(_UNSEEN.search(text) and _HIDDEN.search(text))


@dataclass(frozen=True, slots=True)
class _Shape:
    """A flag and its pattern over lower-case text, which is matched only at one of `triggers`.

    A text that contains none of `needs` cannot match.
    """

    flag: str
    triggers: tuple[str, ...]
    needs: tuple[str, ...]
    pattern: re.Pattern[str]

    def shows_in(self, text: str) -> bool:
        # Plain loops: they decide most texts, and generators would cost more than the search itself.
        for need in self.needs:
            if need in text:
                return self.stands_behind(self.triggers, text)
        return False

    def stands_behind(self, triggers: Iterable[str], text: str) -> bool:
        for trigger in triggers:
            at = text.find(trigger)
            while at >= 0:
                if self.pattern.match(text, at):
                    return True
                at = text.find(trigger, at + len(trigger))
        return False


def without_disguise(text: str) -> str:
    """Return `text` in lower case without disguises that fool a pattern but not a model.

    These are full-width and styled letters, and invisible characters.
    """
    if text.isascii():
        return text.lower()
    visible = _INVISIBLE.sub("", text)
    if not unicodedata.is_normalized("NFKC", visible):
        visible = unicodedata.normalize("NFKC", visible)
    return visible.lower()


_INVISIBLE = re.compile("[\u00ad\u180e\u200b-\u200f\u2060-\u2064\ufeff]")
_UNSEEN = re.compile("[\u180e\u200b-\u200d\u202a-\u202e\u2060-\u2069\ufeff\U000e0001-\U000e01ef]")
"""Characters one of which every match of `_HIDDEN` contains; a single class is faster to search for."""

# A tag sequence behind a black flag is a regional flag. Overrides and isolates reorder the displayed text;
# the marks U+200E and U+200F, which right-to-left text needs, do not.
_HIDDEN = re.compile(
    "(?<![\U0001f3f4\U000e0020-\U000e007e])[\U000e0001-\U000e007f]{2}"
    "|[\U000e0100-\U000e01ef]{4}"
    "|[\u202d\u202e]|[\u202a\u202b\u2066-\u2068][^\n]{0,400}[\u202a\u202b\u202d\u202e\u2066-\u2068]"
    "|[\u180e\u200b-\u200d\u2060-\u2064\ufeff]{4}"
)

_GAP = r"[\s,;:*_>\"'-]{1,6}"


def _words(least: int, most: int) -> str:
    # A word and a gap share no character, so there is only one way to match and no backtracking.
    return rf"(?:(?:[^\W_]|’){{1,20}}{_GAP}){{{least},{most}}}"


_LINE_LEAD = r"(?:\A|(?<=\n)|(?<=\n )|(?<=# )|(?<=\*\*)|(?<=\[)|(?<=<)|(?<=new )|(?<=updated ))"
_MODEL = r"(?:assistant|ai|llm|chatbot|language model)"
_PRIZE = (
    r"(?:api[\s_-]keys?|credentials?|passwords?|secrets?|private[\s_-]keys?|access[\s_-]tokens?"
    r"|environment[\s_-]variables?|(?:conversation|chat)(?:[\s_-]history)?|system[\s_-]prompts?"
    rf"|contents?{_GAP}of{_GAP}[~/.\w-]{{1,40}}|/etc/passwd|~/\.ssh\S{{0,40}}|[~/.\w-]{{0,40}}id_rsa)"
)
_ACT = (
    r"(?:grant|unlock|open|initiate|transfer|pay|wire|send|deposit|sell|buy|order|withdraw|create|add|update|change"
    r"|move|delete|remove|erase|disable|enable|share|forward|e-?mail|post|publish|redirect|cancel|schedule|book"
    r"|install|run|execute|download|upload|retrieve|fetch|list|invite|reset|revoke|approve|dispatch|use|guide)"
)
_WHERE = (
    r"(?:\bmy\b|[\w.+-]{1,40}@[\w-]{1,40}\.\w|https?://|\bwww\.|\$\s?\d"
    r"|\b(?:account|iban|card|payee|id)\b[^.\n]{0,20}\d)"
)
_SENTENCE = r"(?:\A|(?<=[.!?:;\n\"'>\]])|(?<=[.!?:;\n\"'>\]]\s))"
_SHAPES = (
    _Shape(
        "ignore_instructions",
        ("ignore", "disregard", "forget", "override", "bypass", "do not follow", "stop following"),
        ("instruction", "prompt", "directive", "guideline", "told", "programming"),
        re.compile(
            r"\b(?:ignore|disregard|forget|override|bypass|do not follow|stop following)"
            rf"{_GAP}{_words(0, 4)}(?:previous|prior|above|earlier|preceding|foregoing|your|initial|original|other)"
            rf"{_GAP}{_words(0, 3)}(?:instructions?|prompts?|directives?|guidelines?|programming)\b"
            rf"|\b(?:ignore|disregard|forget){_GAP}{_words(0, 3)}(?:what|everything|anything|all){_GAP}"
            rf"{_words(0, 2)}you{_GAP}(?:were|have been){_GAP}told\b"
        ),
    ),
    _Shape(
        "new_identity",
        ("you", "from now", "pretend", "act as", "dan mode", "jailbreak mode"),
        ("you", "pretend", "act as", "dan mode", "jailbreak mode"),
        re.compile(
            rf"\byou(?:{_GAP}are|['’]re){_GAP}now{_GAP}{_words(0, 4)}"
            rf"(?:{_MODEL}|dan|jailbroken|unrestricted|unfiltered|hacker|persona|developer mode)\b"
            rf"|\byou{_GAP}are{_GAP}no{_GAP}longer{_GAP}{_words(0, 2)}(?:bound|restricted|limited|{_MODEL})\b"
            rf"|\bfrom{_GAP}now{_GAP}on{_GAP}you{_GAP}(?:will|must|are|shall|should)\b"
            rf"|\b(?:pretend|act as if|act as though){_GAP}(?:to be|you(?:{_GAP}are|['’]re|{_GAP}have)){_GAP}"
            rf"{_words(0, 3)}(?:{_MODEL}|unrestricted|unfiltered|no restrictions?)\b"
            r"|\b(?:dan|jailbreak) mode\b"
        ),
    ),
    _Shape(
        "system_tag",
        ("<|", "[inst]", "[/inst]", "<<sys>>", "<system", "</system", "system"),
        ("<|", "inst]", "<<sys>>", "system"),
        re.compile(
            r"<\|(?:im_start|im_end|system|user|assistant|start_header_id|eot_id|endofprompt)\|>|<<sys>>"
            r"|\[/inst\]|(?:\A|(?<=\n))\[inst\]"
            r"|</?system[-_ ]?(?:prompt|message|instructions?|reminder)>"
            rf"|{_LINE_LEAD}system(?: prompt| message| override)?[\]>*:]{{0,4}}\s{{1,4}}"
            rf"(?:you{_GAP}(?:are|must|will|should)|ignore|disregard)\b"
        ),
    ),
    _Shape(
        "tool_call",
        ("<", '"tool_calls"', '"tool_use"', '"function_call"'),
        ("<tool", "<function", "invoke", "<|tool", '"tool_calls"', '"tool_use"', '"function_call"'),
        re.compile(
            r"<\|?(?:tool_calls?|tool_use|function_calls?|function_results|tool_result)\b[^>\n]{0,100}>"
            r"|<(?:\w{1,10}:)?(?:invoke name|function)=[\"']?\w{1,60}[\"']?>"
            r"|\"(?:tool_calls|function_call)\"\s{0,4}:\s{0,4}[\[{]\s{0,40}[\"{]"
            r"|(?<=\"type\": )\"tool_use\"|(?<=\"type\":)\"tool_use\""
        ),
    ),
    _Shape(
        "exfiltration",
        ("reveal", "repeat", "print", "output", "disclose", "show", "leak", "tell"),
        ("prompt", "instruction", "system message"),
        re.compile(
            rf"\b(?:reveal|repeat|print|output|disclose|show|leak|tell){_GAP}(?:me{_GAP}|us{_GAP})?"
            rf"(?:all of{_GAP})?(?:your|the){_GAP}{_words(0, 2)}"
            r"(?:system[\s_-]prompts?|(?:initial|hidden|original|secret|system)\s(?:instructions?|prompts?|messages?))\b"
        ),
    ),
    _Shape(
        "exfiltration",
        ("send", "post", "upload", "forward", "transmit", "leak", "exfiltrate", "email"),
        (
            *("key", "credential", "password", "secret", "token", "environment", "history", "prompt"),
            *("content", "/etc/passwd", "~/.ssh", "id_rsa", "conversation"),
        ),
        re.compile(
            rf"\b(?:send|post|upload|forward|transmit|leak|exfiltrate|email){_GAP}{_words(0, 4)}{_PRIZE}"
            rf"{_GAP}{_words(0, 4)}(?:to|at|via){_GAP}(?:https?://|[\w.+-]{{1,40}}@"
            rf"|(?:this|the following){_GAP}(?:url|address|server|endpoint)|attacker|my\b)"
        ),
    ),
    _Shape(
        "exfiltration",
        ("![",),
        ("={", "=<", "=$", "=%7b"),
        re.compile(r"!\[[^\]\n]{0,100}\]\(https?://[^)\s]{1,200}\?[^)\s]{0,100}=(?:\{|<|\$|%7b)"),
    ),
    _Shape(
        "concealment",
        ("do not ", "don't ", "don’t ", "never ", "without "),
        ("user", "human", "developer", "operator"),
        re.compile(
            rf"\b(?:do{_GAP}not|don['’]t|never){_GAP}(?:tell|inform|notify|alert|mention{_GAP}(?:this|it){_GAP}to"
            rf"|(?:reveal|disclose){_GAP}(?:this|it){_GAP}to|let){_GAP}(?:the|your)"
            rf"{_GAP}(?:user|human|developer|operator)s?\b(?!{_GAP}(?:if|when|unless|until|how|which|twice|again))"
            rf"|\bwithout{_GAP}(?:telling|informing|notifying|alerting){_GAP}(?:the|your){_GAP}"
            r"(?:user|human|developer|operator)s?\b"
        ),
    ),
    _Shape(
        "request",
        ("please",),
        ("my", "@", "http", "www.", "$", "account", "iban", "card", "payee", "id"),
        re.compile(rf"{_SENTENCE}please{_GAP}{_ACT}\b[^\n]{{0,160}}?{_WHERE}"),
    ),
    _Shape(
        "request",
        ("send", "email", "forward", "share", "transfer"),
        ("@",),
        re.compile(
            rf"\b(?:send|email|forward|share|transfer){_GAP}(?:it|them|this|that|these|those|all|the|my){_GAP}"
            r"[^\n]{0,60}?\bto\b[^\n]{0,40}?[\w.+-]{1,40}@[\w-]{1,40}\.\w"
            rf"|\b(?:send|email|forward|share|transfer){_GAP}(?:it|them|this|that|these|those|all){_GAP}to{_GAP}"
            r"[\w.+-]{1,40}@[\w-]{1,40}\.\w"
        ),
    ),
)


_LONG = 2_000
"""Characters. In a shorter text, searching for each word is cheaper than `_shown_in_long`."""

_STRETCH = 1 << 12  # bytes
_NUMBERS = 1 << 16
_ANYTHING = _NUMBERS
"""The number of a word of fewer than three bytes, which is never ruled out."""


def _shown_in(text: str) -> Iterator[_Shape]:
    return (shape for shape in _SHAPES if shape.shows_in(text))


def _shown_in_long(text: str) -> Iterator[_Shape]:
    """Return the shapes in a text; it first rules out words whose trigrams of bytes do not all occur in it."""
    import numpy as np  # imported here: not needed for short texts

    data = text.encode("utf-8", "surrogatepass")
    numbers, starts = _sought()
    present = np.zeros(_NUMBERS + 1, np.bool_)
    present[_ANYTHING] = True
    for at in range(0, len(data), _STRETCH):  # all at once would take ten times the memory of the text
        present[_neighbours(data[at : at + _STRETCH + 2])] = True
    possible = iter(np.logical_and.reduceat(present[numbers], starts).tolist())
    for shape in _SHAPES:
        triggers = [word for word in shape.triggers if next(possible)]
        needs = [word for word in shape.needs if next(possible)]
        # Searching bytes is several times faster than searching a text with letters other than Latin ones.
        if triggers and needs and shape.stands_behind([word for word in triggers if word.encode() in data], text):
            yield shape


@cache
def _sought() -> "tuple[NDArray[intp], list[int]]":
    """Return the trigram numbers of all triggers and needs, shape by shape, and the start of each word in them."""
    import numpy as np

    words = [word for shape in _SHAPES for word in (*shape.triggers, *shape.needs)]
    numbers = [_neighbours(word.encode()).tolist() or [_ANYTHING] for word in words]
    return np.array([*chain.from_iterable(numbers)], np.intp), list(accumulate(map(len, numbers[:-1]), initial=0))


def _neighbours(data: bytes) -> "NDArray[uint16]":
    """Return a hash of each trigram of bytes; different ones may collide."""
    import numpy as np

    wide = np.frombuffer(data, np.uint8).astype(np.uint16)
    return wide[:-2] * 961 + wide[1:-1] * 31 + wide[2:] if len(data) > 2 else wide[:0]
