"""An open space for the time of one command: progress while it works, one answer, and what follows."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import typer
from pydantic import BaseModel, TypeAdapter

from treering.core.characters import visible_line
from treering.core.errors import InvalidInput
from treering.ports.runtime import end_loading
from treering.surfaces.cli.flags import Access, WriteFlags
from treering.surfaces.cli.last_answer import last_places
from treering.surfaces.cli.printing import IndentedLine, confirm, line, page, say_json, show, terminal
from treering.surfaces.python.space import Space, open_space
from treering.system.address import Address, shown_address
from treering.system.machine import LOWEST_PRIORITY, make_folder, start_behind, write_new
from treering.system.settings import FOLDER, IN_GIT, Settings
from treering.verbs.engine import Progress, silent
from treering.verbs.envelope import EVERYTHING, Operation, Rights

_IGNORED = "# A space belongs to this machine; `treering export` is how it is shared.\n*.db*\n.gitignore\n"
_QUICK_SECONDS = 1.0  # work that is done by then shows no bar
_DESCRIBED = 40  # columns of what is being done
_REFUSED = 1
_WIDEST = 110  # columns: longer lines of prose are hard to read

Data = BaseModel | Sequence[BaseModel] | Mapping[str, object]


@contextmanager
def opened(
    access: Access | Address, writing: WriteFlags | None = None, *, create: bool = False, catching_up: bool = False
) -> Iterator[Space]:
    """Open the space a command is about. Vectors are left to a process of their own, or to whoever waits.

    So is an index that is being made anew, unless nothing may run in the background. `catching_up`: the command itself
    makes what waits. A space that did not exist is named after the answer of the command.
    """
    address = access if isinstance(access, Address) else Settings.read().space_address(access.space or None)
    is_new = create and address.file is not None and not address.file.exists()
    if create:
        prepare(address)
    name = writing or WriteFlags()
    later = not catching_up and may_work_later(name)
    with open_space(
        address,
        actor=name.actor or None,
        channel="agent" if name.as_agent else "user",
        create=create,
        background=False,
        whole=not (later or catching_up),
    ) as space:
        end_loading()
        yield replace(space, engine=replace(space.engine, places_of=partial(last_places, address)))
        if later and space.engine.index.upkeep.behind().waiting:
            _work_later(space)
    if is_new and isinstance(access, Access) and not access.as_json:
        show(terminal(), [line(f"Created a space: {shown_address(address)}")])


def prepare(address: Address) -> None:
    """Keep a new space in a `.treering/` folder out of version control."""
    if address.file is None:
        return
    folder = address.file.parent
    if folder.name in (FOLDER, IN_GIT) and not address.file.exists():  # an exam may lie there before
        make_folder(folder)
        with suppress(FileExistsError):  # another process was first, or a person wrote it
            write_new(folder / ".gitignore", _IGNORED.encode())


@contextmanager
def watched(space: Space) -> Iterator[Space]:
    """Show long work of a space as `bars` does."""
    with bars() as advance:
        yield space.with_progress(advance)


@contextmanager
def bars() -> Iterator[Progress]:
    """Show work of more than a second as a bar on stderr if that is a terminal, with its rate and the time left.

    It is gone before the answer is printed.
    """
    console = terminal(errors=True)
    if not console.is_interactive:  # a dumb terminal cannot take a bar back
        yield silent
        return
    # Imported here: most answers come without a bar.
    from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    # What others print meanwhile goes its own way, which cleans it.
    shown = Bars(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)
    tasks: dict[str, TaskID] = {}
    begun: dict[str, tuple[float, int]] = {}

    def advance(what: str, done: int, total: int | None) -> None:
        now = time.monotonic()
        if what not in tasks:
            tasks[what] = shown.add_task(visible_line(what)[:_DESCRIBED], total=total, rate="")
            begun[what] = now, done
        if now - min(start for start, _ in begun.values()) > _QUICK_SECONDS:
            shown.start()
        start, first = begun[what]
        rate = f"{(done - first) / (now - start):,.0f}/s" if now - start > _QUICK_SECONDS else ""
        shown.update(tasks[what], completed=done, total=total, rate=rate)

    try:
        yield advance
    finally:
        shown.stop()


def answer(access: Access, data: Data, lines: Iterable[IndentedLine], *, paged: bool = True) -> None:
    """Print the answer of a command: JSON for programs, else lines for people, with a pager if they are many."""
    if access.as_json:
        say_json(to_json(data))
        return
    console = terminal()
    if console.is_terminal:
        console.width = min(console.width, _WIDEST)
    if not (console.is_terminal and paged):
        show(console, lines)
        return
    rows = list(lines)
    with console.capture() as shown:
        show(console, rows)
    if not page(shown.get(), screen_rows=console.height):
        show(console, rows)


def to_json(data: Data) -> str:
    """Write a report, several, or plain facts as JSON."""
    return TypeAdapter[Data](Data).dump_json(data, indent=2, serialize_as_any=True).decode()


def is_piped() -> bool:
    """Tell whether the answer goes to a program, which may hand it on to a model."""
    return not sys.stdout.isatty()


def rights_of_verbs() -> Rights:
    """Return what a call of a verb may do: what is for a person to decide only where one sits at the terminal."""
    present = sys.stdin.isatty()
    return replace(EVERYTHING, destroys=present, needs_person=present)


def confirm_destroying(operation: Operation[Any], what: str, *, sure: bool) -> None:
    """Ask for a yes before an operation that removes content for good, unless it was given; leave with 1 without one.

    Raises `InvalidInput` where nobody can be asked.
    """
    if sure or not operation.rights.destroys:
        return
    if not sys.stdin.isatty():
        raise InvalidInput("Erasing asks for confirmation; there is no terminal.", hint="Add --yes.")
    if not confirm(f"Erase {what} permanently? This cannot be undone."):
        raise typer.Exit(_REFUSED)


def embed_later(space: Space, writing: WriteFlags) -> None:
    """Have vectors that wait made by a process of its own."""
    if may_work_later(writing) and space.engine.index.vectors.lag().pending:
        _work_later(space)


def may_work_later(writing: WriteFlags) -> bool:
    """Return whether embeddings that wait are made by a process in the background."""
    return Settings.read().background and not writing.no_background


def _work_later(space: Space) -> None:
    """Start a process that makes what waits."""
    # Everybody on this machine can read the arguments of a process; its environment only its user.
    environment = {**os.environ, "TREERING_SPACE": space.address.url}
    start_behind("vectors", "--quiet", niceness=LOWEST_PRIORITY, environment=environment)


# Commands that run until they are told to stop.


_TERMINATED = 143


@contextmanager
def terminable() -> Iterator[None]:
    """Leave in order when asked to end: what is held is given back, and no child stays behind."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def told_to_stop() -> Iterator[Callable[[float], bool]]:
    """Take SIGTERM and SIGINT as a wish to stop, which is given time to end what is under way.

    Yields what waits for so many seconds, or until then, and tells whether to stop.
    """
    stopping = threading.Event()
    before = {number: signal.signal(number, lambda *_: stopping.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stopping.wait
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
