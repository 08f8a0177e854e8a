"""What `treering supervise` does."""

import json
import re
import signal
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer
import yaml
from pydantic import BaseModel, ValidationError

from treering.core.characters import visible_line
from treering.core.errors import InvalidInput
from treering.core.objects import invalid_fields
from treering.parts.projects.project import ProjectMemory
from treering.parts.projects.shell import ShellWorker
from treering.parts.projects.spaces import open_projects
from treering.parts.projects.supervisor import (
    Assessment,
    Assessor,
    Limits,
    ModelAssessor,
    Script,
    Supervisor,
    SupervisorReport,
    TicketResult,
)
from treering.parts.projects.ticket import Ticket, TicketMemory
from treering.surfaces.cli.flags import Access
from treering.surfaces.cli.printing import IndentedLine, line, tell
from treering.surfaces.cli.session import answer
from treering.system.machine import SystemClock

if TYPE_CHECKING:
    from treering.parts.projects.commands import SuperviseFlags

_NOT_DONE = 1
_TERMINATED = 143
_DONE = frozenset({"completed", "already_completed"})
_UNFIT = re.compile(r"[^A-Za-z0-9_-]+")


def supervise(asked: "SuperviseFlags") -> None:
    """Work through the tickets of a file; leave with exit code 1 where one is not done."""
    tickets = read_tickets(asked.tickets)
    assessor = _assessor(asked)
    if not asked.folder.is_dir():
        raise InvalidInput(f"{asked.folder} is not a folder.", hint="Name the work tree with --folder.")
    project = asked.project or _name_of(asked.folder)
    with _terminable(), _memory(asked) as memory:
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
            "treering supervise needs either --model or --script.",
            hint="Name a model with --model, or a script with --script.",
        )
    if asked.script:
        return read_script(asked.script)
    from treering.models.language_models import open_model  # it needs an extra, which a script does not

    return ModelAssessor(open_model(asked.model, base_url=asked.model_url or None))


def _memory(asked: "SuperviseFlags") -> AbstractContextManager[ProjectMemory | None]:
    return nullcontext() if asked.no_memory else open_projects()


def _name_of(folder: Path) -> str:
    """Make a project id of a folder's name."""
    return _UNFIT.sub("-", folder.resolve().name).strip("-_")[:64] or "project"


@contextmanager
def _terminable() -> Iterator[None]:
    """Leave in order when asked to end, so that no worker is left behind in the work tree."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


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
    entries = _entries(_read(path), path.name, hint=_TICKETS)
    read = [_entry(Ticket, _with_text_id(entry), f"{path.name}, entry {n}") for n, entry in enumerate(entries, 1)]
    tickets = list(_told_apart(read))
    seen: dict[str, int] = {}
    for number, ticket in enumerate(tickets, 1):
        first = seen.setdefault(ticket.key, number)
        if first != number:
            hint = "Give each ticket an id of its own, or leave one out."
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
    data = _read(path)
    if isinstance(data, Mapping):
        lists = {str(name): _assessments(entries, f"{path.name}, {name}") for name, entries in data.items()}
        return Script(lists)
    return Script(_assessments(data, path.name))


def _assessments(data: object, where: str) -> list[Assessment]:
    entries = _entries(data, where, hint=_SCRIPT)
    return [_entry(Assessment, entry, f"{where}, entry {number}") for number, entry in enumerate(entries, 1)]


def _read(path: Path) -> object:
    text = path.read_bytes().decode(errors="replace")
    try:
        data: object = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        said = " ".join(str(error).split())
        raise InvalidInput(f"{path.name} cannot be read: {said}.", hint="Correct it; it is YAML or JSON.") from error
    return data


def _entries(data: object, where: str, *, hint: str) -> Sequence[object]:
    if isinstance(data, list) and data:
        return data
    raise InvalidInput(f"{where} must hold a list of entries.", hint=hint)


def _entry(model: type[_Entry], data: object, where: str) -> _Entry:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        problem = invalid_fields(error, known=sorted(model.model_fields))
        raise InvalidInput(f"{where}: {problem.message}", hint=problem.hint, details=problem.details) from error


def _with_text_id(entry: object) -> object:
    """YAML reads `id: 12` as a number; what a tracker calls a ticket is text."""
    if isinstance(entry, dict) and type(entry.get("id")) is int:
        return {**entry, "id": str(entry["id"])}
    return entry
