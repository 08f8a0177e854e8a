"""The steps of generating a wiki: which pages there are to be, each page, and the switch to them when all is well.

Every step is kept in the space before it counts, and may be done again: whoever runs them may die between any two.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

from treering.core.errors import Denied, InvalidInput
from treering.extensions.wiki.citing import CheckedCitation, Citations, CitationState, PageStatus, relocated, status_of
from treering.extensions.wiki.files.links import body_links
from treering.extensions.wiki.kept_wikis import (
    KeptPage,
    KeptWiki,
    KeptWikis,
    WikiRun,
    WrittenPage,
    check_plan,
    page_record,
)
from treering.extensions.wiki.pages import PagePlan, PublishedWiki, WikiPage, WikiPlan, WikiPublisher, WikiWriter
from treering.ports.models import Usage

# What has to hold of the pages of a wiki before people read it.


@dataclass(frozen=True, slots=True)
class PageProblem:
    """What is wrong with a page."""

    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


def problems_of(
    plan: WikiPlan, pages: Mapping[str, WikiPage], checked: Mapping[str, tuple[CheckedCitation, ...]]
) -> Iterator[PageProblem]:
    """Yield what is wrong with pages: missing or empty ones, links that lead nowhere, citations that do not hold.

    `checked`: the citations of each page after a check.
    """
    paths = {page.path for page in plan.pages}
    for planned in plan.pages:
        page = pages.get(planned.path)
        if page is None:
            yield PageProblem(planned.path, "it was not written")
            continue
        if is_empty(page.body):
            yield PageProblem(planned.path, "it has no text")
        for wrong in _wrong_links(page, paths):
            yield PageProblem(planned.path, wrong)
        for one in checked.get(planned.path, ()):
            if one.state in (CitationState.CHANGED, CitationState.GONE):
                yield PageProblem(planned.path, f"it cites {one.cited}, but these lines do not exist there")


def is_empty(body: str) -> bool:
    """Tell whether a page says nothing besides its headings."""
    return not any(line.strip() and not line.lstrip().startswith("#") for line in body.splitlines())


def lost_links(page: WikiPage, plan: WikiPlan) -> list[str]:
    """Return the pages that a page links to and that a plan does not have."""
    paths = {one.path for one in plan.pages}
    links = [link.path for link in body_links(page.body) if link.scheme == "page"]
    return [path for path in dict.fromkeys(links) if path not in paths]


def _wrong_links(page: WikiPage, paths: set[str]) -> Iterator[str]:
    cited = {(one.path, one.first_line, one.last_line) for one in page.citations}
    for link in body_links(page.body):
        if link.scheme == "page" and link.path not in paths:
            yield f"it links to the page {link.path!r}, which is not in the wiki"
        if link.scheme == "source" and (link.lines is None or (link.path, *link.lines) not in cited):
            yield f"its link to {link.path}#{link.fragment} is not among its citations"


_SHOWN_PROBLEMS = 5
NEW, FORCED, CHANGED = "it is new", "all pages were requested", "its sources changed"
CITED, LINKED = "lines it cites changed", "it links to a deleted page"


@runtime_checkable
class ModelWriter(WikiWriter, Protocol):
    """A writer that costs: it plans only if the inputs of the plan changed, estimates, and reports its usage."""

    def plan_inputs(self) -> str:
        """Return a digest of the inputs of a plan."""
        ...

    def told_of(self, path: str | None) -> tuple[tuple[str, ...], Usage]:
        """Return the notes about a page, such as dropped citations, and the usage for it; `None` for the plan."""
        ...

    def estimate(self, pages: Sequence[PagePlan]) -> Usage:
        """Estimate the usage for pages."""
        ...


class CeilingReached(Denied):
    """A ceiling on what models may use, or a person, stops a run; another call goes on with it."""


@dataclass(frozen=True, slots=True)
class WikiReport:
    """The result of a run.

    `status`: `complete`, or `stopped` if a limit was reached: the previous wiki then stays, and the next call resumes.
    """

    status: str
    repository_id: str
    branch: str | None
    generation: str | None
    forced: bool
    resumed: bool
    """Whether an earlier run was resumed."""
    pages: int
    written: Mapping[str, str]
    """The pages that were written, and why."""
    kept: int
    """How many pages stayed as they were."""
    removed: tuple[str, ...] = ()
    deleted_count: int = 0
    """Memories of earlier generations that were withdrawn."""
    statuses: Mapping[str, int] = field(default_factory=dict)
    """How many pages have each status."""
    notes: tuple[str, ...] = ()
    """Omissions in pages, such as invalid citations."""
    published: PublishedWiki | None = None
    stopped_by: str = ""
    """The reason for a stopped run."""
    commit: str | None = None
    """The commit of the repository; `None` if it has none."""
    estimate: Usage | None = None
    """The estimated usage of the pages; `None` for a writer without costs."""
    usage: Usage = field(default_factory=Usage)
    """The usage of models for the plan and the pages of this run, in all its processes."""


class WikiGeneration:
    """One run over the wiki of a repository. Safe to use from many threads."""

    def __init__(
        self,
        kept: KeptWikis,
        run: WikiRun,
        writer: WikiWriter,
        citations: Citations,
        publisher: WikiPublisher | None = None,
        *,
        resumed: bool = False,
    ) -> None:
        self._kept = kept
        self._run = run
        self._writer = writer
        self._citations = citations
        self._publisher = publisher
        self._resumed = resumed

    @property
    def run(self) -> WikiRun:
        """The run, as far as it is planned."""
        return self._run

    def plan(self) -> list[str]:
        """Settle which pages there are to be, and return the paths of those that have to be written.

        Raises `InvalidInput` for a plan that cannot be a wiki.
        """
        run = self._run
        if run.plan is None:
            current = None if run.force else self._kept.current()
            plan, plan_inputs = self._planned(current)
            check_plan(plan)
            _, usage = self._told_of(None)
            to_write, kept = self._sorted(plan, current)
            self._run = replace(run, plan=plan, plan_inputs=plan_inputs, to_write=to_write, kept=kept, usage=usage)
            self._kept.keep_run(self._run)
        return [*self._run.to_write]

    def estimate(self) -> Usage | None:
        """Estimate what the pages take that are still to be written; `None` for a writer that costs nothing."""
        if not isinstance(self._writer, ModelWriter):
            return None
        written = self._kept.written(self._run, self._run.to_write)
        to_write = self._run.to_write.keys() - written.keys()
        return self._writer.estimate([page for page in self._plan.pages if page.path in to_write])

    def write(self, path: str) -> None:
        """Write a page and keep it. One that is kept already, made of the same, is not written again."""
        plan, page = self._page(path)
        inputs = self._writer.inputs(plan, page)
        written = self._kept.written(self._run, [path]).get(path)
        if written is None or written.inputs != inputs:
            written_page = self._writer.write(plan, page)
            notes, usage = self._told_of(path)
            self._kept.keep_page(self._run, WrittenPage(written_page, inputs, notes, usage))

    def publish(self) -> WikiReport:
        """Publish the pages and make them the current wiki, if they are complete and valid.

        Files are written first, all or none. Should the switch fail, those of the wiki from before are put back.
        Raises `InvalidInput` where pages are not valid: these are written again by the next run.
        """
        run, plan = self._run, self._plan
        written = self._kept.written(run, run.to_write)
        before = self._kept.current()
        pages, entries, checked = self._settled(written, before)
        problems = [*problems_of(plan, pages, checked)]
        if problems:
            self._kept.withdraw(run, {problem.path for problem in problems} & written.keys())
            raise _invalid(problems)
        in_order = [pages[page.path] for page in plan.pages]
        published = self._publisher.publish(plan, in_order) if self._publisher else None
        wiki = KeptWiki(run.generation, run.id, plan, run.plan_inputs, entries)
        try:
            deleted = self._kept.complete(run, wiki)
        except BaseException:
            self._put_back()
            raise
        removed = tuple(path for path in before.pages if path not in entries) if before else ()
        return replace(
            self._told("complete", written),
            kept=len(entries) - len(written),
            removed=removed,
            deleted_count=deleted,
            statuses=_counted(checked),
            published=published,
        )

    def stopped(self) -> WikiReport:
        """Return how far the run came that a ceiling has stopped."""
        return self._told("stopped", self._kept.written(self._run, self._run.to_write))

    def _put_back(self) -> None:
        """Publish what is the current wiki, after the switch to another one failed."""
        current = self._kept.current()
        if self._publisher and current:
            self._publisher.publish(current.plan, [*self._kept.pages(current).values()])

    def _planned(self, current: KeptWiki | None) -> tuple[WikiPlan, str]:
        inputs = self._writer.plan_inputs() if isinstance(self._writer, ModelWriter) else ""
        if inputs and current and current.plan_inputs == inputs:
            return current.plan, inputs
        return self._writer.plan(), inputs

    def _sorted(self, plan: WikiPlan, current: KeptWiki | None) -> tuple[dict[str, str], dict[str, KeptPage]]:
        """Return why pages have to be written, and the pages that stay."""
        pages = self._kept.pages(current) if current else {}
        to_write: dict[str, str] = {}
        kept: dict[str, KeptPage] = {}
        for page in plan.pages:
            entry = current.pages.get(page.path) if current else None
            why = self._reason(plan, page, entry, pages.get(page.path))
            if why or entry is None:
                to_write[page.path] = why
            else:
                kept[page.path] = entry
        return to_write, kept

    def _reason(self, plan: WikiPlan, page: PagePlan, entry: KeptPage | None, known: WikiPage | None) -> str:
        if self._run.force:
            return FORCED
        if entry is None or known is None:
            return NEW
        if self._writer.inputs(plan, page) != entry.inputs:
            return CHANGED
        if lost_links(known, plan):
            return LINKED
        if status_of(self._checked(known)) != PageStatus.FRESH:
            return CITED
        return ""

    def _settled(
        self, written: Mapping[str, WrittenPage], before: KeptWiki | None
    ) -> tuple[dict[str, WikiPage], dict[str, KeptPage], dict[str, tuple[CheckedCitation, ...]]]:
        """Return the pages, where they are kept, and their citations after a check; moved lines are cited anew."""
        run, plan = self._run, self._plan
        known = self._kept.pages(replace(before, pages=run.kept)) if before else {}
        pages = {**{path: one.page for path, one in written.items()}, **known}
        entries = {path: KeptPage(page_record(run.id, path), one.inputs) for path, one in written.items()}
        entries |= {path: entry for path, entry in run.kept.items() if path in known}
        checked = {path: self._checked(page) for path, page in pages.items()}
        plans = {page.path: page for page in plan.pages}
        for path, found in checked.items():
            page = replace(relocated(pages[path], found), plan=plans[path])
            if page != pages[path]:
                inputs = entries[path].inputs
                told = replace(written[path], page=page) if path in written else WrittenPage(page, inputs)
                self._kept.keep_page(run, told)
                pages[path], entries[path] = page, KeptPage(page_record(run.id, path), inputs)
        return pages, {page.path: entries[page.path] for page in plan.pages if page.path in entries}, checked

    def _checked(self, page: WikiPage) -> tuple[CheckedCitation, ...]:
        return tuple(self._citations.check(one) for one in page.citations)

    def _told(self, status: str, written: Mapping[str, WrittenPage]) -> WikiReport:
        run = self._run
        plan = run.plan.pages if run.plan else ()
        return WikiReport(
            status=status,
            repository_id=self._kept.repository.repository_id,
            branch=self._kept.repository.branch,
            generation=run.generation,
            forced=run.force,
            resumed=self._resumed,
            pages=len(plan),
            written={path: why for path, why in run.to_write.items() if path in written},
            kept=len(run.kept),
            usage=sum((one.usage for one in written.values()), run.usage),
            notes=tuple(f"{path}: {note}" for path, one in written.items() for note in one.notes),
        )

    def _told_of(self, path: str | None) -> tuple[tuple[str, ...], Usage]:
        return self._writer.told_of(path) if isinstance(self._writer, ModelWriter) else ((), Usage())

    def _page(self, path: str) -> tuple[WikiPlan, PagePlan]:
        return self._plan, next(page for page in self._plan.pages if page.path == path)

    @property
    def _plan(self) -> WikiPlan:
        if self._run.plan is None:
            raise InvalidInput("The run has no plan yet.", hint="Plan the pages first.")
        return self._run.plan


def _counted(checked: Mapping[str, tuple[CheckedCitation, ...]]) -> dict[str, int]:
    found = [status_of(one) for one in checked.values()]
    return {status.value: found.count(status) for status in PageStatus if status in found}


def _invalid(problems: list[PageProblem]) -> InvalidInput:
    shown = "; ".join(map(str, problems[:_SHOWN_PROBLEMS]))
    more = f"; and {len(problems) - _SHOWN_PROBLEMS} more" if len(problems) > _SHOWN_PROBLEMS else ""
    return InvalidInput(
        f"The wiki is not valid and was not published: {shown}{more}.",
        hint="The previous wiki is unchanged. Generate again: these pages are rewritten.",
        details={"problems": [str(problem) for problem in problems]},
    )
