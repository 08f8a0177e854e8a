"""How the rolling summary is kept up to date: new memories are folded into it, a few at a time."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from treering.core.errors import InvalidInput
from treering.core.evidence import EvidenceRef
from treering.parts.discussions.log.message_log import MessageLog
from treering.parts.discussions.summaries.memories import Memory, citing
from treering.parts.discussions.summaries.versions import (
    GeneratorWork,
    UpdateStep,
    Version,
    memory_source_of,
)
from treering.verbs.engine import retry_on_conflict


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
