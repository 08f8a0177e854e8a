"""Open a space for one command, show its progress, print its answer and start the work that follows.

Commands import this module when they are declared, so slow imports are inside the functions.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from treering.core.characters import visible_line
from treering.core.errors import InvalidInput
from treering.surfaces.cli.flags import Access, WriteFlags
from treering.surfaces.cli.printing import IndentedLine, confirm, line, page, say_json, show, terminal
from treering.system.address import Address, shown_address
from treering.system.machine import LOWEST_PRIORITY, make_folder, start_behind, write_new
from treering.system.settings import FOLDER, IN_GIT, Settings

if TYPE_CHECKING:
    from pydantic import BaseModel

    from treering.surfaces.python.space import Space
    from treering.verbs.engine import Progress
    from treering.verbs.envelope import Operation, Rights

    Data = BaseModel | Sequence[BaseModel] | Mapping[str, object]

_IGNORED = "# A space belongs to this machine; `treering export` is how it is shared.\n*.db*\n.gitignore\n"
_QUICK_SECONDS = 1.0
"""Work that takes less time shows no progress bar."""
_DESCRIPTION_COLUMNS = 40
_REFUSED = 1
_TERMINATED = 143
_MAX_COLUMNS = 110
"""Longer lines of prose are hard to read."""


@contextmanager
def opened(
    access: Access | Address, writing: WriteFlags | None = None, *, create: bool = False, catching_up: bool = False
) -> "Iterator[Space]":
    """Open the space of a command.

    Embeddings, index rebuilds and tables for searches are left to a background process, unless that is disabled.
    `catching_up`: the command does this work itself. The address of a new space is printed after the command's answer.
    """
    from treering.ports.runtime import end_loading
    from treering.surfaces.cli.last_answer import last_places
    from treering.surfaces.python.space import open_space

    address = access if isinstance(access, Address) else Settings.read().space_address(access.space or None)
    is_new = create and address.file is not None and not address.file.exists()
    if create:
        prepare(address)
    writing = writing or WriteFlags()
    later = not catching_up and may_work_later(writing)
    with open_space(
        address,
        actor=writing.actor or None,
        channel="agent" if writing.as_agent else "user",
        create=create,
        background=False,
        whole=not (later or catching_up),
    ) as space:
        end_loading()
        yield replace(space, engine=replace(space.engine, places_of=partial(last_places, address)))
        if later and (space.engine.index.upkeep.behind().waiting or space.engine.vectoriser.has_tables_to_prepare()):
            _work_later(space)
    if is_new and isinstance(access, Access) and not access.as_json:
        show(terminal(), [line(f"Created a space: {shown_address(address)}")])


def prepare(address: Address) -> None:
    """Exclude a new space in a `.treering/` folder from version control."""
    if address.file is None:
        return
    folder = address.file.parent
    if folder.name in (FOLDER, IN_GIT) and not address.file.exists():  # the folder may already contain an exam
        make_folder(folder)
        with suppress(FileExistsError):  # written by another process or by a person
            write_new(folder / ".gitignore", _IGNORED.encode())


@contextmanager
def watched(space: "Space") -> "Iterator[Space]":
    """Show progress bars for long work on a space."""
    with bars() as advance:
        yield space.with_progress(advance)


@contextmanager
def bars() -> "Iterator[Progress]":
    """Show work that takes more than a second as a progress bar on stderr, if that is a terminal.

    The bars are removed before the answer is printed.
    """
    from treering.verbs.engine import silent

    console = terminal(errors=True)
    if not console.is_interactive:  # a dumb terminal cannot remove a bar
        yield silent
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    # Other output is not redirected: it goes through the streams that clean it.
    shown = Bars(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)
    tasks: dict[str, TaskID] = {}
    begun: dict[str, tuple[float, int]] = {}
    # A first step without steps of its own, such as a fetch, reports nothing for as long as it takes.
    beginning = threading.Timer(_QUICK_SECONDS, shown.start)
    beginning.daemon = True

    def advance(what: str, done: int, total: int | None) -> None:
        now = time.monotonic()
        if not tasks:
            beginning.start()
        if what not in tasks:
            tasks[what] = shown.add_task(visible_line(what)[:_DESCRIPTION_COLUMNS], total=total, rate="")
            begun[what] = now, done
        start, first = begun[what]
        rate = f"{(done - first) / (now - start):,.0f}/s" if now - start > _QUICK_SECONDS else ""
        shown.update(tasks[what], completed=done, total=total, rate=rate)

    try:
        yield advance
    finally:
        if tasks:
            beginning.cancel()
            beginning.join()
        shown.stop()


def answer(access: Access, data: "Data", lines: Iterable[IndentedLine], *, paged: bool = True) -> None:
    """Print the answer of a command: `data` as JSON with --json, else `lines`, in a pager if they do not fit."""
    if access.as_json:
        say_json(_to_json(data))
        return
    console = terminal()
    if console.is_terminal:
        console.width = min(console.width, _MAX_COLUMNS)
    if not (console.is_terminal and paged):
        show(console, lines)
        return
    rows = list(lines)
    with console.capture() as shown:
        show(console, rows)
    if not page(shown.get(), screen_rows=console.height):
        show(console, rows)


def _to_json(data: "Data") -> str:
    from pydantic import BaseModel, TypeAdapter

    adapter: TypeAdapter[Data] = TypeAdapter(BaseModel | Sequence[BaseModel] | Mapping[str, object])
    return adapter.dump_json(data, indent=2, serialize_as_any=True).decode()


def is_piped() -> bool:
    """Return whether the answer goes to a program, which may pass it on to a model."""
    return not sys.stdout.isatty()


def rights_of_verbs() -> "Rights":
    """Return the rights of a verb's call. Decisions reserved for a person need a terminal."""
    from treering.verbs.envelope import EVERYTHING

    present = sys.stdin.isatty()
    return replace(EVERYTHING, destroys=present, needs_person=present)


def confirm_destroying(operation: "Operation[Any]", what: str, *, sure: bool) -> None:
    """Ask for confirmation before an operation erases content, unless `sure`. Exit with 1 if it is refused.

    Raises `InvalidInput` without a terminal.
    """
    if sure or not operation.rights.destroys:
        return
    if not sys.stdin.isatty():
        raise InvalidInput(f"Erasing {what} asks for confirmation; there is no terminal.", hint="Add --yes.")
    if not confirm(f"Erase {what} permanently? This cannot be undone."):
        raise typer.Exit(_REFUSED)


def embed_later(space: "Space", writing: WriteFlags) -> None:
    """Start a background process if passages wait for their embedding."""
    if may_work_later(writing) and space.engine.index.vectors.lag().pending:
        _work_later(space)


def may_work_later(writing: WriteFlags) -> bool:
    """Return whether background processes are allowed."""
    return Settings.read().background and not writing.no_background


def _work_later(space: "Space") -> None:
    # Every user of the machine can read the arguments of a process, but only its own user its environment.
    environment = {**os.environ, "TREERING_SPACE": space.address.url}
    start_behind("vectors", "--quiet", niceness=LOWEST_PRIORITY, environment=environment)


@contextmanager
def terminable() -> Iterator[None]:
    """Exit on SIGTERM in the normal way, so that locks are released and child processes end."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def stop_requested() -> Iterator[Callable[[float], bool]]:
    """Treat SIGTERM and SIGINT as a request to stop after the current piece of work.

    Yields a function that waits for a number of seconds or until the request, and returns whether to stop.
    """
    stopping = threading.Event()
    before = {number: signal.signal(number, lambda *_: stopping.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stopping.wait
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
