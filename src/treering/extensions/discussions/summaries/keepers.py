"""How the rolling summary and the state document are kept: new memories are folded into each, a few at a time."""

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
    TextState,
    UpdateStep,
    Version,
    Versions,
    document_of,
    memory_source_of,
)
from treering.verbs.engine import Engine, retry_on_conflict


class TextKeeper(GeneratorWork, ABC):
    """Keeps a text of one discussion up to date with its memories."""

    def update(self) -> Version | None:
        """Take in the memories that no version tells of yet; return the last version written, `None` where none was.

        Each step is kept. An answer that cannot be used changes nothing; its memories are taken in with the next ones.
        Raises what the generator raises; what was taken in before stays.
        """
        newest: Version | None = None
        while (step := retry_on_conflict(self._step)).version:
            newest = step.version
            if not step.goes_on:
                break
        return newest

    @abstractmethod
    def _step(self) -> UpdateStep:
        """Take in the oldest memories that no version tells of yet, if they are due."""


class SummaryKeeper(TextKeeper):
    """Keeps the rolling summary. `loop_if_exceeds` memories are folded in at once, a rest from `min_per_summary` on.

    An answer can be used unless it is empty.
    """

    def write(self, text: str, *, last: int | None = None) -> Version:
        """Keep a summary that was written elsewhere. Raises `InvalidInput` for an empty one.

        `last` is the position of the last message it tells of: by default that of the newest memory. A position
        before the one that was reached, or after the last message, counts as that one.
        """
        words = text.strip()
        if not words:
            raise InvalidInput("The summary is empty.", hint="Give a text; an empty one never replaces a summary.")
        return retry_on_conflict(lambda: self._write(words, last))

    def _step(self) -> UpdateStep:
        untold = self._memories.untold(self._summary)
        batch = self._due(untold)
        if not batch:
            return UpdateStep()
        current = self._summary.current()
        written = self._generator.fold(current.text if current else "", [memory.item for memory in batch])
        self.count(written.usage)
        text, left = written.text.strip(), untold[len(batch) :]
        if not text:
            return UpdateStep()
        return UpdateStep(self._keep(text, current, batch, left), goes_on=bool(self._due(left)))

    def _due(self, untold: Sequence[Memory]) -> Sequence[Memory]:
        most = self._settings.loop_if_exceeds
        enough = len(untold) >= min(most, self._settings.min_per_summary)
        return untold[:most] if enough else ()

    def _keep(self, text: str, current: Version | None, batch: Sequence[Memory], left: Sequence[Memory]) -> Version:
        return self._summary.write(
            text,
            after=current,
            last=self._memories.told_up_to(current, left),
            memories=batch,
            made_by=self._generator.name,
        )

    def _write(self, words: str, last: int | None) -> Version:
        current = self._summary.current()
        untold = self._memories.untold(self._summary)
        reached = current.last if current else -1
        told_of = [memory for memory in untold if last is None or memory.last <= last]
        if last is None:
            told = self._memories.told_up_to(current, ())
        else:
            told = max(reached, min(last, MessageLog(self._engine, self._ref).count() - 1))
        return self._summary.write(
            words,
            after=current,
            last=told,
            memories=told_of,
            evidence=() if last is None else self._messages(reached + 1, told, told_of),
            made_by=self._engine.author.actor,
            memory_source=memory_source_of(self._engine.author),
        )

    def _messages(self, first: int, last: int, told_of: Sequence[Memory]) -> list[EvidenceRef]:
        """Cite the messages that no memory stands for: where one of them goes, the summary goes with it."""
        messages = MessageLog(self._engine, self._ref).read(first, last) if first <= last else []
        return citing(
            message
            for message in messages
            if not any(memory.first <= message.position <= memory.last for memory in told_of)
        )


# The state document: what is true now, kept by a generator and corrected by people.


MOST_LINES = 20_000
"""The longest state document that a person may write."""


class StateKeeper(TextKeeper):
    """Keeps the state document, unless the settings keep none.

    An answer can be used unless it is empty, or less than half as long as the document. What a person wrote into it
    stays, and what a person struck out stays out, whatever a generator answers.
    """

    @cached_property
    def _states(self) -> Versions:
        return Versions(self._engine, self._ref, "state_document")

    def _step(self) -> UpdateStep:
        untold = self._memories.untold(self._states) if self._settings.state else []
        if not untold:
            return UpdateStep()
        batch, left = untold[:_AT_ONCE], untold[_AT_ONCE:]
        stand = self._states.stand()
        document = document_of(stand)
        written = self._generator.merge(_facts(batch), document)
        self.count(written.usage)
        text = written.text.strip()
        if not text or 2 * len(text) < len(document):
            return UpdateStep()
        return UpdateStep(self._keep(text, stand, batch, left), goes_on=bool(left))

    def _keep(self, text: str, stand: TextState, batch: Sequence[Memory], left: Sequence[Memory]) -> Version:
        return self._states.write(
            with_manual_lines(text, document_of(stand), written=stand.by_hand, struck=stand.struck_by_hand),
            after=stand.current,
            last=self._memories.told_up_to(stand.current, left),
            memories=batch,
            made_by=self._generator.name,
            by_hand=stand.by_hand,
            struck_by_hand=stand.struck_by_hand,
        )


def edit_state(engine: Engine, ref: DiscussionRef, text: str, *, base: str | None = None) -> Version:
    """Keep a person's edit of the state document; return its version. Without a change nothing is written.

    `base` is the id of the version it was made on: by default the one that stands. Where the document has changed
    since, both changes are merged by lines; in a conflict both stay, the person's first. Raises `NotFound` for a base
    that there is not, `InvalidInput` for more than `MOST_LINES` lines.
    """
    lines = len(text.splitlines())
    if lines > MOST_LINES:
        raise InvalidInput(
            f"The state document has {lines} lines; the maximum is {MOST_LINES}.",
            hint="Reduce it to the current facts; the memories contain the rest.",
            details={"count": lines, "most": MOST_LINES},
        )
    return retry_on_conflict(lambda: _edit(engine, Versions(engine, ref, "state_document"), text.strip(), base))


def _edit(engine: Engine, versions: Versions, text: str, base: str | None) -> Version:
    stand = versions.stand()
    current, document = stand.current, document_of(stand)
    before = document if base in (None, current.id if current else None) else _text_at(versions, base)
    added, removed = added_lines(before, text), added_lines(text, before)
    merged = merge_lines(before, text, document)
    by_hand = _united(stand.by_hand, added, without=removed)
    struck_by_hand = _united(stand.struck_by_hand, removed, without=added)
    if current and (merged, by_hand, struck_by_hand) == (document, [*stand.by_hand], [*stand.struck_by_hand]):
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
    """Return the document as an earlier version had it."""
    for version in versions.all():
        if version.id == base:
            return version.text
    raise NotFound(
        f"The state document has no version {base}.",
        hint="Edit the newest version, and omit the base.",
        details={"base": base},
    )


def _facts(memories: Sequence[Memory]) -> str:
    """Write memories as facts to merge, one line each: utterances with their speakers, else whole sentences."""
    items = (memory.item.model_copy(update={"summary": " ".join(memory.item.summary.split())}) for memory in memories)
    return "\n".join(f"- {line}" for item in items for line in lines_of(item))


def _united(known: Iterable[str], more: Iterable[str], *, without: Sequence[str]) -> list[str]:
    gone = frozenset(without)
    return [line for line in dict.fromkeys([*known, *more]) if line not in gone]


_AT_ONCE = 20
"""So many memories are merged at once."""
