"""A repository in a space with its current files, as the input of writers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from treering.core.errors import InvalidInput, TreeringError
from treering.core.filters import Compare
from treering.core.objects import Source
from treering.core.scope import ROOT
from treering.core.secrets.redaction import redact
from treering.extensions.wiki.citing import Citations, RepositoryPlace
from treering.extensions.wiki.memories.wiki_memory import WikiGenerationStore, WikiRepository
from treering.extensions.wiki.pages import WikiPlan, WikiWriter
from treering.extensions.wiki.subject import settled_root
from treering.ports.adapter import FileAccess
from treering.ports.ledger import Selection
from treering.sources.git.identity import RepositoryIdentity
from treering.sources.git.repository import GitRepository
from treering.sources.reading.encodings import decode
from treering.sources.reading.folder import read_bytes
from treering.sources.reading.lines import split_lines
from treering.surfaces.python.space import Space
from treering.verbs.trees import repository_maps

MOST_FILE_BYTES = 2_000_000


@dataclass(frozen=True)
class WorkTree:
    """The files of a work tree that are in a space. Symbolic links are not followed; secrets are redacted."""

    root: Path
    """An absolute path without symbolic links."""
    sizes: dict[str, int]
    """The sizes of the files in bytes, by sorted path from the root."""
    _lines: dict[str, Sequence[str] | None] = field(default_factory=dict)

    def lines(self, path: str) -> Sequence[str] | None:
        """Return the lines of a file, or `None` if it is not in the repository, not text, or too large."""
        if path not in self._lines:
            self._lines[path] = self._read(path) if path in self.sizes else None
        return self._lines[path]

    def _read(self, path: str) -> Sequence[str] | None:
        place = self.root.joinpath(*PurePosixPath(path).parts)
        try:
            is_linked = place.resolve(strict=True) != place
            data = None if is_linked else read_bytes(place, MOST_FILE_BYTES)
        except OSError:
            return None
        decoded = decode(data) if data is not None and len(data) <= MOST_FILE_BYTES else None
        return split_lines(redact(decoded.text).text) if decoded else None


@dataclass(frozen=True, slots=True)
class ReadRepository:
    """A repository in a space, with its work tree."""

    place: RepositoryPlace
    tree: WorkTree
    commit: str | None = None
    remote: str = ""
    """The address of the repository on the network, if any."""


@dataclass(frozen=True, slots=True)
class WikiMaterial:
    """The input of a writer for one run."""

    space: Space
    repository: WikiRepository
    """The owner of the agents' memories, with the generation and commit of the run."""
    run_id: str
    read: ReadRepository
    citations: Citations
    memories: WikiGenerationStore
    known: WikiPlan | None
    """The current plan of the wiki; `None` for a new generation."""


MakeWriter = Callable[[WikiMaterial], WikiWriter]


def read_repository(space: Space, folder: Path, scope: str = ROOT, *, without: Path | None = None) -> ReadRepository:
    """Ingest the current files of a work tree, or of a folder outside of git, into a space and return them.

    `without`: a folder to exclude, such as the folder of the wiki. Unchanged files are not read again. Raises
    `InvalidInput` if `folder` is not a folder, `Denied` if the space may not read it.
    """
    if not folder.is_dir():
        raise InvalidInput(f"{folder} is not a folder.", hint="Give the folder of the work tree as repository=….")
    root = space.engine.files.place(str(folder))
    left_out = _below(without, root) if without else ""
    options: dict[str, Any] = {"exclude": [f"/{left_out}"]} if left_out else {}
    identity = _identity_of_tree(root, space.engine.files)
    if identity is None:
        space.ingest("path", scope=scope, input={"path": str(root)}, options=options)
        place = RepositoryPlace(scope, f"file:{root.as_posix()}/")
        return ReadRepository(place, _tree(space, place, root, left_out))
    space.ingest("repo", scope=scope, input={"path": str(root)}, options={"worktree": True, **options})
    maps = [one for one in repository_maps(space.engine.ledger, scope, descend=False) if one.scope == scope]
    place = RepositoryPlace(scope, f"{settled_root(identity, maps)}#")
    return ReadRepository(
        place, _tree(space, place, root, left_out), identity.repository.head(), identity.repository.remote() or ""
    )


def _identity_of_tree(root: Path, access: FileAccess) -> RepositoryIdentity | None:
    """Return the repository of a work tree; `None` for a folder outside of git."""
    try:
        repository = GitRepository.open(root, access)
    except TreeringError:
        return None
    if repository.home.resolve() != root:
        raise InvalidInput(
            f"{root} is inside the repository {repository.home}, but a wiki covers the whole repository.",
            hint=f"Use {repository.home} as the repository.",
        )
    return RepositoryIdentity(repository, access)


def _below(folder: Path, root: Path) -> str:
    """Return the path of a folder below another one, ending in `/`, or "" if it is not below."""
    place = folder.absolute().resolve()
    return f"{place.relative_to(root).as_posix()}/" if place != root and place.is_relative_to(root) else ""


def _tree(space: Space, place: RepositoryPlace, root: Path, left_out: str) -> WorkTree:
    where = Compare("origin", "prefix", place.prefix)
    sizes: dict[str, int] = {}
    for one in space.engine.ledger.select(Selection(place.scope, types=("source",), where=where)):
        if isinstance(one, Source) and one.status == "active" and one.scope == place.scope:
            path = one.origin.removeprefix(place.prefix)
            if not left_out or not path.startswith(left_out):
                sizes[path] = int(one.metadata.get("size", 0))
    return WorkTree(root, dict(sorted(sizes.items())))
