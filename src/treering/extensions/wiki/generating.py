"""The steps of generating a wiki: plan the pages, write each one, publish all of them.

The result of each step is stored in the space, and each step can be repeated, so that a run survives a crash.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

from treering.core.errors import Denied, InvalidInput
from treering.extensions.encoder.language_model import Usage
from treering.extensions.wiki.citing import CheckedCitation, Citations, PageStatus, relocated, status_of
from treering.extensions.wiki.kept_wikis import (
    KeptPage,
    KeptWiki,
    KeptWikis,
    WikiRun,
    WrittenPage,
    check_plan,
    page_record,
)
from treering.extensions.wiki.page_problems import PageProblem, lost_links, problems_of
from treering.extensions.wiki.pages import PagePlan, PublishedWiki, WikiPage, WikiPlan, WikiPublisher, WikiWriter

_SHOWN_PROBLEMS = 5
NEW, FORCED, CHANGED = "it is new", "all pages were requested", "its sources changed"
CITED, LINKED = "lines it cites changed", "it links to a deleted page"


@runtime_checkable
class ModelWriter(WikiWriter, Protocol):
    """A writer with costs: it plans only if the inputs of the plan changed, estimates, and reports its usage."""

    def plan_inputs(self) -> str:
        """Return a digest of the inputs of a plan."""
        ...

    def report_on(self, path: str | None) -> tuple[tuple[str, ...], Usage]:
        """Return notes on a page, such as dropped citations, and its usage; `None` for the plan."""
        ...

    def estimate(self, pages: Sequence[PagePlan]) -> Usage:
        """Estimate the usage for pages."""
        ...


class CeilingReached(Denied):
    """A budget or a person stopped the run; another call resumes it."""


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
    """The reason each page was written, by path."""
    kept: int
    """The number of unchanged pages."""
    removed: tuple[str, ...] = ()
    deleted_count: int = 0
    """The number of withdrawn memories of earlier generations."""
    statuses: Mapping[str, int] = field(default_factory=dict)
    """The number of pages with each status."""
    notes: tuple[str, ...] = ()
    """Omissions in pages, such as invalid citations."""
    published: PublishedWiki | None = None
    stopped_by: str = ""
    """The reason for a stopped run."""
    commit: str | None = None
    """The commit of the repository; `None` if it has no commits."""
    estimate: Usage | None = None
    """The estimated usage of the pages; `None` for a writer without costs."""
    usage: Usage = field(default_factory=Usage)
    """The usage of models for the plan and the pages of this run, in all its processes."""


@dataclass(slots=True, eq=False)
class WikiGeneration:
    """One run over the wiki of a repository. Safe to use from many threads. `run`: its current state."""

    kept: KeptWikis
    run: WikiRun
    writer: WikiWriter
    citations: Citations
    publisher: WikiPublisher | None
    resumed: bool

    def plan(self) -> list[str]:
        """Plan the pages, and return the paths of those to write. Raises `InvalidInput` for an invalid plan."""
        run = self.run
        if run.plan is None:
            current = None if run.force else self.kept.current()
            plan, plan_inputs = self._planned(current)
            check_plan(plan)
            _, usage = self._report_on(None)
            to_write, kept = self._sorted(plan, current)
            self.run = replace(run, plan=plan, plan_inputs=plan_inputs, to_write=to_write, kept=kept, usage=usage)
            self.kept.keep_run(self.run)
        return [*self.run.to_write]

    def estimate(self) -> Usage | None:
        """Estimate the usage of the pages still to write; `None` for a writer without costs."""
        if not isinstance(self.writer, ModelWriter):
            return None
        written = self.kept.written(self.run, self.run.to_write)
        to_write = self.run.to_write.keys() - written.keys()
        return self.writer.estimate([page for page in self._plan.pages if page.path in to_write])

    def write(self, path: str) -> None:
        """Write and store a page, unless it is stored with the same inputs."""
        plan = self._plan
        page = next(page for page in plan.pages if page.path == path)
        inputs = self.writer.inputs(plan, page)
        written = self.kept.written(self.run, [path]).get(path)
        if written is None or written.inputs != inputs:
            written_page = self.writer.write(plan, page)
            notes, usage = self._report_on(path)
            self.kept.keep_page(self.run, WrittenPage(written_page, inputs, notes, usage))

    def publish(self) -> WikiReport:
        """Publish the pages and make them the current wiki.

        Files are written first, atomically; if the switch fails, the files of the previous wiki are restored. Raises
        `InvalidInput` if pages are invalid; the next run writes them again.
        """
        run, plan = self.run, self._plan
        written = self.kept.written(run, run.to_write)
        before = self.kept.current()
        pages, entries, checked = self._settled(written, before)
        problems = [*problems_of(plan, pages, checked)]
        if problems:
            self.kept.withdraw(run, {problem.path for problem in problems} & written.keys())
            raise _invalid(problems)
        in_order = [pages[page.path] for page in plan.pages]
        published = self.publisher.publish(plan, in_order) if self.publisher else None
        wiki = KeptWiki(run.generation, run.id, plan, run.plan_inputs, entries)
        try:
            deleted = self.kept.complete(run, wiki)
        except BaseException:
            self._put_back()
            raise
        removed = tuple(path for path in before.pages if path not in entries) if before else ()
        return replace(
            self._report("complete", written),
            kept=len(entries) - len(written),
            removed=removed,
            deleted_count=deleted,
            statuses=_counted(checked),
            published=published,
        )

    def stopped(self) -> WikiReport:
        """Return the report of a run that was stopped."""
        return self._report("stopped", self.kept.written(self.run, self.run.to_write))

    def _put_back(self) -> None:
        """Publish the current wiki again, after the switch to another one failed."""
        current = self.kept.current()
        if self.publisher and current:
            self.publisher.publish(current.plan, [*self.kept.pages(current).values()])

    def _planned(self, current: KeptWiki | None) -> tuple[WikiPlan, str]:
        inputs = self.writer.plan_inputs() if isinstance(self.writer, ModelWriter) else ""
        if inputs and current and current.plan_inputs == inputs:
            return current.plan, inputs
        return self.writer.plan(), inputs

    def _sorted(self, plan: WikiPlan, current: KeptWiki | None) -> tuple[dict[str, str], dict[str, KeptPage]]:
        """Return the reasons to write pages, and the unchanged pages."""
        pages = self.kept.pages(current) if current else {}
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
        if self.run.force:
            return FORCED
        if entry is None or known is None:
            return NEW
        if self.writer.inputs(plan, page) != entry.inputs:
            return CHANGED
        if lost_links(known, plan):
            return LINKED
        if status_of(self._checked(known)) != PageStatus.FRESH:
            return CITED
        return ""

    def _settled(
        self, written: Mapping[str, WrittenPage], before: KeptWiki | None
    ) -> tuple[dict[str, WikiPage], dict[str, KeptPage], dict[str, tuple[CheckedCitation, ...]]]:
        """Return the pages, their records, and their checked citations; citations of moved lines are updated."""
        run, plan = self.run, self._plan
        known = self.kept.pages(replace(before, pages=run.kept)) if before else {}
        pages = {**{path: one.page for path, one in written.items()}, **known}
        entries = {path: KeptPage(page_record(run.id, path), one.inputs) for path, one in written.items()}
        entries |= {path: entry for path, entry in run.kept.items() if path in known}
        checked = {path: self._checked(page) for path, page in pages.items()}
        plans = {page.path: page for page in plan.pages}
        for path, citations in checked.items():
            page = replace(relocated(pages[path], citations), plan=plans[path])
            if page != pages[path]:
                inputs = entries[path].inputs
                changed = replace(written[path], page=page) if path in written else WrittenPage(page, inputs)
                self.kept.keep_page(run, changed)
                pages[path], entries[path] = page, KeptPage(page_record(run.id, path), inputs)
        return pages, {page.path: entries[page.path] for page in plan.pages if page.path in entries}, checked

    def _checked(self, page: WikiPage) -> tuple[CheckedCitation, ...]:
        return tuple(self.citations.check(one) for one in page.citations)

    def _report(self, status: str, written: Mapping[str, WrittenPage]) -> WikiReport:
        run = self.run
        plan = run.plan.pages if run.plan else ()
        return WikiReport(
            status=status,
            repository_id=self.kept.repository.repository_id,
            branch=self.kept.repository.branch,
            generation=run.generation,
            forced=run.force,
            resumed=self.resumed,
            pages=len(plan),
            written={path: why for path, why in run.to_write.items() if path in written},
            kept=len(run.kept),
            usage=sum((one.usage for one in written.values()), run.usage),
            notes=tuple(f"{path}: {note}" for path, one in written.items() for note in one.notes),
        )

    def _report_on(self, path: str | None) -> tuple[tuple[str, ...], Usage]:
        return self.writer.report_on(path) if isinstance(self.writer, ModelWriter) else ((), Usage())

    @property
    def _plan(self) -> WikiPlan:
        if self.run.plan is None:
            raise InvalidInput("The run has no plan yet.", hint="Plan the pages first.")
        return self.run.plan


def _counted(checked: Mapping[str, tuple[CheckedCitation, ...]]) -> dict[str, int]:
    statuses = [status_of(one) for one in checked.values()]
    return {status.value: statuses.count(status) for status in PageStatus if status in statuses}


def _invalid(problems: list[PageProblem]) -> InvalidInput:
    shown = "; ".join(map(str, problems[:_SHOWN_PROBLEMS]))
    more = f"; and {len(problems) - _SHOWN_PROBLEMS} more" if len(problems) > _SHOWN_PROBLEMS else ""
    return InvalidInput(
        f"The wiki is not valid and was not published: {shown}{more}.",
        hint="The previous wiki is unchanged. Generate again: these pages are rewritten.",
        details={"problems": [str(problem) for problem in problems]},
    )
