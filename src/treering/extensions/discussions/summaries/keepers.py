"""Updates of the rolling summary and the state document: new memories are merged into each, a few at a time."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from treering.core.errors import InvalidInput
from treering.core.evidence import EvidenceRef
from treering.extensions.discussions.log.message_log import MessageLog
from treering.extensions.discussions.summaries.memories import Memory, citing
from treering.extensions.discussions.summaries.versions import GeneratorWork, Version, memory_source_of
from treering.verbs.engine import retry_on_conflict


class TextKeeper(GeneratorWork, ABC):
    """Updates a text of one discussion with its memories."""

    def update(self) -> Version | None:
        """Merge the memories that no version covers yet; return the last version written, or `None`.

        Each step is stored. An unusable answer changes nothing; its memories are merged with the next ones. Raises the
        errors of the generator; earlier steps stay.
        """
        newest: Version | None = None
        while version := retry_on_conflict(self._step):
            newest = version
        return newest

    @abstractmethod
    def _step(self) -> Version | None:
        """Merge the oldest memories that no version covers yet; `None` if none are due or the answer is unusable."""


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

    def _step(self) -> Version | None:
        uncovered = self._memories.uncovered(self._summary)
        enough = len(uncovered) >= min(self._settings.loop_if_exceeds, self._settings.min_per_summary)
        batch = uncovered[: self._settings.loop_if_exceeds] if enough else ()
        if not batch:
            return None
        current = self._summary.current()
        answer = self._generator.fold(current.text if current else "", [memory.item for memory in batch])
        self.usage += answer.usage
        text = answer.text.strip()
        if not text:
            return None
        return self._summary.write(
            text,
            after=current,
            last=self._memories.covered_up_to(current, uncovered[len(batch) :]),
            memories=batch,
            made_by=self._generator.name,
        )

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
