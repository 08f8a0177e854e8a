"""The repository that a wiki is about: brought into the space, and its files as they lie, for reading alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from treering.core.errors import InvalidInput, TreeringError
from treering.core.filters import Compare
from treering.core.objects import Source
from treering.core.scope import ROOT
from treering.core.secrets.redaction import redact
from treering.parts.wiki.memories.wiki_memory import WikiGenerationStore, WikiRepository
from treering.parts.wiki.pages import WikiPlan, WikiWriter
from treering.parts.wiki.writing.citing import Citations, RepositoryPlace
from treering.ports.adapter import FileAccess, KnownRepository
from treering.ports.ledger import Selection
from treering.sources.reading.folder import open_regular, read_at_most
from treering.sources.reading.lines import split_lines
from treering.sources.repository.git import open_repository
from treering.sources.repository.repo_identity import RepositoryIdentity
from treering.surfaces.python.space import Space

MOST_FILE_BYTES = 2_000_000


@dataclass(frozen=True)
class WorkTree:
    """The files of a work tree that a space has read, and no others. Links are not followed; secrets are redacted."""

    root: Path
    """Absolute, its links resolved."""
    sizes: dict[str, int]
    """The files by path from the root, in order, with their sizes in bytes."""
    _lines: dict[str, Sequence[str] | None] = field(default_factory=dict)

    def lines(self, path: str) -> Sequence[str] | None:
        """Return the lines of a text file; `None` for what is not a file of the repository, no text, or too large."""
        if path not in self._lines:
            self._lines[path] = self._read(path) if path in self.sizes else None
        return self._lines[path]

    def _read(self, path: str) -> Sequence[str] | None:
        place = self.root.joinpath(*PurePosixPath(path).parts)
        try:
            if place.resolve(strict=True) != place:
                return None  # a link leads there
            stream = open_regular(place)
            if stream is None:
                return None
            with stream:
                data = read_at_most(stream, MOST_FILE_BYTES + 1)
        except OSError:
            return None
        if len(data) > MOST_FILE_BYTES or b"\0" in data:
            return None
        return split_lines(redact(data.decode("utf-8-sig", "replace")).text)


@dataclass(frozen=True, slots=True)
class ReadRepository:
    """A repository that a space has read."""

    place: RepositoryPlace
    tree: WorkTree
    commit: str | None = None
    remote: str = ""
    """The address of the repository on the network, if any."""


@dataclass(frozen=True, slots=True)
class WikiMaterial:
    """What a writer has for one run: the space, the repository in it and its work tree, and lines to be cited."""

    space: Space
    repository: WikiRepository
    """With the generation and the commit that the run is of: under it agents store and find their memories."""
    run_id: str
    read: ReadRepository
    citations: Citations
    memories: WikiGenerationStore
    known: WikiPlan | None
    """The plan of the wiki as it stands; `None` where a new generation is written."""


MakeWriter = Callable[[WikiMaterial], WikiWriter]


def read_repository(space: Space, folder: Path, scope: str = ROOT, *, without: Path | None = None) -> ReadRepository:
    """Bring the work tree in a folder into a space, as it lies, and return it. A folder outside of git is read too.

    `without`: a folder that is left out where it lies in the work tree, such as that of the wiki itself.
    Files that did not change are not read again. Raises `InvalidInput` for something else than a folder, `Denied` where
    the space may not read it.
    """
    if not folder.is_dir():
        raise InvalidInput(f"{folder} is not a folder.", hint="Give the folder of the work tree as repository=….")
    root = space.engine.files.place(str(folder))
    left_out = _below(without, root) if without else ""
    options: dict[str, Any] = {"exclude": [f"/{left_out}"]} if left_out else {}
    identity = _identity(root, space.engine.files)
    if identity is None:
        space.ingest("path", scope=scope, input={"path": str(root)}, options=options)
        place = RepositoryPlace(scope, f"file:{root.as_posix()}/")
        return ReadRepository(place, _tree(space, place, root, left_out))
    space.ingest("repo", scope=scope, input={"path": str(root)}, options={"worktree": True, **options})
    maps = _sources(space, scope, Compare("kind", "eq", "repo"))
    known = [KnownRepository(one.origin, one.title, one.payload) for one in maps]
    place = RepositoryPlace(scope, f"{identity.settle(known).root}#")
    return ReadRepository(
        place, _tree(space, place, root, left_out), identity.repository.head(), identity.repository.remote() or ""
    )


def _identity(root: Path, access: FileAccess) -> RepositoryIdentity | None:
    """Return the repository that lies in a folder; `None` for a folder outside of git."""
    try:
        repository = open_repository(root, access)
    except TreeringError:
        return None
    if repository.home.resolve() != root:
        raise InvalidInput(
            f"{root} lies inside the repository {repository.home}, and a wiki is of all of it.",
            hint=f"Give {repository.home} as the repository.",
        )
    return RepositoryIdentity(repository, access)


def _below(folder: Path, root: Path) -> str:
    """Return where a folder lies below another one, ending in `/`; nothing where it does not."""
    place = folder.absolute().resolve()
    return f"{place.relative_to(root).as_posix()}/" if place != root and place.is_relative_to(root) else ""


def _tree(space: Space, place: RepositoryPlace, root: Path, left_out: str) -> WorkTree:
    found = _sources(space, place.scope, Compare("origin", "prefix", place.prefix))
    sizes = {one.origin.removeprefix(place.prefix): int(one.metadata.get("size", 0)) for one in found}
    sizes = {path: size for path, size in sizes.items() if not left_out or not path.startswith(left_out)}
    return WorkTree(root, dict(sorted(sizes.items())))


def _sources(space: Space, scope: str, where: Compare) -> list[Source]:
    found = space.engine.ledger.select(Selection(scope, types=("source",), where=where))
    return [one for one in found if isinstance(one, Source) and one.status == "active" and one.scope == scope]
