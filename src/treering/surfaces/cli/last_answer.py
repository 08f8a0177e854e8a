"""The places that the last answer of the command line showed, so that a number can stand for one of them."""

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from treering.core.errors import InvalidInput
from treering.system.address import Address
from treering.system.machine import make_folder, replace_file
from treering.system.settings import Settings
from treering.verbs.envelope import Report
from treering.verbs.query.context import ContextReport
from treering.verbs.query.recent import RecentReport
from treering.verbs.query.search import SearchReport

_FOLDER = "last-answers"
_NUMBER = re.compile(r"\[?(\d{1,4})\]?")
_MAX_PLACES = 1_000


def note_answer(address: Address, report: Report) -> None:
    """Store the ids of the numbered places of an answer. An answer without any leaves the last one."""
    note_places(address, _places(report))


def note_places(address: Address, places: Sequence[str]) -> None:
    """Store what the numbers of an answer stand for. An answer without any leaves the last one."""
    if not places:
        return
    file = _file(address)
    with suppress(OSError):  # numbers are a convenience; the answer itself is shown
        make_folder(file.parent)
        replace_file(file, json.dumps(places[:_MAX_PLACES]).encode())


def place_of(address: Address, text: str) -> str:
    """Return the ids that a number stands for; any other text as it is. Raises `InvalidInput` for no such number."""
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        return text
    places: list[str] = []
    with suppress(OSError, ValueError):
        places = json.loads(_file(address).read_bytes())
    number = int(match[1])
    if not 1 <= number <= len(places):
        shown = f"It had {len(places)} places" if places else "There is none yet"
        raise InvalidInput(f"The last answer has no place {number}.", hint=f"{shown}. Search first, or give a path.")
    return places[number - 1]


def _places(report: Report) -> Sequence[str]:
    match report:
        case SearchReport(hits=hits):
            return [f"{one.object_id} {one.segment_id or ''}".strip() for one in hits]
        case ContextReport(pack=pack) if pack:
            return [f"{one.object_id} {one.segment_id}".strip() for one in pack.citations]
        case RecentReport(changes=changes):
            return [one.id for one in changes]
        case _:
            return []


def _file(address: Address) -> Path:
    name = sha256(str(address).encode()).hexdigest()[:32]
    return Settings.read().data_dir / _FOLDER / f"{name}.json"
