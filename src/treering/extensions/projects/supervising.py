"""What `treering supervise` does, and its worker that is a command: a coding agent on the command line, a script."""

import os
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from threading import Thread
from typing import IO, TYPE_CHECKING, TypeVar

import typer
from pydantic import BaseModel, ValidationError

from treering.core.characters import visible_line
from treering.core.errors import InvalidInput
from treering.core.objects import invalid_fields
from treering.extensions.projects.project import ProjectMemory
from treering.extensions.projects.spaces import open_projects
from treering.extensions.projects.supervisor import (
    Assessment,
    Assessor,
    Limits,
    ModelAssessor,
    Response,
    Script,
    Supervisor,
    SupervisorReport,
    TicketResult,
)
from treering.extensions.projects.ticket import Ticket, TicketMemory
from treering.sources.reading.bounded_yaml import read_data_file
from treering.surfaces.cli.flags import Access
from treering.surfaces.cli.printing import IndentedLine, line, tell
from treering.surfaces.cli.session import answer, terminable
from treering.system.machine import SystemClock

if TYPE_CHECKING:
    from treering.extensions.projects.commands import SuperviseFlags

_NOT_DONE = 1
_DONE = frozenset({"completed", "already_completed"})
_UNFIT = re.compile(r"[^A-Za-z0-9_-]+")


def supervise(asked: "SuperviseFlags") -> None:
    """Work through the tickets of a file; leave with exit code 1 where one is not done."""
    tickets = read_tickets(asked.tickets)
    assessor = _assessor(asked)
    if not asked.folder.is_dir():
        raise InvalidInput(f"{asked.folder} is not a folder.", hint="Give the work tree with --folder.")
    project = asked.project or _name_of(asked.folder)
    with terminable(), _memory(asked) as memory:
        supervisor = Supervisor(
            assessor,
            ShellWorker(asked.worker, asked.folder),
            memory=TicketMemory(project, memory),
            clock=SystemClock(),
            limits=Limits(turns=asked.max_turns, seconds=asked.max_minutes * 60, dollars=asked.max_cost),
            progress=_tell_turn,
        )
        tell(_ceilings(asked, len(tickets), project))
        report = supervisor.run(tickets)
    answer(Access(as_json=asked.as_json), report, list(_lines(report)))
    if any(result.outcome not in _DONE for result in report.results):
        raise typer.Exit(_NOT_DONE)


def _assessor(asked: "SuperviseFlags") -> Assessor:
    if bool(asked.model) == bool(asked.script):
        raise InvalidInput(
            "treering supervise needs --model or --script.",
            hint="Give a model with --model, or a script with --script.",
        )
    if asked.script:
        return read_script(asked.script)
    from treering.extensions.encoder.language_models import open_model  # it needs an extra, which a script does not

    return ModelAssessor(open_model(asked.model, base_url=asked.model_url or None))


def _memory(asked: "SuperviseFlags") -> AbstractContextManager[ProjectMemory | None]:
    return nullcontext() if asked.no_memory else open_projects()


def _name_of(folder: Path) -> str:
    """Make a project id of a folder's name."""
    return _UNFIT.sub("-", folder.resolve().name).strip("-_")[:64] or "project"


def _ceilings(asked: "SuperviseFlags", count: int, project: str) -> str:
    cost = "any cost" if asked.max_cost is None else f"${asked.max_cost}"
    kept = "without memory" if asked.no_memory else f"with the memory of project {project}"
    tickets = "1 ticket" if count == 1 else f"{count} tickets, each"
    turns, minutes = _counted(asked.max_turns, "turn"), _counted(asked.max_minutes, "minute")
    return f"{tickets} with at most {turns}, {minutes} and {cost}; {kept}."


def _tell_turn(title: str, done: int, total: int | None) -> None:
    tell(f"{visible_line(title)}: turn {done + 1} of at most {total}")


def _lines(report: SupervisorReport) -> Iterator[IndentedLine]:
    for result in report.results:
        style = "green" if result.outcome in _DONE else "red"
        yield line((result.outcome.replace("_", " "), style), f"  {result.ticket.title}{_took(result)}")
        if result.why or result.summary:
            yield line(result.why or result.summary, indent=2)
    for failure in report.memory_failures:
        yield line(("memory failed", "yellow"), f" at {failure.step}: {failure.why}")


def _took(result: TicketResult) -> str:
    if not result.turns:
        return ""
    cost = "" if not result.cost else f", ${result.cost:.4f}"
    return f" ({_counted(result.turns, 'turn')}, {result.seconds:.0f} s{cost})"


def _counted(count: float, what: str) -> str:
    return f"1 {what}" if count == 1 else f"{count:g} {what}s"


# Tickets, and assessments written beforehand, read from YAML or JSON files.


_Entry = TypeVar("_Entry", bound=BaseModel)
_TICKETS = "Write a list such as `- {id: T-1, title: Fix the cache, description: It serves old pages}`."
_SCRIPT = "Write a list such as `- {complete: false, next_prompt: …}`, or one such list by the id of each ticket."


def read_tickets(path: Path) -> list[Ticket]:
    """Read a list of tickets; those alike and without id are told apart by their order.

    Raises `InvalidInput` naming the entry that is wrong, and `OSError`.
    """
    entries = _entries(read_data_file(path), path.name, hint=_TICKETS)
    read = [_entry(Ticket, _with_text_id(entry), f"{path.name}, entry {n}") for n, entry in enumerate(entries, 1)]
    tickets = list(_told_apart(read))
    seen: dict[str, int] = {}
    for number, ticket in enumerate(tickets, 1):
        first = seen.setdefault(ticket.key, number)
        if first != number:
            hint = "Give each ticket a unique id, or remove one."
            raise InvalidInput(f"{path.name}: entry {number} has the same ticket id as entry {first}.", hint=hint)
    return tickets


def _told_apart(tickets: Iterable[Ticket]) -> Iterator[Ticket]:
    alike = Counter[tuple[str, str]]()
    for ticket in tickets:
        words = (ticket.title, ticket.description)
        alike[words] += not ticket.id
        yield ticket if ticket.id else ticket.model_copy(update={"occurrence": alike[words]})


def read_script(path: Path) -> Script:
    """Read assessments: a list for every ticket, or lists by ticket id. Raises as `read_tickets` does."""
    data = read_data_file(path)
    if isinstance(data, Mapping):
        lists = {str(name): _assessments(entries, f"{path.name}, {name}") for name, entries in data.items()}
        return Script(lists)
    return Script(_assessments(data, path.name))


def _assessments(data: object, where: str) -> list[Assessment]:
    entries = _entries(data, where, hint=_SCRIPT)
    return [_entry(Assessment, entry, f"{where}, entry {number}") for number, entry in enumerate(entries, 1)]


def _entries(data: object, where: str, *, hint: str) -> Sequence[object]:
    if isinstance(data, list) and data:
        return data
    raise InvalidInput(f"{where} must contain a list of entries.", hint=hint)


def _entry(model: type[_Entry], data: object, where: str) -> _Entry:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        problem = invalid_fields(error, model=model)
        raise InvalidInput(f"{where}: {problem.message}", hint=problem.hint, details=problem.details) from error


def _with_text_id(entry: object) -> object:
    """YAML reads `id: 12` as a number; what a tracker calls a ticket is text."""
    if isinstance(entry, dict) and type(entry.get("id")) is int:
        return {**entry, "id": str(entry["id"])}
    return entry


OUTPUT_BYTES = 200_000
"""How much of the output is kept: its beginning and its end, this much together."""

_CHUNK = 65_536
_GRACE_SECONDS = 2.0
"""How long output may come after the command ended, from what it left running."""


class ShellWorker:
    """Runs a command for every turn, with the shell, in `folder`.

    The prompt is its stdin; what it writes to stdout and stderr is the answer. It has a process group of its own,
    which is killed whole when the time is over and when the supervisor is interrupted.
    """

    def __init__(self, command: str, folder: Path | str) -> None:
        self._command = command
        self._folder = Path(folder)

    def work(self, prompt: str, *, seconds: float) -> Response:
        """Run the command once. A command that fails, or cannot be started, is a problem of the response."""
        starting = _Starting(self._start)
        try:
            return _watched(starting.process(), prompt, seconds)
        except OSError as error:
            return Response("", f"the command cannot be started: {error.strerror or error}")
        finally:
            starting.end()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S602 - the command is the user's own, written for a shell
            self._command,
            shell=True,
            cwd=self._folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


class _Starting:
    """Starts a process in a thread of its own.

    A signal may raise in the main thread at any moment, also when a process runs already and nobody holds it yet.
    """

    def __init__(self, start: Callable[[], subprocess.Popen[bytes]]) -> None:
        self._outcome: Future[subprocess.Popen[bytes]] = Future()
        self._thread = Thread(target=self._run, args=(start,), daemon=True)

    def process(self) -> subprocess.Popen[bytes]:
        """Start it. Raises `OSError` where it cannot be started."""
        self._thread.start()
        return self._outcome.result()

    def end(self) -> None:
        """Kill what was started, with all that it started."""
        if self._thread.ident is None:
            return
        self._thread.join()
        if self._outcome.exception() is None:
            process = self._outcome.result()
            _kill_group(process)
            process.wait()

    def _run(self, start: Callable[[], subprocess.Popen[bytes]]) -> None:
        try:
            self._outcome.set_result(start())
        except OSError as error:
            self._outcome.set_exception(error)


class _Output:
    """Reads all a process writes, so that it never waits, and keeps a bounded part of it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0
        self._pipe = _pipe(process.stdout)
        self._reading = Thread(target=self._read, daemon=True)
        self._reading.start()

    def wait(self, seconds: float) -> None:
        """Wait until there is no more to read."""
        self._reading.join(seconds)

    def close(self) -> None:
        """Let go of the pipe; somebody who escaped the process group may hold its other end for ever."""
        if not self._reading.is_alive():
            self._pipe.close()

    def text(self) -> str:
        """Return what was kept."""
        tail = bytes(self._tail).decode(errors="replace")
        between = f"\n… {self._dropped} bytes …\n" if self._dropped else ""
        return bytes(self._head).decode(errors="replace") + between + tail

    def _read(self) -> None:
        half = OUTPUT_BYTES // 2
        while chunk := os.read(self._pipe.fileno(), _CHUNK):
            room = half - len(self._head)
            self._head += chunk[: max(room, 0)]
            self._tail += chunk[max(room, 0) :]
            excess = max(len(self._tail) - half, 0)
            self._dropped += excess
            del self._tail[:excess]


def _watched(process: subprocess.Popen[bytes], prompt: str, seconds: float) -> Response:
    """Tell a process the prompt, and wait for what it answers."""
    output = _Output(process)
    feeding = Thread(target=_feed, args=(process, prompt), daemon=True)
    feeding.start()
    try:
        code = process.wait(seconds)
        problem = f"the command ended with exit code {code}" if code else ""
        output.wait(_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        problem = f"the command was stopped after {seconds:.0f} seconds"
    finally:
        _kill_group(process)
        process.wait()
        feeding.join(_GRACE_SECONDS)
        output.wait(_GRACE_SECONDS)
        output.close()
    return Response(output.text(), problem)


def _feed(process: subprocess.Popen[bytes], prompt: str) -> None:
    # A command need not read what it is told.
    with suppress(BrokenPipeError, OSError), _pipe(process.stdin) as pipe:
        pipe.write(prompt.encode(errors="replace"))


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    if os.name == "nt":
        process.kill()
        return
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise ValueError("the process was started without this pipe")
    return pipe
