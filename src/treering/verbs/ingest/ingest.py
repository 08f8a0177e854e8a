"""The verb `ingest`: read outside input."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field, NonNegativeInt, ValidationError, model_validator

from treering.core.errors import Corrupt, InvalidInput, NotFound, nearest
from treering.core.patch import Author
from treering.core.scope import sees
from treering.ports.adapter import Adapter, Reading
from treering.ports.runtime import collecting_seldom
from treering.verbs.engine import Engine, silent
from treering.verbs.envelope import READS, WRITES, Call, Mode, TextInput, Value, bounded, either
from treering.verbs.index_warnings import lag_seen
from treering.verbs.ingest.batch import BatchWriter
from treering.verbs.ingest.inline_items import InlineItem, InlineReader
from treering.verbs.ingest.known import KnownSources
from treering.verbs.ingest.report import IngestReport, JobReport, JobRow, first_by_outcome, reading_ahead
from treering.verbs.ingest.run import Run, Task

_WARNINGS = 50
_SHOWN = 200
_MODES_OF_ADAPTERS = ("path", "repo", "url")
"""Built-in adapters, each with a mode of its name."""
_BATCH_SIZE = 64
"""Items read at a time, or while others are written."""


class SourceInput(TextInput):
    """Inline texts and conversations. A single item may be given directly."""

    SHORT_NAMES = frozenset(InlineItem.model_fields)

    items: tuple[InlineItem, ...] = Field(description="Each becomes one Source.")

    @classmethod
    def of_text(cls, text: str) -> dict[str, Any]:
        """Return a plain text as a note."""
        return {"items": [{"text": text}]}

    @model_validator(mode="before")
    @classmethod
    def _takes_a_single_item(cls, data: Any) -> Any:
        alone = isinstance(data, Mapping) and "items" not in data and ("text" in data or "messages" in data)
        return {"items": [data]} if alone else data


class PathInput(TextInput):
    """The file or folder to read."""

    TEXT: ClassVar[str] = "path"

    path: str = Field(min_length=1, description="A file or a folder.")


class RepoInput(TextInput):
    """The repository to read."""

    TEXT: ClassVar[str] = "path"

    path: str = Field(min_length=1, description="A git work tree or a bare repository.")


class UrlInput(TextInput):
    """The pages to read."""

    TEXT: ClassVar[str] = "url"

    url: str = Field(default="", description="An http or https address: a page or a sitemap.")
    addresses: str = Field(
        default="",
        max_length=2_000_000,
        description="Alternatively, a text with one address per line; # starts a comment.",
    )

    _is_one = model_validator(mode="after")(either("url", "addresses"))


class AdapterInput(TextInput):
    """The adapter and its target."""

    TEXT: ClassVar[str] = "target"

    target: str = Field(
        min_length=1,
        max_length=2_000_000,
        description="The adapter of an installed package and its target, as NAME:TARGET.",
    )


class StatusInput(TextInput):
    """The job to report."""

    TEXT: ClassVar[str] = "job"

    job: str = Field(default="", description="Id of the job; default: the newest.")


class IngestOptions(Value):
    """Options of ingesting. Unchanged input changes nothing, so retries are always safe."""

    wait: bool = Field(default=False, description="Wait until all passages are embedded.")
    dry_run: bool = Field(default=False, description="Read and compare without writing.")
    max_items: NonNegativeInt = Field(default=200, description="Maximum number of item results.")
    redact_secrets: bool = Field(default=True, description="Replace secrets with their kind.")
    again: bool = Field(default=False, description="Also read content that was erased before.")


class RepoOptions(IngestOptions):
    """Options of reading a repository."""

    commit: str | None = Field(default=None, description="Commit to read; default: HEAD.")
    worktree: bool = Field(default=False, description="Read the files of the work tree, with uncommitted changes.")
    subfolder: str | None = Field(default=None, description="Read only files below this folder.")
    include: tuple[str, ...] = Field(default=(), description="Read only paths that match one of these globs.")
    exclude: tuple[str, ...] = Field(default=(), description="Skip paths that match one of these globs.")


class StatusOptions(Value):
    """The number of results to show."""

    max_items: NonNegativeInt = Field(default=200, description="Maximum number of item results.")
    offset: NonNegativeInt = Field(default=0, description="Number of item results to skip.")


def ingest_source(call: Call, given: SourceInput, options: IngestOptions) -> IngestReport:
    """Ingest inline items."""
    reader = InlineReader(call.engine.segmenters, call.engine.limits, options.redact_secrets)
    writer = _writer(call, options, call.engine.author, root=None, target="inline content")
    task = Task("source", "inline content", len(given.items), options.redact_secrets, options.again)
    # All of it is here, so reading ahead in a thread would gain nothing.
    places = range(0, len(given.items), _BATCH_SIZE)
    readings = (list(map(reader.read, given.items[place : place + _BATCH_SIZE])) for place in places)
    return _run(call, task, writer, readings, options)


def ingest_path(call: Call, given: PathInput, options: IngestOptions) -> IngestReport:
    """Ingest a file or a folder. Raises `InvalidInput` if it cannot be read."""
    return _ingest_with(call, "path", given.path, options)


def ingest_file(engine: Engine, scope: str, file: Path) -> IngestReport:
    """Ingest one file on behalf of another verb. Raises the errors of `ingest_path`."""
    return ingest_path(Call(engine, scope), PathInput(path=str(file)), IngestOptions())


def ingest_repo(call: Call, given: RepoInput, options: RepoOptions) -> IngestReport:
    """Ingest a git repository. Raises `InvalidInput` for a folder that is not a repository."""
    return _ingest_with(call, "repo", given.path, options)


def ingest_url(call: Call, given: UrlInput, options: IngestOptions) -> IngestReport:
    """Ingest a web page, or the pages of a sitemap or a list. Raises `InvalidInput` for other addresses."""
    if given.addresses:
        return _ingest_with(call, "url", f"{given.addresses}\n", options, called="a list of addresses")
    return _ingest_with(call, "url", given.url, options)


def ingest_with_adapter(call: Call, given: AdapterInput, options: IngestOptions) -> IngestReport:
    """Ingest with an adapter of another package. Raises `InvalidInput` for an unknown adapter."""
    name, colon, target = given.target.partition(":")
    if not colon or name in _MODES_OF_ADAPTERS:
        raise InvalidInput(
            f"{given.target[:_SHOWN]!r} does not name an adapter of an installed package.",
            hint="Use NAME:TARGET, such as board:hive.",
        )
    return _ingest_with(call, name, target, options, called=given.target)


def ingest_status(call: Call, given: StatusInput, options: StatusOptions) -> JobReport:
    """Report the state of a job. Raises `NotFound` for an unknown id."""
    row = _job(call, given.job)
    lag = lag_seen(call.engine, call.engine.index.vectors.lag())
    if row is None:
        return JobReport(
            mode="status",
            scope=call.scope,
            status="empty",
            pending_vectors=lag.pending,
            total_vectors=lag.total,
        )
    items = first_by_outcome(row.items, len(row.items))
    shown = items[options.offset : options.offset + options.max_items]
    return JobReport(
        mode="status",
        scope=row.scope,
        status="failed" if row.state == "failed" else "ok",
        warnings=bounded(row.warnings, _WARNINGS),
        ids=(row.id,),
        job=row.id,
        state=row.state_at(call.engine.clock.now()),
        target=row.target,
        started_at=row.started_at,
        updated_at=row.updated_at,
        done=row.done,
        total=row.total,
        counts=row.counts,
        items=shown,
        items_left_out=len(items) - len(shown),
        staled=row.staled,
        errors=row.errors,
        pending_vectors=lag.pending,
        total_vectors=lag.total,
    )


def _ingest_with(call: Call, kind: str, path: str, options: IngestOptions, *, called: str = "") -> IngestReport:
    adapter = _adapter(call, kind)
    # Content of files comes through an adapter, whoever requested it; the channel determines its trust.
    author = call.engine.author.model_copy(update={"channel": "adapter"})
    of_adapter = _adapter_options(options)
    writer = _writer(call, options, author, root=adapter.origin(path), target=called or path)
    readings = adapter.read(path, known=writer.known_sources.known(), limits=call.engine.limits, options=of_adapter)
    # Counting may walk the files once more, so it is skipped if no progress is shown.
    total = None if call.engine.progress is silent else adapter.count(path, of_adapter)
    task = Task(kind, called or path, total, options.redact_secrets, options.again)
    with reading_ahead(readings, most=_BATCH_SIZE) as ahead:
        return _run(call, task, writer, ahead, options)


def _adapter(call: Call, kind: str) -> Adapter:
    adapter = call.engine.adapters.get(kind)
    if adapter is None:
        raise InvalidInput(
            f"This space has no adapter for {kind!r}.",
            hint=nearest(kind, call.engine.adapters),
            details={"given": kind[:_SHOWN], "known": sorted(call.engine.adapters)},
        )
    return adapter


def _adapter_options(options: IngestOptions) -> dict[str, Any]:
    """Return the options for the adapter that were set."""
    chosen = options.model_dump(exclude=set(IngestOptions.model_fields) - {"redact_secrets"}, exclude_defaults=True)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in chosen.items()}


def _writer(call: Call, options: IngestOptions, author: Author, *, root: str | None, target: str) -> BatchWriter:
    return BatchWriter(
        engine=call.engine,
        scope=call.scope,
        author=author.model_copy(update={"tool": "ingest"}),
        known_sources=KnownSources(call.engine.ledger, scope=call.scope, root=root),
        reason=f"Ingest {target}",
        dry_run=options.dry_run,
    )


def _run(
    call: Call, task: Task, writer: BatchWriter, readings: Iterable[Sequence[Reading]], options: IngestOptions
) -> IngestReport:
    run = Run(task, call.engine, writer)
    with collecting_seldom():
        run.read(readings)
    if run.account.patches:
        call.engine.vectoriser.start()
    if options.wait and not options.dry_run:
        call.engine.vectoriser.finish(call.engine.progress)
    return run.report(max_items=options.max_items)


def _job(call: Call, job_id: str) -> JobRow | None:
    """Return the requested job, or the newest one, if the call's scope sees it."""
    rows: Iterator[Mapping[str, Any]] = iter(call.engine.jobs.recent(1, scope=call.scope))
    stored = call.engine.jobs.find(job_id) if job_id else next(rows, None)
    row = parsed_job(stored) if stored and stored.get("scope", "") is not None else None
    if job_id and (row is None or not sees(call.scope, row.scope, descend=True)):
        raise NotFound(
            f"There is no job {job_id}.",
            hint="Omit the id for the newest job; the reports of ingest contain the ids.",
            details={"id": job_id},
        )
    return row


def parsed_job(stored: Mapping[str, Any]) -> JobRow:
    """Parse the row of a job. Raises `Corrupt` if it is invalid."""
    try:
        return JobRow.model_validate(stored)
    except ValidationError as error:
        raise Corrupt(
            f"The stored record of the job {stored.get('id')!r} cannot be read.",
            hint="Ingest again. The space itself is intact if `lint audit` passes.",
        ) from error


_BRINGS_IN_FILES = replace(WRITES, reads_files=True)


_mode = partial(Mode.of, repeatable=True, makes_space=True)

PATH = _mode("path", "Read a file or a folder.", ingest_path, rights=_BRINGS_IN_FILES)
REPO = _mode("repo", "Read a git repository.", ingest_repo, rights=_BRINGS_IN_FILES)
URL = _mode(
    "url",
    "Read a web page, or all pages of a sitemap or a list.",
    ingest_url,
    rights=replace(WRITES, fetches=True),
)
SOURCE = _mode("source", "Store inline texts or conversations.", ingest_source, rights=WRITES)
ADAPTER = _mode(
    "adapter",
    "Read with an adapter of an installed package.",
    ingest_with_adapter,
    # Code of other packages may read everything the user can read, whatever folders a server may read.
    rights=replace(_BRINGS_IN_FILES, writes_files=True, fetches=True),
)
STATUS = Mode.of("status", "Show the progress of a job, item by item.", ingest_status, rights=READS)
