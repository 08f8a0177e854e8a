"""Discussion memory as programs use it: open a discussion by its id, record messages, and read memories."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import date

from treering.core.arguments import check_items, check_type
from treering.core.errors import InvalidInput, NotFound
from treering.core.scope import ROOT, parse_scope
from treering.extensions.discussions.files import exported
from treering.extensions.discussions.generators.built_in import BuiltInGenerator
from treering.extensions.discussions.generators.generator import DiscussionSettings, Generator
from treering.extensions.discussions.identity import DiscussionRef, discussion_ref, home_of
from treering.extensions.discussions.log.blocks import StoredMessage
from treering.extensions.discussions.log.deleting import DeletedMessages
from treering.extensions.discussions.log.message_log import MessageLog, Recorded
from treering.extensions.discussions.making import MakingReport, MemoryMaker
from treering.extensions.discussions.restoring import Imported, import_discussion
from treering.extensions.discussions.search import DiscussionHits, DiscussionSearch, search
from treering.extensions.discussions.stateless import StatelessDiscussion
from treering.extensions.discussions.summaries.keepers import SummaryKeeper
from treering.extensions.discussions.summaries.memories import Memory
from treering.extensions.discussions.summaries.state import edit_state, projection, state_text
from treering.extensions.discussions.summaries.versions import Memories, Version, Versions
from treering.extensions.statements.people import person
from treering.verbs.engine import Engine
from treering.verbs.ingest.turns import Message
from treering.verbs.reading import parse_moment


class DiscussionMemory:
    """The discussions below one scope of a space.

    `generator` makes memories, summaries and state documents; the default uses rules and needs no model. Raises
    `InvalidInput` for an invalid scope.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        within: str = ROOT,
        settings: DiscussionSettings | None = None,
        generator: Generator | None = None,
    ) -> None:
        self._engine = engine
        self._within = parse_scope(within)
        self._settings = settings or DiscussionSettings()
        self._generator = generator or BuiltInGenerator()

    def open(self, discussion_id: str) -> "Discussion":
        """Return a discussion, stored or not, without writing. Raises `InvalidInput` for an invalid id."""
        ref = discussion_ref(discussion_id, within=self._within)
        return Discussion(self._engine, ref, settings=self._settings, generator=self._generator)

    def ids(self) -> list[str]:
        """Return the ids of the discussions for which anything was ever stored, in order."""
        home = home_of(self._within)
        scopes = self._engine.ledger.scopes(home)
        return sorted({scope.removeprefix(f"{home}/").partition("/")[0] for scope in scopes})

    def scopes_below(self, discussion_id: str = "") -> list[str]:
        """Return the scopes below this one that contain discussions, or one with this id, in order."""
        parted = (scope.rpartition(f"{home_of(ROOT)}/") for scope in self._engine.ledger.scopes(self._within))
        parents = {parent or ROOT for parent, _, name in parted if name and discussion_id in ("", name)}
        return sorted(parents - {self._within})

    def person(self, name: str) -> str:
        """Return the statements by and about a person in these discussions, as Markdown; empty if there are none."""
        check_type(name, str, name="name", expected="text")
        try:
            return str(person(self._engine, name, scope=home_of(self._within)))
        except NotFound:
            return ""

    def search(self, query: str, options: DiscussionSearch | None = None) -> DiscussionHits:
        """Find memories of these discussions, or with `what` messages, best first; `warnings` state possible gaps."""
        return search(self._engine, home_of(self._within), query, options or DiscussionSearch(), descend=True)


class Discussion:
    """One stored discussion. Reading writes nothing."""

    def __init__(
        self, engine: Engine, ref: DiscussionRef, *, settings: DiscussionSettings, generator: Generator
    ) -> None:
        self.ref = ref
        self.log: MessageLog = MessageLog(engine, ref)
        self.engine = engine
        self._settings = settings
        self._generator = generator
        self._memories = Memories(engine, ref)
        self._summaries = Versions(engine, ref, "rolling_summary")
        self._states = Versions(engine, ref, "state_document")

    @property
    def id(self) -> str:
        """The id of the discussion."""
        return self.ref.id

    def record(self, messages: Sequence[Message], *, start: int | None = None, again: bool = False) -> Recorded:
        """Store the messages that a client sends (`MessageLog.record`)."""
        check_type(start, int | None, name="start", expected="a position")
        return self.log.record(messages, start=start, again=again)

    def append(self, messages: Sequence[Message], *, again: bool = False) -> Recorded:
        """Store messages after the existing ones (`MessageLog.append`)."""
        return self.log.append(messages, again=again)

    def delete(self, positions: Collection[int], *, erase: bool = False) -> DeletedMessages:
        """Delete messages, and everything derived from them, but no edits of the state document with other words."""
        check_items(positions, int, name="positions", expected="a list of positions", hint="Give such as [0, 3].")
        return self.log.delete(positions, erase=erase)

    def update(self, *, wait_seconds: float = 0.0) -> MakingReport:
        """Make the memories that are due, and update the summary and the state document."""
        check_type(wait_seconds, float | int, name="wait_seconds", expected="a number of seconds")
        maker = MemoryMaker(self.engine, self.ref, self._settings, self._generator)
        return maker.make(wait_seconds=wait_seconds)

    def recent_memories(self, count: int, *, skip: int = 0) -> list[Memory]:
        """Return the last `count` memories before the last `skip`, oldest first; condensed ones are replaced."""
        check_type(count, int, name="count", expected="a number")
        check_type(skip, int, name="skip", expected="a number")
        return self._memories.recent(count, skip=skip)

    def all_memories(self) -> list[Memory]:
        """Return all memories, oldest first; condensed ones are replaced."""
        return self._memories.all()

    def newer_memories(self) -> list[Memory]:
        """Return the memories that the summary does not cover, oldest first."""
        return self._memories.uncovered(self._summaries)

    def search(self, query: str, options: DiscussionSearch | None = None) -> DiscussionHits:
        """Find memories, or with `what` messages, best first; `warnings` state possible gaps."""
        return search(self.engine, self.ref.scope, query, options or DiscussionSearch())

    def summary(self, *, refresh: bool = False) -> str:
        """Return the rolling summary; empty if there is none. `refresh`: first merge all newer memories into it."""
        if refresh:
            self._summary_keeper(replace(self._settings, min_per_summary=1)).update()
        return self._summaries.text()

    def current_summary(self) -> Version | None:
        """Return the current version of the summary."""
        return self._summaries.current()

    def fold_summary(self) -> str:
        """Merge newer memories into the summary if there are enough (`min_per_summary`), and return it."""
        self._summary_keeper().update()
        return self.summary()

    def write_summary(self, text: str, *, last: int | None = None) -> str:
        """Store a summary written elsewhere, and return the current one. An empty text changes nothing.

        `last` is the position of the last message it covers (`SummaryKeeper.write`).
        """
        check_type(text, str, name="text", expected="text")
        check_type(last, int | None, name="last", expected="a position")
        if text.strip():
            self._summary_keeper().write(text, last=last)
        return self.summary()

    def summary_versions(self) -> list[Version]:
        """Return all versions of the summary, oldest first."""
        return self._summaries.all()

    def state(self, *, as_of: int | str | date | None = None) -> str:
        """Return the state document; empty if there is none.

        `as_of`: as rules read the messages recorded by an audit sequence number, a time, or the end of a day, without
        edits by hand (`state_versions`). The times of the messages do not count.
        """
        if as_of is not None:
            return projection(self.engine, self.ref, as_of=parse_moment(as_of, self.engine.time_zone))
        return state_text(self.engine, self.ref, generator=self._generator)

    def current_state(self) -> Version | None:
        """Return the current version of the state document."""
        return self._states.current()

    def edit_state(self, text: str, *, base: str | None = None, last: int | None = None) -> Version:
        """Store a person's edit of the state document (`state.edit_state`)."""
        check_type(text, str, name="text", expected="text")
        check_type(last, int | None, name="last", expected="a position")
        return edit_state(self.engine, self.ref, text, base=base, last=last)

    def state_versions(self) -> list[Version]:
        """Return all versions of the state document, oldest first."""
        return self._states.all()

    def messages(self) -> list[StoredMessage]:
        """Return all messages, including placeholders of deleted ones."""
        return self.log.read()

    def last_messages(self, count: int) -> list[StoredMessage]:
        """Return the last messages. Raises `InvalidInput` for a negative count."""
        check_type(count, int, name="count", expected="a number")
        if count < 0:
            raise InvalidInput(f"count is {count}, but it cannot be negative.", hint="Give the number of messages.")
        return self.log.tail(count)

    def export(self) -> dict[str, str]:
        """Return the discussion as the texts of plain files, by name (`files`)."""
        return exported(self.engine, self.ref)

    def import_from(self, files: Mapping[str, str]) -> Imported:
        """Import the texts of exported files (`restoring.import_discussion`)."""
        check_type(files, Mapping, name="files", expected="a dictionary of texts by file name")
        return import_discussion(self.engine, self.ref, files)

    def _summary_keeper(self, settings: DiscussionSettings | None = None) -> SummaryKeeper:
        return SummaryKeeper(self.engine, self.ref, settings=settings or self._settings, generator=self._generator)


Recollection = Discussion | StatelessDiscussion
"""The memory of a conversation: of a stored discussion, or of given messages."""
