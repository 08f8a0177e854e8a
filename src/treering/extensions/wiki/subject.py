"""What a wiki is about: a repository or folder that a space holds, where it lies here, and its files as they lie."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from treering.core.errors import InvalidInput, NotFound, TreeringError, nearest
from treering.core.filters import Compare
from treering.core.objects import Source
from treering.core.scope import ROOT
from treering.core.secrets.redaction import redact
from treering.extensions.wiki.citing import Citations, RepositoryPlace
from treering.extensions.wiki.files.links import FileAddresses, LinkForm, NoAddresses, SourceAddresses, forge_of
from treering.extensions.wiki.files.manifest import short_digest
from treering.extensions.wiki.memories.wiki_memory import WikiGenerationStore, WikiRepository
from treering.extensions.wiki.pages import LineCitation, WikiPage, WikiPlan, WikiWriter
from treering.ports.adapter import FileAccess, KnownRepository
from treering.ports.ledger import ObjectRequest, Selection
from treering.sources.git.identity import RepositoryIdentity, place_of_repository
from treering.sources.git.repository import open_repository
from treering.sources.reading.encodings import decode
from treering.sources.reading.folder import open_regular, read_at_most
from treering.sources.reading.lines import split_lines
from treering.surfaces.python.space import Space
from treering.verbs.engine import Engine
from treering.verbs.trees import repository_maps

_BATCH_SIZE = 50
_FOLDER = "wiki"


@dataclass(frozen=True, slots=True)
class WikiSubject:
    """A repository or folder."""

    root: str
    """What the origins of its files begin with: `repo:…` or `file:/…`."""
    top: Path | None
    """Its work tree on this machine; `None` where it is not known."""
    remote: str = ""
    commit: str = ""
    date: str = ""
    """Of the commit, as YYYY-MM-DD."""

    @property
    def folder(self) -> Path:
        """Return where its wiki lies unless somebody says otherwise. Raises `InvalidInput` where nobody knows."""
        if self.top is None:
            raise InvalidInput(
                f"The location of {self.root} on this machine is unknown.",
                hint="Give the folder of the wiki with --to.",
            )
        return self.top / _FOLDER

    def addresses(self, folder: Path, form: LinkForm) -> SourceAddresses:
        """Return where the citations of a wiki in `folder` lead. Raises `InvalidInput` for a form it cannot have."""
        forge = forge_of(self.remote)
        place = folder.parent.resolve() / folder.name
        inside = self.top is not None and place.is_relative_to(self.top.resolve())
        if form == "forge" and forge is None:
            raise InvalidInput(
                f"The remote of {self.root} is not a known forge.",
                hint="Omit --links, or use --links files or text.",
            )
        if form == "files" and not inside:
            raise InvalidInput(
                f"{folder} is not in the work tree of {self.root}.",
                hint="Omit --links, or use --links text.",
            )
        if forge is not None and form in ("auto", "forge"):
            return forge
        if inside and self.top is not None and form in ("auto", "files"):
            return FileAddresses(place.relative_to(self.top.resolve()).as_posix())
        return NoAddresses()


@dataclass
class CitedTexts:
    """Gives the text of cited lines, as the segments that hold them carry it."""

    engine: Engine
    _texts: dict[tuple[str, str], str] = field(default_factory=dict)

    def read(self, pages: Iterable[WikiPage]) -> None:
        """Read at once what pages cite."""
        places = list({(one.source_id, one.segment_id): None for page in pages for one in page.citations})
        found = self.engine.ledger.segments(places, altered={})
        self._texts |= {place: found[place].excerpt if place in found else "" for place in places}

    def __call__(self, citation: LineCitation) -> str:
        """Return the text; empty where the space has none."""
        place = (citation.source_id, citation.segment_id)
        if place not in self._texts:
            found = self.engine.ledger.segments([place], altered={})
            self._texts[place] = found[place].excerpt if place in found else ""
        return self._texts[place]


def find_subject(engine: Engine, scope: str, *, repository: Path | None, files: FileAccess) -> WikiSubject:
    """Return the repository that lies at a place, else the only one that the scope holds.

    Raises `NotFound` where there is none, `InvalidInput` where there are several.
    """
    maps = list(repository_maps(engine.ledger, scope, descend=False))
    here = _identity(repository, files)
    if here is not None:
        known = [KnownRepository(one.origin, one.title, one.payload) for one in maps]
        root = here.settle(known).root
        found = next((one for one in maps if one.origin == root), None)
        if found is not None:
            return _subject(found, here.repository.top)
    if len(maps) == 1:
        return _subject(maps[0], _place(maps[0].origin))
    if maps:
        raise InvalidInput(
            f"The scope {scope} contains {len(maps)} repositories.",
            hint="Run this in the work tree of one of them, or choose it with --repository.",
            details={"known": [one.origin for one in maps]},
        )
    folder = (repository or Path.cwd()).resolve()
    if not any(_files_below(engine, scope, f"file:{folder.as_posix()}")):
        raise NotFound(
            f"The scope {scope} contains no repository and no files of {folder}.",
            hint="Ingest it first: treering ingest .",
        )
    return WikiSubject(f"file:{folder.as_posix()}", folder)


def known_subject(engine: Engine, scope: str, name: str) -> WikiSubject:
    """Return the repository of a name or an origin, else the only one that the scope holds. Looks at no file.

    Raises `NotFound` where there is none, `InvalidInput` where there are several.
    """
    maps = list(repository_maps(engine.ledger, scope, descend=False))
    found = [one for one in maps if not name or name in (one.title, one.origin)]
    if not found:
        told = [one.title for one in maps]
        raise NotFound(
            f"The scope {scope} contains no repository" + (f" {name!r}." if name else "."),
            hint=nearest(name, told) if name and told else "Ingest it first: treering ingest .",
        )
    if len(found) > 1:
        raise InvalidInput(
            f"The scope {scope} contains {len(found)} repositories.",
            hint="Choose one of them.",
            details={"known": [one.origin for one in found]},
        )
    return _subject(found[0], None)


def digests_now(engine: Engine, scope: str, root: str, paths: Sequence[str]) -> dict[str, Collection[str]]:
    """Return the digests of the texts that source files hold now, by path; files that are gone are left out."""
    joint = "#" if root.startswith("repo:") else "/"
    origins = {f"{root}{joint}{path}": path for path in paths}
    states = engine.ledger.sources_at(scope=scope, origins=list(origins))
    ids = {state.id: origins[origin] for origin, state in states.items() if state.status == "active"}
    digests: dict[str, Collection[str]] = {}
    identities = list(ids)
    for start in range(0, len(identities), _BATCH_SIZE):
        (found,) = engine.ledger.read([ObjectRequest(objects=tuple(identities[start : start + _BATCH_SIZE]))])
        for identity, item in found.objects.items():
            if isinstance(item, Source):
                digests[ids[identity]] = {short_digest(part.excerpt) for part in item.segments}
    return digests


def _identity(repository: Path | None, files: FileAccess) -> RepositoryIdentity | None:
    try:
        return RepositoryIdentity(open_repository(str(repository or Path.cwd()), files), files)
    except TreeringError:
        if repository is not None and not repository.is_dir():
            raise
        return None


def _files_below(engine: Engine, scope: str, root: str) -> Iterator[str]:
    yield from engine.ledger.sources(scope=scope, root=root)


def _subject(found: Source, top: Path | None) -> WikiSubject:
    told = found.payload
    return WikiSubject(
        found.origin,
        top,
        remote=str(told.get("remote") or ""),
        commit=str(told.get("commit") or ""),
        date=str(told.get("committed_at") or "")[:10],
    )


def _place(origin: str) -> Path | None:
    place = place_of_repository(origin)
    return place if place is not None and place.is_dir() else None


# The repository that a wiki is about: brought into the space, and its files as they lie, for reading alone.


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
        decoded = decode(data) if len(data) <= MOST_FILE_BYTES else None
        return split_lines(redact(decoded.text).text) if decoded else None


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
    identity = _identity_of_tree(root, space.engine.files)
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


def _identity_of_tree(root: Path, access: FileAccess) -> RepositoryIdentity | None:
    """Return the repository that lies in a folder; `None` for a folder outside of git."""
    try:
        repository = open_repository(root, access)
    except TreeringError:
        return None
    if repository.home.resolve() != root:
        raise InvalidInput(
            f"{root} is inside the repository {repository.home}, but a wiki covers the whole repository.",
            hint=f"Use {repository.home} as the repository.",
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
