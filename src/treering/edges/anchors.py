"""Where the head of an audit log is kept outside its space."""

import json
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from pydantic import ValidationError

from treering.core.audit import Anchor
from treering.core.errors import Corrupt, Unavailable
from treering.edges.private_files import make_folder, write_new


class FileAnchor:
    """A small file, best on another disk or in a place that is backed up. Replaced atomically."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> Anchor | None:
        """Return the head kept. Raises `Corrupt` where the file is not an anchor."""
        try:
            return Anchor.model_validate_json(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError, ValidationError) as error:
            raise Corrupt(
                f"The anchor {self._path} cannot be read.",
                hint="Restore it from a backup. To start a new anchor, remove it.",
            ) from error

    def write(self, anchor: Anchor) -> None:
        """Keep a head. A new file is for its owner alone; one that is there keeps its mode."""
        temporary = self._path.with_name(f"{self._path.name}.{uuid4().hex}.tmp")
        try:
            make_folder(self._path.parent)
            try:
                write_new(temporary, json.dumps(anchor.model_dump()).encode())
                with suppress(FileNotFoundError):
                    temporary.chmod(stat.S_IMODE(self._path.stat().st_mode))
                temporary.replace(self._path)
            finally:
                temporary.unlink(missing_ok=True)
        except OSError as error:
            raise Unavailable(
                f"The anchor {self._path} cannot be written: {error.strerror}.",
                hint="The commit itself is durable; make the anchor writable.",
            ) from error


class CallbackAnchor:
    """Hands each new head to a function of the caller's, who keeps it wherever they like."""

    def __init__(self, tell: Callable[[Anchor], None]) -> None:
        self._tell = tell

    def read(self) -> Anchor | None:
        """Return nothing: the caller compares."""
        return None

    def write(self, anchor: Anchor) -> None:
        """Tell the caller."""
        self._tell(anchor)
