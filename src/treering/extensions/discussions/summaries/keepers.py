"""Updates of the rolling summary and the state document: new memories are merged into each, a few at a time."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property

from treering.core.errors import InvalidInput, NotFound
from treering.core.evidence import EvidenceRef
from treering.extensions.discussions.generators.utterances import lines_of
from treering.extensions.discussions.identity import DiscussionRef
from treering.extensions.discussions.log.message_log import MessageLog
from treering.extensions.discussions.summaries.lines import added_lines, merge_lines, with_manual_lines
from treering.extensions.discussions.summaries.memories import Memory, citing
from treering.extensions.discussions.summaries.versions import (
    GeneratorWork,
    UpdateStep,
    Version,
    Versions,
    document_of,
    memory_source_of,
)
from treering.verbs.engine import Engine, retry_on_conflict


class TextKeeper(GeneratorWork, ABC):
    """Updates a text of one discussion with its memories."""

    def update(self) -> Version | None:
        """Merge the memories that no version covers yet; return the last version written, or `None`.

        Each step is stored. An unusable answer changes nothing; its memories are merged with the next ones. Raises the
        errors of the generator; earlier steps stay.
        """
        newest: Version | None = None
        while (step := retry_on_conflict(self._step)).version:
            newest = step.version
            if not step.has_more:
                break
        return newest

    @abstractmethod
    def _step(self) -> UpdateStep:
        """Merge the oldest memories that no version covers yet, if they are due."""


class SummaryKeeper(TextKeeper):
    """Updates the rolling summary with `loop_if_exceeds` memories at once, at the end with at least `min_per_summary`.

    Any answer that is not empty is used.
    """

    def write(self, text: str, *, last: int | None = None) -> Version:
        """Store a summary written elsewhere. Raises `InvalidInput` if it is empty.

        `last` is the position of the last message it covers; the default is the last message of the newest memory. It
        is limited to the range from the position covered so far to the last message.
        """
        words = text.strip()
        if not words:
            raise InvalidInput("The summary is empty.", hint="Give a text; an empty one never replaces a summary.")
        return retry_on_conflict(lambda: self._write(words, last))

    def _step(self) -> UpdateStep:
        uncovered = self._memories.uncovered(self._summary)
        batch = self._due(uncovered)
        if not batch:
            return UpdateStep()
        current = self._summary.current()
        answer = self._generator.fold(current.text if current else "", [memory.item for memory in batch])
        self.usage += answer.usage
        text, left = answer.text.strip(), uncovered[len(batch) :]
        if not text:
            return UpdateStep()
        version = self._summary.write(
            text,
            after=current,
            last=self._memories.covered_up_to(current, left),
            memories=batch,
            made_by=self._generator.name,
        )
        return UpdateStep(version, has_more=bool(self._due(left)))

    def _due(self, uncovered: Sequence[Memory]) -> Sequence[Memory]:
        most = self._settings.loop_if_exceeds
        enough = len(uncovered) >= min(most, self._settings.min_per_summary)
        return uncovered[:most] if enough else ()

    def _write(self, words: str, last: int | None) -> Version:
        current = self._summary.current()
        uncovered = self._memories.uncovered(self._summary)
        reached = current.last if current else -1
        memories = [memory for memory in uncovered if last is None or memory.last <= last]
        if last is None:
            end = self._memories.covered_up_to(current, ())
        else:
            end = max(reached, min(last, MessageLog(self._engine, self._ref).count() - 1))
        return self._summary.write(
            words,
            after=current,
            last=end,
            memories=memories,
            evidence=() if last is None else self._messages(reached + 1, end, memories),
            made_by=self._engine.author.actor,
            memory_source=memory_source_of(self._engine.author),
        )

    def _messages(self, first: int, last: int, memories: Sequence[Memory]) -> list[EvidenceRef]:
        """Cite the messages without memories, so that the summary is withdrawn with any of them."""
        messages = MessageLog(self._engine, self._ref).read(first, last) if first <= last else []
        return citing(
            message
            for message in messages
            if not any(memory.first <= message.position <= memory.last for memory in memories)
        )


MAX_LINES = 20_000
"""The maximum length of a state document that a person writes."""


class StateKeeper(TextKeeper):
    """Updates the state document, if the settings enable it.

    An answer is used unless it is empty, or less than half as long as the document. Lines that a person added or
    removed stay so, independent of the generator's answer.
    """

    @cached_property
    def _states(self) -> Versions:
        return Versions(self._engine, self._ref, "state_document")

    def _step(self) -> UpdateStep:
        uncovered = self._memories.uncovered(self._states) if self._settings.state else []
        if not uncovered:
            return UpdateStep()
        batch, left = uncovered[:_BATCH], uncovered[_BATCH:]
        state = self._states.state()
        document = document_of(state)
        answer = self._generator.merge(_facts(batch), document)
        self.usage += answer.usage
        text = answer.text.strip()
        if not text or 2 * len(text) < len(document):
            return UpdateStep()
        version = self._states.write(
            with_manual_lines(text, document, written=state.by_hand, struck=state.struck_by_hand),
            after=state.current,
            last=self._memories.covered_up_to(state.current, left),
            memories=batch,
            made_by=self._generator.name,
            by_hand=state.by_hand,
            struck_by_hand=state.struck_by_hand,
        )
        return UpdateStep(version, has_more=bool(left))


def edit_state(engine: Engine, ref: DiscussionRef, text: str, *, base: str | None = None) -> Version:
    """Store a person's edit of the state document; return its version. Without a change nothing is written.

    `base` is the id of the edited version, by default the current one. If the document has changed since, both changes
    are merged by lines; in a conflict both are included, the person's lines first. Raises `NotFound` for an unknown
    base, `InvalidInput` for more than `MAX_LINES` lines.
    """
    lines = len(text.splitlines())
    if lines > MAX_LINES:
        raise InvalidInput(
            f"The state document has {lines} lines; the maximum is {MAX_LINES}.",
            hint="Reduce it to the current facts; the memories contain the rest.",
            details={"count": lines, "most": MAX_LINES},
        )
    return retry_on_conflict(lambda: _edit(engine, Versions(engine, ref, "state_document"), text.strip(), base))


def _edit(engine: Engine, versions: Versions, text: str, base: str | None) -> Version:
    state = versions.state()
    current, document = state.current, document_of(state)
    before = document if base in (None, current.id if current else None) else _text_at(versions, base)
    added, removed = added_lines(before, text), added_lines(text, before)
    merged = merge_lines(before, text, document)
    by_hand = _united(state.by_hand, added, without=removed)
    struck_by_hand = _united(state.struck_by_hand, removed, without=added)
    if current and (merged, by_hand, struck_by_hand) == (document, [*state.by_hand], [*state.struck_by_hand]):
        return current
    return versions.write(
        merged,
        after=current,
        last=current.last if current else -1,
        made_by=engine.author.actor,
        by_hand=by_hand,
        struck_by_hand=struck_by_hand,
        memory_source=memory_source_of(engine.author),
    )


def _text_at(versions: Versions, base: str | None) -> str:
    """Return the document as of an earlier version."""
    for version in versions.all():
        if version.id == base:
            return version.text
    raise NotFound(
        f"The state document has no version {base}.",
        hint="Edit the newest version, and omit the base.",
        details={"base": base},
    )


def _facts(memories: Sequence[Memory]) -> str:
    """Format memories as facts to merge, one line each: utterances with their speakers, else whole sentences."""
    items = (memory.item.model_copy(update={"summary": " ".join(memory.item.summary.split())}) for memory in memories)
    return "\n".join(f"- {line}" for item in items for line in lines_of(item))


def _united(known: Iterable[str], more: Iterable[str], *, without: Sequence[str]) -> list[str]:
    gone = frozenset(without)
    return [line for line in dict.fromkeys([*known, *more]) if line not in gone]


_BATCH = 20
"""The number of memories merged by one call of the generator."""
