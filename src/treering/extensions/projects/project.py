"""The memory of a project: plain documents to store, find and delete. A project is a space.

Any number of threads and processes of one machine may use one project at once without locks. Every write is a patch
that names the revisions it read, and is repeated after a conflict.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol, cast
from uuid import UUID

from pydantic import Field, ValidationError

from treering.core.errors import Conflict, InvalidInput, NotFound, UnknownProject
from treering.core.evidence import Triple
from treering.core.filters import Compare
from treering.core.objects import Source, invalid_fields
from treering.core.scope import ROOT
from treering.extensions.encoder.asking import Budget
from treering.extensions.encoder.language_model import LanguageModel
from treering.extensions.projects.answering import REQUESTS_EACH, Answered, Recalled, answer
from treering.extensions.projects.documents import PREFIX, Document, checked_texts, field_error, text_of
from treering.extensions.projects.model_reading import REQUESTS_PER_DOCUMENT, ReadByModel, read_by_model
from treering.ports.adapter import Vanished
from treering.ports.ledger import Selection
from treering.retrieval.search.relevance import WEAK
from treering.retrieval.text.analysis import index_text
from treering.verbs import catalog
from treering.verbs.engine import Engine, retry_on_conflict
from treering.verbs.envelope import READS, WRITES, Envelope, Value
from treering.verbs.ingest.batch import BatchWriter
from treering.verbs.ingest.known import KnownSources
from treering.verbs.ingest.report import IngestReport, ItemResult
from treering.verbs.ingest.run import Run, Task
from treering.verbs.lint import erasure
from treering.verbs.lint.erasure import ErasureReceipt
from treering.verbs.query.search import SearchReport

ProjectId = str | int | UUID
"""The id of a project; a number or a UUID is used as text."""

MOST_QUERIES = 100
MOST_RETRIEVED = 200


class Engines(Protocol):
    """Lends the engine of a project, which stays open until it is given back."""

    def __call__(self, project_id: str, *, create: bool) -> AbstractContextManager[Engine]:
        """Lend the engine. `create`: create a missing project; otherwise raises `UnknownProject`."""
        ...


IndexOutcome = Literal["created", "updated", "unchanged", "proposed", "skipped", "failed"]
DeleteOutcome = Literal["deleted", "erased", "unknown", "proposed", "failed"]


class Indexed(Value):
    """The result for one document."""

    position: int = Field(description="Index of the given document, from 0.")
    outcome: IndexOutcome
    why: str = ""
    source_id: str = ""
    """The id of its source, new or existing; empty without a source."""
    changes: tuple[str, ...] = ()
    """The parts removed from the given text; the stored text is retrieved."""


class IndexReport(Value):
    """The results for all documents, in the given order."""

    project_id: str
    results: tuple[Indexed, ...] = ()
    counts: dict[IndexOutcome, int]
    pending_vectors: int = 0
    """Texts that are not embedded yet; they are found only by words."""
    read_by_model: ReadByModel | None = None
    """The results of a language model for the new documents, if one is configured."""


class Deleted(Value):
    """The result of deleting one document."""

    position: int = Field(description="Index of the given document, from 0.")
    outcome: DeleteOutcome
    why: str = ""
    source_id: str = ""


class DeleteReport(Value):
    """The results of all deletions, in the given order."""

    project_id: str
    results: tuple[Deleted, ...] = ()
    counts: dict[DeleteOutcome, int]
    staled: tuple[str, ...] = ()
    """Knowledge that lost its last support with these documents."""
    erasure: ErasureReceipt | None = None


class ProjectMemory:
    """The documents of projects. Safe to use from many threads.

    `engine_of` lends a project's engine. `model` answers `rag_qa`, and extracts statements of new documents for
    `index`. Indexing creates the project if necessary; an empty project has no results and no knowledge. All methods
    raise `InvalidInput` with the invalid field, and `Unavailable` or `Corrupt` if the space does.
    """

    def __init__(self, engine_of: Engines, *, model: LanguageModel | None = None) -> None:
        self._engine_of = engine_of
        self._model = model

    def engine(self, project_id: ProjectId, *, create: bool = True) -> AbstractContextManager[Engine]:
        """Lend the engine of a project, for the four verbs.

        `create`: create the project if it does not exist; otherwise this raises `UnknownProject`, a `NotFound`.
        """
        return self._engine_of(checked_project_id(project_id), create=create)

    def index(
        self,
        project_id: ProjectId,
        docs: Sequence[str],
        *,
        triples: Sequence[Sequence[Triple]] | None = None,
        wait: bool = False,
        budget: Budget | None = None,
    ) -> IndexReport:
        """Store documents, each once: the same text is the same document.

        `triples`: known statements of each document, in addition to extracted ones; by default the model, if one is
        configured, extracts them from new documents within `budget` (two requests per document unless given). Failures
        are reported, and the document is stored anyway. `wait`: return only when they are embedded.
        """
        texts = checked_texts(docs, field="docs")
        stated = _checked_triples(triples, len(texts))
        with self.engine(project_id) as engine:
            documents = [Document.of(text) for text in texts]
            read = self._read(engine, documents, budget) if triples is None else None
            report = _ingest(engine, _items(engine, documents, read.triples if read else stated), wait=wait)
            results = tuple(_indexed(engine, documents, report))
            return IndexReport(
                project_id=checked_project_id(project_id),
                results=results,
                counts=dict(Counter(result.outcome for result in results)),
                pending_vectors=report.pending_vectors,
                read_by_model=read,
            )

    def retrieve(self, project_id: ProjectId, queries: Sequence[str], num_to_retrieve: int = 5) -> list[Recalled]:
        """Return for each query the documents that answer it best, whole, each once. Unrelated ones are left out."""
        questions = checked_texts(queries, field="queries", most=MOST_QUERIES)
        count = _checked_count(num_to_retrieve)
        try:
            with self.engine(project_id, create=False) as engine:
                return [_recall(engine, query, count) for query in questions]
        except UnknownProject:
            return [{"question": query, "docs": [], "doc_scores": []} for query in questions]

    def delete(self, project_id: ProjectId, docs: Sequence[str], *, erase: bool = False) -> DeleteReport:
        """Delete documents by their exact text; knowledge based only on them becomes stale, in the same transaction.

        They are archived and stay in the history. `erase`: delete them permanently, with earlier copies; the report
        contains the proof, and the store is rewritten, which takes time. Raises `Denied` if the channel may not erase,
        as agents may not unless the project's policy lets them.
        """
        texts = checked_texts(docs, field="docs")
        origins = [Document.of(text).origin for text in texts]
        name = checked_project_id(project_id)
        try:
            with self.engine(project_id, create=False) as engine:
                if erase:
                    return _erase(engine, name, origins)
                return _archive(engine, name, origins)
        except UnknownProject:
            return _delete_report(name, tuple(_deleted(place, None) for place in range(len(origins))), staled=())

    def rag_qa(
        self, project_id: ProjectId, queries: Sequence[str], num_to_retrieve: int = 5, *, budget: Budget | None = None
    ) -> list[Answered]:
        """Answer each query from its retrieved documents, with citations by number, from 1.

        `budget` limits the use of the model; default: one answer and one repair per query. Raises `InvalidInput`
        without a model, `Denied` over the budget, `Unavailable` if the model cannot answer.
        """
        if self._model is None:
            raise InvalidInput("Answering needs a language model, but none was given.", hint=_NO_MODEL)
        results = self.retrieve(project_id, queries, num_to_retrieve)
        ceiling = budget or Budget(requests=REQUESTS_EACH * len(results))
        return [answer(self._model, recalled, budget=ceiling) for recalled in results]

    def _read(self, engine: Engine, documents: Sequence[Document], budget: Budget | None) -> ReadByModel | None:
        """Read new documents with the model."""
        if self._model is None:
            return None
        # Repeated texts are read and written once.
        first: dict[str, int] = {}
        for place, document in enumerate(documents):
            first.setdefault(document.origin, place)
        new = {
            place: documents[place].text
            for origin, place in first.items()
            if not documents[place].is_empty and not active_source(engine, origin)
        }
        ceiling = budget or Budget(requests=REQUESTS_PER_DOCUMENT * len(documents))
        segmenter, most = engine.segmenters["text"], engine.limits.max_segment_chars
        return read_by_model(self._model, new, budget=ceiling, segmenter=segmenter, max_chars=most)


def is_project_id(name: str) -> bool:
    """Return whether a text is a valid project id."""
    return bool(_PROJECT_ID.fullmatch(name)) and ".." not in name


def checked_project_id(project_id: object) -> str:
    """Return a project's id as text. Raises `InvalidInput` for anything that could be a path or is too long."""
    name = str(project_id) if isinstance(project_id, int | UUID) and not isinstance(project_id, bool) else project_id
    if isinstance(name, str) and is_project_id(name):
        return name
    raise field_error("project_id", f"{_shown(project_id)} is not a valid project id", hint=_PROJECT_HINT)


def _checked_count(count: object) -> int:
    if isinstance(count, int) and not isinstance(count, bool) and 1 <= count <= MOST_RETRIEVED:
        return count
    hint = f"Use 1 to {MOST_RETRIEVED} documents."
    raise field_error("num_to_retrieve", f"{_shown(count)} is not a number from 1 to {MOST_RETRIEVED}", hint=hint)


class _Stated(Value):
    triples: tuple[tuple[Triple, ...], ...]


def _checked_triples(triples: object, count: int) -> Mapping[int, Sequence[Triple]]:
    if triples is None:
        return {}
    try:
        stated = _Stated.model_validate({"triples": triples}).triples
    except ValidationError as error:
        raise invalid_fields(error, model=_Stated) from error
    if len(stated) != count:
        hint = "Give one list per document; an empty one if nothing more is known."
        raise field_error("triples", f"there are {len(stated)} lists for {count} documents", hint=hint)
    return dict(enumerate(stated))


def _items(
    engine: Engine, documents: Sequence[Document], stated: Mapping[int, Sequence[Triple]]
) -> Iterable[dict[str, Any]]:
    """Yield the items to write, each document once; known documents only if they have triples.

    `stated`: triples by the index of the document.
    """
    segmenter, most = engine.segmenters["text"], engine.limits.max_segment_chars
    seen = set[str]()
    for place, document in enumerate(documents):
        if document.is_empty or document.origin in seen:
            continue
        seen.add(document.origin)
        if place not in stated and active_source(engine, document.origin):
            continue
        item = document.item(segmenter, max_chars=most)
        yield {**item, "triples": list(stated[place])} if place in stated else item


def _ingest(engine: Engine, items: Iterable[dict[str, Any]], *, wait: bool) -> IngestReport:
    given = list(items)
    # `again`: a program indexes a document on purpose, so an erased one is stored again.
    options = {"wait": wait, "max_items": len(given), "again": True}
    envelope = Envelope(mode="source", scope=ROOT, input={"items": given}, options=options)
    return cast("IngestReport", catalog.call(engine, "ingest", envelope, granted=WRITES))


def _indexed(engine: Engine, documents: Sequence[Document], report: IngestReport) -> Iterable[Indexed]:
    written = {item.origin: item for item in report.items}
    for place, document in enumerate(documents):
        if document.is_empty:
            why = "nothing of it is left to store"
            yield Indexed(position=place, outcome="skipped", why=why, changes=document.changes)
            continue
        # `pop`: a repeated text is unchanged.
        item = written.pop(document.origin, None)
        outcome = cast("IndexOutcome", item.outcome) if item else "unchanged"
        source_id = item.source_id if item else active_source(engine, document.origin)
        why = item.why if item else ""
        yield Indexed(position=place, outcome=outcome, why=why, source_id=source_id, changes=document.changes)


def active_source(engine: Engine, origin: str) -> str:
    """Return the id of the document with an origin; empty if there is none."""
    state = engine.ledger.sources(scope=ROOT, root=origin).get(origin)
    return state.id if state and state.status != "archived" else ""


def _recall(engine: Engine, query: str, count: int) -> Recalled:
    recalled: Recalled = {"question": query, "docs": [], "doc_scores": []}
    lowest = math.inf
    for identity, score in _best(engine, query, count).items():
        text = _whole(engine, identity)
        if text is not None and len(recalled["docs"]) < count:
            # Scores never rise: a near-duplicate of a better document is ranked below its own score.
            lowest = min(lowest, score)
            recalled["docs"].append(text)
            recalled["doc_scores"].append(lowest)
    return recalled


def _best(engine: Engine, query: str, count: int) -> dict[str, float]:
    """Return documents with the score of their best segment, best first.

    The hits may be segments of few documents, so the limit is raised until there are enough documents.
    """
    limit = min(count * _SEGMENTS_EACH, MOST_RETRIEVED)
    while True:
        report = _search(engine, query, limit)
        hits = () if _are_only_nearest(report) else report.hits
        best: dict[str, float] = {}
        for hit in hits:
            best.setdefault(hit.object_id, hit.score)
        if len(best) >= count or len(hits) < limit or limit == MOST_RETRIEVED:
            return best
        limit = min(limit * 2, MOST_RETRIEVED)


def _search(engine: Engine, query: str, limit: int) -> SearchReport:
    where = {"type": "source", "origin": {"prefix": PREFIX}}
    options = {"limit": limit, "filter": where, "lines": 0}
    envelope = Envelope(mode="search", scope=ROOT, input={"text": query}, options=options)
    return cast("SearchReport", catalog.call(engine, "query", envelope, granted=READS))


def _are_only_nearest(report: SearchReport) -> bool:
    """Return whether no hit answers the query or shares a word with it.

    Memories have no flags, so such documents would be taken for answers.
    """
    weak = all(WEAK in hit.flags for hit in report.hits)
    texts = (f"{hit.title}\n{hit.heading}\n{hit.text}" for hit in report.hits)
    return weak and all(set(report.terms).isdisjoint(index_text(text).split()) for text in texts)


def _whole(engine: Engine, identity: str) -> str | None:
    """Return the text of a document, or `None` if it was deleted in the meantime."""
    try:
        item = engine.ledger.get(identity)
    except NotFound:
        return None
    return text_of(item) if isinstance(item, Source) and item.status == "active" else None


def _archive(engine: Engine, project_id: str, origins: Sequence[str]) -> DeleteReport:
    distinct = dict.fromkeys(origins)
    author = engine.author.model_copy(update={"tool": "project"})
    known_sources = KnownSources(engine.ledger, scope=ROOT)
    writer = BatchWriter(
        engine=engine, scope=ROOT, author=author, known_sources=known_sources, reason="Delete documents"
    )
    run = Run(Task("source", "documents to delete", len(distinct)), engine, writer)
    run.read([[Vanished(origin) for origin in distinct]])
    written = {item.origin: item for item in run.report(max_items=len(distinct)).items}
    results = tuple(_deleted(place, written.pop(origin, None)) for place, origin in enumerate(origins))
    return _delete_report(project_id, results, staled=tuple(run.account.staled))


def _deleted(place: int, item: ItemResult | None) -> Deleted:
    if item is None:
        return Deleted(position=place, outcome="unknown", why=_UNKNOWN)
    outcome = _DELETED.get(item.outcome, "unknown")
    return Deleted(position=place, outcome=outcome, why=item.why, source_id=item.source_id)


def _erase(engine: Engine, project_id: str, origins: Sequence[str]) -> DeleteReport:

    def erase() -> tuple[dict[str, list[str]], ErasureReceipt | None]:
        copies = {origin: _copies(engine, origin) for origin in dict.fromkeys(origins)}
        ids = [identity for sources in copies.values() for identity in sources]
        return copies, erasure.erase(engine, ids, reason="Erase documents") if ids else None

    # Another process may delete, index or erase one of them in the meantime.
    copies, receipt = retry_on_conflict(erase, on=(Conflict, NotFound))
    results = tuple(_erased(place, copies.pop(origin, [])) for place, origin in enumerate(origins))
    return _delete_report(project_id, results, staled=receipt.staled if receipt else (), erasure=receipt)


def _copies(engine: Engine, origin: str) -> list[str]:
    """Return the current and earlier sources of a document."""
    where = Compare("origin", "eq", origin)
    return [item.id for item in engine.ledger.select(Selection(scope=ROOT, types=("source",), where=where))]


def _erased(place: int, copies: Sequence[str]) -> Deleted:
    if not copies:
        return Deleted(position=place, outcome="unknown", why=_UNKNOWN)
    return Deleted(position=place, outcome="erased", source_id=copies[-1])


def _delete_report(
    project_id: str, results: tuple[Deleted, ...], *, staled: tuple[str, ...], erasure: ErasureReceipt | None = None
) -> DeleteReport:
    counts = dict(Counter(result.outcome for result in results))
    return DeleteReport(project_id=project_id, results=results, counts=counts, staled=staled, erasure=erasure)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


_PROJECT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_PROJECT_HINT = "1 to 64 letters (A-Z), digits, '.', '_' or '-', starting with a letter or digit, without '..'."
_NO_MODEL = "Give a model: treering.open_projects(model=…), or ProjectMemory(…, model=…)."
_UNKNOWN = "no document has this text"
_SHOWN = 80
_SEGMENTS_EACH = 2  # hits asked for per document wanted: most documents are short
_DELETED: Mapping[str, DeleteOutcome] = {"removed": "deleted", "proposed": "proposed", "failed": "failed"}
