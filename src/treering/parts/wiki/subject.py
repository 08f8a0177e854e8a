"""What a wiki is about: a repository or folder that a space holds, and where it lies here."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from treering.core.errors import InvalidInput, NotFound, TreeringError, nearest
from treering.core.filters import And, Compare
from treering.core.objects import Source
from treering.parts.wiki.files.links import FileAddresses, LinkForm, NoAddresses, SourceAddresses, forge_of
from treering.parts.wiki.files.regions import short_digest
from treering.parts.wiki.pages import LineCitation, WikiPage
from treering.ports.adapter import FileAccess, KnownRepository
from treering.ports.ledger import ObjectRequest, Selection
from treering.sources.repository.git import open_repository
from treering.sources.repository.repo_identity import RepositoryIdentity, place_of_repository
from treering.verbs.engine import Engine

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
                f"Where {self.root} lies on this machine is not known.", hint="Name the folder of the wiki with --to."
            )
        return self.top / _FOLDER

    def addresses(self, folder: Path, form: LinkForm) -> SourceAddresses:
        """Return where the citations of a wiki in `folder` lead. Raises `InvalidInput` for a form it cannot have."""
        forge = forge_of(self.remote)
        place = folder.parent.resolve() / folder.name
        inside = self.top is not None and place.is_relative_to(self.top.resolve())
        if form == "forge" and forge is None:
            raise InvalidInput(
                f"The remote of {self.root} is not a forge whose addresses are known.",
                hint="Leave --links out, or use --links files or text.",
            )
        if form == "files" and not inside:
            raise InvalidInput(
                f"{folder} does not lie in the work tree of {self.root}.",
                hint="Leave --links out, or use --links text.",
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
    maps = list(_maps(engine, scope))
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
            f"The scope {scope} holds {len(maps)} repositories.",
            hint="Run this in the work tree of one of them, or name it with --repository.",
            details={"known": [one.origin for one in maps]},
        )
    folder = (repository or Path.cwd()).resolve()
    if not any(_files_below(engine, scope, f"file:{folder.as_posix()}")):
        raise NotFound(
            f"The scope {scope} holds no repository, and no files of {folder}.",
            hint="Bring it in first: treering ingest .",
        )
    return WikiSubject(f"file:{folder.as_posix()}", folder)


def known_subject(engine: Engine, scope: str, name: str) -> WikiSubject:
    """Return the repository of a name or an origin, else the only one that the scope holds. Looks at no file.

    Raises `NotFound` where there is none, `InvalidInput` where there are several.
    """
    maps = list(_maps(engine, scope))
    found = [one for one in maps if not name or name in (one.title, one.origin)]
    if not found:
        told = [one.title for one in maps]
        raise NotFound(
            f"The scope {scope} holds no repository" + (f" {name!r}." if name else "."),
            hint=nearest(name, told) if name and told else "Bring it in first: treering ingest .",
        )
    if len(found) > 1:
        raise InvalidInput(
            f"The scope {scope} holds {len(found)} repositories.",
            hint="Name one of them.",
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


def _maps(engine: Engine, scope: str) -> Iterator[Source]:
    where = And((Compare("kind", "eq", "repo"), Compare("status", "eq", "active")))
    for item in engine.ledger.select(Selection(scope=scope, types=("source",), where=where)):
        if isinstance(item, Source):
            yield item


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
