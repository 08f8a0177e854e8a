"""Importing WilmerAI's memories of a discussion.

The files contain memories without their messages. Each file is therefore stored as a source in the scope of the
discussion (kind `note`, origin `wilmer#<file name>`), with a verbatim segment for every memory; an imported memory has
this segment as evidence, and is withdrawn with it. If the discussion also contains the messages, hashes in the file
assign the memories to them, and no further memories are made of these messages.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import groupby
from math import inf
from typing import Literal

from treering.core.canonical import digest
from treering.core.evidence import EvidenceRef, Pointer, Segment
from treering.core.objects import Knowledge, Source
from treering.core.patch import Create, Operation, Transition, Update
from treering.core.policy import CURRENT
from treering.extensions.discussions.files import message_hash
from treering.extensions.discussions.generators.generator import GeneratedMemory
from treering.extensions.discussions.generators.parsing import first_words
from treering.extensions.discussions.identity import DiscussionRef, apply_patch, is_placeholder
from treering.extensions.discussions.log.blocks import StoredMessage
from treering.extensions.discussions.log.message_log import MessageLog
from treering.extensions.discussions.summaries.chunks import chunk_state
from treering.extensions.discussions.summaries.memories import Coverage, memory_object
from treering.extensions.discussions.summaries.versions import IMPORTED_FILES, Form, Memories, Versions
from treering.extensions.discussions.wilmer_files import FileKind, WilmerFile, WilmerMemory, read_file
from treering.ports.adapter import SegmentDraft, SourceDraft
from treering.verbs.engine import Engine, retry_on_conflict
from treering.verbs.ingest.changes import SourceChanges, SourceToWrite
from treering.verbs.ingest.known import KnownSources
from treering.verbs.ingest.turns import cleaned

Span = tuple[int, int]
"""Positions of a first and a last message."""

Grounds = tuple[EvidenceRef, ...]
"""The evidence of a memory."""

MADE_BY = "WilmerAI"
"""The value of `made_by` for imported memories and summaries."""


@dataclass(frozen=True, slots=True)
class ImportedFile:
    """The result of importing a file. `skipped`: it contains nothing to store, such as the tracker of condensations."""

    outcome: Literal["imported", "unchanged", "skipped"]
    source_id: str = ""
    memories: int = 0
    """The number of new memories."""
    withdrawn: int = 0
    """The number of memories from an earlier import that the file no longer contains."""
    summary: bool = False
    """Whether it became the rolling summary or the state document, or a memory if there already is one."""
    rejected: tuple[str, ...] = ()
    """Parts that could not be used, with the reason."""


class WilmerImport:
    """Import files of WilmerAI into one discussion. Idempotent."""

    def __init__(self, engine: Engine, ref: DiscussionRef) -> None:
        self._engine = engine
        self._ref = ref

    def bring(self, name: str, content: bytes, *, known: Collection[str] = ()) -> ImportedFile:
        """Import a file with this name (without its folder); `known` are texts of memories from elsewhere.

        Raises `InvalidInput` if it is not the file its name indicates: another kind, encrypted or damaged.
        """
        file = _without_secrets(read_file(name, content))
        file = replace(file, memories=tuple(memory for memory in file.memories if memory.text not in known))
        if not file.memories:
            return ImportedFile("skipped", rejected=file.rejected)
        return retry_on_conflict(lambda: self._bring(name, content, file))

    def append_waiting(self, files: Sequence[WilmerFile]) -> bool:
        """Append the memories that the summary among imported files does not cover yet; return whether there are any.

        They follow the memory with the hash of the summary. WilmerAI would merge them next; here the text is appended
        as it is, so that no model is called. Memories whose messages are recorded are merged like others.
        """
        return retry_on_conflict(lambda: self._append_waiting(files))

    def _append_waiting(self, files: Sequence[WilmerFile]) -> bool:
        covered = next((file.memories[-1].hash for file in files if file.kind == "summary" and file.memories), "")
        lists = (file.memories for file in files if file.kind == "memories")
        listed = next((one for one in lists if any(memory.hash == covered for memory in one)), ())
        hashes = [memory.hash for memory in listed]
        if not covered or hashes.count(covered) != 1:
            return False
        texts = {cleaned(memory.text).text for memory in listed[hashes.index(covered) + 1 :]}
        versions = Versions(self._engine, self._ref, "rolling_summary")
        stored = Memories(self._engine, self._ref).all()
        waiting = [one for one in stored if one.last < 0 and one.item.summary in texts and not versions.covers(one.id)]
        before = versions.current()
        if not waiting or before is None or before.made_by != MADE_BY:
            return False
        text = "\n\n".join([before.text, *(memory.item.summary for memory in waiting)])
        versions.write(
            text, after=before, last=before.last, memories=waiting, made_by=MADE_BY, memory_source="imported"
        )
        return True

    def _bring(self, name: str, content: bytes, file: WilmerFile) -> ImportedFile:
        entries = [_Entry(memory, self._pieces(memory)) for memory in file.memories]
        known_sources = KnownSources(self._engine.ledger, scope=self._ref.scope)
        arrival = SourceToWrite(self._draft(name, content, file, entries))
        changes = SourceChanges([arrival], known_sources=known_sources, scope=self._ref.scope, clock=self._engine.clock)
        (result,) = changes.results
        if file.kind in _FORMS:
            return self._bring_text(file, _FORMS[file.kind], entries, changes)
        covered = list(self._covered(file, entries))
        if result.outcome == "unchanged":
            if covered:  # messages recorded since the last import
                self._apply(covered)
            return ImportedFile("unchanged", result.source_id, rejected=file.rejected)
        derived = known_sources.citing(result.source_id) if result.outcome == "updated" else []
        gone, new = self._differences(entries, _grounds(entries, changes, result.source_id), derived)
        # Withdrawals precede the change of the source, so that the memories are archived instead of stale.
        self._apply([*gone, *changes.operations(), *new, *covered])
        return ImportedFile("imported", result.source_id, len(new), len(gone), rejected=file.rejected)

    def _differences(
        self, entries: Sequence["_Entry"], grounds: Sequence[Grounds], derived: Sequence[Knowledge]
    ) -> tuple[list[Transition], list[Create]]:
        """Return the operations that withdraw memories missing from the file, and those that create new ones."""
        present = {ref.segment_id for refs in grounds for ref in refs}
        known = {ref.segment_id for item in derived for ref in item.evidence_refs}
        gone = [
            Transition(id=item.id, expected_revision=item.revision, to="archived")
            for item in derived
            if item.status in CURRENT["knowledge"] and any(ref.segment_id not in present for ref in item.evidence_refs)
        ]
        new = [
            self._memory(entry.memory, refs, span)
            for entry, refs, span in zip(entries, grounds, self._spans(entries), strict=True)
            if refs[0].segment_id not in known
        ]
        return gone, [Create(object=item) for item in _in_order(new)]

    def _bring_text(
        self, file: WilmerFile, form: Form, entries: Sequence["_Entry"], changes: SourceChanges
    ) -> ImportedFile:
        """Store a summary or a state document; if the discussion has one of its own, store it as a memory."""
        (result,), (entry,), (span,) = changes.results, entries, self._spans(entries)
        # A version with appended memories becomes stale with them, and is then written again.
        dependents = self._engine.ledger.heads(self._engine.ledger.dependents(result.source_id)).values()
        if result.outcome == "unchanged" and any(head.status != "stale" for head in dependents):
            return ImportedFile("unchanged", result.source_id, rejected=file.rejected)
        if operations := changes.operations():
            self._apply(operations)
        source = self._engine.ledger.get(result.source_id)
        segments = source.segments if isinstance(source, Source) else ()
        refs = tuple(EvidenceRef(source_id=source.id, segment_id=part.segment_id) for part in segments)
        versions = Versions(self._engine, self._ref, form)
        before = versions.current()
        if before and before.made_by != MADE_BY:
            self._apply([Create(object=self._memory(entry.memory, refs, span))])
            return ImportedFile("imported", result.source_id, memories=1, rejected=file.rejected)
        versions.write(
            entry.memory.text,
            after=before,
            last=span[1] if span else -1,
            evidence=refs,
            made_by=MADE_BY,
            memory_source="imported",
        )
        return ImportedFile("imported", result.source_id, summary=True, rejected=file.rejected)

    def _spans(self, entries: Sequence["_Entry"]) -> list[Span | None]:
        """Return the positions of the messages of each memory, if known from the hashes.

        A memory begins after the end of the previous one.
        """
        messages = MessageLog(self._engine, self._ref).read()
        return list(_stretches(_ends(_positions([entry.memory.hash for entry in entries], messages))))

    def _covered(self, file: WilmerFile, entries: Sequence["_Entry"]) -> Iterator[Operation]:
        """Mark the messages covered by the memories, and all up to the last processed one, as read."""
        log = MessageLog(self._engine, self._ref)
        positions = {position for span in self._spans(entries) if span for position in range(span[0], span[1] + 1)}
        processed = [end for end in _ends(_positions(file.processed, log.read())) if end is not None]
        return _cover(log, positions.union(range(max(processed, default=-1) + 1)))

    def _memory(self, memory: WilmerMemory, refs: Grounds, span: Span | None) -> Knowledge:
        first, last = span or (None, None)
        return memory_object(
            self._engine,
            self._ref,
            memory.item,
            Coverage(first, last, refs),
            key=f"wilmer/{refs[0].segment_id}",
            made_by=MADE_BY,
            memory_source="imported",
            valid_from=memory.added,
        )

    def _pieces(self, memory: WilmerMemory) -> list[SegmentDraft]:
        """Split the text of a memory into segments: one, unless it is very long."""
        most = self._engine.limits.max_segment_chars
        place = Pointer(pointer=memory.pointer)
        texts = [memory.text]
        if len(memory.text) > most:
            texts = [piece.text for piece in self._engine.segmenters["text"](memory.text, max_chars=most)]
        heading = f"{memory.item.title} ({memory.added:%Y-%m-%d})" if memory.added else memory.item.title
        return [SegmentDraft(place, text, heading=heading) for text in texts]

    def _draft(self, name: str, content: bytes, file: WilmerFile, entries: Sequence["_Entry"]) -> SourceDraft:
        # Every summary is a separate source, so that a newer one does not change an older one.
        version = f"@{digest(file.memories[0].text)[:12]}" if file.kind in _FORMS else ""
        return SourceDraft(
            kind="note",
            origin=f"{IMPORTED_FILES}#{name}{version}",
            title=f"{name} of WilmerAI",
            fingerprint=f"wilmer:{sha256(content).hexdigest()}",
            content_type="text",
            segments=[piece for entry in entries for piece in entry.pieces],
            metadata={"discussion": self._ref.id},
        )

    def _apply(self, operations: Sequence[Operation]) -> None:
        apply_patch(self._engine, self._ref, operations, reason="Memories of WilmerAI")


@dataclass(frozen=True, slots=True)
class _Entry:
    """A memory and the segments it becomes."""

    memory: WilmerMemory
    pieces: Sequence[SegmentDraft]


def _without_secrets(file: WilmerFile) -> WilmerFile:
    """Return a file without secrets and recalled text; of several summaries, only the last one."""
    memories, rejected = list[WilmerMemory](), list(file.rejected)
    for memory in file.memories if file.kind == "memories" else file.memories[-1:]:
        text = cleaned(memory.text).text
        if is_placeholder(text) and text.strip():
            rejected.append(f"{memory.pointer}: it contains only a placeholder text")
        elif text.strip():
            memories.append(replace(memory, text=text, item=_cleaned_item(memory.item, text)))
        else:
            rejected.append(f"{memory.pointer}: it contains only text recalled from this memory")
    return replace(file, memories=tuple(memories), rejected=tuple(rejected))


def _cleaned_item(item: GeneratedMemory, text: str) -> GeneratedMemory:
    texts = {name: cleaned(getattr(item, name)).text for name in ("title", "summary", "sentiment")}
    texts = {**texts, "title": texts["title"].strip() or first_words(text), "summary": texts["summary"].strip() or text}
    lists = {name: tuple(cleaned(one).text for one in getattr(item, name)) for name in _LISTS}
    return item.model_copy(update={**texts, **lists})


def _in_order(items: Sequence[Knowledge]) -> list[Knowledge]:
    """Assign ids in the order of the items: within one millisecond, only the ids determine the order."""
    ids = sorted(item.id for item in items)
    return [item.model_copy(update={"id": identity}) for item, identity in zip(items, ids, strict=True)]


def _grounds(entries: Sequence[_Entry], changes: SourceChanges, source_id: str) -> list[Grounds]:
    """Return the evidence of each memory in the new version of the source."""
    segments = iter(_segments_after(changes))
    return [
        tuple(EvidenceRef(source_id=source_id, segment_id=next(segments).segment_id) for _ in entry.pieces)
        for entry in entries
    ]


def _segments_after(changes: SourceChanges) -> Sequence[Segment]:
    for operation in changes.operations():
        match operation:
            case Create(object=Source() as source):
                return source.segments
            case Update(changes={"segments": segments}):
                return list(segments)
            case _:
                continue
    return ()


def _positions(hashes: Sequence[str], messages: Sequence[StoredMessage]) -> list[list[int]]:
    """Return the positions of the messages with each hash."""
    positions: dict[str, list[int]] = {}
    for message in messages:
        if not message.deleted:
            positions.setdefault(message_hash(message.text), []).append(message.position)
    return [positions.get(mark, []) for mark in hashes]


def _ends(candidates: Sequence[Sequence[int]]) -> list[int | None]:
    """Choose the position of each hash: of equal messages, the only one between the ends of the neighbors."""
    ends = [positions[0] if len(positions) == 1 else None for positions in candidates]
    for number, positions in enumerate(candidates):
        if len(positions) > 1:
            before = next((end for end in reversed(ends[:number]) if end is not None), 0)
            after = next((end for end in ends[number + 1 :] if end is not None), inf)
            between = [position for position in positions if before <= position < after]
            ends[number] = between[0] if len(between) == 1 else None
    return ends


def _stretches(ends: Sequence[int | None]) -> Iterator[Span | None]:
    before: int | None = -1
    begin = 0
    for end in ends:
        if end is None:
            yield None
        else:
            if end != before:  # otherwise it is another memory of the same messages
                begin = before + 1 if before is not None and before < end else end
            yield begin, end
        before = end


_LISTS = ("entities", "key_phrases", "topics")
_FORMS: Mapping[FileKind, Form] = {"summary": "rolling_summary", "state": "state_document"}


def _cover(log: MessageLog, positions: Collection[int]) -> Iterator[Operation]:
    """Yield the operations that mark messages outside any chunk as read."""
    for head in log.blocks() if positions else ():
        block = log.block(head)
        free = set(positions).difference(*(range(state.first, state.last + 1) for state in block.chunks))
        groups = groupby(block.messages, key=lambda message: message.position in free and not message.deleted)
        runs = [list(run) for is_free, run in groups if is_free]
        if runs:
            yield block.changed(chunks=[*block.chunks, *(chunk_state(run, "empty") for run in runs)])
