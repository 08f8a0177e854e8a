"""Waiting until files change. The system tells of changes (watchfiles); where it cannot, time passes instead."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import time
from typing import Literal

from treering.core.errors import MissingExtra
from treering.sources.reading.folder import IgnoreRules

Occasion = Literal["begun", "changed", "time"]
"""Why to look: watching has begun (again), something changed, or it is long since the last look."""

_QUIET_MS = 300
_BUSY_MS = 5_000
"""Changes that follow each other within `_QUIET_MS` are one, for so long at most."""
_TICK_MS = 1_000
_BLIND_SECONDS = 60.0
"""How often to look where the system tells of no changes."""
_BRANCHES = frozenset({"HEAD", "packed-refs", "refs", "reftable"})


@dataclass(frozen=True, slots=True)
class WatchedPlace:
    """What is watched, and which changes count. All paths are absolute, their links resolved."""

    place: Path
    git: tuple[Path, ...] = ()
    """The git folders of a repository: what counts in them is where branches and HEAD point."""
    files: bool = True
    """Whether files of `place` count; else only `git` does."""
    apart: tuple[str, ...] = ()
    """Beginnings of paths that never count, such as the files of the space itself."""

    @property
    def roots(self) -> tuple[Path, ...]:
        """Return the folders and files that the system is asked to watch."""
        return (*((self.place,) if self.files else ()), *self.git)

    def identities(self) -> list[tuple[int, int]]:
        """Return what tells a folder from another one that took its place. Raises `OSError` where one is gone."""
        found = (root.stat() for root in self.roots)
        return [(one.st_dev, one.st_ino) for one in found]


def occasions(
    watched: WatchedPlace, wait: Callable[[float], bool], *, every: float, on_blind: Callable[[OSError], None]
) -> Iterator[Occasion]:
    """Yield whenever it is time to look: at the beginning, after changes, and every so many seconds without.

    Changes are noticed from before the first occasion on, also those that come while an occasion is used. `wait` waits
    for so many seconds or until this is to end, and tells which. `on_blind` is called where the system cannot tell of
    changes, as when it has no more watches to give; time alone is the occasion then. Raises `MissingExtra`.
    """
    try:
        import watchfiles  # noqa: F401 - its absence is told at once
    except ModuleNotFoundError as error:
        raise MissingExtra("watch", needed_for="Watching files") from error
    while not wait(0):
        try:
            yield from _told(watched, wait, every)
        except FileNotFoundError:
            # The place is gone: another branch, a disk that is not there. It may come back.
            wait(_TICK_MS / 1000)
        except OSError as error:
            on_blind(error)
            yield from _by_time(wait, min(every, _BLIND_SECONDS))


def _told(watched: WatchedPlace, wait: Callable[[float], bool], every: float) -> Iterator[Occasion]:
    """Yield occasions until this is to end, or a folder was replaced by another one, which nobody watches."""
    from watchfiles import watch

    before, looked = watched.identities(), None
    for batch in watch(
        *watched.roots,
        watch_filter=None,
        debounce=_BUSY_MS,
        step=_QUIET_MS,
        stop_event=_Stopping(wait),
        rust_timeout=_TICK_MS,
        yield_on_timeout=True,
        ignore_permission_denied=True,
    ):
        if wait(0) or watched.identities() != before:
            return
        if looked is None:
            occasion: Occasion = "begun"
        elif _counts(watched, (path for _, path in batch)):
            occasion = "changed"
        # By the clock on the wall: it goes on while a computer sleeps. One that was set back counts, too.
        elif not 0 <= time() - looked < every:
            occasion = "time"
        else:
            continue
        yield occasion
        looked = time()


def _by_time(wait: Callable[[float], bool], every: float) -> Iterator[Occasion]:
    yield "begun"
    while not wait(every):
        yield "time"


@dataclass(frozen=True, slots=True)
class _Stopping:
    """A wish to stop in the form in which watchfiles asks for it."""

    wait: Callable[[float], bool]

    def is_set(self) -> bool:
        return self.wait(0)


def _counts(watched: WatchedPlace, paths: Iterator[str]) -> bool:
    """Tell whether one of some changes counts."""
    ignoring = _Ignoring(watched.place)
    return any(_is_looked_at(watched, path, ignoring) for path in paths)


def _is_looked_at(watched: WatchedPlace, path: str, ignoring: "_Ignoring") -> bool:
    if path.startswith(watched.apart):
        return False
    for folder in watched.git:
        with suppress(ValueError):
            inside = Path(path).relative_to(folder).parts
            return bool(inside) and inside[0] in _BRANCHES and not path.endswith(".lock")
    return watched.files and not ignoring.leaves_out(Path(path))


@dataclass(frozen=True, slots=True)
class _Ignoring:
    """What `.gitignore` files leave out now. Each is read once: it may be another one at the next change."""

    root: Path
    _rules: dict[str, IgnoreRules] = field(default_factory=dict)

    def leaves_out(self, path: Path) -> bool:
        try:
            parts = path.relative_to(self.root).parts
        except ValueError:
            return False
        rules, relative = self._below("", IgnoreRules()), ""
        for depth, part in enumerate(parts, start=1):
            relative = f"{relative}/{part}" if relative else part
            is_folder = depth < len(parts)
            if rules.leave_out(relative, folder=is_folder):
                return True
            if is_folder:
                rules = self._below(relative, rules)
        return False

    def _below(self, relative: str, rules: IgnoreRules) -> IgnoreRules:
        if relative not in self._rules:
            self._rules[relative] = rules.below(self.root / relative, relative)
        return self._rules[relative]


def shown_reason(error: OSError) -> str:
    """Say why the system tells of no changes."""
    return os.strerror(error.errno) if error.errno else str(error)
