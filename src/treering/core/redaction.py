"""Secrets in text: found by their shape, replaced by what kind they were.

Every pattern is bounded or possessive, so that no text makes it slow, and each is tried only where a literal
it needs occurs at all.
"""

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SecretFinding:
    """A secret that was found: its kind and the line (1-based) it starts on; never the secret."""

    kind: str
    line: int


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text without its secrets, and what was taken out, by line."""

    text: str
    findings: tuple[SecretFinding, ...] = ()


def redact(text: str) -> Redacted:
    """Replace each secret in `text` by `[redacted:kind]`; lines keep their number.

    Redacting the result again changes nothing.
    """
    findings: list[SecretFinding] = []
    # What one secret hid from the patterns (its end was no word boundary) may show once it is gone.
    while spans := _merged(sorted(_spans(text))):
        findings.extend(_findings(text, spans))
        text = _without(text, spans)
    return Redacted(text, tuple(sorted(findings, key=lambda finding: (finding.line, finding.kind))))


@dataclass(frozen=True, slots=True, order=True)
class _Span:
    start: int
    end: int
    kind: str


@dataclass(frozen=True, slots=True)
class _Shape:
    """Secrets told by their own shape. The secret is group 1 where there is one, else the whole match.

    A text without any of `hints` cannot match. `random`: the secret must also look random.
    """

    kind: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    random: bool = False


_MARK = "[redacted:"
_BY_PLACE = frozenset({"assigned_secret", "url_password"})

# A token starts where no longer word runs into it: also what keeps matching linear.
_EDGE = r"(?<![A-Za-z0-9_\-])"

_SHAPES = (
    _Shape(
        "aws_access_key",
        ("AKIA", "ASIA", "ABIA", "ACCA"),
        re.compile(_EDGE + r"A(?:KI|SI|BI|CC)A[A-Z0-9]{16}(?![A-Za-z0-9])"),
    ),
    _Shape(
        "aws_secret_key",
        ("aws_secret_access_key", "AWS_SECRET_ACCESS_KEY"),
        re.compile(r"(?i:aws_secret_access_key)[\"'\s:=>]{1,8}([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])"),
    ),
    _Shape(
        "github_token",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        re.compile(_EDGE + r"(?:gh[pousr]_[A-Za-z0-9]{36,}+|github_pat_\w{22,}+)", re.ASCII),
    ),
    _Shape(
        "gitlab_token",
        ("glpat-", "gldt-", "glrt-", "glptt-", "glcbt-", "gloas-", "glagent-", "glsoat-"),
        re.compile(_EDGE + r"gl(?:pat|dt|rt|ptt|cbt|oas|agent|soat)-[\w\-]{20,}+", re.ASCII),
    ),
    _Shape("slack_token", ("xox", "xapp-"), re.compile(_EDGE + r"(?:xox[abeoprs]|xapp)-[A-Za-z0-9\-]{10,}+")),
    _Shape(
        "slack_webhook",
        ("hooks.slack.com/services/",),
        re.compile(r"hooks\.slack\.com/services/(T[A-Z0-9]{6,20}/B[A-Z0-9]{6,20}/[A-Za-z0-9]{16,}+)"),
    ),
    _Shape(
        "stripe_key",
        ("k_live_", "k_test_", "whsec_"),
        re.compile(_EDGE + r"(?:[sr]k_(?:live|test)_[A-Za-z0-9]{16,}+|whsec_[A-Za-z0-9]{24,}+)"),
    ),
    _Shape(
        "google_api_key",
        ("AIza", "GOCSPX-", "ya29."),
        re.compile(_EDGE + r"(?:AIza[\w\-]{35}(?![\w\-])|GOCSPX-[\w\-]{20,}+|ya29\.[\w\-]{20,}+)", re.ASCII),
    ),
    _Shape("anthropic_key", ("sk-ant-",), re.compile(_EDGE + r"sk-ant-[\w\-]{20,}+", re.ASCII), random=True),
    _Shape(
        "openai_key",
        ("sk-",),
        # Hyphenated names (CSS classes) also start with `sk-`: only project keys may hold hyphens.
        re.compile(_EDGE + r"sk-(?:(?:proj|svcacct|admin|or-v1)-[\w\-]{20,}+|[A-Za-z0-9]{20,}+(?![\w\-]))", re.ASCII),
        random=True,
    ),
    _Shape("huggingface_token", ("hf_",), re.compile(_EDGE + r"hf_[A-Za-z0-9]{30,}+(?!_)"), random=True),
    _Shape("npm_token", ("npm_",), re.compile(_EDGE + r"npm_[A-Za-z0-9]{36,}+(?!_)"), random=True),
    _Shape("pypi_token", ("pypi-A",), re.compile(_EDGE + r"pypi-A[\w\-]{40,}+", re.ASCII)),
    _Shape(
        "jwt",
        ("eyJ",),
        re.compile(_EDGE + r"eyJ[\w\-]{8,}+\.eyJ[\w\-]{8,}+\.[\w\-]{8,}+", re.ASCII),
    ),
)

_URL_PASSWORD = re.compile(r"://[^\s/:@\"'<>`,\[\]]{0,100}:([^\s/@\"'<>`]{3,200})@")

# What an assigned secret is called, in lower case.
_NAMES = (
    *("password", "passwd", "passphrase", "pwd", "secret", "token", "credential"),
    *("api_key", "api-key", "apikey", "access_key", "access-key", "accesskey"),
    *("auth_key", "auth-key", "authkey", "private_key", "private-key"),
)
# Both stand right behind such a name. A quoted value may follow anything; a bare one fills its line.
_OTHER_WORD = r"(?!(?i:i[sz]|ar[iy]))"  # a tokenizer's checksum is no token, a secretary no secret
_QUOTED = re.compile(
    _OTHER_WORD + r"[\w\-]{0,30}[\"'`]?(?:[ \t]{0,4}:[ \t]?[\w.]{1,20})?[ \t]{0,40}(?::=|=>|[=:])"
    r"[ \t]{0,40}[\"'`]([^\"'`\s]{8,300})[\"'`]"
)
_BARE = re.compile(
    _OTHER_WORD
    + r"s?(?:[_\-]\w{1,30})?[ \t]{0,20}[=:][ \t]{0,20}([A-Za-z0-9+/=_~!@%^&*\-]{16,300})[ \t]{0,40}\r?(?=\n|\Z)"
)
_BARE_LEAD = re.compile(r"[ \t]{0,40}(?:export[ \t]|-[ \t]|set[ \t])?[ \t]{0,8}(?:[\w.\-]{0,40}[_.\-])?")
_PLACEHOLDER = re.compile(
    r"x{3,}|\*{3,}|\.{3,}|0{6,}|1234567|abcdef|example|placeholder|change|dummy|sample|fake|redact|replace|insert"
    r"|your|test|todo|none|null|undefined|environ|getenv|process\.env|secrets\.|vault|\$\{|\$\(|\{\{|%\(|<|>|\{",
    re.IGNORECASE,
)
_STOCK_PASSWORD = re.compile(
    r"(?:my|the|your|db|user|some|new|old)?[_\-]?(?:pass(?:w(?:or)?d)?|pwd|pw|secret|token|user(?:name)?|key"
    r"|postgres|mysql|root|guest|admin|port|\d{1,5})|\$\w+|%\w+%?|:.*",
    re.IGNORECASE,
)
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z]*(?:[_\-.][A-Za-z]+)*[_\-.]?\d{0,2}")

_KEY_BEGIN = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----")
_KEY_END = re.compile(r"-----END (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----")
# Base64 with armour headers, and what surrounds its lines where it stands in a string literal.
_KEY_BODY = re.compile(r"[A-Za-z0-9+/=\s\\,:.\"'\-]{16,}+")
_KEY_LINE = re.compile(r"[\s\"'+]*+[A-Za-z0-9+/=\\]{24,}+[\s\"',;+\\]*+")
_KEY_MOST = 12_000


def _spans(text: str) -> Iterator[_Span]:
    if "PRIVATE KEY" in text:
        yield from _private_keys(text)
    for shape in _SHAPES:
        if any(hint in text for hint in shape.hints):
            yield from _shaped(text, shape)
    if "://" in text and "@" in text:
        yield from _url_passwords(text)
    yield from _assignments(text)


def _shaped(text: str, shape: _Shape) -> Iterator[_Span]:
    for match in shape.pattern.finditer(text):
        if not shape.random or _is_random(match[0]):
            yield _Span(*match.span(match.re.groups), shape.kind)


def _url_passwords(text: str) -> Iterator[_Span]:
    for match in _URL_PASSWORD.finditer(text):
        password = match[1]
        if _MARK not in match[0] and not _STOCK_PASSWORD.fullmatch(password) and not _PLACEHOLDER.search(password):
            yield _Span(*match.span(1), "url_password")


def _assignments(text: str) -> Iterator[_Span]:
    lowered = text.replace("İ", "I").lower()  # the one letter that grows when lowered: positions must agree
    for name in _NAMES:
        at = lowered.find(name)
        while at >= 0:
            match = _assigned(text, at, at + len(name))
            if match and _MARK not in match[0] and _is_random(match[1]):
                yield _Span(*match.span(1), "assigned_secret")
            at = lowered.find(name, at + len(name))


def _assigned(text: str, start: int, end: int) -> re.Match[str] | None:
    if match := _QUOTED.match(text, end):
        return match
    match = _BARE.match(text, end)
    line_start = text.rfind("\n", max(0, start - 100), start) + 1 if match else 0
    return match if match and _BARE_LEAD.fullmatch(text, line_start, start) else None


def _is_random(value: str) -> bool:
    """Tell whether a literal looks drawn at random, rather than a name, a word or a placeholder."""
    if _PLACEHOLDER.search(value) or _IDENTIFIER.fullmatch(value) or not re.search(r"\d", value):
        return False
    return _entropy(value) >= min(3.5, 0.85 * math.log2(len(value)))


def _entropy(value: str) -> float:
    """Return Shannon's entropy of the characters of `value`, in bits per character."""
    shares = [count / len(value) for count in Counter(value).values()]
    return -sum(share * math.log2(share) for share in shares)


def _private_keys(text: str) -> Iterator[_Span]:
    for begin in _KEY_BEGIN.finditer(text):
        end = _KEY_END.search(text, begin.end(), begin.end() + _KEY_MOST)
        if end and _KEY_BODY.fullmatch(text, begin.end(), end.start()):
            yield _Span(begin.start(), end.end(), "private_key")
        elif (stop := _cut_key_end(text, begin.end())) > begin.end():
            yield _Span(begin.start(), stop, "private_key")


def _cut_key_end(text: str, start: int) -> int:
    """Find where the base64 lines below a `BEGIN` without its `END` stop; `start` where there are none."""
    stop = start
    at = text.find("\n", start, start + 200) + 1
    while at:
        line_end = text.find("\n", at)
        line_end = len(text) if line_end < 0 else line_end
        if line_end - start > _KEY_MOST or not _KEY_LINE.fullmatch(text, at, line_end):
            break
        stop = line_end
        at = line_end + 1 if line_end < len(text) else 0
    return stop


def _merged(spans: list[_Span]) -> list[_Span]:
    """Join overlapping spans under the kind of the first, or the first told by its own shape."""
    joined: list[_Span] = []
    for span in spans:
        if joined and span.start < joined[-1].end:
            last = joined[-1]
            kind = span.kind if last.kind in _BY_PLACE else last.kind
            joined[-1] = _Span(last.start, max(last.end, span.end), kind)
        else:
            joined.append(span)
    return joined


def _findings(text: str, spans: list[_Span]) -> Iterator[SecretFinding]:
    ends = [match.start() for match in re.finditer("\n", text)]
    for span in spans:
        yield SecretFinding(span.kind, bisect_right(ends, span.start - 1) + 1 if span.start else 1)


def _without(text: str, spans: list[_Span]) -> str:
    parts = []
    at = 0
    for span in spans:
        kept_lines = "\n" * text.count("\n", span.start, span.end)
        parts += [text[at : span.start], f"{_MARK}{span.kind}]", kept_lines]
        at = span.end
    return "".join([*parts, text[at:]])
