"""Secrets recognized by their place: after a telling name, in a URL, header, credentials file or private key."""

import base64
import binascii
import re
from collections.abc import Iterator

from treering.core.secrets.shapes import is_chosen, is_drawn, is_filler, is_placeholder, is_random, is_stated

Place = tuple[int, int, str]
"""Start, end and kind of a secret."""

MARK = "[redacted:"
"""The beginning of a redaction mark."""

BY_PLACE = frozenset({"assigned_secret", "url_password", "header_token", "login_password"})
"""Kinds that only state the place of a secret."""


def may_hold_placed(text: str) -> bool:
    """Return whether a text contains any character that can precede a secret; most short texts do not."""
    if ":" in text or "=" in text or "--" in text or "LS0tLS1CRUdJTi" in text:
        return True
    lowered = _lowered(text)
    return any(word in lowered for word in _UNSIGNED)


def placed_secrets(text: str) -> Iterator[Place]:
    """Yield the secrets recognized by their place."""
    if "PRIVATE KEY" in text or "LS0tLS1CRUdJTi" in text or "PuTTY-User-Key-File-" in text:
        yield from _private_keys(text)
    if "@" in text and "://" in text:
        yield from _url_passwords(text)
    lowered = _lowered(text)
    yield from _headers(text, lowered)
    yield from _logins(text)
    if _DIGIT.search(text) and _SIGNED.search(text):
        yield from _cloud_keys(text, lowered)
        yield from _assignments(text, lowered)
    if _DIGIT.search(text):
        yield from _keys_in_prose(text, lowered)
    yield from _passwords(text, lowered)


def _lowered(text: str) -> str:
    return text.replace("İ", "I").lower()  # the only letter that grows in lower case, which would shift positions


_UNSIGNED = ("bearer ", "authorization", "login", "passw", "passphrase", "pwd", "secret", "token ", "key ")
"""Words that can precede a secret without a separator."""

_DIGIT = re.compile(r"[0-9]")
_SIGNED = re.compile(r"[=:]|--")
"""Separators between a name and its value. Values without a digit are never random."""

# User and password of a URL contain no `/`, `?` or `#`.
_URL_PASSWORD = re.compile(r"://[^\s/:@\"'<>`,\[\]?#\\]{0,100}:([^\s/@\"'<>`?#]{3,200})@([\w.\-]{0,100})")
_STOCK_PASSWORD = re.compile(
    r"[a-z_\-]{0,20}(?:password|passwd|secret|token)\d{0,4}|(?:my|the|your|db|user|some|new|old|a)?[_\-]?"
    r"(?:pass|pwd|pw|p[aw]ss|user(?:name)?|key|postgres(?:ql)?|mysql|mongo(?:db)?|redis|rabbitmq|root|guest|admin|app"
    r"|foo|bar|baz|foobar|hunter2|tiger|letmein|qwerty|port|[a-z]|\d{1,6})\d{0,4}|\$\w+|%\w+%?|:.*",
    re.IGNORECASE,
)
_RESERVED_HOST = re.compile(r"(?:.*\.)?(?:example(?:\.(?:com|org|net|edu))?|test|invalid)\.?", re.IGNORECASE)
"""Names that RFC 2606 reserves for documentation and tests."""

_STAND_IN_HOST = re.compile(
    r"(?:.*\.)?(?:\w*host(?:name)?|(?:host|domain|site|server)(?:\.com)?|127\.0\.0\.1|0\.0\.0\.0)", re.IGNORECASE
)


def _url_passwords(text: str) -> Iterator[Place]:
    for match in _URL_PASSWORD.finditer(text):
        if MARK not in match[0] and not _is_shown(match[1], host=match[2]):
            yield *match.span(1), "url_password"


def _is_shown(password: str, *, host: str) -> bool:
    """Return whether a password in a URL is only an example."""
    if _RESERVED_HOST.fullmatch(host) or _is_stock(password):
        return True
    return bool(_STAND_IN_HOST.fullmatch(host)) and not is_random(password)


def _is_stock(password: str) -> bool:
    """Return whether a password is one commonly used in examples."""
    parts = list(filter(None, _ESCAPED.split(password)))
    short = sum(map(len, parts)) < _SHORTEST
    return short or is_placeholder(password) or all(_STOCK_PASSWORD.fullmatch(part) for part in parts)


_SHORTEST = 3
_ESCAPED = re.compile(r"%[0-9A-Fa-f]{2}")


def _ending_with(part: str, names: str) -> re.Pattern[str]:
    """Compile names that end with `part`. `part` is searched for first; the group of the match is the name."""
    return re.compile(f"{part}(?:{'|'.join(f'(?<=({name}))' for name in names.split())})")


_BEARER = re.compile(r"(?:bearer|token|ssws)[ \t]{1,4}([A-Za-z0-9_~+/.\-]{16,2000}+=*)", re.IGNORECASE)
# Only the scheme ignores case: with re.IGNORECASE, a class of letters also matches U+017F and U+212A.
_BASIC = re.compile(r"(?i:basic)[ \t]{1,4}([A-Za-z0-9+/]{8,400}+={0,2})")
_KEY_HEADER = re.compile(r"[\"'\\]{0,2}[ \t]?[:=][ \t]{0,4}[\"'\\]{0,2}([A-Za-z0-9_~+/.\-]{16,400}+=*)")
_HEADERS = (
    re.compile("api-key"),
    _ending_with("-token", "x-auth-token private-token x-vault-token x-access-token job-token"),
)


def _headers(text: str, lowered: str) -> Iterator[Place]:
    yield from _schemes(text, lowered)
    for names in _HEADERS:
        for name in names.finditer(lowered):
            if (match := _KEY_HEADER.match(text, name.end())) and is_random(match[1]):
                yield *match.span(1), "header_token"


def _schemes(text: str, lowered: str) -> Iterator[Place]:
    for name in ("bearer ", "authorization"):
        for at in _places(lowered, name):
            start = at if name == "bearer " else _past_sign(text, at + len(name))
            bearer, basic = _BEARER.match(text, start), _BASIC.match(text, start)
            if bearer and is_random(bearer[1]):
                yield *bearer.span(1), "header_token"
            elif basic and _is_login(basic[1]):
                yield *basic.span(1), "header_token"


_SIGN = re.compile(r"[\"'\\]{0,2}[ \t]?[:=,][ \t]{0,4}[\"'\\]{0,2}")


def _past_sign(text: str, at: int) -> int:
    match = _SIGN.match(text, at)
    return match.end() if match else at


def _is_login(code: str) -> bool:
    """Return whether base64 text contains a user and a password that is not a common example."""
    try:
        user, colon, password = base64.b64decode(code, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return False
    return bool(colon) and f"{user}{password}".isprintable() and not _is_stock(password) and not is_placeholder(user)


_NETRC = re.compile(
    r"(?:machine\s{1,8}([\w.\-]{1,100})|default)\s{1,8}login\s{1,8}\S{1,100}\s{1,8}password\s{1,8}([^\s\"'\\]{4,200})"
)
_NPMRC = re.compile(r":_(?:authToken|auth|password)[ \t]?=[ \t]?[\"']?([^\s\"'$:]{8,400})")
_CURL_USER = re.compile(r"(?:-u|--user)[ =][\"']?[^\s\"':]{1,64}:((?!-----BEGIN)[^\s\"'@:/]{3,100})(?=[\s\"']|\Z)")
_CURL_CHARS = 300


def _logins(text: str) -> Iterator[Place]:
    if "login" in text and "password" in text:
        for login in _NETRC.finditer(text):
            if not _is_shown(login[2], host=login[1] or ""):
                yield *login.span(2), "login_password"
    yield from _given(_NPMRC.finditer(text))
    for at in _places(text, "curl "):
        ends = (text.find(end, at + 1, at + _CURL_CHARS) for end in ("\n", "curl "))
        stop = min((end for end in ends if end >= 0), default=at + _CURL_CHARS)
        yield from _given(_CURL_USER.finditer(text, at, stop))


def _given(matches: Iterator[re.Match[str]]) -> Iterator[Place]:
    for match in matches:
        if MARK not in match[0] and not _is_stock(match[1]):
            yield *match.span(1), "login_password"


_CLOUD_NAME = re.compile(r"secret(?:_access_key|accesskey|(?<=aws_secret)(?:_key)?)")
_CLOUD_KEY = re.compile(r"[\"'\s:=>\\]{1,8}([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])")


def _cloud_keys(text: str, lowered: str) -> Iterator[Place]:
    for name in _CLOUD_NAME.finditer(lowered):
        if (match := _CLOUD_KEY.match(text, name.end())) and not is_filler(match[1]):
            yield *match.span(1), "aws_secret_key"


# Names of secrets, in lower case.
_NAMES = (
    *map(re.compile, ("pass(?:word|wd|phrase)", "pwd", "secret", "token", "credential")),
    _ending_with(
        "key",
        "api_key api-key apikey access_key access-key accesskey auth_key auth-key authkey private_key private-key "
        "privatekey account_key accountkey app_key appkey client_key encryption_key encryptionkey signing_key "
        "signingkey master_key masterkey license_key licensekey service_key",
    ),
)
_PARAMETERS = (
    *_NAMES,
    *map(re.compile, ("passcode", "authorization", "cookie", "ssh_key", "(?<![a-z])(?:auth|t?otp|jwt|bearer)")),
)
_PIN = re.compile(r"(?:.*_)?pin(?:_?(?:code|number))?")
_PIN_DIGITS = re.compile(r"\d{4,12}")  # shorter numbers are pins of a board
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NO_LETTERS = re.compile(r"\W+")
_NAME_END = re.compile(r"(?:_?(?:key|value|string))?(s?)_?\d*")


def names_secret(name: str, value: object) -> bool:
    """Return whether a parameter contains a secret: its name ends with one in `_NAMES`, whatever its value looks like.

    Truth values are no secrets, and a number under a plural, such as `max_tokens`, is a count. A `pin` has four digits.
    """
    if value is None or isinstance(value, bool):
        return False
    lowered = _lowered(_NO_LETTERS.sub("_", _HUMP.sub("_", name))).strip("_")
    if _PIN.fullmatch(lowered):
        return bool(_PIN_DIGITS.fullmatch(str(value)))
    ends = (_NAME_END.fullmatch(lowered, match.end()) for names in _PARAMETERS for match in names.finditer(lowered))
    return any(end and not (end[1] and isinstance(value, int | float)) for end in ends)


# The text right after such a name. A quoted value may follow anything; a bare value must fill its line, or be in
# a URL, a connection string or a command.
_OTHER_WORD = r"(?!(?i:i[sz]|ar[iy]))"  # a tokenizer's checksum is not a token, and a secretary is not a secret
_QUOTED = re.compile(
    _OTHER_WORD + r"([\w\-]{0,30})\\?[\"'`]?\]?(?:[ \t]{0,4}:[ \t]?[\w.]{1,20})?[ \t]{0,40}(?::=|=>|[=:])"
    r"[ \t]{0,40}\\?[\"'`]([^\"'`\s\\]{8,300})\\?[\"'`]"
)
_BARE = re.compile(
    _OTHER_WORD + r"(s?(?:[_\-]\w{1,30})?)[ \t]{0,20}[=:][ \t]{0,20}(?:base64:)?"
    r"([A-Za-z0-9+/=_~!@%^&*.#$\-]{12,300})[ \t]{0,40}\r?(?=\n|\Z)"
)
_BARE_LEAD = re.compile(r"[ \t]{0,40}(?:(?:export|set|ENV|ARG|-)[ \t])?[ \t]{0,8}(?:[\w.\-]{0,40}[_.\-])?")
_INLINE = re.compile(r"([\w\-]{0,30})[ \t]?=[ \t]?([A-Za-z0-9+/=_~!^*.%$\-]{12,300})(?=[&;\"'`\s)\]<>,#]|\Z)")
_INLINE_LEAD = re.compile(r"[?&;\"][ \t]?[\w.\- ]{0,30}\Z")
_OPTION = re.compile(r"([\w\-]{0,30})[ =][\"']?([A-Za-z0-9+/=_~!@%^&*.#\-]{12,300})(?=[\s\"']|\Z)")
_OPTION_LEAD = re.compile(r"(?<!\S)--?[\w\-]{0,30}\Z")
_DESCRIPTION = re.compile(
    r"s?[_\-]?(?:ur[li]|endpoint|path|file(?:name)?|dir|name|types?|counts?|limit|fields?|label|hint|policy|ref|regex"
    r"|pattern|class(?:name)?|format|len|length|size|expir\w*|ttl|version|header|prefix|suffix|env|param|store|manager"
    r"|provider|message|error|placeholder|column|selector|arn|uses?|usage)s?",
    re.IGNORECASE,
)
"""Suffixes after which the value describes a secret and is not one."""

_LEAD_CHARS = 40
# A password chosen by a person, anywhere: in a sentence, a call or a line of settings.
# The letter before is looked at last, because a pattern that begins with plain letters is found much faster.
_PASSWORD_NAMES = tuple(map(re.compile, ("pass(?:word|wd|phrase)", "pwd(?<![a-z]pwd)")))
_WORD = r"(?:[ \t][A-Za-z][\w'’\-]{0,20})"
_BELONGING = r"[ \t](?:for|of|on|at|to|from|in)"
_SENTENCE = (
    rf"(?:(?:{_BELONGING}|[ \t](?:I|we|here|there|was|has)){_WORD}{{0,6}}?)?"
    r"[ \t](?:is|was|to)(?:[ \t](?:now|still|currently|again))?:?[ \t]"
    rf"|{_BELONGING}{_WORD}{{1,6}}?(?::|[ \t]?=|[ \t][\-–—])[ \t]"
)
"""Such as `password for the bank is …`, `password of my mail account: …`."""
_VALUE = (
    r"([A-Za-z0-9!][A-Za-z0-9+/=_~!@%^&*.#$\-]{6,100}?[A-Za-z0-9!@%^&*#$~+=])"
    r"(?=&\w{1,20}=|[.?:]?(?:[\s,;\"'`)\]}<>\\]|\Z))"
)
_CHOSEN = re.compile(
    rf"\d?\\?[\"'`]?\]?(?:[ \t]{{0,4}}(?::=|=>|[=:：])[ \t]{{0,4}}|{_SENTENCE}|(?<=--password) )\\?[\"'`]?"
    rf"{_VALUE}"
)
_STATED = re.compile(rf"(?:{_SENTENCE})[\"'`]?{_VALUE}")
_NAMED = re.compile(rf"(?::?[ \t])[\"'`]?{_VALUE}")
_WITH = re.compile(rf"\b(?:with|using|use|enter|try|by|and|as){_WORD}{{0,3}}[ \t]\Z", re.IGNORECASE)
"""Words before `password …`, such as `log in with user ada and password …`."""


# A key or token in a sentence: `AWS secret key: …`, `the API key for the bank is …`, `secret …`.
_KEY_IN_PROSE = re.compile(
    r"secret(?:[ _\-](?:access[ _\-])?key)?|token(?!s)"
    r"|(?:api|access|private|signing|encryption|auth|deploy|master|service)[ _\-]key"
)
_SIGN_IN_PROSE = rf"[ \t]{{0,2}}[:=][ \t]{{0,4}}|{_SENTENCE}"
_KEY_VALUE = r"[\"'`]?([A-Za-z0-9+/_\-]{20,300}+={0,2})(?=[.,;:!?]?(?:[\s\"'`)\]}<>]|\Z))"
_AFTER_SIGN = re.compile(rf"(?:{_SIGN_IN_PROSE}){_KEY_VALUE}")
_AFTER_SPACE = re.compile(rf"[ \t]{_KEY_VALUE}")
_BOTH_CASES = re.compile(r"(?=.*[a-z]).*[A-Z]")


def _keys_in_prose(text: str, lowered: str) -> Iterator[Place]:
    for name in _KEY_IN_PROSE.finditer(lowered):
        match = _AFTER_SIGN.match(text, name.end())
        if not match and (spaced := _AFTER_SPACE.match(text, name.end())) and _BOTH_CASES.match(spaced[1]):
            match = spaced  # a name or a hash may follow directly
        if match and MARK not in match[0] and is_random(match[1]) and is_drawn(match[1]):
            yield *match.span(1), "assigned_secret"


def _passwords(text: str, lowered: str) -> Iterator[Place]:
    for names in _PASSWORD_NAMES:
        for name in names.finditer(lowered):
            match = _CHOSEN.match(text, name.end())
            if not (match and is_chosen(match[1])):
                match = _stated(text, *name.span())
            if match and not _STOCK_PASSWORD.fullmatch(match[1]):
                yield *match.span(1), "assigned_secret"


def _stated(text: str, start: int, end: int) -> re.Match[str] | None:
    match = _STATED.match(text, end)
    if not match and (match := _NAMED.match(text, end)) and not _WITH.search(text[max(0, start - _LEAD_CHARS) : start]):
        return None
    return match if match and is_stated(match[1]) else None


def _assignments(text: str, lowered: str) -> Iterator[Place]:
    for names in _NAMES:
        for name in names.finditer(lowered):
            match = _assigned(text, *name.span(name.lastindex or 0))
            if match and MARK not in match[0] and not _DESCRIPTION.fullmatch(match[1]) and is_random(match[2]):
                yield *match.span(2), "assigned_secret"


def _assigned(text: str, start: int, end: int) -> re.Match[str] | None:
    if match := _QUOTED.match(text, end):
        return match
    if (match := _BARE.match(text, end)) and _leads(text, start):
        return match
    lead = text[max(0, start - _LEAD_CHARS) : start]
    if (match := _INLINE.match(text, end)) and _INLINE_LEAD.search(lead):
        return match
    return match if (match := _OPTION.match(text, end)) and _OPTION_LEAD.search(lead) else None


def _leads(text: str, start: int) -> bool:
    line_start = text.rfind("\n", max(0, start - 100), start) + 1
    return bool(_BARE_LEAD.fullmatch(text, line_start, start))


def _places(text: str, word: str) -> Iterator[int]:
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + len(word))


_KEY_BEGIN = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----")
_KEY_END = re.compile(r"-----END (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----")
# Base64 with armor headers, and the characters around its lines in a string literal.
_KEY_BODY = re.compile(r"[A-Za-z0-9+/=\s\\,:.\"'\-]{16,}+")
_KEY_LINE = re.compile(r"[\s\"'+]*+[A-Za-z0-9+/=\\]{24,}+[\s\"',;+\\]*+")
_KEY_MOST = 12_000
_PUTTY = re.compile(r"Private-Lines: \d{1,3}\r?\n((?:[A-Za-z0-9+/=]{4,80}\r?(?:\n|\Z)){1,200})")
# `-----BEGIN`, then `PRIVATE KEY` or the names of algorithms before it, in base64 as Kubernetes stores them.
_KEY_CODED = re.compile(
    r"LS0tLS1CRUdJTi(?:BSU0EgUFJJ|BQUklWQVRF|BFQyBQUklW|BPUEVOU1NI|BFTkNSWVBU|BEU0EgUFJJ)[A-Za-z0-9+/]{40,}+=*+"
)


def _private_keys(text: str) -> Iterator[Place]:
    for begin in _KEY_BEGIN.finditer(text):
        end = _KEY_END.search(text, begin.end(), begin.end() + _KEY_MOST)
        if end and _KEY_BODY.fullmatch(text, begin.end(), end.start()):
            yield begin.start(), end.end(), "private_key"
        elif (stop := _cut_key_end(text, begin.end())) > begin.end():
            yield begin.start(), stop, "private_key"
    for match in _KEY_CODED.finditer(text):
        yield *match.span(), "private_key"
    for match in _PUTTY.finditer(text) if "PuTTY-User-Key-File-" in text else ():
        yield *match.span(1), "private_key"


def _cut_key_end(text: str, start: int) -> int:
    """Return the end of the base64 lines below a `BEGIN` without its `END`; `start` if there are none."""
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
