"""Commands for the access keys of a server."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option, Typer

from treering.core.errors import InvalidInput, NotFound, nearest
from treering.registry import brought
from treering.surfaces.cli.flags import Access, AsJson, add_group
from treering.surfaces.cli.printing import IndentedLine, line
from treering.surfaces.cli.session import answer
from treering.system.machine import SystemClock
from treering.system.settings import Settings

if TYPE_CHECKING:
    from treering.ports.stores import AccessKey, AccessKeys, KeyLimits
    from treering.system.address import Address

Space = Annotated[str, Option("--space", metavar="ADDRESS", help="The space it opens; as in every command.")]


def add_keys(app: Typer) -> None:
    """Add the commands to the command line."""
    add_group(app, "key", "Create, list and revoke the keys of a server.", create, list_, revoke)


@dataclass(frozen=True, slots=True)
class KeyFlags:
    """The rights and limits of a new key."""

    right: Annotated[
        str, Option("--right", metavar="RIGHT", help="read, write, review or admin; each includes the ones before it.")
    ] = "read"
    space: Space = ""
    project: Annotated[
        str, Option("--project", metavar="ID", help="Open the memory of this project instead of a space.")
    ] = ""
    projects: Annotated[
        str, Option("--projects", metavar="PLACE", help="Location of the server's projects; as in `treering serve`.")
    ] = ""
    scope: Annotated[str, Option("--scope", metavar="PATH", help="Only this scope and the scopes below it.")] = "/"
    read_up_to: Annotated[
        str, Option("--read-up-to", metavar="PATH", help="Also read the scopes above --scope, up to this one.")
    ] = ""
    expires: Annotated[
        str, Option("--expires", metavar="WHEN", help="12h, 90d, 4w, 1y, or a date. Default: never.")
    ] = ""
    person: Annotated[bool, Option("--person", help="Write as a person, not as an agent (see the policy file).")] = (
        False
    )
    requests_per_minute: Annotated[
        int | None,
        Option("--requests-per-minute", metavar="N", min=1, help="Requests per minute. Default: the server's limit."),
    ] = None
    at_once: Annotated[
        int | None,
        Option("--at-once", metavar="N", min=1, help="Concurrent requests. Default: the server's limit."),
    ] = None
    max_body_bytes: Annotated[
        int | None,
        Option("--max-body", metavar="BYTES", min=1, help="Largest request. Default: the server's limit."),
    ] = None


@dataclass(frozen=True, slots=True)
class KeyStoreFlags:
    """The location of the keys, and the form of the answer."""

    keys: Annotated[
        str,
        Option(
            "--keys",
            metavar="PLACE",
            help="A file, or postgresql://…. Default: TREERING_KEYS, else the database of the space, else keys.db in "
            "the data folder.",
        ),
    ] = ""
    as_json: AsJson = False


def create(
    name: Annotated[str, Argument(metavar="NAME", help="The author of its writes, such as ci or ada@laptop.")],
    options: KeyFlags,
    store: KeyStoreFlags,
) -> None:
    """Create a key and print it once.

    Only its hash is stored, so the key cannot be shown again. Give it to one
    program or person, who sends it as `Authorization: Bearer trk_…`.
    """
    from treering.core.scope import ROOT
    from treering.extensions.server.keys import expiry, make_key, space_name
    from treering.ports.stores import KeyLimits

    if options.right in {"review", "admin"} and options.scope != ROOT:
        raise InvalidInput(
            f"A key with the right {options.right} is for the whole space, not for {options.scope}.",
            hint="Omit --scope, or use --right write.",
        )
    settings, clock = Settings.read(), SystemClock()
    space = _space_of(options, settings)
    place = _place_of(options.space, store, settings)
    shown, key = make_key(
        name,
        space=space_name(space, place),
        clock=clock,
        scope=options.scope,
        read_up_to=options.read_up_to,
        right=options.right,
        channel="user" if options.person else "agent",
        expires=expiry(options.expires, now=clock.now()) if options.expires else None,
        limits=KeyLimits(options.requests_per_minute, options.at_once, options.max_body_bytes),
    )
    with _open_keys(options.space, store, create=True) as keys:
        keys.add(key)
    lines = [
        line(shown),
        line("Store it now: it is shown only once. Programs send it as 'Authorization: Bearer trk_…'."),
        *_key_lines(key, clock.now()),
    ]
    if options.project and space.is_file and not place.is_file:
        lines.append(line("This project is a file. For a project in a database, give the --projects of the server."))
    answer(Access(as_json=store.as_json), {"key": shown, **_facts(key)}, lines)


def list_(store: KeyStoreFlags, space: Space = "") -> None:
    """List keys with their rights, expiry and last use; with --space, only the keys of that space."""
    from treering.extensions.server.keys import opens

    now, settings = SystemClock().now(), Settings.read()
    only, place = settings.space_address(space or None), _place_of(space, store, settings)
    with _open_keys(space, store, create=False) as keys:
        stored = [key for key in keys.all() if not space or opens(key.space, only, place)]
    lines = [one for key in stored for one in _key_lines(key, now)] or [line("There are no keys yet.")]
    answer(Access(as_json=store.as_json), {"keys": [_facts(key) for key in stored]}, lines)


def revoke(
    key: Annotated[str, Argument(metavar="KEY", help="The key's name or id.")], store: KeyStoreFlags, space: Space = ""
) -> None:
    """Revoke a key on all servers at once."""
    now = SystemClock().now()
    with _open_keys(space, store, create=False) as keys:
        stored = _find(key, keys)
        keys.revoke(stored.id, at=now)
    revoked = replace(stored, revoked=stored.revoked or now)
    message = (
        f"{stored.name} ({stored.id}) was already revoked on {_day(stored.revoked)}."
        if stored.revoked
        else f"Revoked {stored.name} ({stored.id}): it no longer works."
    )
    answer(Access(as_json=store.as_json), _facts(revoked), [line(message)])


def _open_keys(space: str, store: KeyStoreFlags, *, create: bool) -> "closing[AccessKeys]":
    from treering.spaces.wiring import open_access_keys

    return closing(open_access_keys(_place_of(space, store, Settings.read()), create=create))


def _place_of(space: str, store: KeyStoreFlags, settings: Settings) -> "Address":
    return settings.keys_address(store.keys or None, space=settings.space_address(space or None))


def _space_of(options: KeyFlags, settings: Settings) -> "Address":
    """Return the space that a key opens. Raises `InvalidInput` if both a project and a space or scope are given."""
    from treering.core.scope import ROOT

    if not options.project:
        return settings.space_address(options.space or None)
    if options.space or options.scope != ROOT:
        raise InvalidInput(
            "A key of a project opens that whole project and nothing else.",
            hint="Omit --space and --scope, or create a separate key for the space.",
        )
    for spaces_at in brought("spaces"):
        address: Address = spaces_at(options.projects, settings).address(options.project)
        return address
    raise InvalidInput("Projects are not available in this installation.", hint="Omit --project.")


def _find(name: str, keys: "AccessKeys") -> "AccessKey":
    matches = [key for key in keys.all() if name in (key.id, key.name)]
    if not matches:
        names = [key.name for key in keys.all() if key.revoked is None]
        raise NotFound(f"There is no key {name!r}.", hint=nearest(name, names) if names else "There are no keys.")
    # A name may be used again once its key is revoked.
    return next((key for key in matches if key.revoked is None), matches[-1])


def _key_lines(key: "AccessKey", now: datetime) -> Iterator[IndentedLine]:
    from treering.core.scope import ROOT
    from treering.extensions.server.keys import is_live

    state = "revoked" if key.revoked else "" if is_live(key, now=now) else "expired"
    yield line(f"{key.name} ({key.id}){': ' if state else ''}{state}")
    above = f", reads up to {key.read_up_to}" if key.read_up_to else ""
    where = key.space if key.scope == ROOT else f"{key.space}, scope {key.scope}{above}"
    yield line(f"{key.right} on {where}, as {'a person' if key.channel == 'user' else 'an agent'}", indent=2)
    yield line(f"expires {_day(key.expires)}, last used {_day(key.used)}", indent=2)
    if limits := ", ".join(_limits(key.limits)):
        yield line(f"at most {limits}", indent=2)


def _limits(limits: "KeyLimits") -> Iterator[str]:
    if limits.requests_per_minute is not None:
        yield f"{limits.requests_per_minute:,} requests a minute"
    if limits.at_once is not None:
        yield f"{limits.at_once:,} at once"
    if limits.max_body_bytes is not None:
        yield f"{limits.max_body_bytes:,} bytes each"


def _day(time: datetime | None) -> str:
    return f"{time:%Y-%m-%d %H:%M}" if time else "never"


def _facts(key: "AccessKey") -> dict[str, Any]:
    times = {"created": key.created, "expires": key.expires, "revoked": key.revoked, "used": key.used}
    return {
        "id": key.id,
        "name": key.name,
        "right": key.right,
        "space": key.space,
        "scope": key.scope,
        "read_up_to": key.read_up_to,
        "channel": key.channel,
        "limits": asdict(key.limits),
        **{name: time.isoformat() if time else None for name, time in times.items()},
    }
