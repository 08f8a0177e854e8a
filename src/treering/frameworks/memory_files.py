"""The commands of Claude's memory tool over a space, with files below `/memories`.

A file is a record; folders exist only as parts of paths. Output and errors are the same as those of the local file tool
of the `anthropic` package.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from treering.core.characters import well_formed
from treering.extensions.client.record_names import KeptRecord, RecordCollection, RecordDraft, RecordName
from treering.extensions.client.records import Records, searchable
from treering.verbs.engine import retry_on_conflict

ROOT = "/memories"
_HOME = "memory-files"
_REASON = "A file of the memory tool"
_MOST_LINES = 999_999
_NUMBER_WIDTH = 6
_LISTED_LEVELS = 2
_AROUND = 2
"""Lines that are shown before and after a change."""
_UNITS = "BKMG"
_MOST_PATH = 1_000


class FileRefused(Exception):
    """A command that cannot be done; its text is for the model."""


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """A file: its path below `/memories`, and its text."""

    path: str
    text: str
    revision: int = 0

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return len(self.text.encode())


class MemoryFiles:
    """The files of one folder of a space. Every command is one patch: done whole, or not at all."""

    def __init__(self, records: Records, folder: str, *, erase: bool = False) -> None:
        self._records = records
        self._collection = RecordCollection((_HOME, folder))
        self._erase = erase

    def view(self, path: str, lines: Sequence[int] | None = None) -> str:
        """Return the text of a file with line numbers, or list a folder up to two levels deep."""
        key = _key(path)
        if file := self._file(key):
            return _numbered(path, file.text, lines)
        below = self._below(key)
        if key and not below:
            raise FileRefused(f"The path {path} does not exist. Please provide a valid path.")
        return _listing(path.rstrip("/"), key, below)

    def create(self, path: str, text: str) -> str:
        """Make a file, in the folders that its path names."""
        retry_on_conflict(lambda: self._create(path, text))
        return f"File created successfully at: {path}"

    def str_replace(self, path: str, old: str, new: str) -> str:
        """Replace a text that occurs once in a file."""
        return retry_on_conflict(lambda: self._replace(path, old, new))

    def insert(self, path: str, line: int, text: str) -> str:
        """Insert text behind a line of a file; 0 is before the first."""
        retry_on_conflict(lambda: self._insert(path, line, text))
        return f"The file {path} has been edited."

    def delete(self, path: str) -> str:
        """Delete a file, or a folder with its files."""
        key = _key(path)
        if not key:
            raise FileRefused(f"Cannot delete the {ROOT} directory itself")
        files = [file] if (file := self._file(key)) else self._below(key)
        if not files:
            raise FileRefused(f"The path {path} does not exist")
        self._records.remove([self._name(file.path) for file in files], reason=_REASON, erase=self._erase)
        return f"Successfully deleted {path}"

    def rename(self, old: str, new: str) -> str:
        """Give a file or a folder another path."""
        retry_on_conflict(lambda: self._rename(old, new))
        return f"Successfully renamed {old} to {new}"

    def clear(self) -> str:
        """Delete all files."""
        if self._erase:
            self._records.erase_collection(self._collection, reason=_REASON)
        else:
            self._records.remove([self._name(file.path) for file in self._below("")], reason=_REASON)
        return "All memory cleared"

    def _create(self, path: str, text: str) -> None:
        key = _key(path)
        if not key or self._file(key) or self._below(key):
            raise FileRefused(f"File {path} already exists")
        self._check_parents(key)
        self._write(MemoryFile(key, text))

    def _replace(self, path: str, old: str, new: str) -> str:
        file = self._there(path)
        places = _places(file.text, old)
        if not places:
            raise FileRefused(f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}.")
        lines = [file.text.count("\n", 0, place) + 1 for place in places]
        if len(places) > 1:
            raise FileRefused(
                f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: "
                f"{', '.join(map(str, lines))}. Please ensure it is unique"
            )
        text = file.text.replace(old, new)
        self._write(MemoryFile(file.path, text, file.revision))
        return "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n" + (
            _snippet(text, lines[0])
        )

    def _insert(self, path: str, line: int, text: str) -> None:
        file = self._there(path)
        lines = file.text.split("\n")
        if lines[-1] == "":
            lines.pop()
        if not 0 <= line <= len(lines):
            raise FileRefused(
                f"Invalid `insert_line` parameter: {line}. It should be within the range [0, {len(lines)}]."
            )
        lines.insert(line, text.rstrip("\n"))
        changed = "\n".join(lines)
        self._write(MemoryFile(file.path, changed if changed.endswith("\n") else f"{changed}\n", file.revision))

    def _rename(self, old: str, new: str) -> None:
        key, to = _key(old), _key(new)
        if not key:
            raise FileRefused(f"Cannot rename the {ROOT} directory itself")
        if not to or self._file(to) or self._below(to):
            raise FileRefused(f"The destination {new} already exists")
        files = [file] if (file := self._file(key)) else self._below(key)
        if not files:
            raise FileRefused(f"The path {old} does not exist")
        if to.startswith(f"{key}/"):
            raise FileRefused(f"The destination {new} is inside {old}")
        self._check_parents(to)
        moved = {self._name(file.path): to + file.path[len(key) :] for file in files}
        self._records.write(rename=moved, reason=_REASON)

    def _there(self, path: str) -> MemoryFile:
        key = _key(path)
        if file := self._file(key):
            return file
        if not key or self._below(key):
            raise FileRefused(f"The path {path} is not a file.")
        raise FileRefused(f"The path {path} does not exist. Please provide a valid path.")

    def _check_parents(self, key: str) -> None:
        parts = key.split("/")
        parents = ["/".join(parts[:most]) for most in range(1, len(parts))]
        found = self._records.get([self._name(parent) for parent in parents])
        for name in found:
            raise FileRefused(f"{ROOT}/{name.key} is a file, not a directory.")

    def _write(self, file: MemoryFile) -> None:
        if file.text.count("\n") >= _MOST_LINES:
            raise FileRefused(f"File {ROOT}/{file.path} exceeds maximum line limit of 999,999 lines.")
        content = well_formed(file.text)
        text = searchable(content)
        # Recalled text is not searchable, but remains in the file.
        value = {} if text == content else {"text": content}
        draft = RecordDraft(self._name(file.path), value, text, {"path": file.path}, expected_revision=file.revision)
        self._records.write([draft], reason=_REASON)

    def _file(self, key: str) -> MemoryFile | None:
        name = self._name(key)
        record = self._records.get([name]).get(name) if key else None
        return _read(record) if record else None

    def _below(self, key: str) -> list[MemoryFile]:
        return [_read(record) for record in self._records.all_of(self._collection, below=key) if record.key != key]

    def _name(self, key: str) -> RecordName:
        return self._collection.name(key)


def _read(record: KeptRecord) -> MemoryFile:
    return MemoryFile(record.key, str(record.value.get("text", record.text)), record.revision)


def _key(path: str) -> str:
    """Return a path relative to `/memories`. Raises `FileRefused` if it is outside."""
    written = path
    for _ in range(3):
        written = unquote(written)
    parts = path.split("/")
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise FileRefused(f"Path must start with {ROOT}, got: {path}")
    if any(part in {".", ".."} for text in (path, written) for part in text.replace("\\", "/").split("/")):
        raise FileRefused(f"Path {path} would escape {ROOT} directory")
    if len(path) > _MOST_PATH or not path.isprintable():
        raise FileRefused(f"A path has at most {_MOST_PATH} characters, none of which controls anything: {path!r}")
    return "/".join(part for part in parts[2:] if part)


def _numbered(path: str, text: str, shown: Sequence[int] | None) -> str:
    lines = text.split("\n")
    first, last = 1, len(lines)
    if shown and len(shown) == 2:
        first = max(1, shown[0])
        last = len(lines) if shown[1] == -1 else shown[1]
    return f"Here's the content of {path} with line numbers:\n" + "\n".join(
        _line(number, line) for number, line in enumerate(lines[first - 1 : last], start=first)
    )


def _snippet(text: str, changed: int) -> str:
    lines = text.split("\n")
    first = max(1, changed - _AROUND)
    return "\n".join(_line(number, line) for number, line in enumerate(lines[first - 1 : changed + _AROUND], first))


def _line(number: int, text: str) -> str:
    return f"{number:>{_NUMBER_WIDTH}}\t{text}"


def _places(text: str, part: str) -> list[int]:
    """Return all positions of a text, including overlapping ones; none for an empty text."""
    places, at = list[int](), text.find(part) if part else -1
    while at >= 0:
        places.append(at)
        at = text.find(part, at + 1)
    return places


def _listing(shown: str, key: str, files: Sequence[MemoryFile]) -> str:
    sizes: dict[tuple[str, ...], int] = {}
    folders: set[tuple[str, ...]] = set()
    for file in files:
        parts = tuple(file.path[len(key) :].strip("/").split("/"))
        for depth in range(1, min(len(parts), _LISTED_LEVELS) + 1):
            sizes[parts[:depth]] = sizes.get(parts[:depth], 0) + file.size
            if depth < len(parts):
                folders.add(parts[:depth])
    listed = sorted(parts for parts in sizes if not any(part.startswith(".") for part in parts))
    lines = [f"{_size(sum(file.size for file in files))}\t{shown}"]
    lines += [f"{_size(sizes[parts])}\t{shown}/{'/'.join(parts)}{'/' * (parts in folders)}" for parts in listed]
    header = f"Here're the files and directories up to 2 levels deep in {shown}, excluding hidden items:"
    return "\n".join([header, *lines])


def _size(count: int) -> str:
    unit = min(max(count.bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    size = count / 1024**unit
    return f"{int(size) if size == int(size) else f'{size:.1f}'}{_UNITS[unit]}"
