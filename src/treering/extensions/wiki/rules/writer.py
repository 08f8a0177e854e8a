"""Plan and write the pages of a wiki by rules, without a model."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property

from treering.core.canonical import canonical_json, digest
from treering.core.errors import NotFound
from treering.core.scope import ROOT
from treering.extensions.wiki.pages import LineCitation, PageKind, PagePlan, WikiPage, WikiPlan
from treering.extensions.wiki.repository.facts import RepositoryFacts, read_facts
from treering.extensions.wiki.repository.packages import CodePart, repository_title
from treering.extensions.wiki.rules.architecture_page import write_architecture
from treering.extensions.wiki.rules.changes_page import has_changes, write_changes
from treering.extensions.wiki.rules.decisions_page import has_decisions, write_decisions
from treering.extensions.wiki.rules.document_page import write_document
from treering.extensions.wiki.rules.howto_page import howto_documents, write_howto
from treering.extensions.wiki.rules.layers import folder_groups, group_part, group_title, ranked_groups
from treering.extensions.wiki.rules.module_page import write_module
from treering.extensions.wiki.rules.overview_page import write_overview
from treering.extensions.wiki.rules.page_body import PageBody
from treering.extensions.wiki.rules.page_paths import (
    ARCHITECTURE,
    CHANGES,
    DECISIONS,
    HOWTO,
    OVERVIEW,
    REFERENCE,
    PagePaths,
    document_plan,
    part_plan,
)
from treering.extensions.wiki.rules.reference_page import write_reference
from treering.ports.runtime import check_interrupt
from treering.verbs.engine import Engine

_CENTRAL_PARTS, _REFERENCE_PARTS = 10, 50
"""The number of parts whose first files are the relevant files of the architecture and the API reference."""


@dataclass(frozen=True)
class RuleWriter:
    """A `WikiWriter` without a model. All content comes from the space, nothing from the work tree.

    The space is read at the first use; for later content, create another writer. The first use raises `NotFound` if
    the scope has no files of the repository.
    """

    engine: Engine
    scope: str = ROOT
    _: KW_ONLY
    root: str
    """The origin of the repository or folder (`repo:…` or `file:/…`)."""
    _last: dict[str, WikiPage] = field(default_factory=dict)
    """The last written page by path: `inputs` writes a page, and `write` usually follows for the same page."""

    @cached_property
    def facts(self) -> RepositoryFacts:
        """The content of the space about the repository."""
        return read_facts(self.engine, self.scope, self.root)

    @cached_property
    def paths(self) -> PagePaths:
        """The paths of the pages of parts and documents."""
        return PagePaths(self.facts)

    def plan(self) -> WikiPlan:
        """Plan the pages: overview and architecture, then parts by importance, then documents."""
        title = repository_title(self.facts.files)
        pages = tuple(self._planned(title))
        return WikiPlan(title, f"A summary of the code and the documents of {title}, with the cited lines.", pages)

    def write(self, plan: WikiPlan, page: PagePlan) -> WikiPage:
        """Write one page. Raises `NotFound` if its subject is not in the space."""
        check_interrupt()
        if page.path in self._last and self._last[page.path].plan == page:
            return self._last.pop(page.path)
        body = PageBody(self.facts, self.paths, plan, page)
        match page.kind:
            case PageKind.MODULE:
                write_module(body, self.facts.code.parts[_subject(page, self.paths.parts)])
            case PageKind.DOCUMENT:
                write_document(body, self.facts.files.files[_subject(page, self.paths.documents)])
            case PageKind.OVERVIEW:
                write_overview(body)
            case PageKind.ARCHITECTURE:
                write_architecture(body)
            case PageKind.HOWTO:
                write_howto(body)
            case PageKind.REFERENCE:
                write_reference(body)
            case PageKind.DECISIONS:
                write_decisions(body)
            case PageKind.CHANGES:
                write_changes(body)
        return body.finish()

    def inputs(self, plan: WikiPlan, page: PagePlan) -> str:
        """Return a digest of the text and citations of a page, without commits."""
        written = self.write(plan, page)
        self._last.clear()
        self._last[page.path] = written
        return digest(canonical_json([page.title, page.kind, written.body, [_cited(one) for one in written.citations]]))

    def _planned(self, title: str) -> Iterable[PagePlan]:
        facts, paths = self.facts, self.paths
        readme = facts.readmes.get("")
        introduction = f"An introduction to {title}, its first steps and its parts."
        yield PagePlan(OVERVIEW, title, PageKind.OVERVIEW, introduction, (readme.path,) if readme else ())
        if facts.code.parts:
            purpose = "The layers of the code and their imports."
            files = self._central(_CENTRAL_PARTS)
            yield PagePlan(ARCHITECTURE, "Architecture", PageKind.ARCHITECTURE, purpose, files)
        tasks = tuple(file.path for file, _ in howto_documents(facts, paths))
        if tasks or any(True for _ in facts.files.of_role("example")):
            yield PagePlan(HOWTO, "How do I …", PageKind.HOWTO, "Tasks with example code.", tasks)
        yield from self._parts()
        yield from (document_plan(paths, facts.files.files[path]) for path in paths.documents)
        if any(file.public for file in facts.files.of_role("code")):
            files = self._central(_REFERENCE_PARTS)
            yield PagePlan(REFERENCE, "API reference", PageKind.REFERENCE, "Everything public, by module.", files)
        if has_decisions(facts):
            purpose = "Recorded decisions, rules and procedures."
            yield PagePlan(DECISIONS, "Decisions and rules", PageKind.DECISIONS, purpose, ())
        if has_changes(facts):
            purpose = "Completed work, the changelog, and the files that change most."
            yield PagePlan(CHANGES, "Recent changes", PageKind.CHANGES, purpose, ())

    def _parts(self) -> Iterable[PagePlan]:
        """Plan the pages of parts, by group: its representative first, then the most important."""
        groups = folder_groups(self.facts)
        group_of = {path: group for group, paths in groups.files.items() for path in paths}
        by_group: dict[str, list[CodePart]] = defaultdict(list)
        for part in self.facts.ranked_parts:
            by_group[group_of[(*part.files, *part.modules)[0]]].append(part)
        for group in ranked_groups(self.facts, groups):
            title, first = group_title(self.facts, groups, group), group_part(self.facts, groups, group)
            for part in sorted(by_group[group], key=lambda part: part is not first):
                yield part_plan(self.paths, part, title)

    def _central(self, count: int) -> tuple[str, ...]:
        return tuple(part.entry for part in self.facts.ranked_parts[:count] if part.entry)


def _subject(page: PagePlan, pages: Mapping[str, str]) -> str:
    """Return the key of the part or document that a page is about."""
    for key, path in pages.items():
        if path == page.path:
            return key
    raise NotFound(
        f"The subject of the page {page.path} is not in the space.",
        hint="Make a new plan: the repository has changed since this one.",
        details={"page": page.path},
    )


def _cited(one: LineCitation) -> list[object]:
    # Without the commit: the same lines at a later commit are the same citation.
    return [one.path, one.first_line, one.last_line, one.content_hash]
