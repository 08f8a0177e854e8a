"""The subject of a wiki: a repository or folder in a space, and its location on this machine."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from treering.core.errors import InvalidInput, NotFound, TreeringError, nearest
from treering.core.objects import Source
from treering.extensions.wiki.files.addresses import LinkForm, SourceAddress, file_addresses, forge_of, no_address
from treering.extensions.wiki.files.regions import short_digest
from treering.extensions.wiki.pages import LineCitation, WikiPage
from treering.extensions.wiki.repository.files import read_sources
from treering.ports.adapter import FileAccess, KnownRepository
from treering.ports.ledger import SourceState
from treering.sources.git.identity import RepositoryIdentity, place_of_repository
from treering.sources.git.repository import GitRepository
from treering.verbs.engine import Engine
from treering.verbs.trees import repository_maps

_FOLDER = "wiki"


@dataclass(frozen=True, slots=True)
class WikiSubject:
    """A repository or folder."""

    root: str
    """The prefix of the origins of its files: `repo:…` or `file:/…`."""
    top: Path | None
    """Its work tree on this machine; `None` if unknown."""
    remote: str = ""
    commit: str = ""
    date: str = ""
    """The date of the commit, as YYYY-MM-DD."""

    @property
    def folder(self) -> Path:
        """Return the default folder of its wiki. Raises `InvalidInput` if the work tree is unknown."""
        if self.top is None:
            raise InvalidInput(
                f"The location of {self.root} on this machine is unknown.",
                hint="Give the folder of the wiki with --to.",
            )
        return self.top / _FOLDER

    def addresses(self, folder: Path, form: LinkForm) -> SourceAddress:
        """Return the addresses of citations for a wiki in `folder`. Raises `InvalidInput` if `form` is impossible."""
        forge = forge_of(self.remote)
        place = folder.parent.resolve() / folder.name
        top = self.top.resolve() if self.top else None
        files = file_addresses(place.relative_to(top).as_posix()) if top and place.is_relative_to(top) else None
        if form == "forge" and forge is None:
            raise InvalidInput(
                f"The remote of {self.root} is not a known forge.",
                hint="Omit --links, or use --links files or text.",
            )
        if form == "files" and files is None:
            raise InvalidInput(
                f"{folder} is not in the work tree of {self.root}.",
                hint="Omit --links, or use --links text.",
            )
        available = {"auto": forge or files, "forge": forge, "files": files, "text": None}
        return available[form] or no_address


def cited_texts(engine: Engine, pages: Iterable[WikiPage]) -> Callable[[LineCitation], str]:
    """Read the segments that pages cite; return a function from a citation to its text, or "" if it is missing."""
    places = list({(one.source_id, one.segment_id): None for page in pages for one in page.citations})
    segments = engine.ledger.segments(places, altered={})

    def text_of(citation: LineCitation) -> str:
        segment = segments.get((citation.source_id, citation.segment_id))
        return segment.excerpt if segment else ""

    return text_of


def find_subject(engine: Engine, scope: str, *, repository: Path | None, files: FileAccess) -> WikiSubject:
    """Return the repository in a folder, else the only one of the scope.

    Raises `NotFound` if there is none, `InvalidInput` if there are several.
    """
    maps = list(repository_maps(engine.ledger, scope, descend=False))
    here = _identity(repository, files)
    if here is not None:
        root = settled_root(here, maps)
        for one in maps:
            if one.origin == root:
                return _subject(one, here.repository.top)
    if len(maps) == 1:
        place = place_of_repository(maps[0].origin)
        return _subject(maps[0], place if place is not None and (place / ".git").exists() else None)
    if maps:
        raise _several(scope, maps, "Run this in the work tree of one of them, or choose it with --repository.")
    folder = (repository or Path.cwd()).resolve()
    if not engine.ledger.sources(scope=scope, root=f"file:{folder.as_posix()}"):
        raise NotFound(
            f"The scope {scope} contains no repository and no files of {folder}.",
            hint="Read it first: treering add .",
        )
    return WikiSubject(f"file:{folder.as_posix()}", folder)


def known_subject(engine: Engine, scope: str, name: str) -> WikiSubject:
    """Return the repository with a name or origin, else the only one of the scope, without access to files.

    Raises `NotFound` if there is none, `InvalidInput` if there are several.
    """
    maps = list(repository_maps(engine.ledger, scope, descend=False))
    matching = [one for one in maps if not name or name in (one.title, one.origin)]
    if not matching:
        titles = [one.title for one in maps]
        raise NotFound(
            f"The scope {scope} contains no repository" + (f" {name!r}." if name else "."),
            hint=nearest(name, titles) if name and titles else "Read it first: treering add .",
        )
    if len(matching) > 1:
        raise _several(scope, matching, "Choose one of them.")
    return _subject(matching[0], None)


def file_states(
    engine: Engine, scope: str, root: str, paths: Sequence[str], *, prefix: str = ""
) -> dict[str, SourceState]:
    """Return the state of source files of a repository or folder, by path; unknown files are omitted.

    `prefix`: the beginning of the origins before the root.
    """
    joint = "#" if root.startswith("repo:") else "/"
    origins = {f"{prefix}{root}{joint}{path}": path for path in paths}
    states = engine.ledger.sources_at(scope=scope, origins=list(origins))
    return {origins[origin]: state for origin, state in states.items()}


def digests_now(engine: Engine, scope: str, root: str, paths: Sequence[str]) -> dict[str, Collection[str]]:
    """Return the digests of the current texts of source files, by path; deleted files are omitted."""
    states = file_states(engine, scope, root, paths)
    ids = {state.id: path for path, state in states.items() if state.status == "active"}
    return {
        ids[source.id]: {short_digest(part.excerpt) for part in source.segments}
        for source in read_sources(engine.ledger, ids)
    }


def _identity(repository: Path | None, files: FileAccess) -> RepositoryIdentity | None:
    try:
        return RepositoryIdentity(GitRepository.open(str(repository or Path.cwd()), files), files)
    except TreeringError:
        if repository is not None and not repository.is_dir():
            raise
        return None


def settled_root(identity: RepositoryIdentity, maps: Iterable[Source]) -> str:
    """Return the origin of a repository, given the maps of known ones."""
    return identity.settle([KnownRepository(one.origin, one.title, one.payload) for one in maps]).root


def _several(scope: str, maps: Sequence[Source], hint: str) -> InvalidInput:
    known = [one.origin for one in maps]
    return InvalidInput(f"The scope {scope} contains {len(maps)} repositories.", hint=hint, details={"known": known})


def _subject(repository: Source, top: Path | None) -> WikiSubject:
    payload = repository.payload
    return WikiSubject(
        repository.origin,
        top,
        remote=str(payload.get("remote") or ""),
        commit=str(payload.get("commit") or ""),
        date=str(payload.get("committed_at") or "")[:10],
    )
