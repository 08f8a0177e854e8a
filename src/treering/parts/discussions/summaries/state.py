"""The state document: what is true now, kept by a generator and corrected by people."""

from collections.abc import Iterable, Sequence

from treering.core.errors import InvalidInput, NotFound
from treering.parts.discussions.generators.generator import Generator
from treering.parts.discussions.identity import DiscussionRef
from treering.parts.discussions.settings import DiscussionSettings
from treering.parts.discussions.summaries.lines import added_lines, merge_lines, with_hand
from treering.parts.discussions.summaries.memories import Memory
from treering.parts.discussions.summaries.versions import (
    Memories,
    Stand,
    UpdateStep,
    Version,
    Versions,
    text_in,
    words_of,
)
from treering.ports.models import Usage
from treering.verbs.engine import Engine, retry_on_conflict

MOST_LINES = 20_000
"""The longest state document that a person may write."""


class StateKeeper:
    """Keeps the state document of one discussion. `usage` adds up what its generator used.

    What a person wrote into it stays, and what a person struck out stays out, whatever a generator answers.
    """

    def __init__(
        self, engine: Engine, ref: DiscussionRef, *, settings: DiscussionSettings, generator: Generator
    ) -> None:
        self.usage = Usage()
        self._engine = engine
        self._ref = ref
        self._settings = settings
        self._generator = generator
        self._versions = Versions(engine, ref, "state_document")
        self._memories = Memories(engine, ref)

    def update(self) -> Version | None:
        """Merge in the memories that no version tells of yet; return the last version written, `None` where none was.

        Nothing is done where the settings keep no state document. An answer that is empty, or less than half as long
        as the document, keeps the document as it is; its facts are merged together with the next ones. Raises what
        the generator raises.
        """
        if not self._settings.state:
            return None
        newest: Version | None = None
        while (step := retry_on_conflict(self._merge)).version:
            newest = step.version
            if not step.goes_on:
                break
        return newest

    def edit(self, text: str, *, base: str | None = None) -> Version:
        """Keep a person's edit of the document (`edit_state`)."""
        return edit_state(self._engine, self._ref, text, base=base)

    def _merge(self) -> UpdateStep:
        """Merge in the oldest memories that no version tells of yet."""
        untold = self._memories.untold(self._versions)
        if not untold:
            return UpdateStep()
        batch, left = untold[:_AT_ONCE], untold[_AT_ONCE:]
        stand = self._versions.stand()
        document = text_in(stand)
        written = self._generator.merge(_facts(batch), document)
        self.usage += written.usage
        text = written.text.strip()
        if not text or 2 * len(text) < len(document):
            return UpdateStep()
        return UpdateStep(self._keep(text, stand, batch, left), goes_on=bool(left))

    def _keep(self, text: str, stand: Stand, batch: Sequence[Memory], left: Sequence[Memory]) -> Version:
        return self._versions.write(
            with_hand(text, text_in(stand), written=stand.by_hand, struck=stand.struck_by_hand),
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
            f"The state document has {lines} lines; {MOST_LINES} are the most.",
            hint="Keep what is true now, and leave the rest to the memories.",
            details={"count": lines, "most": MOST_LINES},
        )
    return retry_on_conflict(lambda: _edit(engine, Versions(engine, ref, "state_document"), text.strip(), base))


def _edit(engine: Engine, versions: Versions, text: str, base: str | None) -> Version:
    stand = versions.stand()
    current, document = stand.current, text_in(stand)
    before = document if base in (None, current.id if current else None) else _text_at(versions, base)
    added, removed = added_lines(before, text), added_lines(text, before)
    merged = merge_lines(before, text, document)
    by_hand = _merge_unique(stand.by_hand, added, without=removed)
    struck_by_hand = _merge_unique(stand.struck_by_hand, removed, without=added)
    if current and (merged, by_hand, struck_by_hand) == (document, [*stand.by_hand], [*stand.struck_by_hand]):
        return current
    return versions.write(
        merged,
        after=current,
        last=current.last if current else -1,
        made_by=engine.author.actor,
        by_hand=by_hand,
        struck_by_hand=struck_by_hand,
        memory_source=words_of(engine.author),
    )


def _text_at(versions: Versions, base: str | None) -> str:
    """Return the document as an earlier version had it."""
    for version in versions.all():
        if version.id == base:
            return version.text
    raise NotFound(
        f"The state document has no version {base}.",
        hint="Edit the newest one, and leave the base out.",
        details={"base": base},
    )


def _facts(memories: Sequence[Memory]) -> str:
    """Write memories as facts to merge: one line each, whatever stands in them."""
    return "\n".join(f"- {' '.join(memory.item.summary.split())}" for memory in memories)


def _merge_unique(known: Iterable[str], more: Iterable[str], *, without: Sequence[str]) -> list[str]:
    gone = frozenset(without)
    return [line for line in dict.fromkeys([*known, *more]) if line not in gone]


_AT_ONCE = 20
"""So many memories are merged at once."""
