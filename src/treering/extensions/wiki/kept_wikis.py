"""Wikis as they are kept in a space: the pages of the current generation, and those of a run that is under way.

Each is a hidden record (`extensions.client.records`): no search finds it, and every change of it is an audited patch.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from pydantic import TypeAdapter

from treering.core.canonical import digest
from treering.core.errors import Conflict, InvalidInput
from treering.core.filters import And, Compare
from treering.core.objects import Source
from treering.extensions.client.record_names import KeptRecord, RecordCollection, RecordDraft, RecordName, record_of
from treering.extensions.client.records import Records
from treering.extensions.wiki.files.manifest import check_page_paths
from treering.extensions.wiki.memories.wiki_memory import WikiGenerationStore, WikiRepository
from treering.extensions.wiki.pages import LineCitation, WikiPage, WikiPlan
from treering.ports.ledger import Ledger, ObjectRequest, Selection
from treering.ports.models import Usage
from treering.ports.runtime import fresh_salt
from treering.verbs.engine import Engine

_HOME = "wikis"
_PLACE, _RUN, _GENERATION, _PAGE = "place", "run", "generation", "page"
_FIRST = "first"
_REASON = "Generated a wiki"
_RUN_ID_CHARS = 16

_PLAN, _PAGE_DATA = TypeAdapter(WikiPlan), TypeAdapter(WikiPage)
"""Plans and pages as JSON data, as they are kept between the steps of a generation."""


@dataclass(frozen=True, slots=True)
class KeptPage:
    """A page of a generation: the record that holds it, and the digest of all that it was made of."""

    record: str
    inputs: str


@dataclass(frozen=True, slots=True)
class KeptWiki:
    """A complete generation of a wiki."""

    generation: str | None
    """`None`: the first one."""
    run: str
    """The run that last changed it."""
    plan: WikiPlan
    plan_inputs: str
    pages: Mapping[str, KeptPage]
    revision: int = 0


@dataclass(frozen=True, slots=True)
class WikiRun:
    """A run that is under way, or was when its process ended."""

    id: str
    force: bool
    generation: str | None
    """The generation it writes; `None`: the first one."""
    based_on: int
    """The revision of the record of that generation when the run began, 0 for a new one."""
    plan: WikiPlan | None = None
    plan_inputs: str = ""
    to_write: Mapping[str, str] = field(default_factory=dict)
    """Why a page is written, by its path."""
    kept: Mapping[str, KeptPage] = field(default_factory=dict)
    """Pages that stay as they are."""
    usage: Usage = field(default_factory=Usage)
    """What planning used."""


@dataclass(frozen=True, slots=True)
class WrittenPage:
    """A page that a run has written, with what is told of it."""

    page: WikiPage
    inputs: str
    notes: tuple[str, ...] = ()
    """What was left out of the page, such as citations that do not hold."""
    usage: Usage = field(default_factory=Usage)


class KeptWikis:
    """The wiki of one repository, or of a branch of it, in a space."""

    def __init__(self, engine: Engine, repository: WikiRepository, generations: WikiGenerationStore) -> None:
        self._clock = engine.clock
        self._records = Records(engine)
        # Not by its name: a search of the whole space for the repository is to find the repository.
        name = digest("\n".join([repository.repository_id, repository.branch or ""]))
        self._collection = RecordCollection((_HOME, name), hidden=True)
        self.repository = repository
        self.generations = generations

    def current(self) -> KeptWiki | None:
        """Return the current generation; `None` where none was completed yet."""
        return self.generation(self.generations.current_generation(self.repository))

    def generation(self, generation: str | None) -> KeptWiki | None:
        """Return a complete generation that is kept; the current one, or one that is about to become it."""
        name = self._generation_name(generation)
        record = self._records.get([name]).get(name)
        return _wiki_of(record) if record else None

    def pages(self, wiki: KeptWiki) -> dict[str, WikiPage]:
        """Return the pages of a generation by path, in the order of its plan."""
        return {path: one.page for path, one in self._read(wiki.pages).items()}

    def place(self) -> tuple[str, str] | None:
        """Return the folder in which the repository lay last, and the scope of its sources; `None` if not known."""
        name = self._collection.name(_PLACE)
        record = self._records.get([name]).get(name)
        return (str(record.value["folder"]), str(record.value["scope"])) if record else None

    def keep_place(self, folder: str, scope: str) -> None:
        """Keep where the repository lies and where its sources are."""
        value = {"folder": folder, "scope": scope}
        self._records.keep([RecordDraft(self._collection.name(_PLACE), value)], reason=_REASON)

    def open_run(self) -> WikiRun | None:
        """Return the run that is under way."""
        name = self._collection.name(_RUN)
        record = self._records.get([name]).get(name)
        return _run_of(record.value) if record else None

    def begin(self, *, force: bool) -> WikiRun:
        """Begin a run, and keep it. One that was under way is given up, with the memories of its generation."""
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
        """Tell whether a run that was under way can still be completed: the wiki it is about did not change since."""
        if run.force and self.generations.current_generation(self.repository) == run.generation:
            return True  # it was switched to, and has to be tidied up after
        known = self.generation(run.generation)
        return known is None or known.run == run.id or (not run.force and known.revision == run.based_on)

    def keep_run(self, run: WikiRun) -> None:
        """Keep how far a run is."""
        self._records.keep([RecordDraft(self._collection.name(_RUN), _run_data(run))], reason=_REASON)

    def keep_page(self, run: WikiRun, written: WrittenPage) -> None:
        """Keep a page that a run has written."""
        value = {
            "page": _PAGE_DATA.dump_python(written.page, mode="json"),
            "inputs": written.inputs,
            "notes": [*written.notes],
            "usage": _usage_data(written.usage),
        }
        name = self._collection.name(page_record(run.id, written.page.plan.path))
        self._records.keep([RecordDraft(name, value)], reason=_REASON)

    def written(self, run: WikiRun, paths: Iterable[str]) -> dict[str, WrittenPage]:
        """Return those of some pages that a run has written."""
        return self._read({path: KeptPage(page_record(run.id, path), "") for path in paths})

    def withdraw(self, run: WikiRun, paths: Iterable[str]) -> None:
        """Take back pages that a run has written, so that it writes them again."""
        names = [self._collection.name(page_record(run.id, path)) for path in paths]
        self._records.remove(names, reason=_REASON)

    def complete(self, run: WikiRun, wiki: KeptWiki) -> int:
        """Make a wiki the current generation, and close its run; return how many memories that withdrew.

        A new generation is switched to by one patch, with its memories; pages of the current one are changed by one
        patch. Done again after an end in the middle it does what is left. Raises `Conflict` where another run was
        faster.
        """
        self._require_open(run)
        names = _names_of(self._collection, wiki)
        head = RecordDraft(self._generation_name(wiki.generation), _wiki_data(wiki), expected_revision=run.based_on)
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
        there = self._records.get([*names.values()])
        return {path: _written_of(there[name]) for path, name in names.items() if name in there}

    def _generation_name(self, generation: str | None) -> RecordName:
        return self._collection.name(f"{_GENERATION}/{generation or _FIRST}")


@dataclass(frozen=True, slots=True)
class CitingPage:
    """A page that a space keeps: the id of its record, and its citations of some files, each with path and salt."""

    id: str
    title: str
    cited: tuple[tuple[str, LineCitation, str], ...]


def citing_pages(ledger: Ledger, paths: Mapping[str, str]) -> list[CitingPage]:
    """Return the pages of all complete wikis that cite some files (`paths`, by the ids of their sources)."""
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
                page = _written_of(record_of(record)).page
                cited = [one for one in page.citations if one.source_id in paths]
                pages += [(record.id, page.plan.title, cited)] if cited else []
    salts = _salts(ledger, {one.source_id for _, _, cited in pages for one in cited})
    return [
        CitingPage(
            identity, title, tuple((paths[at], one, salts[at]) for one in cited if (at := one.source_id) in salts)
        )
        for identity, title, cited in pages
    ]


def _salts(ledger: Ledger, sources: Iterable[str]) -> dict[str, str]:
    (read,) = ledger.read([ObjectRequest(objects=tuple(sources))])
    return {identity: one.salt for identity, one in read.objects.items() if isinstance(one, Source)}


def page_record(run: str, path: str) -> str:
    """Return the key of the record of a page that a run has written."""
    return f"{_PAGE}/{run}/{path}"


def _names_of(collection: RecordCollection, wiki: KeptWiki) -> list[RecordName]:
    head = collection.name(f"{_GENERATION}/{wiki.generation or _FIRST}")
    return [head, *(collection.name(page.record) for page in wiki.pages.values())]


def _wiki_data(wiki: KeptWiki) -> dict[str, Any]:
    return {
        "generation": wiki.generation,
        "run": wiki.run,
        "plan": _PLAN.dump_python(wiki.plan, mode="json"),
        "plan_inputs": wiki.plan_inputs,
        "pages": _pages_data(wiki.pages),
    }


def _wiki_of(record: KeptRecord) -> KeptWiki:
    value = record.value
    return KeptWiki(
        generation=value["generation"],
        run=value["run"],
        plan=_PLAN.validate_python(value["plan"]),
        plan_inputs=value["plan_inputs"],
        pages=_pages_of(value["pages"]),
        revision=record.revision,
    )


def _run_data(run: WikiRun) -> dict[str, Any]:
    return {
        "id": run.id,
        "force": run.force,
        "generation": run.generation,
        "based_on": run.based_on,
        "plan": _PLAN.dump_python(run.plan, mode="json") if run.plan else None,
        "plan_inputs": run.plan_inputs,
        "to_write": [*run.to_write.items()],
        "kept": _pages_data(run.kept),
        "usage": _usage_data(run.usage),
    }


def _run_of(value: Mapping[str, Any]) -> WikiRun:
    return WikiRun(
        id=value["id"],
        force=value["force"],
        generation=value["generation"],
        based_on=value["based_on"],
        plan=_PLAN.validate_python(value["plan"]) if value["plan"] else None,
        plan_inputs=value["plan_inputs"],
        to_write=dict(value["to_write"]),
        kept=_pages_of(value["kept"]),
        usage=_usage_of(value["usage"]),
    )


# As lists: the order of pages is that in which they are read.
def _pages_data(pages: Mapping[str, KeptPage]) -> list[list[str]]:
    return [[path, page.record, page.inputs] for path, page in pages.items()]


def _pages_of(data: Iterable[Sequence[str]]) -> dict[str, KeptPage]:
    return {path: KeptPage(record, inputs) for path, record, inputs in data}


def _written_of(record: KeptRecord) -> WrittenPage:
    value = record.value
    return WrittenPage(
        _PAGE_DATA.validate_python(value["page"]), value["inputs"], tuple(value["notes"]), _usage_of(value["usage"])
    )


def _usage_data(usage: Usage) -> list[Any]:
    cost = None if usage.cost is None else str(usage.cost)
    return [usage.requests, usage.input_tokens, usage.output_tokens, cost]


def _usage_of(data: Sequence[Any]) -> Usage:
    requests, given, got, cost = data
    return Usage(requests, given, got, None if cost is None else Decimal(cost))


MOST_PAGES = 2_000


def check_plan(plan: WikiPlan) -> None:
    """Raise `InvalidInput` for a plan without pages, with too many, or with a path that cannot be a page's."""
    if not 1 <= len(plan.pages) <= MOST_PAGES:
        raise InvalidInput(f"The plan has {len(plan.pages)} pages.", hint=f"Plan 1 to {MOST_PAGES} pages.")
    check_page_paths(page.path for page in plan.pages)
