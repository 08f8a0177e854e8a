"""Generated wikis stored in a space: the pages of the current generation and of an unfinished run.

Each is a hidden record (`extensions.client.records`): searches do not return it, and every change is an audited patch.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer, TypeAdapter

from treering.core.canonical import digest
from treering.core.errors import Conflict, InvalidInput
from treering.core.filters import And, Compare
from treering.core.objects import Source
from treering.extensions.client.record_names import KeptRecord, RecordCollection, RecordDraft, RecordName, record_of
from treering.extensions.client.records import Records
from treering.extensions.encoder.language_model import Usage
from treering.extensions.wiki.files.page_path import check_page_paths
from treering.extensions.wiki.memories.wiki_memory import WikiGenerationStore, WikiRepository
from treering.extensions.wiki.pages import LineCitation, WikiPage, WikiPlan
from treering.extensions.wiki.repository.files import read_sources
from treering.ports.ledger import Ledger, Selection
from treering.ports.runtime import fresh_salt
from treering.verbs.engine import Engine

MOST_PAGES = 2_000
_HOME = "wikis"
_PLACE, _RUN, _GENERATION, _PAGE = "place", "run", "generation", "page"
_FIRST = "first"
_REASON = "Generated a wiki"
_RUN_ID_CHARS = 16


@dataclass(frozen=True, slots=True)
class KeptPage:
    """A page of a generation: the name of its record, and the digest of its inputs."""

    record: str
    inputs: str


def _usage_data(usage: Usage) -> list[Any]:
    cost = None if usage.cost is None else str(usage.cost)
    return [usage.requests, usage.input_tokens, usage.output_tokens, cost]


def _usage_of(data: Sequence[Any]) -> Usage:
    requests, input_tokens, output_tokens, cost = data
    return Usage(requests, input_tokens, output_tokens, None if cost is None else Decimal(cost))


# Pages and reasons by path are stored as lists, because stored JSON objects do not preserve an order.
_Pages = Annotated[
    Mapping[str, KeptPage],
    BeforeValidator(lambda data: {path: KeptPage(record, inputs) for path, record, inputs in data}),
    PlainSerializer(lambda pages: [[path, page.record, page.inputs] for path, page in pages.items()]),
]
_Reasons = Annotated[Mapping[str, str], BeforeValidator(dict), PlainSerializer(lambda reasons: [*reasons.items()])]
_Usage = Annotated[Usage, BeforeValidator(_usage_of), PlainSerializer(_usage_data)]


@dataclass(frozen=True, slots=True)
class KeptWiki:
    """A complete generation of a wiki."""

    generation: str | None
    """`None`: the first one."""
    run: str
    """The run that last changed it."""
    plan: WikiPlan
    plan_inputs: str
    pages: _Pages
    revision: Annotated[int, Field(exclude=True)] = 0
    """The revision of its record."""


@dataclass(frozen=True, slots=True)
class WikiRun:
    """An unfinished run; its process may have died."""

    id: str
    force: bool
    generation: str | None
    """The generation that it writes; `None`: the first one."""
    based_on: int
    """The revision of that generation's record when the run began; 0 if it is new."""
    plan: WikiPlan | None = None
    plan_inputs: str = ""
    to_write: _Reasons = field(default_factory=dict)
    """The reason to write each page, by path."""
    kept: _Pages = field(default_factory=dict)
    """Unchanged pages."""
    usage: _Usage = field(default_factory=Usage)
    """The usage of planning."""


@dataclass(frozen=True, slots=True)
class WrittenPage:
    """A page that a run has written, with notes."""

    page: WikiPage
    inputs: str
    notes: tuple[str, ...] = ()
    """Omissions, such as invalid citations."""
    usage: _Usage = field(default_factory=Usage)


_WIKI, _RUN_STATE, _WRITTEN = TypeAdapter(KeptWiki), TypeAdapter(WikiRun), TypeAdapter(WrittenPage)
"""Wikis, runs and pages as the values of their records."""


class KeptWikis:
    """The stored wiki of one repository, or of one of its branches."""

    def __init__(self, engine: Engine, repository: WikiRepository, generations: WikiGenerationStore) -> None:
        self._clock = engine.clock
        self._records = Records(engine)
        # A digest, so that a search for the name of the repository does not match it.
        name = digest("\n".join([repository.repository_id, repository.branch or ""]))
        self._collection = RecordCollection((_HOME, name), hidden=True)
        self.repository = repository
        self.generations = generations

    def current(self) -> KeptWiki | None:
        """Return the current generation, or `None` if none is complete."""
        return self.generation(self.generations.current_generation(self.repository))

    def generation(self, generation: str | None) -> KeptWiki | None:
        """Return a stored complete generation."""
        record = self._record(_generation_key(generation))
        return _wiki_of(record) if record else None

    def pages(self, wiki: KeptWiki) -> dict[str, WikiPage]:
        """Return the pages of a generation by path, in the order of the plan."""
        return {path: one.page for path, one in self._read(wiki.pages).items()}

    def place(self) -> tuple[str, str] | None:
        """Return the last folder of the repository and the scope of its sources, or `None` if unknown."""
        record = self._record(_PLACE)
        return (str(record.value["folder"]), str(record.value["scope"])) if record else None

    def keep_place(self, folder: str, scope: str) -> None:
        """Store the folder of the repository and the scope of its sources."""
        self._store(_PLACE, {"folder": folder, "scope": scope})

    def open_run(self) -> WikiRun | None:
        """Return the unfinished run, if any."""
        record = self._record(_RUN)
        return _RUN_STATE.validate_python(record.value) if record else None

    def begin(self, *, force: bool) -> WikiRun:
        """Start and store a run. An unfinished one is discarded, with the memories of its generation."""
        before = self.open_run()
        current = self.generations.current_generation(self.repository)
        if before and before.force and before.generation != current:
            self.generations.purge(replace(self.repository, generation=before.generation))
        identity = fresh_salt(self._clock)[:_RUN_ID_CHARS]
        generation = identity if force else current
        known = self.generation(generation)
        run = WikiRun(identity, force, generation, known.revision if known else 0)
        self.keep_run(run)
        return run

    def can_go_on(self, run: WikiRun) -> bool:
        """Return whether an unfinished run can still be completed: its wiki did not change in the meantime."""
        if run.force and self.generations.current_generation(self.repository) == run.generation:
            return True  # its generation is current already; only the cleanup is missing
        known = self.generation(run.generation)
        return known is None or known.run == run.id or (not run.force and known.revision == run.based_on)

    def keep_run(self, run: WikiRun) -> None:
        """Store the state of a run."""
        self._store(_RUN, _RUN_STATE.dump_python(run, mode="json"))

    def keep_page(self, run: WikiRun, written: WrittenPage) -> None:
        """Store a page that a run has written."""
        self._store(page_record(run.id, written.page.plan.path), _WRITTEN.dump_python(written, mode="json"))

    def written(self, run: WikiRun, paths: Iterable[str]) -> dict[str, WrittenPage]:
        """Return the pages among `paths` that a run has written."""
        return self._read({path: KeptPage(page_record(run.id, path), "") for path in paths})

    def withdraw(self, run: WikiRun, paths: Iterable[str]) -> None:
        """Delete pages that a run has written, so that it writes them again."""
        names = [self._collection.name(page_record(run.id, path)) for path in paths]
        self._records.remove(names, reason=_REASON)

    def complete(self, run: WikiRun, wiki: KeptWiki) -> int:
        """Make a wiki the current generation and close its run; return the number of withdrawn memories.

        One patch makes a new generation current, with its memories, or changes the pages of the current one.
        Idempotent, so that it can be repeated after a crash. Raises `Conflict` if another run was faster.
        """
        self._require_open(run)
        head_name = self._collection.name(_generation_key(wiki.generation))
        names = [head_name, *(self._collection.name(page.record) for page in wiki.pages.values())]
        head = RecordDraft(head_name, _WIKI.dump_python(wiki, mode="json"), expected_revision=run.based_on)
        known = self.generation(wiki.generation)
        is_kept = known is not None and known.run == run.id
        if run.force:
            if not is_kept:
                self._records.write([head], reason=_REASON)
            withdrawn = self.generations.complete_generation(replace(self.repository, generation=run.generation))
            self._records.write(remove=self._others(names), reason=_REASON)
            return withdrawn
        self._records.write([] if is_kept else [head], remove=self._others(names), reason=_REASON)
        return 0

    def _require_open(self, run: WikiRun) -> None:
        known = self.open_run()
        if known is None or known.id != run.id:
            raise Conflict(
                "Another run of this wiki has started, so this one was not completed.",
                hint="Run only one process per wiki at a time.",
            )

    def _others(self, names: Iterable[RecordName]) -> Sequence[RecordName]:
        kept = {_PLACE, *(name.key for name in names)}
        there = self._records.all_of(self._collection)
        return [self._collection.name(record.key) for record in there if record.key not in kept]

    def _read(self, pages: Mapping[str, KeptPage]) -> dict[str, WrittenPage]:
        names = {path: self._collection.name(page.record) for path, page in pages.items()}
        records = self._records.get([*names.values()])
        return {path: _WRITTEN.validate_python(records[name].value) for path, name in names.items() if name in records}

    def _record(self, key: str) -> KeptRecord | None:
        name = self._collection.name(key)
        return self._records.get([name]).get(name)

    def _store(self, key: str, value: Mapping[str, Any]) -> None:
        self._records.keep([RecordDraft(self._collection.name(key), value)], reason=_REASON)


@dataclass(frozen=True, slots=True)
class CitingPage:
    """A stored page: the id of its record, and its citations of some files, each with path and salt."""

    id: str
    title: str
    cited: tuple[tuple[str, LineCitation, str], ...]


def citing_pages(ledger: Ledger, paths: Mapping[str, str]) -> list[CitingPage]:
    """Return the pages of all complete wikis that cite some files. `paths`: by the id of the source."""
    if not paths:
        return []
    home = RecordCollection((_HOME,), hidden=True)
    where = And((Compare("status", "eq", "active"), Compare("origin", "prefix", f"{home.origin()}/")))
    kept = ledger.select(Selection(home.scope, descend=True, types=("source",), where=where))
    records = {(one.scope, str(one.payload.get("key"))): one for one in kept if isinstance(one, Source)}
    pages: list[tuple[str, str, list[LineCitation]]] = []
    for scope, head in [one for one in records if one[1].startswith(f"{_GENERATION}/")]:
        for part in _wiki_of(record_of(records[scope, head])).pages.values():
            if record := records.get((scope, part.record)):
                page = _WRITTEN.validate_python(record_of(record).value).page
                cited = [one for one in page.citations if one.source_id in paths]
                pages += [(record.id, page.plan.title, cited)] if cited else []
    cited_sources = read_sources(ledger, {one.source_id for _, _, cited in pages for one in cited})
    salts = {source.id: source.salt for source in cited_sources}
    return [
        CitingPage(
            identity, title, tuple((paths[at], one, salts[at]) for one in cited if (at := one.source_id) in salts)
        )
        for identity, title, cited in pages
    ]


def page_record(run: str, path: str) -> str:
    """Return the key of the record for a page of a run."""
    return f"{_PAGE}/{run}/{path}"


def _generation_key(generation: str | None) -> str:
    return f"{_GENERATION}/{generation or _FIRST}"


def _wiki_of(record: KeptRecord) -> KeptWiki:
    return _WIKI.validate_python({**record.value, "revision": record.revision})


def check_plan(plan: WikiPlan) -> None:
    """Raise `InvalidInput` for a plan without pages, with too many, or with an invalid path."""
    if not 1 <= len(plan.pages) <= MOST_PAGES:
        raise InvalidInput(f"The plan has {len(plan.pages)} pages.", hint=f"Plan 1 to {MOST_PAGES} pages.")
    check_page_paths(page.path for page in plan.pages)
