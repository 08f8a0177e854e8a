"""Selection of a repository's files, from a commit or the work tree."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from treering.core.errors import InvalidInput
from treering.extensions.code.repository.contents import RepositoryContents, TreeEntry, WorkChange
from treering.extensions.code.repository.project_layout import folders_above
from treering.extensions.code.repository.repo_map import api_entries, document_entries, folders_of, module_paths
from treering.extensions.code.repository.work_trees import read_lying
from treering.ports.adapter import ReadLimits
from treering.ports.format import Formats
from treering.sources.git.repository import blob_id
from treering.sources.options import flag
from treering.sources.reading.folder import (
    Pattern,
    own_files_as_they_lie,
    own_manifests,
    parse_patterns,
)

_MOST_GLOBS = 1_000
_LONGEST_PATH = 4_096
_TRUE = ("", "=true", "=1", "=set")
_NEVER_READ = frozenset({".obsidian", ".treering"})
"""Folders of settings and data of programs, which git may track."""


@dataclass(frozen=True, slots=True)
class Globs:
    """Patterns as in `.gitignore`: the last one that matches a path, or a folder it is in, decides."""

    patterns: tuple[Pattern, ...]

    @classmethod
    def of(cls, lines: Sequence[str]) -> "Globs":
        """Parse patterns; `!` negates, and invalid ones are skipped."""
        return cls(tuple(parse_patterns(lines)))

    def match(self, path: str) -> bool:
        """Return whether a path, relative to the top of the repository, matches; `False` for an overlong path."""
        if len(path) > _LONGEST_PATH:
            return False
        folders = [path[:at] for at, sign in enumerate(path) if sign == "/"]
        for pattern in reversed(self.patterns):
            places = folders if pattern.folders_only else [path, *folders]
            if any(pattern.regex.fullmatch(place) for place in places):
                return pattern.leaves_out
        return False


@dataclass(frozen=True, slots=True)
class RepoSelection:
    """The files to read. `folder` is relative to the top of the repository, empty for all of it."""

    commit: str | None
    worktree: bool
    redact: bool
    folder: str
    include: Globs | None
    exclude: Globs | None

    def takes(self, path: str) -> bool:
        """Return whether `path` is selected."""
        inside = not self.folder or path.startswith(f"{self.folder}/")
        included = self.include is None or self.include.match(path)
        return inside and included and not (self.exclude is not None and self.exclude.match(path))


@dataclass(frozen=True, slots=True)
class Attributes:
    """The files marked as vendored or generated in `.gitattributes` at the top of the repository."""

    marks: Mapping[str, Globs]

    def sets_aside(self, path: str) -> str | None:
        """Return the mark that excludes `path` from the project's own work, if any."""
        return next((mark for mark, spec in self.marks.items() if spec.match(path)), None)


def parse_selection(options: Mapping[str, Any], *, prefix: str) -> RepoSelection:
    """Parse the adapter's options; other keys are ignored.

    `prefix` is the folder of the target in its repository. Raises `InvalidInput`.
    """
    commit, worktree = _optional_text(options, "commit"), flag(options, "worktree", default=False)
    if commit and worktree:
        raise InvalidInput(
            "`commit` and `worktree` cannot be combined.",
            hint="Omit `commit` to read the work tree, or `worktree` to read a commit.",
        )
    return RepoSelection(
        commit=commit,
        worktree=worktree,
        redact=flag(options, "redact_secrets", default=True),
        folder=_folder(prefix, _optional_text(options, "subfolder") or ""),
        include=_globs(options, "include"),
        exclude=_globs(options, "exclude"),
    )


def parse_attributes(text: str) -> Attributes:
    """Parse the marks `linguist-vendored` and `linguist-generated` of a `.gitattributes` file."""
    lines: dict[str, list[str]] = {"linguist-vendored": [], "linguist-generated": []}
    for line in text.splitlines():
        pattern, *attributes = line.split() or [""]
        if pattern.startswith(("#", "!", "[attr]")):
            continue
        for mark, patterns in lines.items():
            patterns.extend(_signed(pattern, attributes, mark))
    return Attributes({mark: Globs.of(patterns[:_MOST_GLOBS]) for mark, patterns in lines.items() if patterns})


def _signed(pattern: str, attributes: Sequence[str], mark: str) -> list[str]:
    yes = any(attribute == mark + value for attribute in attributes for value in _TRUE)
    no = any(attribute in (f"-{mark}", f"!{mark}", f"{mark}=false") for attribute in attributes)
    return [pattern] * yes + [f"!{pattern}"] * no


def _optional_text(options: Mapping[str, Any], name: str) -> str | None:
    value = options.get(name)
    if value is None or isinstance(value, str):
        return value
    raise InvalidInput(f"`{name}` must be text, not {type(value).__name__}.", hint=f"Give {name} as a string.")


def _folder(prefix: str, subfolder: str) -> str:
    path = PurePosixPath(subfolder.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts:
        raise InvalidInput(
            f"The subfolder {subfolder!r} is outside the repository.",
            hint="Give it relative to the folder that is read, such as 'src/app'.",
        )
    folder = PurePosixPath(prefix) / path
    return str(folder) if folder.parts else ""


def _globs(options: Mapping[str, Any], name: str) -> Globs | None:
    value = options.get(name)
    if not value:
        return None
    globs = [value] if isinstance(value, str) else value
    if not isinstance(globs, Sequence) or not all(isinstance(glob, str) for glob in globs):
        raise InvalidInput(f"`{name}` must be a glob or a list of globs.", hint="Such as ['src/**', '*.md'].")
    if len(globs) > _MOST_GLOBS:
        raise InvalidInput(
            f"`{name}` has {len(globs)} globs; at most {_MOST_GLOBS} are allowed.", hint="Combine some of them."
        )
    return Globs.of(globs)


@dataclass(frozen=True)
class RepoTerrain:
    """The nodes of a repository's map, and their paths. `entries` are its files, as in the map."""

    slug: str
    entries: Sequence[TreeEntry]

    def subject(self, path: str) -> str:
        """Return the node that statements of a file are about: its module, else the repository, as `kind:slug`."""
        return next(
            (self.key("module", folder) for folder in folders_above(path) if folder in self._modules),
            f"repo:{self.slug}",
        )

    def ties(self) -> Mapping[str, Sequence[str]]:
        """Return the paths of each node's files, by `kind:slug`."""
        tied: dict[str, list[str]] = {}
        for entry in self.entries:
            for key in self._keys(entry.path):
                tied.setdefault(key, []).append(entry.path)
        return tied

    def present(self) -> Mapping[str, frozenset[str]]:
        """Return the possible slugs of nodes of existing files, by kind."""
        files = frozenset(f"{self.slug}/{entry.path}" for entry in self.entries)
        folders = frozenset(f"{self.slug}/{path}" for path in folders_of(self.entries))
        return {"module": folders, "document": files, "api": files}

    def key(self, kind: str, path: str) -> str:
        """Return the key by which drafts refer to the node of a path."""
        return f"{kind}:{self.slug}/{path}"

    def _keys(self, path: str) -> Iterator[str]:
        if path in self._documents:
            yield self.key("document", path)
        if path in self._apis:
            yield self.key("api", path)
        if (subject := self.subject(path)) != f"repo:{self.slug}":
            yield subject

    @cached_property
    def _modules(self) -> frozenset[str]:
        return frozenset(module_paths(self.entries))

    @cached_property
    def _documents(self) -> frozenset[str]:
        return frozenset(entry.path for entry in document_entries(self.entries))

    @cached_property
    def _apis(self) -> frozenset[str]:
        return frozenset(entry.path for entry in api_entries(self.entries))


@dataclass(frozen=True, slots=True)
class RepoItem:
    """A file to report on: from `commit`, or from the work tree at `file`."""

    entry: TreeEntry
    commit: str | None
    file: Path | None = None


@dataclass(frozen=True, slots=True)
class FileReader:
    """Settings for reading files."""

    formats: Formats
    limits: ReadLimits

    def max_bytes(self, path: str, size: int) -> int:
        """Return the maximum size of a file, which formats may extend."""
        usual = self.limits.max_file_bytes
        return usual if size <= usual else self.formats.max_bytes(path, self.limits)


def snapshot(
    repository: RepositoryContents,
    commit: str | None,
    entries: Sequence[TreeEntry],
    selection: RepoSelection,
    reader: FileReader,
) -> list[RepoItem]:
    """Return the files of a commit, or of the work tree if `selection` requests it, by path.

    `entries` are the files of the commit.

    Files in a folder `.treering`, such as an exam, are excluded: an exam's questions would answer themselves. Raises
    `InvalidInput` without a work tree.
    """
    items = {entry.path: RepoItem(entry, commit) for entry in entries if _NEVER_READ.isdisjoint(entry.path.split("/"))}
    if not selection.worktree:
        if selection.commit is None and repository.top is not None:
            _use_own_files_of_work_tree(items, repository, repository.top, reader, commit)
        return [items[path] for path in sorted(items)]
    if repository.top is None:
        raise InvalidInput(
            "This repository has no work tree: it is bare, or `core.worktree` points to another folder.",
            hint="Omit `worktree` to read a commit.",
        )
    for change in repository.work_changes():
        if change.deleted:
            items.pop(change.path, None)
        elif _NEVER_READ.isdisjoint(change.path.split("/")):
            item = _work_tree_item(repository.top, change, reader, commit)
            before = items.get(change.path)
            if before is None or before.entry != item.entry:
                items[change.path] = item
    return [items[path] for path in sorted(items)]


def _use_own_files_of_work_tree(
    items: dict[str, RepoItem], repository: RepositoryContents, top: Path, reader: FileReader, commit: str | None
) -> None:
    """Replace files that Treering wrote, such as a wiki, by their current state in the work tree.

    So a person's change of a page is proposed before it is committed.
    """
    manifests = [items[path] for path in own_manifests(items) if items[path].entry.kind == "file"]
    texts = {entry.path: data for entry, data in repository.blobs(item.entry for item in manifests) if data}
    gone, present = own_files_as_they_lie(top, texts, items)
    for path in gone:
        items.pop(path, None)
    for path in present:
        if not (top / path).is_file():
            items.pop(path)
            continue
        item = _work_tree_item(top, WorkChange(path, top / path, deleted=False), reader, commit)
        if path not in items or items[path].entry != item.entry:
            items[path] = item


def _work_tree_item(top: Path, change: WorkChange, reader: FileReader, commit: str | None) -> RepoItem:
    """Return an item for a changed file in the work tree, with the object id git would give its contents."""
    if change.file.is_symlink() or not change.file.parent.resolve().is_relative_to(top.resolve()):
        return RepoItem(TreeEntry(change.path, "symlink", "", 0), None, change.file)
    if change.file.is_dir():
        return RepoItem(TreeEntry(change.path.rstrip("/"), "submodule", "", 0), None, change.file)
    data = read_lying(change.file, reader.max_bytes(change.path, _size(change.file)))
    if data is None:
        return RepoItem(TreeEntry(change.path, "file", "", _size(change.file)), None, change.file)
    return RepoItem(TreeEntry(change.path, "file", blob_id(data, like=commit or ""), len(data)), None, change.file)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0
