"""Operations on a space's wiki as files: write it, report its status and its broken links."""

import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.token import Token
from pydantic import Field

from treering.core.errors import NotFound
from treering.extensions.wiki.files.folder import WikiFolder
from treering.extensions.wiki.files.links import LinkForm, heading_anchors, unquoted
from treering.extensions.wiki.files.manifest import RESERVED, WikiManifest, WrittenFile, without_matter
from treering.extensions.wiki.files.rendering import KnownFile, is_edited
from treering.extensions.wiki.pages import WikiPage, WikiPlan
from treering.extensions.wiki.reading import PAGE, kept_wiki, written_pages
from treering.extensions.wiki.rules.writer import RuleWriter
from treering.extensions.wiki.subject import CitedTexts, WikiSubject, digests_now, find_subject
from treering.sources.reading.folder import place_in, read_bytes
from treering.verbs.envelope import READS, Call, Nothing, Operation, Value
from treering.verbs.trees import in_tree

# Whether the links of a wiki lead somewhere: to its pages, their headings, and files of the work tree it lies in.


_MOST_BYTES = 16 * 1024 * 1024
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
_WEB = re.compile(r"(?:https?:|mailto:)", re.IGNORECASE)
_LINES = re.compile(r"L(\d{1,9})(?:-L?(\d{1,9}))?")
_ANCHOR = re.compile(r"<a\s[^>]*?\b(?:id|name)=[\"']([^\"'>]+)[\"']", re.IGNORECASE)
_MARKDOWN = MarkdownIt("commonmark").enable("table")
# Bad addresses are to be found, not left out.
_MARKDOWN.validateLink = lambda url: True  # type: ignore[method-assign]  # noqa: ARG005


class BrokenLink(Value):
    """A link that leads nowhere."""

    page: str
    target: str
    why: str


def broken_links(folder: Path, *, work_tree: Path | None = None) -> list[BrokenLink]:
    """Return the links of all pages in a folder that lead nowhere. Addresses on the network are not asked."""
    return list(_LinkCheck(folder, work_tree).run())


@dataclass
class _LinkCheck:
    folder: Path
    work_tree: Path | None
    _texts: dict[Path, str | None] = field(default_factory=dict)
    _anchors: dict[Path, frozenset[str]] = field(default_factory=dict)

    def run(self) -> Iterator[BrokenLink]:
        for page in sorted(self.folder.rglob("*.md")):
            path = page.relative_to(self.folder)
            if any(name.startswith(".") for name in path.parts) or page.is_symlink():
                continue
            text = self._text(page)
            if text is None:
                yield BrokenLink(page=path.as_posix(), target="", why="the page cannot be read")
                continue
            for target in dict.fromkeys(_targets(without_matter(text))):
                why = self._why_broken(page, target)
                if why:
                    yield BrokenLink(page=path.as_posix(), target=target, why=why)

    def _why_broken(self, page: Path, target: str) -> str:
        if _SCHEME.match(target):
            return "" if _WEB.match(target) else "its scheme is not supported"
        address, _, fragment = target.partition("#")
        place = self._place(page, unquoted(address))
        if place is None:
            return "it points outside the wiki and its work tree"
        try:
            there = place.exists()
        except (OSError, ValueError):
            there = False
        if not there:
            return "the file does not exist"
        return self._why_no_fragment(place, unquoted(fragment)) if fragment and place.is_file() else ""

    def _place(self, page: Path, address: str) -> Path | None:
        if not address:
            return page
        if address.startswith("/") or "\0" in address:
            return None
        place = place_in(page.parent, address).resolve()
        roots = [root.resolve() for root in (self.folder, self.work_tree) if root]
        return place if any(place.is_relative_to(root) for root in roots) else None

    def _why_no_fragment(self, place: Path, fragment: str) -> str:
        text = self._text(place)
        if text is None:
            return "the file cannot be read"
        lines = _LINES.fullmatch(fragment)
        if lines and not place.is_relative_to(self.folder.resolve()):
            last = max(int(lines[1]), int(lines[2] or 0))
            count = len(text.splitlines())
            return "" if int(lines[1]) and last <= count else f"the file has {count} lines"
        if place.suffix == ".md" and fragment not in self._anchors_of(place, text):
            return "the page has no such heading"
        return ""

    def _anchors_of(self, place: Path, text: str) -> frozenset[str]:
        if place not in self._anchors:
            body = without_matter(text)
            named = {one.forge for one in heading_anchors(body)}
            self._anchors[place] = frozenset(named | set(_ANCHOR.findall(body)))
        return self._anchors[place]

    def _text(self, place: Path) -> str | None:
        if place not in self._texts:
            try:
                data = read_bytes(place, _MOST_BYTES)
                self._texts[place] = None if data is None or len(data) > _MOST_BYTES else data.decode()
            except (OSError, UnicodeDecodeError):
                self._texts[place] = None
        return self._texts[place]


def _targets(body: str) -> Iterator[str]:
    for token in _MARKDOWN.parse(body):
        for child in token.children or ():
            found = _target(child)
            if found:
                yield found


def _target(token: Token) -> str:
    name = {"link_open": "href", "image": "src"}.get(token.type)
    return str(token.attrGet(name) or "") if name else ""


# Whether the pages of a written wiki still say what the sources say.


PageState = Literal["fresh", "stale", "unresolved"]
"""`stale`: cited lines changed; `unresolved`: a cited file is gone, or a link of the page is broken."""

_MOST_REASONS = 5


class PageStanding(Value):
    """A page, and whether it still stands."""

    path: str
    title: str
    state: PageState
    why: tuple[str, ...] = ()


def standings(manifest: WikiManifest, digests: Mapping[str, Collection[str]]) -> list[PageStanding]:
    """Return how the pages stand. `digests`: of the texts that each source file holds now, by its path."""
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
    """Which wiki. Paths are given as they are: a link in the place of the folder is seen and not followed."""

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
    """Files that a person wrote or changed outside of regions of their own: they stay as they are."""
    dry_run: bool = False


class WikiStatus(Value):
    """The status of a wiki."""

    folder: str
    title: str
    pages: tuple[PageStanding, ...]
    conflicts: tuple[str, ...] = ()
    """Pages that a person changed outside of regions of their own."""
    missing: tuple[str, ...] = ()
    """Pages that were written and are not there."""
    broken_links: tuple[BrokenLink, ...] = ()

    @property
    def in_order(self) -> bool:
        """Return whether nothing needs attention."""
        fresh = all(page.state == "fresh" for page in self.pages)
        return fresh and not (self.conflicts or self.missing or self.broken_links)


def build(call: Call, given: WikiInput, options: BuildOptions) -> WikiWritten:
    """Write the wiki of a repository into a folder. Raises what `WikiFolder.publish` raises, and `NotFound`."""
    call, subject = _subject(call, given.repository)
    folder = _folder(given.to, subject)
    return _write(call, subject, folder, options)


def publish(call: Call, given: PublishInput, options: BuildOptions) -> WikiWritten:
    """Write the wiki of a repository into a folder for readers elsewhere: no citation leads into the work tree.

    Raises `NotFound` where `generated` names a wiki that the space does not keep.
    """
    kept = kept_wiki(call.engine, given.generated, given.branch) if given.generated else None
    call, subject = _subject(call, given.repository)
    elsewhere = replace(subject, top=None) if options.links == "auto" else subject
    return _write(call, elsewhere, _folder(given.to, elsewhere), options, kept)


def status(call: Call, given: WikiInput, _options: Nothing) -> WikiStatus:
    """Tell which pages are stale and why, which a person changed, and which links lead nowhere."""
    call, subject = _subject(call, given.repository)
    folder = _folder(given.to, subject)
    wiki = WikiFolder(folder)
    manifest = wiki.manifest()
    if not manifest.files:
        raise NotFound(f"There is no wiki in {folder}.", hint="Create it first: treering wiki build.")
    known = wiki.known_files()
    cited = sorted({one.path for file in manifest.files.values() for one in file.cited})
    return WikiStatus(
        folder=str(folder),
        title=manifest.title,
        pages=tuple(standings(manifest, digests_now(call.engine, call.scope, subject.root, cited))),
        conflicts=tuple(sorted(_edited(manifest, known))),
        missing=tuple(sorted(path for path in manifest.files if path not in known)),
        broken_links=tuple(broken_links(folder, work_tree=subject.top)),
    )


def _write(
    call: Call,
    subject: WikiSubject,
    folder: Path,
    options: BuildOptions,
    kept: tuple[WikiPlan, list[WikiPage]] | None = None,
) -> WikiWritten:
    """Write a wiki: that which is kept, else one that is made of rules."""
    addresses = subject.addresses(folder, options.links)
    plan, pages = kept or written_pages(RuleWriter(call.engine, call.scope, root=subject.root), call.engine.progress)
    texts = CitedTexts(call.engine)
    texts.read(pages)
    wiki = WikiFolder(folder, addresses, texts, commit=subject.commit, date=subject.date)
    told = wiki.preview(plan, pages) if options.dry_run else wiki.publish(plan, pages)
    return WikiWritten(folder=str(folder), title=plan.title, pages=len(pages), dry_run=options.dry_run, **asdict(told))


def _subject(call: Call, repository: str) -> tuple[Call, WikiSubject]:
    """Return what the wiki is about, and a call that reads what stands in its work tree."""
    folder = Path(repository) if repository else None
    found = find_subject(call.engine, call.scope, repository=folder, files=call.files)
    engine = in_tree(call.engine.asked_from(found.top), call.scope)
    return replace(call, engine=engine), found


def _folder(to: str, subject: WikiSubject) -> Path:
    # Not `resolve`, which would follow a link in the place of the folder.
    return Path(os.path.abspath(to)) if to else subject.folder  # noqa: PTH100


def _edited(manifest: WikiManifest, known: dict[str, KnownFile]) -> list[str]:
    return [
        path
        for path, record in manifest.files.items()
        if path in known and is_edited(record, known[path].text) and path not in RESERVED
    ]


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
