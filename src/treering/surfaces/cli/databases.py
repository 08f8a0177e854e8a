"""What the commands about access keys, engines of vectors, and work for the spaces of a database do."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from treering.core.errors import InvalidInput, NotFound, TreeringError, nearest
from treering.core.scope import ROOT
from treering.ports.models import Embedder
from treering.ports.stores import AccessKey, AccessKeys, KeyLimits
from treering.registry import brought
from treering.spaces.wiring import Opening, author, open_access_keys, open_embedder, open_engine, spaces_with_work
from treering.surfaces.cli.commands.databases import KeptKeys, KeyFlags
from treering.surfaces.cli.flags import Access
from treering.surfaces.cli.printing import IndentedLine, line
from treering.surfaces.cli.session import answer, opened, watched
from treering.system.access_keys import expiry, is_live, make_key, space_name
from treering.system.address import SPACE, Address
from treering.system.machine import SystemClock
from treering.system.settings import Settings
from treering.verbs.lint.upkeep import DROP, REBUILD, STATUS, USE, EngineStatus


def create_key(name: str, wanted: KeyFlags, kept: KeptKeys) -> None:
    """Make a key and print it."""
    settings, clock = Settings.read(), SystemClock()
    shown, key = make_key(
        name,
        space=_space_of(wanted, settings),
        clock=clock,
        scope=wanted.scope,
        right=wanted.right,
        channel="user" if wanted.person else "agent",
        expires=expiry(wanted.expires, now=clock.now()) if wanted.expires else None,
        limits=KeyLimits(wanted.requests_per_minute, wanted.at_once, wanted.max_body_bytes),
    )
    with _opened(wanted.space, kept, create=True) as keys:
        keys.add(key)
    lines = [
        line(shown),
        line("Store it now: it is shown only once. Programs send it as 'Authorization: Bearer trk_…'."),
        *_of_key(key, clock.now()),
    ]
    answer(Access(as_json=kept.as_json), {"key": shown, **_facts(key)}, lines)


def list_keys(space: str, kept: KeptKeys) -> None:
    """List keys, the oldest first."""
    now = SystemClock().now()
    with _opened(space, kept, create=False) as keys:
        found = keys.all()
    lines = [one for key in found for one in _of_key(key, now)] or [line("There are no keys yet.")]
    answer(Access(as_json=kept.as_json), {"keys": [_facts(key) for key in found]}, lines)


def revoke_key(named: str, space: str, kept: KeptKeys) -> None:
    """Revoke a key. Raises `NotFound` where no key has the name or id."""
    now = SystemClock().now()
    with _opened(space, kept, create=False) as keys:
        key = _find(named, keys)
        keys.revoke(key.id, at=now)
    told = replace(key, revoked=key.revoked or now)
    said = f"Revoked {key.name} ({key.id}): it no longer works."
    answer(Access(as_json=kept.as_json), _facts(told), [line(said)])


@contextmanager
def _opened(space: str, kept: KeptKeys, *, create: bool) -> Iterator[AccessKeys]:
    settings = Settings.read()
    address = settings.keys_address(kept.keys or None, space=settings.space_address(space or None))
    keys = open_access_keys(address, create=create)
    try:
        yield keys
    finally:
        keys.close()


def _space_of(wanted: KeyFlags, settings: Settings) -> str:
    """Return the name of the space that a key opens. Raises `InvalidInput` for a project with a space or a scope."""
    if not wanted.project:
        return space_name(settings.space_address(wanted.space or None))
    if wanted.space or wanted.scope != ROOT:
        raise InvalidInput(
            "A key of a project opens that whole project and nothing else.",
            hint="Omit --space and --scope, or create a separate key for the space.",
        )
    for spaces_at in brought("spaces"):
        return space_name(spaces_at(wanted.projects, settings).address(wanted.project))
    raise InvalidInput("Projects are not available in this installation.", hint="Omit --project.")


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
    "loading": "Copying vectors to it: {vectors} of {total}. Until then, the space's own vectors answer.",
    "following": "It holds {vectors} of {total} vectors; {waiting} pending changes are searched separately.",
    "ready": "It holds all {vectors} vectors.",
    "failing": "It is not available; the space's own vectors answer: {problem}",
}


def use_engine(address: str, access: Access, *, later: bool) -> None:
    """Use an engine."""
    with opened(access) as space, watched(space) as busy:
        told = busy.perform(USE, input={"address": address}, options={"wait": not later})
    answer(access, told, _lines(told))


def show_engine(access: Access) -> None:
    """Tell how the engine is."""
    with opened(access) as space:
        told = space.perform(STATUS)
    answer(access, told, _lines(told))


def rebuild_engine(access: Access, *, later: bool) -> None:
    """Fill the engine anew."""
    with opened(access) as space, watched(space) as busy:
        told = busy.perform(REBUILD, options={"wait": not later})
    answer(access, told, _lines(told))


def drop_engine(access: Access) -> None:
    """Use no engine."""
    with opened(access) as space:
        told = space.perform(DROP)
    lines = [line("This space had no engine.")]
    if told.state != "none":
        lines = [line(f"{told.address} is no longer used; the space searches its own vectors.")]
    if told.problem:
        lines += [line(f"Its data could not be removed: {told.problem}"), line(told.hint, indent=2)]
    answer(access, told, lines)


def _lines(told: EngineStatus) -> list[IndentedLine]:
    if told.state == "none":
        return [line("This space searches its own vectors; it uses no engine.")]
    said = _SAID[told.state].format(**told.model_dump())
    lines = [line(f"{told.address} ({told.kind or 'not reached'})"), line(said, indent=2)]
    return [*lines, line(told.hint, indent=2)] if told.hint else lines


# Background work for the spaces of a database: one space after the other, in any number of processes.


STEPS = 8
"""Steps of one turn: batches of 32 texts, or steps of an index that is being made anew."""
_IDLE_SECONDS = 2.0

TakeTurn = Callable[[int], None]
Waits = Callable[[float], bool]
"""Waits for so many seconds, or until the work is to end; tells whether it is."""

_LOG = logging.getLogger(__name__)


class SpaceWorker:
    """Goes round the spaces that have work, each getting one turn: a busy one never keeps the others waiting for long.

    `waiting` lists them in an order that stays the same. `lend` opens a space for a turn.
    """

    def __init__(
        self,
        waiting: Callable[[], Sequence[str]],
        lend: Callable[[str], AbstractContextManager[TakeTurn]],
        *,
        steps: int = STEPS,
    ) -> None:
        self._waiting = waiting
        self._lend = lend
        self._steps = steps
        self._failed: dict[str, str] = {}

    def go_round(self, is_over: Callable[[], bool] = lambda: False) -> int:
        """Give each space that has work one turn; return how many turns went well. Raises `Unavailable`."""
        names = self._waiting()
        self._failed = {name: why for name, why in self._failed.items() if name in names}
        return sum(self._gave_turn(name) for name in names if not is_over())

    def work(self, wait: Waits) -> None:
        """Go round until `wait` says that it is over, with a pause where nothing waits, or nothing can be done."""
        while not wait(0):
            try:
                turns = self.go_round(lambda: wait(0))
            except TreeringError as error:  # such as a server that is being restarted
                _LOG.warning("Cannot look for work: %s", error)
                turns = 0
            if not turns and wait(_IDLE_SECONDS):
                return

    def _gave_turn(self, name: str) -> bool:
        """Give a space its turn. One that cannot be worked on is told of once, and keeps no other from its turn."""
        try:
            with self._lend(name) as take_turn:
                take_turn(self._steps)
        except TreeringError as error:
            if self._failed.get(name) != str(error):
                self._failed[name] = str(error)
                _LOG.warning("Cannot work on the space %r: %s", name, error)
            return False
        self._failed.pop(name, None)
        return True


def work_for_spaces(address: Address, *, wait: Waits, embedder: Embedder | None = None) -> None:
    """Do the background work of all spaces of the database an address names, until `wait` says that it is over.

    Raises `InvalidInput` for an address of another kind, `Unavailable` where the database cannot be reached at first.
    """
    settings = Settings.read()
    shared = embedder or open_embedder(settings)

    @contextmanager
    def lend(name: str) -> Iterator[TakeTurn]:
        with closing(open_engine(_opening(address, name, settings, shared))) as opened:
            yield opened.take_turn

    with closing(spaces_with_work(address)) as waiting:
        waiting.names()
        SpaceWorker(waiting.names, lend).work(wait)


def _opening(address: Address, name: str, settings: Settings, embedder: Embedder) -> Opening:
    options = tuple({**dict(address.options), SPACE: name}.items())
    return Opening(
        address=replace(address, options=options),
        # Policies and anchors are of one space each: what the environment names is not of all of them.
        settings=replace(settings, policy="", anchor="", reranker=""),
        author=author(None, "agent", settings),
        create=False,
        background=False,
        whole=False,
        embedder=embedder,
    )
