"""What the commands about access keys do."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

import typer

from treering.core.errors import InvalidInput, NotFound, nearest
from treering.core.scope import ROOT
from treering.ports.stores import AccessKey, AccessKeys, KeyLimits
from treering.registry import brought
from treering.spaces.wiring import open_access_keys
from treering.surfaces.cli.flags import Access, WriteFlags
from treering.surfaces.cli.rendering.changes import (
    render_diff,
    render_erasure,
    render_proposals,
    render_receipt,
    render_work_proposals,
)
from treering.surfaces.cli.rendering.lines import IndentedLine, line
from treering.surfaces.cli.session import answer, confirm_destroying, embed_later, is_piped, opened, watched
from treering.system.access_keys import expiry, is_live, make_key, space_name
from treering.system.machine import SystemClock
from treering.system.settings import Settings
from treering.verbs.crystallize.proposing import PROPOSE
from treering.verbs.lint.erasure import ERASE
from treering.verbs.lint.upkeep import DROP, REBUILD, STATUS, USE, EngineStatus


@dataclass(frozen=True, slots=True)
class WantedKey:
    """What a new key is to open."""

    name: str
    right: str
    space: str
    project: str
    projects: str
    scope: str
    expires: str
    person: bool
    limits: KeyLimits


def create(wanted: WantedKey, place: str, *, as_json: bool) -> None:
    """Make a key and print it."""
    settings, clock = Settings.read(), SystemClock()
    shown, key = make_key(
        wanted.name,
        space=_space_of(wanted, settings),
        clock=clock,
        scope=wanted.scope,
        right=wanted.right,
        channel="user" if wanted.person else "agent",
        expires=expiry(wanted.expires, now=clock.now()) if wanted.expires else None,
        limits=wanted.limits,
    )
    with _opened(wanted.space, place, create=True) as keys:
        keys.add(key)
    lines = [
        line(shown),
        line("Keep it now: it is shown once. Programs send it as 'Authorization: Bearer trk_…'."),
        *_of_key(key, clock.now()),
    ]
    answer(Access(as_json=as_json), {"key": shown, **_facts(key)}, lines)


def list_keys(space: str, place: str, *, as_json: bool) -> None:
    """List keys, the oldest first."""
    now = SystemClock().now()
    with _opened(space, place, create=False) as keys:
        found = keys.all()
    lines = [one for key in found for one in _of_key(key, now)] or [line("There is no key yet.")]
    answer(Access(as_json=as_json), {"keys": [_facts(key) for key in found]}, lines)


def revoke(named: str, space: str, place: str, *, as_json: bool) -> None:
    """Revoke a key. Raises `NotFound` where no key has the name or id."""
    now = SystemClock().now()
    with _opened(space, place, create=False) as keys:
        key = _find(named, keys)
        keys.revoke(key.id, at=now)
    told = replace(key, revoked=key.revoked or now)
    answer(Access(as_json=as_json), _facts(told), [line(f"Revoked {key.name} ({key.id}): it opens nothing any more.")])


@contextmanager
def _opened(space: str, place: str, *, create: bool) -> Iterator[AccessKeys]:
    settings = Settings.read()
    address = settings.keys_address(place or None, space=settings.space_address(space or None))
    keys = open_access_keys(address, create=create)
    try:
        yield keys
    finally:
        keys.close()


def _space_of(wanted: WantedKey, settings: Settings) -> str:
    """Return the name of the space that a key opens. Raises `InvalidInput` for a project with a space or a scope."""
    if not wanted.project:
        return space_name(settings.space_address(wanted.space or None))
    if wanted.space or wanted.scope != ROOT:
        raise InvalidInput(
            "A key of a project opens all of that project, and nothing else.",
            hint="Leave --space and --scope out, or make another key for the space.",
        )
    for spaces_at in brought("spaces"):
        return space_name(spaces_at(wanted.projects, settings).address(wanted.project))
    raise InvalidInput("No part here keeps projects.", hint="Leave --project out.")


def _find(named: str, keys: AccessKeys) -> AccessKey:
    found = [key for key in keys.all() if named in (key.id, key.name)]
    if not found:
        names = [key.name for key in keys.all() if key.revoked is None]
        raise NotFound(f"There is no key {named!r}.", hint=nearest(named, names) if names else "There are no keys.")
    # A name may be used again once its key is revoked.
    return next((key for key in found if key.revoked is None), found[-1])


def _of_key(key: AccessKey, now: datetime) -> Iterator[IndentedLine]:
    state = "revoked" if key.revoked else "" if is_live(key, now=now) else "expired"
    yield line(f"{key.name} ({key.id}){': ' if state else ''}{state}")
    where = key.space if key.scope == ROOT else f"{key.space}, scope {key.scope}"
    yield line(f"{key.right} on {where}, as {'a person' if key.channel == 'user' else 'an agent'}", indent=2)
    yield line(f"expires {_day(key.expires)}, last used {_day(key.used)}", indent=2)
    if said := ", ".join(_limits(key.limits)):
        yield line(f"at most {said}", indent=2)


def _limits(limits: KeyLimits) -> Iterator[str]:
    if limits.requests_per_minute is not None:
        yield f"{limits.requests_per_minute:,} requests a minute"
    if limits.at_once is not None:
        yield f"{limits.at_once:,} at once"
    if limits.max_body_bytes is not None:
        yield f"{limits.max_body_bytes:,} bytes each"


def _day(time: datetime | None) -> str:
    return f"{time:%Y-%m-%d %H:%M}" if time else "never"


def _facts(key: AccessKey) -> dict[str, Any]:
    times = {"created": key.created, "expires": key.expires, "revoked": key.revoked, "used": key.used}
    return {
        "id": key.id,
        "name": key.name,
        "right": key.right,
        "space": key.space,
        "scope": key.scope,
        "channel": key.channel,
        "limits": asdict(key.limits),
        **{name: time.isoformat() if time else None for name, time in times.items()},
    }


# What `treering index` does.


_SAID = {
    "loading": "It takes the vectors over: {vectors} of {total}. Until it knows all, the space's own answer.",
    "following": "It keeps {vectors} of {total} vectors; {waiting} changes wait and are searched besides.",
    "ready": "It keeps all {vectors} vectors.",
    "failing": "It cannot be used, and the space's own vectors answer: {problem}",
}


def use(address: str, access: Access, *, later: bool) -> None:
    """Use an engine."""
    with opened(access) as space, watched(space) as busy:
        told = busy.perform(USE, input={"address": address}, options={"wait": not later})
    answer(access, told, _lines(told))


def status(access: Access) -> None:
    """Tell how the engine is."""
    with opened(access) as space:
        told = space.perform(STATUS)
    answer(access, told, _lines(told))


def rebuild(access: Access, *, later: bool) -> None:
    """Fill the engine anew."""
    with opened(access) as space, watched(space) as busy:
        told = busy.perform(REBUILD, options={"wait": not later})
    answer(access, told, _lines(told))


def drop(access: Access) -> None:
    """Use no engine."""
    with opened(access) as space:
        told = space.perform(DROP)
    lines = [line("This space used no engine.")]
    if told.state != "none":
        lines = [line(f"{told.address} is no longer used; the space searches its own vectors.")]
    if told.problem:
        lines += [line(f"What it keeps could not be removed: {told.problem}"), line(told.hint, indent=2)]
    answer(access, told, lines)


def _lines(told: EngineStatus) -> list[IndentedLine]:
    if told.state == "none":
        return [line("This space searches its own vectors; it uses no engine.")]
    said = _SAID[told.state].format(**told.model_dump())
    lines = [line(f"{told.address} ({told.kind or 'not reached'})"), line(said, indent=2)]
    return [*lines, line(told.hint, indent=2)] if told.hint else lines


# What the commands by which a person decides do.


def show_waiting(access: Access) -> None:
    """List the patches that wait."""
    with opened(access) as space:
        found = space.proposals()
    answer(access, found, render_proposals(found))


def show(patch: str, access: Access) -> None:
    """Show a patch as a diff."""
    with opened(access) as space:
        diff = space.proposal_diff(patch)
    answer(access, diff, [line((patch, "bold")), *render_diff(diff, fenced=is_piped())])


def apply(patches: Sequence[str], access: Access, writing: WriteFlags) -> None:
    """Apply patches, each by itself: those before one that fails stay applied."""
    with opened(access, writing) as space:
        for patch in patches:
            receipt = space.approve(patch)
            answer(access, receipt, render_receipt("Applied", receipt))
        embed_later(space, writing)


def propose(scope: str, options: Mapping[str, Any], access: Access, writing: WriteFlags) -> None:
    """Propose the work that sources ask for."""
    with opened(access, writing) as space:
        found = space.perform(PROPOSE, scope=scope, options=options)
    answer(access, found, render_work_proposals(found, dry_run=bool(options["dry_run"])))


def reject(patch: str, reason: str, access: Access, writing: WriteFlags) -> None:
    """Turn a patch down."""
    with opened(access, writing) as space:
        record = space.reject(patch, reason)
    answer(access, record, [line(f"Rejected {record.id}.")])


def revert(patch: str, reason: str, access: Access, writing: WriteFlags) -> None:
    """Take a patch back."""
    with opened(access, writing) as space:
        receipt = space.revert(patch, reason)
        answer(access, receipt, render_receipt(f"Reverted {patch} by", receipt))
        embed_later(space, writing)


def erase(ids: Sequence[str], reason: str, access: Access, writing: WriteFlags, *, sure: bool) -> None:
    """Erase objects, after asking. Exits with 1 where a probe still finds something."""
    confirm_destroying(ERASE, ids[0] if len(ids) == 1 else f"{len(ids)} objects", sure=sure)
    with opened(access, writing) as space:
        receipt = space.erase(ids, reason)
    answer(access, receipt, render_erasure(receipt))
    if not receipt.clean:
        raise typer.Exit(1)
