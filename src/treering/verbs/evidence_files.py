"""Reading the files that evidence names, for callers who may have files read."""

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from treering.core.errors import Denied, InvalidInput
from treering.core.screening import redact
from treering.ports.ledger import Ledger

if TYPE_CHECKING:
    from treering.verbs.engine import Engine


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A file that exists: its absolute path, and its path from the top of its work tree or of the readable folder.

    `outside_of`: the folder below which evidence is read, if the file is elsewhere. It may be cited if it was ingested.
    """

    place: Path
    path: str
    outside_of: Path | None = None


@dataclass(frozen=True, slots=True)
class EvidenceFiles:
    """Finds and ingests files below the folder that a call is made from."""

    engine: "Engine"

    def find(self, path: str) -> NamedFile | None:
        """Return the file a path names, from the caller's folder or from the top of its work tree.

        Returns `None` if there is no such file, or none that may be read.
        """
        lookup = self.engine.trees()
        here = lookup.here(self.engine.folder) if lookup else None
        top = here.top.resolve() if here else None
        for base in (self._folder, *([top] if top else [])):
            with suppress(Denied, InvalidInput, OSError):
                place = self.engine.files.place(str(base / path))
                if place.is_file():
                    start = top or self._folder.resolve()
                    name = place.relative_to(start) if place.is_relative_to(start) else place
                    root = self.engine.files.root or start
                    return NamedFile(place, name.as_posix(), None if place.is_relative_to(root) else root)
        return None

    def refusal(self, path: str) -> Denied | None:
        """Return why a path may not be read, whether or not a file is there; `None` if it may."""
        try:
            self.engine.files.place(str(self._folder / path))
        except Denied as error:
            return error
        except InvalidInput:
            return None
        return None

    @property
    def _folder(self) -> Path:
        """The caller's folder."""
        return self.engine.folder or self.engine.files.root or Path.cwd()

    def lines(self, file: NamedFile) -> list[str]:
        """Return the lines of a text file as a source contains them, without secrets; an empty list for others."""
        text = self.engine.files.text(file.place) or ""
        return redact(text.replace("\r\n", "\n")).text.splitlines()

    def ingest(self, file: NamedFile, ledger: Ledger, scope: str) -> None:
        """Read the file into the space, as `ingest` in mode `path` does. Raises what that raises."""
        self.engine.ingest_file(replace(self.engine, ledger=ledger), scope, file.place)
