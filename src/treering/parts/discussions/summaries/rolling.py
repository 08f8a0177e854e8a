"""The rolling summary: new memories are folded into it, a few at a time."""

from collections.abc import Sequence

from treering.core.errors import InvalidInput
from treering.core.evidence import EvidenceRef
from treering.parts.discussions.generators.generator import Generator
from treering.parts.discussions.identity import DiscussionRef
from treering.parts.discussions.log.message_log import MessageLog
from treering.parts.discussions.settings import DiscussionSettings
from treering.parts.discussions.summaries.memories import Memory, citing
from treering.parts.discussions.summaries.versions import Memories, UpdateStep, Version, Versions, words_of
from treering.ports.models import Usage
from treering.verbs.engine import Engine, retry_on_conflict


class SummaryKeeper:
    """Keeps the rolling summary of one discussion. `usage` adds up what its generator used."""

    def __init__(
        self, engine: Engine, ref: DiscussionRef, *, settings: DiscussionSettings, generator: Generator
    ) -> None:
        self.usage = Usage()
        self._engine = engine
        self._settings = settings
        self._generator = generator
        self._versions = Versions(engine, ref, "rolling_summary")
        self._memories = Memories(engine, ref)
        self._log = MessageLog(engine, ref)

    def update(self) -> Version | None:
        """Fold in the memories that no version tells of yet; return the last version written, `None` where none was.

        `loop_if_exceeds` memories are folded at once, and each time is kept; what remains is folded from
        `min_per_summary` memories on. An empty answer changes nothing. Raises what the generator raises; what was
        folded before stays.
        """
        newest: Version | None = None
        while (step := retry_on_conflict(self._fold)).version:
            newest = step.version
            if not step.goes_on:
                break
        return newest

    def write(self, text: str, *, last: int | None = None) -> Version:
        """Keep a summary that was written elsewhere. Raises `InvalidInput` for an empty one.

        `last` is the position of the last message it tells of: by default that of the newest memory. A position
        before the one that was reached, or after the last message, counts as that one.
        """
        words = text.strip()
        if not words:
            raise InvalidInput("The summary is empty.", hint="Give its text; an empty one never replaces another.")
        return retry_on_conflict(lambda: self._write(words, last))

    def _fold(self) -> UpdateStep:
        """Fold in the oldest memories that no version tells of yet, if they are due."""
        untold = self._memories.untold(self._versions)
        batch = self._due(untold)
        if not batch:
            return UpdateStep()
        current = self._versions.current()
        written = self._generator.fold(current.text if current else "", [memory.item for memory in batch])
        self.usage += written.usage
        text, left = written.text.strip(), untold[len(batch) :]
        if not text:
            return UpdateStep()
        return UpdateStep(self._keep(text, current, batch, left), goes_on=bool(self._due(left)))

    def _due(self, untold: Sequence[Memory]) -> Sequence[Memory]:
        most = self._settings.loop_if_exceeds
        enough = len(untold) >= min(most, self._settings.min_per_summary)
        return untold[:most] if enough else ()

    def _keep(self, text: str, current: Version | None, batch: Sequence[Memory], left: Sequence[Memory]) -> Version:
        return self._versions.write(
            text,
            after=current,
            last=self._memories.told_up_to(current, left),
            memories=batch,
            made_by=self._generator.name,
        )

    def _write(self, words: str, last: int | None) -> Version:
        current = self._versions.current()
        untold = self._memories.untold(self._versions)
        reached = current.last if current else -1
        told_of = [memory for memory in untold if last is None or memory.last <= last]
        if last is None:
            told = self._memories.told_up_to(current, ())
        else:
            told = max(reached, min(last, self._log.count() - 1))
        return self._versions.write(
            words,
            after=current,
            last=told,
            memories=told_of,
            evidence=() if last is None else self._messages(reached + 1, told, told_of),
            made_by=self._engine.author.actor,
            memory_source=words_of(self._engine.author),
        )

    def _messages(self, first: int, last: int, told_of: Sequence[Memory]) -> list[EvidenceRef]:
        """Cite the messages that no memory stands for: where one of them goes, the summary goes with it."""
        messages = self._log.read(first, last) if first <= last else []
        return citing(
            message
            for message in messages
            if not any(memory.first <= message.position <= memory.last for memory in told_of)
        )
