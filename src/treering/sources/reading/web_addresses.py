"""Addresses of pages: which are fetched, and how one is written so that it is always the same."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import SplitResult, quote, unquote, unquote_plus, urljoin, urlsplit

from treering.core.errors import InvalidInput
from treering.core.secrets.redaction import redact
from treering.core.secrets.shapes import is_placeholder

_PORTS = {"http": 80, "https": 443}
_LONGEST = 2_000
_HOST = re.compile(r"[a-z0-9_-][a-z0-9._-]{0,252}|[0-9a-f:.]{2,45}")
_SAFE = "%/:=&?~#+!$,;'@()*[]"


class FetchRefused(Exception):
    """Nothing is read from an address. Its text says why, for a person; `status` is what a server answered, else 0."""

    def __init__(self, why: str, *, status: int = 0) -> None:
        super().__init__(why)
        self.status = status


@dataclass(frozen=True, slots=True)
class WebAddress:
    """An address of http or https, without a fragment. `text` is how it is written."""

    scheme: str
    host: str
    port: int
    path: str
    """With the query."""

    @property
    def secure(self) -> bool:
        """Tell whether it is of https."""
        return self.scheme == "https"

    @property
    def root(self) -> str:
        """Return the address of its server."""
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}{port}"

    @property
    def text(self) -> str:
        """Return the address as it is written."""
        return self.root + self.path


def parse_address(text: str) -> WebAddress:
    """Read an address. Raises `InvalidInput` for one that is not fetched."""
    try:
        return address_of(text)
    except FetchRefused as error:
        raise InvalidInput(
            f"Cannot fetch the address: {error}.", hint="Give an address such as https://example.org/page."
        ) from None


def joined(base: WebAddress, place: str) -> WebAddress:
    """Return the address that a page at `base` names. Raises `FetchRefused`."""
    if not place:
        raise FetchRefused("it leads to another address and does not say which")
    try:
        return address_of(urljoin(base.text, place))
    except ValueError:
        raise FetchRefused("it leads to an address that cannot be read") from None


def address_of(text: str) -> WebAddress:
    """Read an address. Raises `FetchRefused` for one that is not fetched."""
    text = text.strip()
    if len(text) > _LONGEST or any(char.isspace() or not char.isprintable() for char in text):
        raise FetchRefused(f"it has more than {_LONGEST:,} characters, or characters that no address has")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise FetchRefused(f"it is not a valid address ({error})") from None
    if parts.scheme.lower() not in _PORTS or not parts.hostname:
        raise FetchRefused("only http and https with a host are fetched")
    if parts.username is not None or parts.password is not None:
        raise FetchRefused("it contains a user name or a password, which would be stored with the page")
    if redact(text).findings:
        raise FetchRefused("it contains a secret, which would be stored with the page")
    if secret := next(_secret_parameters(text), ""):
        raise FetchRefused(f"its part {secret!r} contains a key or a signature, which would be stored with the page")
    return WebAddress(parts.scheme.lower(), _host(parts), port or _PORTS[parts.scheme.lower()], _path(parts))


_PARAMETER = re.compile(r"(?<=[?&;#])([^=?&;#/]{1,80})=([^?&;#]+)")
_SECRET_NAME = re.compile(
    r".*(?:apikey|accesskey|secretkey|privatekey|sharedkey|subscriptionkey|authkey|signingkey|functionskey|secret"
    r"|accesstoken|authtoken|idtoken|refreshtoken|securitytoken|sastoken|bearertoken|apitoken|privatetoken|jobtoken"
    r"|password|passwd|passphrase|pwd|credentials?|signature|authorization|jwt|sessionid|sessid|sessiontoken)"
    r"|(?:x(?:amz|goog))?(?:sig|hmac)"
)
"""What a parameter is called, in small letters and digits, whose value is never for others."""
_LIKELY_NAME = re.compile(r"(?:.*token|key|auth|code|sid|session|hash|sign|ticket|otp|k|s|t)")
_NEXT_PAGE = re.compile(r".*(?:page|next|continuation|cursor|sync).*token")
_DRAWN = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9_~+/=.%-]{16,}")
_UNPACKINGS = 3
"""An address in a parameter of another one is quoted again."""


def _secret_parameters(text: str) -> Iterator[str]:
    """Return the names of the parameters that hold a secret, by what they are called: keys, signatures, tokens."""
    for _ in range(_UNPACKINGS):
        for name, value in _PARAMETER.findall(text):
            called = "".join(filter(str.isalnum, unquote_plus(name).lower()))
            if _is_secret(called, unquote(value)):
                yield unquote_plus(name)
        text = unquote(text)


def _is_secret(called: str, value: str) -> bool:
    if is_placeholder(value) and not _DRAWN.fullmatch(value):
        return False
    if _SECRET_NAME.fullmatch(called):
        return True
    likely = _LIKELY_NAME.fullmatch(called) and not _NEXT_PAGE.fullmatch(called)
    return bool(likely) and _DRAWN.fullmatch(value) is not None


def _host(parts: SplitResult) -> str:
    host = (parts.hostname or "").rstrip(".")
    try:
        name = host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        name = ""
    if not _HOST.fullmatch(name):
        raise FetchRefused("its host is not a name")
    return name


def _path(parts: SplitResult) -> str:
    path = quote(parts.path or "/", safe=_SAFE)
    return path + (f"?{quote(parts.query, safe=_SAFE)}" if parts.query else "")
