"""The state document: what is true now, written by rules or by a model, and corrected by people.

Rules read it from the ledger of statements at any moment, so it is never late. A stored version holds what its own
messages state: when one of them is withdrawn, the version falls with it.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property

from treering.core.errors import InvalidInput, NotFound
from treering.parts.discussions.generators.built_in import STATE_TOKENS, BuiltInGenerator
from treering.parts.discussions.generators.generator import Generator
from treering.parts.discussions.generators.utterances import lines_of
from treering.parts.discussions.identity import DiscussionRef
from treering.parts.discussions.summaries.keepers import TextKeeper
from treering.parts.discussions.summaries.lines import added_lines, merge_lines, with_manual_lines
from treering.parts.discussions.summaries.memories import Memory
from treering.parts.discussions.summaries.versions import (
    TextState,
    UpdateStep,
    Version,
    Versions,
    document_of,
    memory_source_of,
)
from treering.parts.statements import document
from treering.parts.statements.conversations import conversation_at
from treering.parts.statements.ledger import Ledger
from treering.verbs.engine import Engine, retry_on_conflict

MOST_LINES = 20_000
"""The longest state document that a person may write."""
_RULES_PREFIX = "built-in"
"""How the names of the rules begin."""
_AT_ONCE = 20
"""So many memories are merged at once."""


def projection(engine: Engine, ref: DiscussionRef, *, last: int | None = None) -> str:
    """Return what holds after the message at a position, or now, as Markdown; the oldest lines give way."""
    ledger = conversation_at(engine, scope=ref.scope, root=ref.origin).ledger
    if last is not None:
        ledger = Ledger.of(one for one in ledger.statements.values() if one.message <= last)
    return document.document_of(document.within(document.lines_of(ledger), STATE_TOKENS))


def person_text(engine: Engine, ref: DiscussionRef, name: str) -> str:
    """Return what a discussion states about a person."""
    ledger = conversation_at(engine, scope=ref.scope, root=ref.origin).ledger
    lines = document.about(document.lines_of(ledger), name)
    return document.document_of(document.within(lines, STATE_TOKENS))


def is_by_rules(versions: Versions, stand: TextState) -> bool:
    """Return whether rules write the document: no model did, and it was not imported."""
    current = stand.current
    if current and current.made_by.startswith(_RULES_PREFIX):
        return True
    written = [version.made_by for version in versions.standing() if not version.by_person] if current else []
    return not written or written[-1].startswith(_RULES_PREFIX)


def state_text(
    engine: Engine, ref: DiscussionRef, *, generator: Generator | None = None, last: int | None = None
) -> str:
    """Return the state document as it is shown. `last`: after the message at this position, by default now."""
    versions = Versions(engine, ref, "state_document")
    return _shown(engine, ref, versions, versions.stand(), generator=generator, last=last)


def _shown(
    engine: Engine,
    ref: DiscussionRef,
    versions: Versions,
    stand: TextState,
    *,
    generator: Generator | None = None,
    last: int | None = None,
) -> str:
    by_model = generator is not None and not isinstance(generator, BuiltInGenerator)
    if by_model or not is_by_rules(versions, stand):
        return document_of(stand)
    text = projection(engine, ref, last=last)
    return with_manual_lines(text, document_of(stand), written=stand.by_hand, struck=stand.struck_by_hand)


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
        if isinstance(self._generator, BuiltInGenerator) and is_by_rules(self._states, stand):
            text = projection(self._engine, self._ref, last=self._memories.told_up_to(stand.current, left))
            return UpdateStep(self._keep(text, stand, batch, left), goes_on=bool(left))
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


def edit_state(
    engine: Engine, ref: DiscussionRef, text: str, *, base: str | None = None, last: int | None = None
) -> Version:
    """Keep a person's edit of the state document; return its version. Without a change nothing is written.

    `base` is the id of the version it was made on: by default the one that stands. `last` is the position of the last
    message that the edited document knew. Where the document has changed
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
    return retry_on_conflict(lambda: _edit(engine, ref, text.strip(), base, last))


def _edit(engine: Engine, ref: DiscussionRef, text: str, base: str | None, last: int | None) -> Version:
    versions = Versions(engine, ref, "state_document")
    stand = versions.stand()
    current, stored = stand.current, document_of(stand)
    by_rules = is_by_rules(versions, stand)
    if by_rules:
        if base not in (None, current.id if current else None):
            _text_at(versions, base)
        before = _shown(engine, ref, versions, stand, last=last)
    else:
        before = stored if base in (None, current.id if current else None) else _text_at(versions, base)
    added, removed = added_lines(before, text), added_lines(text, before)
    by_hand = _united(stand.by_hand, added, without=removed)
    struck_by_hand = _united(stand.struck_by_hand, removed, without=added)
    if by_rules:
        told = projection(engine, ref, last=current.last) if current else ""
        merged = with_manual_lines(told, text, written=by_hand, struck=struck_by_hand)
    else:
        merged = merge_lines(before, text, stored)
    if current and (merged, by_hand, struck_by_hand) == (stored, [*stand.by_hand], [*stand.struck_by_hand]):
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
