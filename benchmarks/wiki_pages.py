"""Wikis without a model: what they cost, and whether a question finds pages that link to the file that answers it.

Pages are found in two ways: as documents of a space of their own, and as the pages of the files that a search of the
repository finds. A file counts where one of the first three pages cites lines of it.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby

import numpy as np

import treering
from benchmarks.code_data import CodeQuestion, clone_of, load_questions
from benchmarks.code_files import space_at
from benchmarks.data import MissingData
from benchmarks.figures import Figure, Missing, Row
from benchmarks.paired import Recall
from benchmarks.plan import Plan
from treering import Space
from treering.extensions.wiki.pages import PageKind, WikiPage
from treering.extensions.wiki.rules.writer import RuleWriter
from treering.verbs.query.search import SearchReport

_QUICK_QUESTIONS = 4
_PAGES = 3
_FILES = 20
_BATCH = 50
_LISTS = frozenset({PageKind.REFERENCE, PageKind.ARCHITECTURE, PageKind.OVERVIEW})
"""Kinds of pages that link to so many files that finding one says little."""

AS_DOCUMENTS = "pages found as documents"
OF_FILES = "pages of the files found"

PageSearcher = Callable[[str], Sequence[WikiPage]]
"""Given a question, the pages, best first."""


def measure(plan: Plan) -> list[Row]:
    """Measure both repositories of the questions. `quick`: the first questions."""
    try:
        questions = load_questions("questions")[: _QUICK_QUESTIONS if plan.quick else None]
        return [row for group in _grouped(questions) for row in _measured(*group, plan)]
    except MissingData as missing:
        return [Missing("wiki pages", str(missing))]


def _grouped(questions: Sequence[CodeQuestion]) -> Iterator[tuple[str, str, list[CodeQuestion]]]:
    for (repository, commit), asked in groupby(questions, key=lambda one: (one.repository, one.commit)):
        yield repository, commit, list(asked)


def _measured(repository: str, commit: str, asked: Sequence[CodeQuestion], plan: Plan) -> list[Row]:
    space = space_at(clone_of(repository), commit, plan.cache)
    started = time.process_time()
    writer = RuleWriter(space.engine)
    wiki = writer.plan()
    planned = time.process_time()
    pages = {page.path: writer.write(wiki, page) for page in wiki.pages}
    written = time.process_time()
    rows: list[Row] = [
        Figure(f"{repository}: plan of {len(pages)} pages, CPU", planned - started, "s"),
        Figure(f"{repository}: writing them, CPU", written - planned, "s"),
    ]
    searchable = {path: page for path, page in pages.items() if page.plan.kind not in _LISTS}
    for way, searcher in _searchers(space, searchable).items():
        found = [searcher(question.text)[:_PAGES] for question in asked]
        rows += _figures(repository, way, found, asked)
    return rows


def _searchers(space: Space, pages: Mapping[str, WikiPage]) -> Mapping[str, PageSearcher]:
    documents = treering.open(":memory:", background=False)
    items = [{"text": page.body, "origin": path, "content_type": "markdown"} for path, page in pages.items()]
    for start in range(0, len(items), _BATCH):
        documents.ingest("source", input={"items": items[start : start + _BATCH]})
    page_of = {path: page for page in pages.values() for path in page.plan.relevant_files if page.plan.kind != "howto"}
    return {
        AS_DOCUMENTS: lambda question: [pages[one] for one in _origins(documents, question) if one in pages],
        OF_FILES: lambda question: _pages_of(space, page_of, question),
    }


def _pages_of(space: Space, page_of: Mapping[str, WikiPage], question: str) -> list[WikiPage]:
    paths = (origin.rpartition("#")[2] for origin in _origins(space, question))
    found = {page_of[path].plan.path: page_of[path] for path in paths if path in page_of}
    return list(found.values())


def _origins(space: Space, question: str) -> list[str]:
    options = {"limit": _FILES, "semantic": False, "group": "source"}
    report = space.query("search", input={"text": question}, options=options)
    assert isinstance(report, SearchReport)
    return [hit.origin for hit in report.hits]


def _figures(
    repository: str, way: str, found: Sequence[Sequence[WikiPage]], asked: Sequence[CodeQuestion]
) -> Iterator[Figure]:
    linked = [{cited.path for page in pages for cited in page.citations} for pages in found]
    about = [{path for page in pages for path in page.plan.relevant_files} for pages in found]
    for name, paths in (("links to", linked), ("is about", about)):
        hits = [100.0 * (not one.gold.isdisjoint(seen)) for one, seen in zip(asked, paths, strict=True)]
        rows = np.array(hits).reshape(-1, 1)
        recall = Recall(name, (_PAGES,), rows, tuple(one.id for one in asked))
        estimate = recall.at()[_PAGES]
        note = f"95 % [{estimate.low:.1f}, {estimate.high:.1f}], {len(asked)} questions"
        said = f"{repository}: one of the first {_PAGES} {name} a file that answers, {way}"
        yield Figure(said, estimate.mean, "%", note=note)
