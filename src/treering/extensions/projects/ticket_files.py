"""Read tickets and prepared assessments from YAML or JSON files."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from treering.core.errors import InvalidInput
from treering.core.objects import invalid_fields
from treering.extensions.documents.bounded_yaml import read_data_file
from treering.extensions.projects.supervisor import Assessment, Script
from treering.extensions.projects.ticket import Ticket

_Entry = TypeVar("_Entry", bound=BaseModel)
_TICKETS = "Write a list such as `- {id: T-1, title: Fix the cache, description: It serves old pages}`."
_SCRIPT = "Write a list such as `- {complete: false, next_prompt: …}`, or one such list by the id of each ticket."


def read_tickets(path: Path) -> list[Ticket]:
    """Read a list of tickets; tickets with the same text and without ids are numbered in their order.

    Raises `InvalidInput` with the invalid entry, and `OSError`.
    """
    entries = _entries(read_data_file(path), path.name, hint=_TICKETS)
    read = [_entry(Ticket, _with_text_id(entry), f"{path.name}, entry {n}") for n, entry in enumerate(entries, 1)]
    tickets = list(_numbered(read))
    seen: dict[str, int] = {}
    for number, ticket in enumerate(tickets, 1):
        first = seen.setdefault(ticket.key, number)
        if first != number:
            hint = "Give each ticket a unique id, or remove one."
            raise InvalidInput(f"{path.name}: entry {number} has the same ticket id as entry {first}.", hint=hint)
    return tickets


def _numbered(tickets: Iterable[Ticket]) -> Iterator[Ticket]:
    alike = Counter[tuple[str, str]]()
    for ticket in tickets:
        words = (ticket.title, ticket.description)
        alike[words] += not ticket.id
        yield ticket if ticket.id else ticket.model_copy(update={"occurrence": alike[words]})


def read_script(path: Path) -> Script:
    """Read assessments: a list for every ticket, or lists by ticket id. Raises the errors of `read_tickets`."""
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
    """Convert a numeric id to text: YAML reads `id: 12` as a number."""
    if isinstance(entry, dict) and type(entry.get("id")) is int:
        return {**entry, "id": str(entry["id"])}
    return entry
