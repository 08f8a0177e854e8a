"""The state document: what is true now, written by rules or by a model, and corrected by people.

Rules read it from the ledger of statements at any moment, so it is never late. A stored version holds what its own
messages state: when one of them is withdrawn, the version falls with it.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property

from treering.core.errors import InvalidInput, NotFound
from treering.core.objects import BY_RULES
from treering.extensions.discussions.generators.built_in import STATE_TOKENS, BuiltInGenerator
from treering.extensions.discussions.generators.generator import Generator
from treering.extensions.discussions.generators.utterances import lines_of
from treering.extensions.discussions.identity import DiscussionRef
from treering.extensions.discussions.summaries.keepers import TextKeeper
from treering.extensions.discussions.summaries.lines import added_lines, merge_lines, with_manual_lines
from treering.extensions.discussions.summaries.memories import Memory
from treering.extensions.discussions.summaries.versions import (
    TextState,
    Version,
    Versions,
    document_of,
    memory_source_of,
)
from treering.extensions.statements import document
from treering.extensions.statements.conversations import conversation_at
from treering.extensions.statements.ledger import StatementLedger
from treering.ports.ledger import AsOf
from treering.verbs.engine import Engine, retry_on_conflict

MAX_LINES = 20_000
"""The maximal number of lines of an edit."""
_BATCH = 20
"""The number of memories merged by one call of the generator."""


def projection(engine: Engine, ref: DiscussionRef, *, last: int | None = None, as_of: AsOf = None) -> str:
    """Return the valid statements after the message at a position, or now, as Markdown; the oldest are cut first.

    `as_of`: in an earlier state of the space.
    """
    ledger = conversation_at(engine, scope=ref.scope, root=ref.origin, as_of=as_of).ledger
    if last is not None:
        ledger = StatementLedger.of(one for one in ledger.statements.values() if one.message <= last)
    return document.document_of(document.within(document.lines_of(ledger), STATE_TOKENS))


def is_by_rules(versions: Versions, state: TextState) -> bool:
    """Return whether rules write the document: no model did, and it was not imported."""
    current = state.current
    if current and current.made_by.startswith(BY_RULES):
        return True
    written = [version.made_by for version in versions.surviving() if not version.by_person] if current else []
    return not written or written[-1].startswith(BY_RULES)


def state_text(engine: Engine, ref: DiscussionRef, *, generator: Generator | None = None) -> str:
    """Return the state document as it is shown."""
    versions = Versions(engine, ref, "state_document")
    state = versions.state()
    by_model = generator is not None and not isinstance(generator, BuiltInGenerator)
    if by_model or not is_by_rules(versions, state):
        return document_of(state)
    return _projected(engine, ref, state, last=None)


def _projected(engine: Engine, ref: DiscussionRef, state: TextState, *, last: int | None) -> str:
    """Return the document by rules, with the lines that people added and without the lines that they removed."""
    text = projection(engine, ref, last=last)
    return with_manual_lines(text, document_of(state), written=state.by_hand, struck=state.struck_by_hand)


class StateKeeper(TextKeeper):
    """Updates the state document, if the settings enable it.

    An answer is used unless it is empty, or less than half as long as the document. Lines that a person added or
    removed stay so, independent of the generator's answer.
    """

    @cached_property
    def _states(self) -> Versions:
        return Versions(self._engine, self._ref, "state_document")

    def _step(self) -> Version | None:
        uncovered = self._memories.uncovered(self._states) if self._settings.state else []
        if not uncovered:
            return None
        batch = uncovered[:_BATCH]
        state = self._states.state()
        last = self._memories.covered_up_to(state.current, uncovered[_BATCH:])
        stored = document_of(state)
        if isinstance(self._generator, BuiltInGenerator) and is_by_rules(self._states, state):
            return self._write(projection(self._engine, self._ref, last=last), state, batch, last)
        answer = self._generator.merge(_facts(batch), stored)
        self.usage += answer.usage
        text = answer.text.strip()
        if not text or 2 * len(text) < len(stored):
            return None
        return self._write(text, state, batch, last)

    def _write(self, text: str, state: TextState, memories: Sequence[Memory], last: int) -> Version:
        return self._states.write(
            with_manual_lines(text, document_of(state), written=state.by_hand, struck=state.struck_by_hand),
            after=state.current,
            last=last,
            memories=memories,
            made_by=self._generator.name,
            by_hand=state.by_hand,
            struck_by_hand=state.struck_by_hand,
        )


def edit_state(
    engine: Engine, ref: DiscussionRef, text: str, *, base: str | None = None, last: int | None = None
) -> Version:
    """Store a person's edit of the state document; return its version. Without a change nothing is written.

    `base` is the id of the edited version, by default the current one; `last` is the position of the last message that
    the edited document covered. If the document has changed since, both changes are merged by lines; in a conflict both
    are included, the person's lines first. Raises `NotFound` for an unknown base, `InvalidInput` for more than
    `MAX_LINES` lines.
    """
    lines = len(text.splitlines())
    if lines > MAX_LINES:
        raise InvalidInput(
            f"The state document has {lines} lines; the maximum is {MAX_LINES}.",
            hint="Reduce it to the current facts; the memories contain the rest.",
            details={"count": lines, "most": MAX_LINES},
        )
    return retry_on_conflict(lambda: _edit(engine, ref, text.strip(), base, last))


def _edit(engine: Engine, ref: DiscussionRef, text: str, base: str | None, last: int | None) -> Version:
    versions = Versions(engine, ref, "state_document")
    state = versions.state()
    current, stored = state.current, document_of(state)
    edited = state
    if base not in (None, current.id if current else None):
        version = _version_at(versions, base)
        edited = TextState(version, version.by_hand, version.struck_by_hand)
    by_rules = is_by_rules(versions, state)
    before = _projected(engine, ref, edited, last=last) if by_rules else document_of(edited)
    added, removed = added_lines(before, text), added_lines(text, before)
    by_hand = _united(state.by_hand, added, without=removed)
    struck_by_hand = _united(state.struck_by_hand, removed, without=added)
    if by_rules:
        stated = projection(engine, ref, last=current.last) if current else ""
        merged = with_manual_lines(stated, text, written=by_hand, struck=struck_by_hand)
    else:
        merged = merge_lines(before, text, stored)
    if current and (merged, by_hand, struck_by_hand) == (stored, [*state.by_hand], [*state.struck_by_hand]):
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


def _version_at(versions: Versions, base: str | None) -> Version:
    for version in versions.all():
        if version.id == base:
            return version
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
