"""Access keys: create one, parse the key of a client, and look up its rights.

A key is `trk_ID_SECRET`: a 64-bit id and 256 random bits, of which only the SHA-256 is stored. A slow hash (scrypt,
Argon2) protects passwords that people choose. It adds nothing to 256 random bits, and would let anyone keep the server
busy with invalid keys.
"""

import hashlib
import hmac
import re
from base64 import b32encode
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from urllib.parse import urlencode

from treering.core.errors import InvalidInput, nearest
from treering.core.objects import Channel
from treering.core.scope import ROOT, is_within, lineage, parse_scope
from treering.ports.runtime import Clock
from treering.ports.stores import AccessKey, AccessKeys, KeyLimits, KeyRight
from treering.system.address import SPACE, Address
from treering.verbs.envelope import DECIDES, READS, WRITES, Rights

GRANTED: Mapping[KeyRight, Rights] = {
    "read": READS,
    "write": WRITES,
    "review": DECIDES,
    "admin": replace(DECIDES, destroys=True),
}
"""The rights of a caller by the right of its key."""

KEY_PREFIX = "trk_"
_KEY = re.compile(rf"{KEY_PREFIX}([0-9a-f]{{16}})_([a-z2-7]{{52}})")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._@+-]{0,63}")
_LASTING = re.compile(r"([1-9][0-9]{0,4})([hdwy])")
_TIMES = "Use a number of hours, days, weeks or years, such as 12h, 90d, 4w or 1y, or a date such as 2027-01-31."
_HOURS = {"h": 1, "d": 24, "w": 7 * 24, "y": 365 * 24}
_USE_IS_KEPT_EVERY = timedelta(minutes=1)
_AT = " at "


def space_name(address: Address, keys: Address) -> str:
    """Write which space a key at `keys` opens, the same for every user and every way to connect.

    A space in the database of its keys is identified by its name there: the host may change, and a copy of the database
    contains the same keys.
    """
    if address.file is not None:
        return f"{address.scheme}:{address.file.resolve()}"
    if address.in_memory:
        return str(address)
    if _database(address) == _database(keys):
        return _named(address)
    # In another database, whose address a name alone does not identify. Earlier versions wrote the whole address.
    return _whole(address) if keys.is_file else f"{_named(address)}{_AT}{address.scheme}://{address.place}"


def opens(stored: str, address: Address, keys: Address) -> bool:
    """Return whether a key at `keys` that stores a space (`AccessKey.space`) opens the space at an address."""
    if stored == space_name(address, keys):
        return True
    if _database(address) == _database(keys):
        return _AT not in stored and may_open(stored, address, keys)
    return not address.is_file and stored == _whole(address)


def may_open(stored: str, address: Address, keys: Address) -> bool:
    """Return whether a key may be for the space at an address, which can be written in several ways."""
    if address.is_file:
        return stored == space_name(address, keys)
    of_server = stored.startswith((f"{SPACE}=", f"{address.scheme}://"))
    return of_server and stored.rpartition("?")[2].partition(_AT)[0] == _named(address)


def _database(address: Address) -> tuple[str, str, str | None]:
    return (address.scheme, address.place, dict(address.options).get("host"))


def _named(address: Address) -> str:
    return urlencode([option for option in address.options if option[0] == SPACE])


def _whole(address: Address) -> str:
    options = tuple(option for option in address.options if option[0] == SPACE)
    return str(replace(address, user="", password="", options=options))


def make_key(
    name: str,
    *,
    space: str,
    clock: Clock,
    scope: str = ROOT,
    right: str = "read",
    channel: Channel = "agent",
    expires: datetime | None = None,
    limits: KeyLimits | None = None,
    read_up_to: str = "",
) -> tuple[str, AccessKey]:
    """Create a key; return its text, which is not stored, and the record to store.

    Raises `InvalidInput` for an invalid name, right or scope, a `read_up_to` that is not above the scope, and a time
    that is over.
    """
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"{name[:100]!r} is not a valid key name.",
            hint="Use 1 to 64 letters (A-Z), digits, spaces, '.', '_', '@', '+' or '-', and start with a letter "
            "or digit.",
        )
    now = clock.now()
    if expires is not None and expires <= now:
        raise InvalidInput(f"The key would already have expired on {expires:%Y-%m-%d %H:%M} UTC.", hint=_TIMES)
    key_id = clock.random_bytes(8).hex()
    secret = b32encode(clock.random_bytes(32)).decode().rstrip("=").lower()
    record = AccessKey(
        id=key_id,
        name=name,
        digest=_digest(secret),
        space=space,
        scope=parse_scope(scope),
        read_up_to=_above(scope, read_up_to) if read_up_to else "",
        right=_right(right),
        channel=channel,
        created=now,
        expires=expires,
        limits=limits or KeyLimits(),
    )
    return f"{KEY_PREFIX}{key_id}_{secret}", record


def _above(scope: str, top: str) -> str:
    if not is_within(parse_scope(scope), parse_scope(top)):
        raise InvalidInput(
            f"The scope {top} is not above {scope}.",
            hint=f"Use one of {', '.join(lineage(parse_scope(scope)))}.",
        )
    return parse_scope(top)


def expiry(text: str, *, now: datetime) -> datetime:
    """Read how long a key lasts: `12h`, `90d`, `4w`, `1y`, or a day or time in ISO form.

    Raises `InvalidInput` for anything else.
    """
    lasting = _LASTING.fullmatch(text)
    try:
        if lasting:
            return now + timedelta(hours=int(lasting[1]) * _HOURS[lasting[2]])
        at = datetime.fromisoformat(text)
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"--expires {text[:100]!r} is not a valid time.", hint=_TIMES) from error
    return at if at.tzinfo else at.replace(tzinfo=now.tzinfo)


def is_key(text: str) -> bool:
    """Return whether a text has the form of a key. The key need not exist."""
    return _KEY.fullmatch(text) is not None


def is_live(key: AccessKey, *, now: datetime) -> bool:
    """Return whether a key is neither revoked nor expired."""
    return key.revoked is None and (key.expires is None or now < key.expires)


def holder_of(text: str, keys: AccessKeys, *, clock: Clock) -> AccessKey | None:
    """Return the key that a client sent, recording its use; `None` if it opens nothing, for any reason.

    Refusing a wrong secret takes as long as accepting a right one.
    """
    parts = _KEY.fullmatch(text)
    if parts is None:
        return None
    key = keys.find(parts[1])
    # Also compared if there is no such key, so that the time does not reveal whether it exists.
    is_right = hmac.compare_digest(key.digest if key else b"\0" * 32, _digest(parts[2]))
    now = clock.now()
    if key is None or not is_right or not is_live(key, now=now):
        return None
    if key.used is None or now - key.used >= _USE_IS_KEPT_EVERY:
        keys.note_use(key.id, at=now)
    return key


def rights_of(key: AccessKey, *, files: bool, urls: bool = False) -> Rights:
    """Return the rights of a key's holder.

    `files` and `urls`: whether the server lets writers ingest files and web pages.
    """
    rights = GRANTED[key.right]
    return replace(rights, reads_files=files and rights.writes, fetches=urls and rights.writes)


def _right(text: str) -> KeyRight:
    for known in GRANTED:
        if text == known:
            return known
    raise InvalidInput(f"Unknown right {text[:100]!r}.", hint=nearest(text, GRANTED))


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
