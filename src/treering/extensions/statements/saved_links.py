"""Links between the statements of a conversation, saved so that the next process compares only new statements.

They name positions of messages and contain no words. Each source has a key: a digest of its messages, of all sources
before it, and of the rules and trees. Links with other keys are ignored.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, takewhile
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from treering.core.canonical import canonical_json, digest
from treering.core.objects import Source
from treering.extensions.statements.ledger import StatementLinks
from treering.extensions.statements.statement import SaidMessage
from treering.extensions.statements.stored import STATEMENTS
from treering.ports.stores import ReadyValues
from treering.version import __version__

_FILE_CHARS = 3
"""Hexadecimal digits in the names of files: 4,096 files, because a space may have 50,000 short conversations."""
_SAVED = TypeAdapter(list[tuple[str, list[StatementLinks]]])


@dataclass(frozen=True, slots=True)
class SavedLinks:
    """The saved links of the conversation at a scope and an origin. `digests`: of its sources."""

    ready: ReadyValues | None
    place: tuple[str, str]
    digests: Sequence[str]

    def read(self) -> list[list[StatementLinks]]:
        """Return the saved links of the statements of the first sources."""
        try:
            saved = _SAVED.validate_python(self._in_file().get(self._name, []))
        except ValidationError:  # of another version
            return []
        pairs = zip(self._keys(), saved, strict=False)
        return [links for _, (_, links) in takewhile(lambda pair: pair[0] == pair[1][0], pairs)]

    def write(self, links: Sequence[Sequence[StatementLinks]]) -> None:
        """Save the links of the first sources; the last of them may lack links of its last statements."""
        if self.ready is not None:
            saved = {self._name: list(zip(self._keys(), links, strict=False))}
            self.ready.write(self._file, self._in_file() | saved)

    def _in_file(self) -> dict[str, Any]:
        """Return the links of the conversations in the file. If two processes write at once, one may lose its own."""
        value = None if self.ready is None else self.ready.read(self._file)
        return value if isinstance(value, dict) else {}

    @property
    def _name(self) -> str:
        return digest(canonical_json(self.place))

    @property
    def _file(self) -> str:
        return f"{self._name[:_FILE_CHARS]}.links"

    def _keys(self) -> list[str]:
        return list(accumulate(self.digests, lambda before, own: digest(before + own), initial=rules_digest()))[1:]


def part_digest(source: Source, messages: Sequence[SaidMessage]) -> str:
    """Return a digest of the messages of a source and of the statements stored with them.

    It is keyed with the salt of the source, so that erased words cannot be guessed from it.
    """
    places = [(one.position, one.speaker, str(one.at), one.machine) for one in messages]
    hashes = [segment.hash for segment in source.segments]
    return digest(canonical_json([places, hashes, source.payload.get(STATEMENTS)]), salt=source.salt)


@cache
def rules_digest() -> str:
    """Return a digest of the rules, the trees and the version of the rest."""
    files = sorted(one for one in Path(__file__).parent.iterdir() if one.suffix in {".py", ".json"})
    return digest("\n".join([__version__, *(one.read_text("utf-8") for one in files)]))
