"""Ingest a path, a page or a text from the command line, and print the result."""

import time
from pathlib import Path
from typing import Any

from treering.core.counting import counted_things
from treering.core.errors import InvalidInput
from treering.surfaces.cli.calls import answer_report, call
from treering.surfaces.cli.flags import Access, Note, WriteFlags
from treering.surfaces.cli.printing import tell
from treering.surfaces.cli.rendering_changes import render_ingest
from treering.surfaces.cli.request import read_stdin
from treering.surfaces.cli.session import answer, embed_later, may_work_later, watched
from treering.surfaces.ingest_words import duration, saved_in_words
from treering.surfaces.python.space import Space
from treering.verbs.envelope import Envelope
from treering.verbs.everyday import mode_of_path
from treering.verbs.ingest.ingest import parsed_job
from treering.verbs.ingest.report import IngestReport
from treering.verbs.query.space_status import minutes_left

STDIN = "-"
_URL_PREFIXES = ("http://", "https://")
_MAX_LIST_BYTES = 1_000_000


def ingest_and_answer(space: Space, envelope: Envelope, access: Access, writing: WriteFlags) -> int:
    """Ingest with a progress bar and print the report. Return the number of items that failed."""
    begun, started_at = time.monotonic(), space.engine.clock.now()
    try:
        with watched(space) as busy:
            report = call(busy, "ingest", envelope)
    except KeyboardInterrupt:
        jobs = map(parsed_job, space.engine.jobs.recent(1, scope=envelope.scope))
        tell(saved_in_words(next((job for job in jobs if job.started_at >= started_at), None)))
        raise
    if not isinstance(report, IngestReport):
        answer_report(space, report, access)
        return 0
    lines = render_ingest(
        report,
        space.engine.ledger,
        seconds=time.monotonic() - begun,
        embeddings=_embedding_note(space, report.pending_vectors, writing),
        verbose=access.verbose,
    )
    answer(access, report, lines)
    if not report.dry_run:
        embed_later(space, writing)
    return report.counts.get("failed", 0)


def _embedding_note(space: Space, pending: int, writing: WriteFlags) -> str:
    if not may_work_later(writing):
        return f"embed {counted_things(pending, 'passage')} with: treering vectors"
    minutes = minutes_left(space.engine, pending)
    if minutes is None:
        return "embeddings are being made in the background."
    return f"embeddings will be ready in about {duration(max(60 * minutes, 1))}."


def mode_for(path: str, space: Space) -> str:
    """Return the mode of `ingest` for a URL, a path tracked by git, or other files.

    `board:hive` means the adapter `board` if it is installed and no file has that name.
    """
    if path.lower().startswith(_URL_PREFIXES):
        return "url"
    name, colon, _ = path.partition(":")
    if colon and name in space.engine.adapters and not Path(path).exists():
        return "adapter"
    return mode_of_path(space.engine, path)


def ingest_input(what: str, mode: str, note: Note) -> dict[str, Any]:
    """Return the input of `ingest` for its argument: a path, a URL, a job, or `-` for stdin."""
    if what and mode == "url":
        return _addresses(what)
    if what == STDIN:
        named = {"title": note.title, "origin": note.origin}
        return {"items": [{"kind": "note", "text": read_stdin(), **{k: v for k, v in named.items() if v}}]}
    if not what:
        return {}
    match mode:
        case "status":
            return {"job": what}
        case "adapter":
            return {"target": what}
        case "source":
            raise InvalidInput(
                "The mode source takes texts, not a path.", hint="Use - to read stdin, or --input with items."
            )
        case _:
            return {"path": what}


def _addresses(what: str) -> dict[str, Any]:
    """Return one URL, or the list in a file or stdin with one URL per line."""
    if what == STDIN:
        return {"addresses": read_stdin()}
    if what.lower().startswith(_URL_PREFIXES) or not Path(what).is_file():
        return {"url": what}
    with Path(what).open("rb") as file:
        data = file.read(_MAX_LIST_BYTES + 1)
    if len(data) > _MAX_LIST_BYTES:
        raise InvalidInput(f"The list {what} is over {_MAX_LIST_BYTES:,} bytes.", hint="Split it into several files.")
    return {"addresses": data.decode("utf-8", "replace")}
