"""An engine in memory for the tests of ingest, and a small adapter for folders of Markdown and manifests."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from treering.core.errors import InvalidInput
from treering.core.objects import Knowledge, Object, Source
from treering.core.patch import Author
from treering.core.policy import Policy
from treering.core.scope import sees
from treering.ports.adapter import (
    AlreadyRead,
    Failed,
    KnowledgeDraft,
    NodeDraft,
    Reading,
    ReadLimits,
    Skipped,
    SourceDraft,
    Unchanged,
    Vanished,
)
from treering.ports.ledger import Ledger, Selection
from treering.ports.runtime import JobRow
from treering.ports.search import Lag
from treering.retrieval.index.lookup import IndexLookup
from treering.sources.formats import built_in_formats
from treering.sources.reading.lines import in_file
from treering.sources.reading.text import outline_markdown, segment_text, segments_of_markdown
from treering.testing.fakes import SteppingClock
from treering.testing.memory_ledger import MemoryLedger
from treering.verbs.catalog import INGEST
from treering.verbs.engine import Engine, Progress
from treering.verbs.envelope import EVERYTHING, Envelope

ADA = Author(actor="ada", channel="user")


class Folder:
    """Reads `*.md` as Markdown, and from `*.json` manifests the facts they state: one segment per file.

    A file `broken` cannot be read, one named `*.bin` is skipped. `moves` tells where files went.
    """

    def __init__(self, moves: Mapping[str, str] | None = None) -> None:
        self.moves = dict(moves or {})

    def origin(self, target: str) -> str:
        return f"folder:{target}"

    def count(self, target: str, options: Mapping[str, Any]) -> int | None:
        return len(list(Path(target).iterdir()))

    def read(
        self, target: str, *, known: AlreadyRead, limits: ReadLimits, options: Mapping[str, Any]
    ) -> Iterator[Reading]:
        if not Path(target).is_dir():
            raise InvalidInput(f"{target} is not a folder.", hint="Name a folder.")
        return self._readings(target, known, limits)

    def _readings(self, target: str, known: AlreadyRead, limits: ReadLimits) -> Iterator[Reading]:
        root = self.origin(target)
        files = {f"{root}#{file.name}": file for file in sorted(Path(target).iterdir())}
        for origin in known.fingerprints:
            if origin not in files:
                moved_to = self.moves.get(origin.rpartition("#")[2])
                yield Vanished(origin, f"{root}#{moved_to}" if moved_to else None)
        for origin, file in files.items():
            yield self._reading(origin, file, known, limits)

    def _reading(self, origin: str, file: Path, known: AlreadyRead, limits: ReadLimits) -> Reading:
        if file.name == "broken":
            return Failed(origin, "it is broken")
        if file.suffix == ".bin":
            return Skipped(origin, "a binary file")
        data = file.read_bytes()
        fingerprint = sha256(data).hexdigest()
        if known.fingerprints.get(origin) == fingerprint:
            return Unchanged(origin)
        return _draft(origin, file.name, data.decode(), fingerprint, limits.max_segment_chars)


def _draft(origin: str, name: str, text: str, fingerprint: str, most: int) -> SourceDraft:
    if name.endswith(".md"):
        segments = segments_of_markdown(outline_markdown(text), in_file(name, None), max_chars=most)
        return SourceDraft("markdown", origin, name, fingerprint, "markdown", segments)
    manifest = json.loads(text)
    return SourceDraft(
        "file",
        origin,
        name,
        fingerprint,
        "structured",
        segment_text(name, text, commit=None, max_chars=most),
        nodes=[NodeDraft("project", manifest["name"], manifest["name"], summary=manifest.get("about", ""))],
        knowledge=list(_facts(manifest)),
    )


def _facts(manifest: Mapping[str, Any]) -> Iterator[KnowledgeDraft]:
    name = manifest["name"]
    if "version" in manifest:
        payload = {"subject": name, "predicate": "version", "value": manifest["version"]}
        yield KnowledgeDraft("fact", f"version {manifest['version']}", payload, 0, about=f"project:{name}")
    for dependency in manifest.get("needs", ()):
        payload = {"subject": name, "predicate": "depends_on", "object": dependency}
        yield KnowledgeDraft("fact", f"needs {dependency}", payload, 0, about=f"project:{name}")


@dataclass
class Jobs:
    """A job log that ends with the process."""

    rows: dict[str, JobRow] = field(default_factory=dict)

    def save(self, job_id: str, row: JobRow) -> None:
        self.rows[job_id] = json.loads(json.dumps(row))

    def find(self, job_id: str) -> JobRow | None:
        return self.rows.get(job_id)

    def recent(self, limit: int, *, scope: str) -> Sequence[JobRow]:
        newest = reversed(self.rows.values())
        return [row for row in newest if sees(scope, row["scope"], descend=True)][:limit]


@dataclass
class Vectors:
    """Counts what waits for a vector. Index and vectoriser of these tests, as far as ingest asks."""

    started: int = 0
    finished: int = 0

    @property
    def vectors(self) -> "Vectors":
        return self

    def lag(self) -> Lag:
        return Lag(pending=0 if self.finished else self.started, total=self.started)

    def start(self) -> None:
        self.started += 1

    def finish(self, progress: Progress) -> None:
        self.finished += 1


@dataclass
class Desk:
    """A space in memory and the verb `ingest` at hand."""

    ledger: Ledger
    engine: Engine
    jobs: Jobs
    vectors: Vectors

    def ingest(
        self,
        mode: str,
        given: dict[str, Any] | None = None,
        *,
        scope: str = "/",
        engine: Engine | None = None,
        **options: Any,
    ) -> Any:
        envelope = Envelope(mode=mode, scope=scope, input=given or {}, options=options)
        return INGEST.call(engine or self.engine, envelope, granted=EVERYTHING)

    def note(self, text: str, **fields: Any) -> Any:
        return self.ingest("source", {"items": [{"text": text, **fields}]})

    def read(self, folder: Path, **options: Any) -> Any:
        return self.ingest("path", {"path": str(folder)}, **options)

    def all(self, kind: str) -> list[Object]:
        return list(self.ledger.select(Selection(types=(kind,), descend=True)))

    def sources(self) -> dict[str, Source]:
        return {item.origin.rpartition("#")[2]: item for item in self.all("source") if isinstance(item, Source)}

    def facts(self) -> dict[str, str]:
        """The status of each statement; of one that was made again, that of the last."""
        return {item.title: item.status for item in self.all("knowledge") if isinstance(item, Knowledge)}


def make_desk(
    *, policy: Policy | None = None, adapter: Folder | None = None, clock: SteppingClock | None = None
) -> Desk:
    clock = clock or SteppingClock()
    ledger = MemoryLedger(clock=clock, policy=policy)
    return desk_of(ledger, clock, adapter or Folder())


def desk_of(ledger: Ledger, clock: Any, *adapters: Any, index: Any = None, jobs: Any = None) -> Desk:
    jobs, vectors = jobs or Jobs(), Vectors()
    engine = Engine(
        ledger=ledger,
        index=index or vectors,
        lookup=IndexLookup(index or vectors),
        embedder=None,
        vectoriser=vectors,
        jobs=jobs,
        leases=None,
        adapters=dict(zip(("path", "repo"), adapters, strict=False)),
        clock=clock,
        author=ADA,
        limits=ReadLimits(),
        segmenters=built_in_formats().segmenters,
    )
    return Desk(ledger, engine, jobs, vectors)
