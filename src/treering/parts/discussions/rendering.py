"""Discussions, as lines."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from treering.core.characters import one_line
from treering.core.counting import counted_things
from treering.core.fencing import fence
from treering.parts.discussions.log.blocks import StoredMessage
from treering.parts.discussions.log.message_log import DeletedMessages, Recorded
from treering.parts.discussions.making import MakingReport
from treering.parts.discussions.operations import FoundIn
from treering.parts.discussions.restoring import Imported
from treering.parts.discussions.summaries.memories import Memory
from treering.parts.discussions.wilmer import ImportedFile
from treering.retrieval.search.lines import LineQuery, lines_as_text, shown_lines
from treering.retrieval.search.packing import titled
from treering.retrieval.tuning import TUNING
from treering.surfaces.cli.printing import IndentedLine, line
from treering.surfaces.cli.rendering_changes import render_erasure

_SNIPPET_CHARS = 400
_MOST_NOTES = 8


def render_discussions(counts: Mapping[str, int], within: str) -> Iterator[IndentedLine]:
    """Show which discussions there are, with their messages, deleted ones too."""
    if not counts:
        yield line(f"There are no discussions below the scope {within}.")
    for name, count in counts.items():
        yield line((name, "bold"), f"  {counted_things(count, 'message')}")


def render_recorded(name: str, recorded: Recorded) -> Iterator[IndentedLine]:
    """Show what recording did."""
    did = f"{recorded.appended} appended, {recorded.unchanged} unchanged, {recorded.withdrawn} withdrawn"
    yield line((f"Recorded in {name}: ", "bold"), f"{did}; {counted_things(recorded.count, 'message')} now.")
    if recorded.diverged_at is not None:
        yield line(f"It diverges from the stored conversation at message {recorded.diverged_at}.", indent=2)
    if reason := recorded.left_out_reason():
        yield line(("left out: ", "yellow"), reason, indent=2)
    if recorded.staled:
        yield line(("Stale now: ", "yellow"), ", ".join(recorded.staled), indent=2)


def render_proposed(proposed: Sequence[str]) -> Iterator[IndentedLine]:
    """Show the candidates that were proposed, or the patch that waits for review."""
    if proposed:
        yield line(("Proposed: ", "bold"), ", ".join(proposed), indent=2)


def render_made(made: MakingReport) -> Iterator[IndentedLine]:
    """Show what became of the memories that were due."""
    counts = {"done": made.done, "empty": made.empty, "failed": made.failed, "waiting": made.waiting}
    parts = [f"{count} {what}" for what, count in counts.items() if count]
    told = [f"chunks of messages: {', '.join(parts)}"] if parts else []
    told += [f"{made.condensed} condensed"] if made.condensed else []
    told += ["a new summary"] if made.summary_version else []
    told += ["a new state document"] if made.state_version else []
    if made.busy:
        yield line("Another process is making its memories; use --wait to wait for it.")
    elif not (told or made.errors):
        yield line("No memories are due.")
    if told:
        yield line(("Processed ", "bold") if parts else ("Made: ", "bold"), "; ".join(told), ".")
    yield from _each("failed: ", "red", made.errors)
    yield from _each("not used: ", "yellow", made.rejected)


def render_notes(notes: Sequence[str]) -> Iterator[IndentedLine]:
    """Show what a person should know of how something was read."""
    yield from _each("note: ", "yellow", notes[:_MOST_NOTES])
    if len(notes) > _MOST_NOTES:
        yield line(f"{len(notes) - _MOST_NOTES} more notes; --json shows them")


def render_shown(
    name: str, texts: Mapping[str, str], memories: Sequence[Memory], messages: Sequence[StoredMessage], *, fenced: bool
) -> Iterator[IndentedLine]:
    """Show a discussion: its texts by what they are called, then memories and messages, oldest first."""
    remembered = [f"{_span(memory.first, memory.last)}  {_remembered(memory)}" for memory in memories]
    sections = {**texts, "Memories": "\n".join(remembered), "Messages": "\n".join(map(_said, messages))}
    for title, text in sections.items():
        if text:
            yield line((title.upper(), "bold cyan"))
            yield line(_quoted(text, f"discussion:{name}", fenced=fenced))
            yield line("")


def render_found(found: Sequence[FoundIn], query: str, *, fenced: bool) -> Iterator[IndentedLine]:
    """Show what was found, best first, each with its discussion, the lines that answer and what cites it."""
    terms = LineQuery(query).terms
    for rank, placed in enumerate(found, start=1):
        one = placed.found
        place = f"{placed.discussion} {_span(one.first, one.last)}"
        said = f", {one.at:%Y-%m-%d}" if one.at else ""
        about = one.title or one.speaker
        rows = shown_lines(one.text, placed.lines, terms, columns=placed.columns, max_chars=TUNING.lines.max_chars)
        text = lines_as_text(rows)
        called, text = ("", titled(about, text)) if fenced else (one_line(about), text)
        yield line(f"{rank}. ", (called, "bold"), f"  {one.score:.3f}  ({one.kind} {place}{said})")
        yield line(_quoted(text, f"discussion:{place}", fenced=fenced), indent=3)
        if one.superseded_by:
            yield line(("superseded ", "yellow"), one.superseded_by.words, indent=3)
        if one.reply:
            yield line(
                _quoted(f"{one.reply.speaker}: {_snippet(one.reply.text)}", f"discussion:{place}", fenced=fenced),
                indent=3,
            )
        yield line((f"{one.source_id} {one.segment_id}" if one.source_id else one.id, "dim"), indent=3)
    if not found:
        yield line("No results.")


def render_imported(path: str, imported: Imported, *, held: bool) -> Iterator[IndentedLine]:
    """Show what came in from a folder; `held`: the discussion had messages before."""
    state = f"the state document is {'new' if imported.state else 'unchanged'}"
    if held:
        yield line((f"Imported from {path}: ", "bold"), f"{state}.")
        yield line("The discussion contains messages, so nothing else was read.", indent=2)
    else:
        counts = (
            counted_things(imported.messages, "message"),
            counted_things(imported.memories, "memory"),
            counted_things(imported.summaries, "version of the summary", "versions of the summary"),
        )
        yield line((f"Imported from {path}: ", "bold"), f"{', '.join(counts)}; {state}.")
    yield from render_notes(imported.rejected)


def render_imported_file(path: str, imported: ImportedFile) -> Iterator[IndentedLine]:
    """Show what came in from a file of WilmerAI."""
    told = [counted_things(imported.memories, "new memory")] if imported.memories else []
    told += [f"{imported.withdrawn} withdrawn"] if imported.withdrawn else []
    told += ["a text as its summary or state document"] if imported.summary else []
    match imported.outcome:
        case "imported":
            yield line((f"Imported from {path}: ", "bold"), f"{', '.join(told) or 'nothing new'}.")
        case "unchanged":
            yield line(f"{path} was imported before and has not changed.")
        case "skipped":
            yield line(f"{path} contains nothing to store.")
    yield from render_notes(imported.rejected)


def render_deleted(deleted: DeletedMessages) -> Iterator[IndentedLine]:
    """Show what was taken away."""
    where = ", ".join(map(str, deleted.positions))
    fallen = counted_things(len(deleted.withdrawn), "memory or version", "memories or versions")
    yield line((f"Deleted {where}", "bold"), f"; {fallen} derived from it withdrawn.")
    if deleted.receipt:
        yield from render_erasure(deleted.receipt)


def _each(what: str, style: str, told: Iterable[str]) -> Iterator[IndentedLine]:
    yield from (line((what, style), one, indent=2) for one in told)


def _span(first: int, last: int) -> str:
    if last < 0:
        return "-"
    return str(first) if first == last else f"{first} to {last}"


def _remembered(memory: Memory) -> str:
    title, summary = memory.item.title, memory.item.summary
    return title if title == summary else f"{title}\n{_indented(summary)}"


def _said(message: StoredMessage) -> str:
    when = f" [{message.at:%Y-%m-%d %H:%M}]" if message.at else ""
    what = "(deleted)" if message.deleted else f"{message.speaker}{when}: {message.text}"
    return f"{message.position}  {what}"


def _indented(text: str) -> str:
    return "\n".join(f"   {row}" for row in text.splitlines())


def _snippet(text: str) -> str:
    return text if len(text) <= _SNIPPET_CHARS else f"{text[:_SNIPPET_CHARS]} …"


def _quoted(text: str, origin: str, *, fenced: bool) -> str:
    return fence(text, origin=origin) if fenced else text
