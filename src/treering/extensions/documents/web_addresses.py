"""Web addresses: which of them are fetched, and their normal form."""

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
    """An address is not fetched. Its text is the reason, for display; `status` is the server's response, else 0."""

    def __init__(self, why: str, *, status: int = 0) -> None:
        super().__init__(why)
        self.status = status


@dataclass(frozen=True, slots=True)
class WebAddress:
    """An address of http or https, without a fragment. `text` is its normal form."""

    scheme: str
    host: str
    port: int
    path: str
    """The path, with the query."""

    @property
    def secure(self) -> bool:
        """Whether it uses https."""
        return self.scheme == "https"

    @property
    def root(self) -> str:
        """The address of its server."""
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}{port}"

    @property
    def text(self) -> str:
        """The normal form of the address."""
        return self.root + self.path


def parse_address(text: str) -> WebAddress:
    """Parse an address. Raises `InvalidInput` for one that is not fetched."""
    try:
        return address_of(text)
    except FetchRefused as error:
        raise InvalidInput(
            f"Cannot fetch the address: {error}.", hint="Give an address such as https://example.org/page."
        ) from None


def joined(base: WebAddress, place: str) -> WebAddress:
    """Resolve a link on the page at `base`. Raises `FetchRefused`."""
    if not place:
        raise FetchRefused("it leads to another address and does not say which")
    try:
        return address_of(urljoin(base.text, place))
    except ValueError:
        raise FetchRefused("it leads to an address that cannot be read") from None


def address_of(text: str) -> WebAddress:
    """Parse an address. Raises `FetchRefused` for one that is not fetched."""
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
"""Names, in lower-case letters and digits, of parameters whose value is always secret."""
_LIKELY_NAME = re.compile(r"(?:.*token|key|auth|code|sid|session|hash|sign|ticket|otp|k|s|t)")
_NEXT_PAGE = re.compile(r".*(?:page|next|continuation|cursor|sync).*token")
_DRAWN = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9_~+/=.%-]{16,}")
_UNPACKINGS = 3
"""An address in a parameter of another one is percent-encoded again."""


def _secret_parameters(text: str) -> Iterator[str]:
    """Yield the names of parameters that contain a secret, by their names: keys, signatures, tokens."""
    for _ in range(_UNPACKINGS):
        for name, value in _PARAMETER.findall(text):
            plain_name = "".join(filter(str.isalnum, unquote_plus(name).lower()))
            if _is_secret(plain_name, unquote(value)):
                yield unquote_plus(name)
        text = unquote(text)


def _is_secret(plain_name: str, value: str) -> bool:
    if is_placeholder(value) and not _DRAWN.fullmatch(value):
        return False
    if _SECRET_NAME.fullmatch(plain_name):
        return True
    likely = _LIKELY_NAME.fullmatch(plain_name) and not _NEXT_PAGE.fullmatch(plain_name)
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
