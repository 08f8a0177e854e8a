"""Store the places shown in the last answer of the command line, so that a number can refer to one of them."""

import json
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from treering.system.address import Address
from treering.system.machine import make_folder, replace_file
from treering.system.settings import Settings
from treering.verbs.envelope import Report
from treering.verbs.numbered_places import MAX_PLACES, Places

_FOLDER = "last-answers"


def note_answer(address: Address, report: Report) -> None:
    """Store the ids of the numbered places of an answer. An answer without any leaves the last one."""
    _note(address, {number: place for number, place in report.numbered_places().items() if number <= MAX_PLACES})


def note_places(address: Address, places: Sequence[str]) -> None:
    """Store the places of a numbered list. An empty list keeps those of the last answer."""
    _note(address, dict(enumerate(places[:MAX_PLACES], start=1)))


def _note(address: Address, places: Places) -> None:
    if not places:
        return
    file = _file(address)
    with suppress(OSError):  # numbers are a convenience; the answer itself is shown
        make_folder(file.parent)
        replace_file(file, json.dumps([*places.items()]).encode())


def last_places(address: Address, answer: str) -> Places:
    """Return the places of the last answer; none for an answer by its id, or if no answer had any."""
    if answer:
        return {}
    try:
        return {int(number): str(place) for number, place in json.loads(_file(address).read_bytes())}
    except (OSError, ValueError, TypeError):
        return {}


def _file(address: Address) -> Path:
    name = sha256(str(address).encode()).hexdigest()[:32]
    return Settings.read().data_dir / _FOLDER / f"{name}.json"
