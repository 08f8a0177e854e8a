"""Plans and writes the pages of a wiki by rules, from what a space holds of a repository; no model takes part."""

import re
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property, partial

from treering.core.canonical import canonical_json, digest
from treering.core.counting import counted_things
from treering.core.errors import NotFound
from treering.core.scope import ROOT
from treering.extensions.wiki.pages import LineCitation, PageKind, PagePlan, WikiPage, WikiPlan
from treering.extensions.wiki.repository.facts import RepositoryFacts, read_facts
from treering.extensions.wiki.repository.files import WikiFile
from treering.extensions.wiki.repository.packages import CodePart, part_title
from treering.extensions.wiki.repository.prose import cut, words_of
from treering.extensions.wiki.repository.sections import DocumentSection
from treering.extensions.wiki.rules.architecture_page import write_architecture
from treering.extensions.wiki.rules.changes_page import has_changes, write_changes
from treering.extensions.wiki.rules.module_page import entry_row, write_module
from treering.extensions.wiki.rules.overview_page import (
    cut_code,
    howto_documents,
    readme_of,
    write_howto,
    write_overview,
)
from treering.extensions.wiki.rules.page_body import (
    ARCHITECTURE,
    CHANGES,
    DECISIONS,
    HOWTO,
    OVERVIEW,
    REFERENCE,
    PageBody,
    PagePaths,
    bullets,
    code,
    document_plan,
    document_title,
    fenced,
    knowledge_blocks,
    paragraph,
    part_plan,
    plain,
    shown,
    table,
    wiki_title,
)
from treering.ports.runtime import check_interrupt
from treering.verbs.engine import Engine

MOST_MODULES = 150
"""Packages and modules with a page of their own, unless asked for otherwise."""
MOST_DOCUMENTS = 60
"""Documents with a page of their own, unless asked for otherwise."""


@dataclass(frozen=True)
class RuleWriter:
    """A `WikiWriter` without a model. Everything in a page comes from the space, nothing from the work tree.

    It writes of a repository or folder that was ingested at a scope. The space is read when the first plan is asked
    for, and pages tell of that moment; another writer tells of a later one. Raises `NotFound` there where nothing was
    ingested, `InvalidInput` where the scope holds several.
    """

    engine: Engine
    scope: str = ROOT
    _: KW_ONLY
    root: str | None = None
    """Its origin (`repo:…` or `file:/…`); without it the scope holds one only."""
    most_modules: int = MOST_MODULES
    most_documents: int = MOST_DOCUMENTS
    _last: dict[str, WikiPage] = field(default_factory=dict)
    """The page written last, by its path: what is asked for its inputs first is mostly written next."""

    @cached_property
    def facts(self) -> RepositoryFacts:
        """What was read of the repository."""
        return read_facts(self.engine, self.scope, self.root, most_modules=self.most_modules)

    @cached_property
    def paths(self) -> PagePaths:
        """Where pages of parts and documents lie."""
        return PagePaths(self.facts, self.most_documents)

    def plan(self) -> WikiPlan:
        """Say which pages there are to be: those on all of it, then parts by importance, then documents."""
        title = wiki_title(self.facts)
        pages = tuple(self._planned(title))
        return WikiPlan(title, f"A summary of the code and the documents of {title}, with the cited lines.", pages)

    def write(self, plan: WikiPlan, page: PagePlan) -> WikiPage:
        """Write one page. Raises `NotFound` where what it tells of is not there any more: plan again."""
        check_interrupt()
        if page.path in self._last and self._last[page.path].plan == page:
            return self._last.pop(page.path)
        return self._written(page)(plan, page)

    def inputs(self, plan: WikiPlan, page: PagePlan) -> str:
        """Return a digest of all that a page shows and cites, commits apart: by rules, nothing else goes into one."""
        written = self.write(plan, page)
        self._last.clear()
        self._last[page.path] = written
        return digest(canonical_json([page.title, page.kind, written.body, [_cited(one) for one in written.citations]]))

    def _planned(self, title: str) -> Iterable[PagePlan]:
        facts, paths = self.facts, self.paths
        readme = readme_of(facts)
        about = (readme.path,) if readme else ()
        yield PagePlan(
            OVERVIEW, title, PageKind.OVERVIEW, f"An introduction to {title}, its first steps and its parts.", about
        )
        if facts.code.parts:
            central = tuple(path for part in facts.ranked_parts[:10] for path in part.files[:1])
            why = "The layers of the code and their imports."
            yield PagePlan(ARCHITECTURE, "Architecture", PageKind.ARCHITECTURE, why, central)
        shown = tuple(file.path for file, _ in howto_documents(facts, paths))
        if shown or any(True for _ in facts.files.of_role("example")):
            yield PagePlan(HOWTO, "How do I …", PageKind.HOWTO, "Tasks with example code.", shown)
        yield from (part_plan(paths, part) for part in facts.ranked_parts)
        yield from (document_plan(paths, facts.files.files[path]) for path in paths.documents)
        if any(file.public for file in facts.files.of_role("code")):
            central = tuple(path for part in facts.ranked_parts[:50] for path in part.files[:1])
            yield PagePlan(REFERENCE, "API reference", PageKind.REFERENCE, "Everything public, by module.", central)
        if has_decisions(facts):
            why = "Recorded decisions, rules and procedures."
            yield PagePlan(DECISIONS, "Decisions and rules", PageKind.DECISIONS, why, ())
        if has_changes(facts):
            why = "Completed work, the changelog, and the files that change most."
            yield PagePlan(CHANGES, "Recent changes", PageKind.CHANGES, why, ())

    def _written(self, page: PagePlan) -> Callable[[WikiPlan, PagePlan], WikiPage]:
        facts, paths = self.facts, self.paths
        match page.kind:
            case PageKind.MODULE:
                keys = {path: key for key, path in paths.parts.items()}
                return partial(write_module, facts, paths, part=facts.code.parts[self._known(keys, page)])
            case PageKind.DOCUMENT:
                documents = {path: document for document, path in paths.documents.items()}
                return partial(write_document, facts, file=facts.files.files[self._known(documents, page)])
            case PageKind.OVERVIEW:
                return partial(write_overview, facts, paths)
            case PageKind.ARCHITECTURE:
                return partial(write_architecture, facts, paths)
            case PageKind.HOWTO:
                return partial(write_howto, facts, paths)
            case PageKind.REFERENCE:
                return partial(write_reference, facts, paths)
            case PageKind.DECISIONS:
                return partial(write_decisions, facts, paths)
            case PageKind.CHANGES:
                return partial(write_changes, facts, paths)

    def _known(self, keys: dict[str, str], page: PagePlan) -> str:
        if page.path not in keys:
            raise NotFound(
                f"The subject of the page {page.path} is not in the space.",
                hint="Make a new plan: the repository has changed since this one.",
                details={"page": page.path},
            )
        return keys[page.path]


def _cited(one: LineCitation) -> list[object]:
    # Not the commit: lines that stand as they stood are cited as well by the commit where they were read before.
    return [one.path, one.first_line, one.last_line, one.content_hash]


# Tables of everything public, by module.


MOST_ROWS = 600
"""Rows of all tables together: a longer page is read by nobody."""
_MOST_OF_A_FILE = 40


def write_reference(facts: RepositoryFacts, paths: PagePaths, plan: WikiPlan, page: PagePlan) -> WikiPage:
    """Write the page: the most important modules first, as far as there is room."""
    body = PageBody(plan, page)
    room, left = MOST_ROWS, 0
    for part in facts.ranked_parts:
        for path in part.files:
            file = facts.files.files[path]
            top = [entry for entry in file.public if not entry.owner]
            if not top:
                continue
            if room <= 0:
                left += 1
                continue
            kept = top[: min(_MOST_OF_A_FILE, room)]
            room -= len(kept)
            rows = [(*entry_row(body, file, entry), entry.kind) for entry in kept]
            body.add(f"## {_heading(facts, paths, body, part, path)}")
            body.add(table(("Name", "Description", "Kind"), rows))
            if len(top) > len(kept):
                body.add(f"{counted_things(len(top) - len(kept), 'more definition')} in {body.file(file)}.")
    if left:
        body.add(f"{counted_things(left, 'less central file')} left out here; see the pages of the modules.")
    return body.finish()


def _heading(facts: RepositoryFacts, paths: PagePaths, body: PageBody, part: CodePart, path: str) -> str:
    alone = len(part.files) == 1
    return body.to_page(paths.parts[part.key], code(part.title if alone else part_title(facts.files, path)))


# The page of what the space knows beside the files: decisions, rules, procedures and preferences.


_HEADINGS = {
    "decision": "Decisions",
    "constraint": "Rules",
    "procedure": "Procedures",
    "preference": "Preferences",
}
_RECORD = re.compile(r"(?:^|/)(?:adrs?|decisions|rfcs?|peps?|proposals)/[^/]+\.(?:md|rst|txt|adoc)$", re.IGNORECASE)
_MOST_RECORDS = 100


def has_decisions(facts: RepositoryFacts) -> bool:
    """Tell whether there is anything to say."""
    return bool(facts.known.stated) or any(_RECORD.search(path) for path in facts.files.files)


def write_decisions(facts: RepositoryFacts, paths: PagePaths, plan: WikiPlan, page: PagePlan) -> WikiPage:
    """Write the page."""
    body = PageBody(plan, page)
    for kind, heading in _HEADINGS.items():
        known = [one for one in facts.known.stated if one.kind == kind]
        if known:
            body.add(f"## {heading}")
        for one in known:
            body.add(f"### {plain(one.title)}", *knowledge_blocks(facts, paths, body, one))
    body.section("Recorded in documents", *_records(facts, paths, body))
    return body.finish()


def _records(facts: RepositoryFacts, paths: PagePaths, body: PageBody) -> Iterable[str]:
    found = [file for path, file in facts.files.files.items() if _RECORD.search(path) and file.head]
    items = []
    for file in found[:_MOST_RECORDS]:
        label = plain(document_title(file))
        page = body.to_page(paths.documents.get(file.path, ""), label)
        items.append(page if page != label else body.source(file, file.head, label))
    if items:
        yield bullets(items)
    if len(found) > len(items):
        yield f"{counted_things(len(found) - len(items), 'more record')}."


# The page of a document: what it says, section by section, in the words it begins each with.


_MOST_SECTIONS = 60
_PARAGRAPH_CHARS = 500
_ITEM_CHARS = 160
_MOST_ITEMS = 8
_CODE_LINES = 15


def write_document(facts: RepositoryFacts, plan: WikiPlan, page: PagePlan, file: WikiFile) -> WikiPage:
    """Write the page of a document."""
    body = PageBody(plan, page)
    sections = facts.sections(file)
    body.add(f"A summary of {body.file(file)}. Each heading links to its lines.")
    for at, section in enumerate(sections[:_MOST_SECTIONS]):
        said = list(_section(body, file, section))
        level = min(max(len(section.headings), 2), 5)
        is_title = at == 0 and section.title == page.title
        heading = body.source(file, section.lines, plain(section.title)) if section.title else ""
        if is_title or not heading:
            body.add(*said)
        elif said:
            body.add(f"{'#' * level} {heading}", *said)
    if len(sections) > _MOST_SECTIONS:
        body.add(f"{counted_things(len(sections) - _MOST_SECTIONS, 'more section')} in {body.file(file)}.")
    if len(body.parts) == 1:
        body.add("It contains only headings and site structure, such as lists of documents.")
    return body.finish()


def _section(body: PageBody, file: WikiFile, section: DocumentSection) -> Iterable[str]:
    first = section.first_paragraph
    items = [block for block in section.blocks if block.kind == "item"]
    if first:
        words = cut(words_of(first.text), _PARAGRAPH_CHARS)
        said = paragraph(words)
        if said:
            yield f"{said} ({body.source(file, section.cite(first))})"
    if items:
        told = [shown(cut(words_of(block.text), _ITEM_CHARS)) for block in items[:_MOST_ITEMS]]
        yield bullets([one for one in told if one])
        if len(items) > _MOST_ITEMS:
            left = counted_things(len(items) - _MOST_ITEMS, "more item")
            yield f"{left} in {body.source(file, section.cite(items[0]))}."
    block = section.first_code
    if block:
        text, is_cut = cut_code(block.text, _CODE_LINES)
        yield fenced(text, block.language)
        if is_cut:
            yield f"The rest is in {body.source(file, section.cite(block))}."
