"""Text output for discussions."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from treering.core.characters import one_line
from treering.core.counting import counted_things, listed_up_to
from treering.core.fencing import fence
from treering.extensions.discussions.folder import ImportReport
from treering.extensions.discussions.log.blocks import StoredMessage
from treering.extensions.discussions.log.deleting import DeletedMessages
from treering.extensions.discussions.log.message_log import Recorded
from treering.extensions.discussions.making import MakingReport
from treering.extensions.discussions.operations import MAX_LISTED_SCOPES, Discussions, FoundIn
from treering.extensions.discussions.restoring import Imported
from treering.extensions.discussions.summaries.memories import Memory
from treering.extensions.discussions.wilmer import ImportedFile
from treering.ports.ledger import Ledger
from treering.retrieval import limits
from treering.retrieval.search.lines import LineQuery, lines_as_text, shown_lines
from treering.retrieval.search.packing import titled
from treering.surfaces.cli.printing import IndentedLine, line
from treering.surfaces.cli.rendering_changes import render_erasure

_SNIPPET_CHARS = 400
_MAX_NOTES = 8


def render_discussions(report: Discussions, within: str) -> Iterator[IndentedLine]:
    """Show the discussions and their numbers of messages, including deleted ones."""
    if not report.discussions:
        yield line(f"There are no discussions in the scope {within}.")
    if report.imported:
        yield line("Imported conversations are sources: find them with treering search, or treering show PERSON.")
    for one in report.discussions:
        yield line((one.id, "bold"), f"  {counted_things(one.messages, 'message')}")
    if scopes := listed_up_to(MAX_LISTED_SCOPES, report.scopes_below):
        yield line(f"Scopes below with discussions: {scopes}. List them with --within.")


def render_recorded(name: str, recorded: Recorded) -> Iterator[IndentedLine]:
    """Show the result of recording."""
    did = f"{recorded.appended} appended, {recorded.unchanged} unchanged, {recorded.withdrawn} withdrawn"
    yield line((f"Recorded in {name}: ", "bold"), f"{did}; {counted_things(recorded.count, 'message')} now.")
    if recorded.diverged_at is not None:
        yield line(f"It diverges from the stored conversation at message {recorded.diverged_at}.", indent=2)
    if reason := recorded.left_out_reason():
        yield line(("left out: ", "yellow"), reason, indent=2)
    if recorded.staled:
        yield line(("Stale now: ", "yellow"), ", ".join(recorded.staled), indent=2)


def render_proposed(proposed: Sequence[str]) -> Iterator[IndentedLine]:
    """Show the proposed candidates, or the patch that awaits review."""
    if proposed:
        yield line(("Proposed: ", "bold"), ", ".join(proposed), indent=2)


def render_made(made: MakingReport) -> Iterator[IndentedLine]:
    """Show the result for the memories that were due."""
    counts = {"done": made.done, "empty": made.empty, "failed": made.failed, "waiting": made.waiting}
    parts = [f"{count} {what}" for what, count in counts.items() if count]
    results = [f"chunks of messages: {', '.join(parts)}"] if parts else []
    results += [f"{made.condensed} condensed"] if made.condensed else []
    results += ["a new summary"] if made.summary_version else []
    results += ["a new state document"] if made.state_version else []
    if made.busy:
        yield line("Another process is making its memories; use --wait to wait for it.")
    elif not (results or made.errors):
        yield line("No memories are due.")
    if results:
        yield line(("Processed ", "bold") if parts else ("Made: ", "bold"), "; ".join(results), ".")
    yield from _each("failed: ", "red", made.errors)
    yield from _each("not used: ", "yellow", made.rejected)


def render_notes(notes: Sequence[str]) -> Iterator[IndentedLine]:
    """Show problems found while reading."""
    yield from _each("note: ", "yellow", notes[:_MAX_NOTES])
    if len(notes) > _MAX_NOTES:
        yield line(f"{len(notes) - _MAX_NOTES} more notes; --json shows them")


def render_shown(
    name: str, texts: Mapping[str, str], memories: Sequence[Memory], messages: Sequence[StoredMessage], *, fenced: bool
) -> Iterator[IndentedLine]:
    """Show a discussion: its texts by title, then memories and messages, oldest first."""
    memory_lines = [f"{_span(memory.first, memory.last)}  {_memory_text(memory)}" for memory in memories]
    sections = {**texts, "Memories": "\n".join(memory_lines), "Messages": "\n".join(map(_message_text, messages))}
    for title, text in sections.items():
        if text:
            yield line((title.upper(), "bold cyan"))
            yield line(_quoted(text, f"discussion:{name}", fenced=fenced))
            yield line("")


def render_found(found: Sequence[FoundIn], query: str, *, fenced: bool) -> Iterator[IndentedLine]:
    """Show search results, best first, each with its discussion, the lines that answer and its id."""
    terms = LineQuery(query).terms
    for rank, result in enumerate(found, start=1):
        hit = result.found
        place = f"{result.discussion} {_span(hit.first, hit.last)}"
        day = f", {hit.at:%Y-%m-%d}" if hit.at else ""
        about = hit.title or hit.speaker
        rows = shown_lines(hit.text, result.lines, terms, columns=result.columns, max_chars=limits.MAX_LINE_CHARS)
        text = lines_as_text(rows)
        label, text = ("", titled(about, text)) if fenced else (one_line(about), text)
        yield line(f"{rank}. ", (label, "bold"), f"  {hit.score:.3f}  ({hit.kind} {place}{day})")
        yield line(_quoted(text, f"discussion:{place}", fenced=fenced), indent=3)
        if by := hit.superseded_by or hit.contested_by:
            yield line((by.mark, "yellow"), indent=3)
        if hit.reply:
            reply = f"{hit.reply.speaker}: {_snippet(hit.reply.text)}"
            yield line(_quoted(reply, f"discussion:{place}", fenced=fenced), indent=3)
        yield line((f"{hit.source_id} {hit.segment_id}" if hit.source_id else hit.id, "dim"), indent=3)
    if not found:
        yield line("No results.")


def render_imported(path: str, report: ImportReport) -> Iterator[IndentedLine]:
    """Show the result of importing a folder, or a file of WilmerAI."""
    imported = report.report
    if isinstance(imported, ImportedFile):
        yield from _imported_file(path, imported)
    else:
        yield from _imported_folder(path, imported, held=report.held)
    yield from render_notes(imported.rejected)


def _imported_folder(path: str, imported: Imported, *, held: bool) -> Iterator[IndentedLine]:
    state = f"the state document is {'new' if imported.state else 'unchanged'}"
    if held:
        yield line((f"Imported from {path}: ", "bold"), f"{state}.")
        yield line("The discussion contains messages, so nothing else was read.", indent=2)
    else:
        counts = (
            counted_things(imported.messages, "message"),
            counted_things(imported.memories, "memory"),
            counted_things(imported.summaries, "version of the summary"),
        )
        yield line((f"Imported from {path}: ", "bold"), f"{', '.join(counts)}; {state}.")


def _imported_file(path: str, imported: ImportedFile) -> Iterator[IndentedLine]:
    results = [counted_things(imported.memories, "new memory")] if imported.memories else []
    results += [f"{imported.withdrawn} withdrawn"] if imported.withdrawn else []
    results += ["a text as its summary or state document"] if imported.summary else []
    match imported.outcome:
        case "imported":
            yield line((f"Imported from {path}: ", "bold"), f"{', '.join(results) or 'nothing new'}.")
        case "unchanged":
            yield line(f"{path} was imported before and has not changed.")
        case "skipped":
            yield line(f"{path} contains nothing to store.")


def render_deleted(deleted: DeletedMessages, ledger: Ledger) -> Iterator[IndentedLine]:
    """Show the result of deleting messages."""
    where = ", ".join(map(str, deleted.positions))
    withdrawn = counted_things(len(deleted.withdrawn), "memory or version", "memories or versions")
    yield line((f"Deleted {where}", "bold"), f"; {withdrawn} derived from it withdrawn.")
    if deleted.receipt:
        yield line("Its versions are erased, those of messages indexed with it, and memories made of them:")
        yield from render_erasure(deleted.receipt, ledger)


def _each(label: str, style: str, texts: Iterable[str]) -> Iterator[IndentedLine]:
    yield from (line((label, style), text, indent=2) for text in texts)


def _span(first: int, last: int) -> str:
    if last < 0:
        return "-"
    return str(first) if first == last else f"{first} to {last}"


def _memory_text(memory: Memory) -> str:
    title, summary = memory.item.title, memory.item.summary
    return title if title == summary else f"{title}\n{_indented(summary)}"


def _message_text(message: StoredMessage) -> str:
    when = f" [{message.at:%Y-%m-%d %H:%M}]" if message.at else ""
    what = "(deleted)" if message.deleted else f"{message.speaker}{when}: {message.text}"
    return f"{message.position}  {what}"


def _indented(text: str) -> str:
    return "\n".join(f"   {row}" for row in text.splitlines())


def _snippet(text: str) -> str:
    return text if len(text) <= _SNIPPET_CHARS else f"{text[:_SNIPPET_CHARS]} …"


def _quoted(text: str, origin: str, *, fenced: bool) -> str:
    return fence(text, origin=origin) if fenced else text
