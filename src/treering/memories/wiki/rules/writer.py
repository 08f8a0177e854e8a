"""Plans and writes the pages of a wiki by rules, from what a space holds of a repository; no model takes part."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property, partial

from treering.core.canonical import canonical_json, digest
from treering.core.errors import NotFound
from treering.core.scope import ROOT
from treering.memories.wiki.pages import LineCitation, PageKind, PagePlan, WikiPage, WikiPlan
from treering.memories.wiki.repository.facts import RepositoryFacts, read_facts
from treering.memories.wiki.rules.architecture_page import write_architecture
from treering.memories.wiki.rules.changes_page import has_changes, write_changes
from treering.memories.wiki.rules.decisions_page import has_decisions, write_decisions
from treering.memories.wiki.rules.document_page import write_document
from treering.memories.wiki.rules.howto_page import howto_documents, write_howto
from treering.memories.wiki.rules.module_page import write_module
from treering.memories.wiki.rules.naming import (
    ARCHITECTURE,
    CHANGES,
    DECISIONS,
    HOWTO,
    OVERVIEW,
    REFERENCE,
    PagePaths,
    document_plan,
    part_plan,
    wiki_title,
)
from treering.memories.wiki.rules.overview_page import readme_of, write_overview
from treering.memories.wiki.rules.reference_page import write_reference
from treering.ports.interrupt import check_interrupt
from treering.tools.engine import Engine

MOST_MODULES = 150
"""Packages and modules with a page of their own, unless asked for otherwise."""
MOST_DOCUMENTS = 60
"""Documents with a page of their own, unless asked for otherwise."""


def rule_writer(
    engine: Engine,
    scope: str = ROOT,
    *,
    root: str | None = None,
    most_modules: int = MOST_MODULES,
    most_documents: int = MOST_DOCUMENTS,
) -> "RuleWriter":
    """Return the writer of the wiki of a repository or folder that was ingested at a scope.

    `root` is its origin (`repo:…` or `file:/…`); without it the scope holds one only. The space is read when the
    first plan is asked for, and pages tell of that moment; another writer tells of a later one. Raises `NotFound`
    there where nothing was ingested, `InvalidInput` where the scope holds several.
    """
    return RuleWriter(engine, scope, root, most_modules, most_documents)


@dataclass(frozen=True)
class RuleWriter:
    """A `WikiWriter` without a model. Everything in a page comes from the space, nothing from the work tree."""

    engine: Engine
    scope: str
    root: str | None
    most_modules: int
    most_documents: int
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
        return WikiPlan(title, f"What the code and the documents of {title} say, with the lines that say so.", pages)

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
        yield PagePlan(OVERVIEW, title, PageKind.OVERVIEW, f"What {title} is, how to start, and its parts.", about)
        if facts.code.parts:
            central = tuple(path for part in facts.ranked_parts[:10] for path in part.files[:1])
            why = "The layers of the code, and who imports whom."
            yield PagePlan(ARCHITECTURE, "Architecture", PageKind.ARCHITECTURE, why, central)
        shown = tuple(file.path for file, _ in howto_documents(facts, paths))
        if shown or any(True for _ in facts.files.of_role("example")):
            yield PagePlan(HOWTO, "How do I …", PageKind.HOWTO, "Tasks, with the code that does them.", shown)
        yield from (part_plan(paths, part) for part in facts.ranked_parts)
        yield from (document_plan(paths, facts.files.files[path]) for path in paths.documents)
        if any(file.public for file in facts.files.of_role("code")):
            central = tuple(path for part in facts.ranked_parts[:50] for path in part.files[:1])
            yield PagePlan(REFERENCE, "API reference", PageKind.REFERENCE, "Everything public, by module.", central)
        if has_decisions(facts):
            why = "Decisions, rules and procedures that are known."
            yield PagePlan(DECISIONS, "Decisions and rules", PageKind.DECISIONS, why, ())
        if has_changes(facts):
            why = "Work that was done, the changelog, and what changes most often."
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
                f"What the page {page.path} tells of is not in the space.",
                hint="Make another plan: the repository has changed since this one.",
                details={"page": page.path},
            )
        return keys[page.path]


def _cited(one: LineCitation) -> list[object]:
    # Not the commit: lines that stand as they stood are cited as well by the commit where they were read before.
    return [one.path, one.first_line, one.last_line, one.content_hash]
