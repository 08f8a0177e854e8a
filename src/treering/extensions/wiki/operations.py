"""Operations on a wiki as files: write it, and report its status."""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Literal

from pydantic import Field

from treering.core.errors import NotFound
from treering.core.versions import GIT_BLOB, HeldContents, is_blob
from treering.extensions.wiki.broken_links import BrokenLink, broken_links
from treering.extensions.wiki.files.addresses import LinkForm
from treering.extensions.wiki.files.changes import KnownFile, is_edited
from treering.extensions.wiki.files.folder import MOST_BYTES, WikiFolder
from treering.extensions.wiki.files.manifest import WikiManifest, WrittenFile
from treering.extensions.wiki.files.page_path import RESERVED
from treering.extensions.wiki.own_pages import PREFIX, edit_fingerprint
from treering.extensions.wiki.pages import WikiPage, WikiPlan
from treering.extensions.wiki.reading import PAGE, kept_wiki, written_pages
from treering.extensions.wiki.rules.writer import RuleWriter
from treering.extensions.wiki.subject import WikiSubject, cited_texts, digests_now, file_states, find_subject
from treering.sources.git.repository import blob_id
from treering.sources.reading.folder import read_bytes
from treering.verbs.envelope import READS, Call, Nothing, Operation, Value
from treering.verbs.trees import in_tree

PageState = Literal["fresh", "stale", "unresolved"]
"""`stale`: cited lines changed; `unresolved`: a cited file is gone, or a link of the page is broken."""

_MOST_REASONS = 5


class PageStanding(Value):
    """The state of a page."""

    path: str
    title: str
    state: PageState
    why: tuple[str, ...] = ()


def standings(manifest: WikiManifest, digests: Mapping[str, Collection[str]]) -> list[PageStanding]:
    """Return the states of the pages. `digests`: the digests of the current texts of each source file, by path."""
    return [_standing(path, record, digests) for path, record in sorted(manifest.files.items()) if path not in RESERVED]


def _standing(path: str, record: WrittenFile, digests: Mapping[str, Collection[str]]) -> PageStanding:
    missing = list(dict.fromkeys(_missing(record, digests)))
    changed = list(dict.fromkeys(_changed(record, digests)))
    state: PageState = "unresolved" if missing else "stale" if changed else "fresh"
    return PageStanding(path=path, title=record.title, state=state, why=_bounded([*missing, *changed]))


def _missing(record: WrittenFile, digests: Mapping[str, Collection[str]]) -> Iterator[str]:
    yield from (f"{one.path} was deleted" for one in record.cited if one.path not in digests)
    yield from (f"its link {link} is broken" for link in record.unresolved)


def _changed(record: WrittenFile, digests: Mapping[str, Collection[str]]) -> Iterator[str]:
    for one in record.cited:
        if one.path in digests and one.digest and one.digest not in digests[one.path]:
            yield f"{one.path}#L{one.first}-L{one.last} changed"


def _bounded(reasons: list[str]) -> tuple[str, ...]:
    more = len(reasons) - _MOST_REASONS
    return (*reasons[:_MOST_REASONS], *([f"and {more} more"] if more > 0 else []))


class WikiInput(Value):
    """The wiki. Symbolic links in the place of the folder are not followed."""

    to: str = Field(default="", description="Folder of the wiki; default: `wiki` in the work tree of the repository.")
    repository: str = Field(default="", description="Work tree; default: the current one.")


class BuildOptions(Value):
    """How to write it."""

    links: LinkForm = Field(
        default="auto", description="Target of citations: forge, files, text; auto uses the first that is available."
    )
    dry_run: bool = Field(default=False, description="Show the changes without making them.")


class PublishInput(Value):
    """The destination."""

    to: str = Field(min_length=1, description="Folder to write to.")
    repository: str = Field(default="", description="Work tree; default: the current one.")
    generated: str = Field(
        default="", description="repository_id of a wiki that `generate_wiki` stored in the space: publish this one."
    )
    branch: str = Field(default="", description="Branch of `generated`; default: the wiki without a branch.")


class WikiWritten(Value):
    """The changes of writing a wiki. Paths are relative to its folder."""

    folder: str
    title: str
    pages: int
    written: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    """Files that a person wrote or changed outside of marked regions; they are left unchanged."""
    dry_run: bool = False


class WikiStatus(Value):
    """The status of a wiki."""

    folder: str
    title: str
    pages: tuple[PageStanding, ...]
    conflicts: tuple[str, ...] = ()
    """Pages that a person changed outside of marked regions, without the pages whose edits were accepted."""
    missing: tuple[str, ...] = ()
    """Pages that were written and deleted since."""
    broken_links: tuple[BrokenLink, ...] = ()
    unread: tuple[str, ...] = ()
    """Cited files of the work tree that changed since they were read: the states of the pages ignore these changes."""

    @property
    def in_order(self) -> bool:
        """Return whether nothing needs attention."""
        fresh = all(page.state == "fresh" for page in self.pages)
        return fresh and not (self.conflicts or self.missing or self.broken_links)


def build(call: Call, given: WikiInput, options: BuildOptions) -> WikiWritten:
    """Write the wiki of a repository into a folder. Raises the errors of `WikiFolder.publish`, and `NotFound`."""
    call, subject = _subject(call, given.repository)
    folder = _folder(given.to, subject)
    return _write(call, subject, folder, options)


def publish(call: Call, given: PublishInput, options: BuildOptions) -> WikiWritten:
    """Write the wiki of a repository into a folder for other readers, without links into the work tree.

    Raises `NotFound` if the space has no wiki `generated`.
    """
    kept = kept_wiki(call.engine, given.generated, given.branch) if given.generated else None
    call, subject = _subject(call, given.repository)
    elsewhere = replace(subject, top=None) if options.links == "auto" else subject
    return _write(call, elsewhere, _folder(given.to, elsewhere), options, kept)


def status(call: Call, given: WikiInput, _options: Nothing) -> WikiStatus:
    """Return stale pages with the reasons, pages changed by a person, and broken links."""
    call, subject = _subject(call, given.repository)
    folder = _folder(given.to, subject)
    wiki = WikiFolder(folder)
    manifest = wiki.manifest()
    if not manifest.files:
        raise NotFound(f"There is no wiki in {folder}.", hint="Create it first: treering wiki build.")
    known = wiki.known_files()
    edited = {path: manifest.files[path] for path in _edited(manifest, known)}
    accepted = _accepted(call, subject, folder, edited, known)
    cited = sorted({one.path for file in manifest.files.values() for one in file.cited})
    return WikiStatus(
        folder=str(folder),
        title=manifest.title,
        pages=tuple(standings(manifest, digests_now(call.engine, call.scope, subject.root, cited))),
        conflicts=tuple(sorted(edited.keys() - set(accepted))),
        missing=tuple(sorted(path for path in manifest.files if path not in known)),
        broken_links=tuple(broken_links(folder, work_tree=subject.top)),
        unread=tuple(_unread(call, subject, cited)),
    )


def _write(
    call: Call,
    subject: WikiSubject,
    folder: Path,
    options: BuildOptions,
    kept: tuple[WikiPlan, list[WikiPage]] | None = None,
) -> WikiWritten:
    """Write the stored wiki `kept`, by default one made by rules."""
    addresses = subject.addresses(folder, options.links)
    plan, pages = kept or written_pages(RuleWriter(call.engine, call.scope, root=subject.root), call.engine.progress)
    texts = cited_texts(call.engine, pages)
    wiki = WikiFolder(folder, addresses, texts, commit=subject.commit, date=subject.date)
    changes = asdict(wiki.preview(plan, pages) if options.dry_run else wiki.publish(plan, pages))
    return WikiWritten(folder=str(folder), title=plan.title, pages=len(pages), dry_run=options.dry_run, **changes)


def _subject(call: Call, repository: str) -> tuple[Call, WikiSubject]:
    """Return the subject of the wiki, and a call that reads its work tree."""
    folder = Path(repository) if repository else None
    subject = find_subject(call.engine, call.scope, repository=folder, files=call.files)
    engine = in_tree(call.engine.asked_from(subject.top), call.scope)
    return replace(call, engine=engine), subject


def _folder(to: str, subject: WikiSubject) -> Path:
    # Not `resolve`, which follows symbolic links.
    return Path(os.path.abspath(to)) if to else subject.folder  # noqa: PTH100


def _edited(manifest: WikiManifest, known: dict[str, KnownFile]) -> list[str]:
    return [
        path
        for path, record in manifest.files.items()
        if path in known and is_edited(record, known[path].text) and path not in RESERVED
    ]


def _accepted(
    call: Call, subject: WikiSubject, folder: Path, edited: Mapping[str, WrittenFile], known: Mapping[str, KnownFile]
) -> Iterator[str]:
    """Return the edited pages whose current edits are in the space: a reviewer has accepted them."""
    place = folder.parent.resolve() / folder.name
    top = subject.top.resolve() if subject.top else None
    is_inside = top is not None and place.is_relative_to(top)
    root = subject.root if is_inside else f"file:{place.as_posix()}"
    inside = {path: (place.relative_to(top) / path).as_posix() if top and is_inside else path for path in edited}
    states = file_states(call.engine, call.scope, root, list(inside.values()), prefix=PREFIX)
    for path, record in edited.items():
        state = states.get(inside[path])
        fingerprint = edit_fingerprint(record, known[path])
        if state and state.status == "active" and fingerprint in HeldContents.parse(state.fingerprint).fingerprints:
            yield path


def _unread(call: Call, subject: WikiSubject, paths: Sequence[str]) -> Iterator[str]:
    """Return the files of a repository that differ in the work tree from the read ones."""
    if subject.top is None or not subject.root.startswith("repo:"):
        return
    for path, state in sorted(file_states(call.engine, call.scope, subject.root, paths).items()):
        place = subject.top / path
        is_readable = state.status == "active" and call.files.holds(place) and not place.is_symlink()
        data = read_bytes(place, MOST_BYTES) if is_readable and place.is_file() else None
        if data is None:
            continue
        blob = f"{GIT_BLOB}{blob_id(data, like=subject.commit)}"
        if not any(is_blob(one, blob) for one in HeldContents.parse(state.fingerprint).fingerprints):
            yield path


_READS_FILES = replace(READS, reads_files=True)

BUILD = Operation(
    "wiki build",
    "Write the wiki of a repository as Markdown files; only changed files are written.",
    WikiInput,
    BuildOptions,
    WikiWritten,
    build,
    rights=replace(_READS_FILES, writes_files=True),
    repeatable=True,
)
PUBLISH = Operation(
    "wiki publish",
    "Publish the wiki of a repository to a folder for other readers.",
    PublishInput,
    BuildOptions,
    WikiWritten,
    publish,
    rights=replace(_READS_FILES, writes_files=True),
    repeatable=True,
)
STATUS = Operation(
    "wiki status",
    "Report stale pages with the reason, pages changed by a person, and broken links.",
    WikiInput,
    Nothing,
    WikiStatus,
    status,
    rights=_READS_FILES,
)
OPERATIONS = (BUILD, STATUS, PUBLISH, PAGE)
