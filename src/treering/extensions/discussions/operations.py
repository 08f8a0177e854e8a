"""The operations on discussions, each declared once. The scope of a call is the scope below which they are stored.

Memories are made by rules, without a model, unless a plan specifies otherwise (`recording`, `updating`).
"""

from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from pydantic import Field, JsonValue, NonNegativeFloat, NonNegativeInt, PositiveInt

from treering.core.counting import listed_up_to
from treering.core.errors import InvalidInput, NotFound, nearest
from treering.core.filters import Compare
from treering.extensions.discussions.files import STATE as STATE_FILE
from treering.extensions.discussions.files import StateMark, read_state
from treering.extensions.discussions.generators.generator import MakingPlan
from treering.extensions.discussions.identity import home_of
from treering.extensions.discussions.log.blocks import StoredMessage
from treering.extensions.discussions.log.deleting import DeletedMessages
from treering.extensions.discussions.log.message_log import Recorded
from treering.extensions.discussions.making import MakingReport
from treering.extensions.discussions.memory import Discussion, DiscussionMemory
from treering.extensions.discussions.proposing import propose_outcomes
from treering.extensions.discussions.search import DiscussionHit, DiscussionSearch, RecallKind, RecallMode
from treering.extensions.discussions.summaries.memories import Memory
from treering.extensions.discussions.summaries.versions import Version
from treering.ports.ledger import Selection
from treering.retrieval.search.lines import LineQuery
from treering.verbs.envelope import DECIDES, READS, WRITES, Call, Nothing, Operation, UnderstoodDays, Value
from treering.verbs.ingest.turns import Message
from treering.verbs.reading import TimeZoneName, parse_moment, recorded_later

_MAX_IDS_IN_HINT = 20
MAX_LISTED_SCOPES = 10


class DiscussionInput(Value):
    """A discussion."""

    id: str = Field(description="The id of the discussion.")


class RecordInput(DiscussionInput):
    """Messages to record."""

    messages: tuple[Message, ...] = Field(description="A whole conversation, or its newest messages.")
    metadata: dict[str, JsonValue] = Field(
        default={}, description="Current metadata of the conversation, such as the files edited in it."
    )


class RecordOptions(Value):
    """Options of recording."""

    update: bool = Field(default=True, description="Then make the memories that are due.")
    propose: bool = Field(
        default=False, description="Propose candidates for decisions, rules and causes of failures in new messages."
    )
    again: bool = Field(default=False, description="Also record messages that were erased before.")


class UpdateOptions(Value):
    """Options of an update."""

    wait_seconds: NonNegativeFloat = Field(
        default=0.0, description="Seconds to wait for another process that is making memories."
    )


class ShowOptions(Value):
    """How many memories and messages to show."""

    memories: NonNegativeInt = Field(default=5, description="Number of latest memories.")
    messages: NonNegativeInt = Field(default=5, description="Number of latest messages.")


class DiscussionSearchInput(Value):
    """A query, and the discussion to search."""

    query: str = Field(description="Search query.")
    id: str | None = Field(default=None, description="Discussion to search; none: all.")


class LookingOptions(Value):
    """Options of a search."""

    what: RecallKind = Field(default="both", description="Turns are the messages.")
    mode: RecallMode = Field(default="hybrid", description="How words and meaning are weighted.")
    limit: PositiveInt = Field(default=10, description="Maximum number of results.")
    since: datetime | None = Field(default=None, description="Messages from this time on.")
    until: datetime | None = Field(default=None, description="Messages up to this time.")
    date: str = Field(default="", description="Messages of a year, a month or a day.")
    timezone: TimeZoneName = Field(default="", description="Time zone of days; default: the setting.")


class StateOptions(Value):
    """Options of the state document."""

    as_of: int | str | None = Field(
        default=None,
        description="From the messages recorded by this audit sequence number, ISO time, or the end of this day; "
        "without edits.",
    )


class EditInput(DiscussionInput):
    """An edit of the state document."""

    text: str = Field(description="The document; a comment in it may contain the version it is based on.")


class PositionsInput(DiscussionInput):
    """Messages of a discussion."""

    positions: tuple[NonNegativeInt, ...] = Field(description="Positions of the messages.")


class Listed(Value):
    """A discussion and its number of messages, including deleted ones."""

    id: str
    messages: int


class Discussions(Value):
    """The discussions of a scope."""

    discussions: tuple[Listed, ...]
    imported: bool = Field(default=False, description="There are none, but conversations were imported from files.")
    scopes_below: tuple[str, ...] = Field(default=(), description="Scopes below that have discussions of their own.")


class RecordReport(Value):
    """The result of recording. `made`: the result for the memories that were due.

    `proposed`: the ids of candidates from new messages, or of the patch that awaits review.
    """

    id: str
    recorded: Recorded
    made: MakingReport | None
    proposed: tuple[str, ...] = ()


class UpdateReport(Value):
    """The result for the memories that were due."""

    id: str
    made: MakingReport


class DiscussionShown(Value):
    """The summary and state of a discussion, with the last memories and messages."""

    id: str
    count: int
    summary: str
    state: str
    memories: tuple[Memory, ...]
    messages: tuple[StoredMessage, ...]
    summary_id: str = ""
    """The id of the knowledge entry that contains the summary and its evidence; empty if there is none."""
    state_id: str = ""


@dataclass(frozen=True, slots=True)
class FoundIn:
    """A result and its discussion."""

    discussion: str
    found: DiscussionHit
    lines: tuple[int, ...] = ()
    """The lines of its text that answer the query, counted from 0."""
    columns: tuple[int, ...] = ()
    """The column at which the answer begins in each of `lines`: a turn is often one long line."""


class DiscussionsFound(Value):
    """The messages and memories that answer, best first. `warnings` state possible gaps."""

    query: str
    found: tuple[FoundIn, ...]
    warnings: tuple[str, ...] = ()
    understood: tuple[UnderstoodDays, ...] = Field(default=(), exclude_if=lambda days: not days)


class StateShown(Value):
    """The state document. `file` is its text as a file to edit."""

    id: str
    state: str
    file: str
    warnings: tuple[str, ...] = ()


class EditReport(Value):
    """The result of an edit of the state document."""

    id: str
    changed: bool
    version: Version
    state: str


class MessagesDeleted(Value):
    """The result of deleting messages."""

    id: str
    report: DeletedMessages


_BY_RULES = MakingPlan()


def known_discussion(call: Call, identity: str, plan: MakingPlan = _BY_RULES) -> Discussion:
    """Return a discussion that has stored data.

    Raises `NotFound` for any other, so that a mistyped id does not look like an empty discussion.
    """
    discussions = _discussions(call, plan)
    discussion, ids = discussions.open(identity), discussions.ids()
    if discussion.id not in ids:
        hint = nearest(discussion.id, ids) if 0 < len(ids) <= _MAX_IDS_IN_HINT else "See `treering discussion list`."
        if scopes := discussions.scopes_below(discussion.id):
            hint = f"It is in {listed_up_to(MAX_LISTED_SCOPES, scopes)}: give the scope with --within."
        raise NotFound(f"There is no discussion {discussion.id!r} in the scope {call.scope}.", hint=hint)
    return discussion


def _discussions(call: Call, plan: MakingPlan) -> DiscussionMemory:
    return DiscussionMemory(call.engine, within=call.scope, settings=plan.settings, generator=plan.generator)


def _list(call: Call, _given: Nothing, _options: Nothing) -> Discussions:
    discussions = DiscussionMemory(call.engine, within=call.scope)
    listed = tuple(Listed(id=name, messages=discussions.open(name).log.count()) for name in discussions.ids())
    selection = Selection(
        call.scope, descend=True, types=("source",), where=Compare("kind", "eq", "conversation"), newest=1
    )
    imported = not listed and any(call.engine.ledger.select(selection))
    return Discussions(discussions=listed, imported=imported, scopes_below=tuple(discussions.scopes_below()))


def _record(call: Call, given: RecordInput, options: RecordOptions, *, plan: MakingPlan = _BY_RULES) -> RecordReport:
    discussion = _discussions(call, plan).open(given.id)
    recorded = discussion.record(given.messages, again=options.again)
    if given.metadata and recorded.count:
        discussion.log.note(given.metadata)
    made = discussion.update() if options.update and recorded.count else None
    new = discussion.last_messages(recorded.appended + recorded.placed) if options.propose and recorded.appended else ()
    proposed = propose_outcomes(call, new) if new else ()
    return RecordReport(id=discussion.id, recorded=recorded, made=made, proposed=proposed)


def _update(
    call: Call, given: DiscussionInput, options: UpdateOptions, *, plan: MakingPlan = _BY_RULES
) -> UpdateReport:
    discussion = known_discussion(call, given.id, plan)
    return UpdateReport(id=discussion.id, made=discussion.update(wait_seconds=options.wait_seconds))


def _show(call: Call, given: DiscussionInput, options: ShowOptions) -> DiscussionShown:
    discussion = known_discussion(call, given.id)
    summary, state = discussion.current_summary(), discussion.current_state()
    return DiscussionShown(
        id=discussion.id,
        summary_id=summary.id if summary else "",
        state_id=state.id if state else "",
        count=discussion.log.count(),
        summary=discussion.summary(),
        state=discussion.state(),
        memories=tuple(discussion.recent_memories(options.memories)),
        messages=tuple(discussion.last_messages(options.messages)),
    )


def _search(call: Call, given: DiscussionSearchInput, options: LookingOptions) -> DiscussionsFound:
    search = DiscussionSearch(date_prefix=options.date, **options.model_dump(exclude={"date"}))
    discussions = _all_discussions(call) if given.id is None else known_discussion(call, given.id)
    home = f"{home_of(call.scope)}/"
    hits = discussions.search(given.query, search)
    query = LineQuery(given.query, call.engine.quick)
    found: list[FoundIn] = []
    for hit in hits:
        answer = query.lines_of(hit.text)
        found.append(FoundIn(hit.scope.removeprefix(home).partition("/")[0], hit, answer.shown, answer.columns))
    return DiscussionsFound(query=given.query, found=tuple(found), warnings=hits.warnings, understood=hits.understood)


def _all_discussions(call: Call) -> DiscussionMemory:
    discussions = DiscussionMemory(call.engine, within=call.scope)
    if not discussions.ids():
        scopes = listed_up_to(MAX_LISTED_SCOPES, discussions.scopes_below())
        hint = f"There are some in {scopes}: give one with --within." if scopes else "Record one first."
        raise NotFound(f"There are no discussions in the scope {call.scope}.", hint=hint)
    return discussions


def _state(call: Call, given: DiscussionInput, options: StateOptions) -> StateShown:
    discussion = known_discussion(call, given.id)
    if (moment := parse_moment(options.as_of, call.engine.time_zone)) is not None:
        text = discussion.state(as_of=moment)
        warnings = () if text else (recorded_later(call, moment),)
        return StateShown(id=discussion.id, state=text, file=text, warnings=warnings)
    return StateShown(id=discussion.id, state=discussion.state(), file=discussion.export()[STATE_FILE])


def _edit(call: Call, given: EditInput, _options: Nothing) -> EditReport:
    text, given_mark = read_state({STATE_FILE: given.text})
    mark = given_mark or StateMark()
    if not text:
        raise InvalidInput("The edited state document is empty.", hint="The document needs at least one heading.")
    discussion = known_discussion(call, given.id)
    before = discussion.state()
    try:
        version = discussion.edit_state(text, base=mark.version or None, last=mark.last_message)
    except NotFound as error:
        hint = f"Edit the output of `treering discussion state {discussion.id}`, or remove its comment."
        raise NotFound(error.message, hint=hint, details=error.details) from error
    after = discussion.state()
    return EditReport(id=discussion.id, changed=after != before, version=version, state=after)


def _delete(call: Call, given: PositionsInput, _options: Nothing, *, erase: bool = False) -> MessagesDeleted:
    discussion = known_discussion(call, given.id)
    return MessagesDeleted(id=discussion.id, report=discussion.delete(given.positions, erase=erase))


LIST = Operation.of("discussion list", "List the stored discussions.", _list, rights=READS)
RECORD = Operation.of(
    "discussion record",
    "Store messages, and make the memories that are due.",
    _record,
    rights=WRITES,
    repeatable=True,
    makes_space=True,
)
UPDATE = Operation.of(
    "discussion update",
    "Make the memories that are due, and update summary and state document.",
    _update,
    rights=WRITES,
    repeatable=True,
)
SHOW = Operation.of(
    "discussion show",
    "Show the summary, the state document, and the latest memories and messages.",
    _show,
    rights=READS,
)
SEARCH = Operation.of("discussion search", "Find memories and messages, best first.", _search, rights=READS)
STATE = Operation.of("discussion state", "Show the state document.", _state, rights=READS)
EDIT = Operation.of("discussion edit", "Save a person's edit of the state document.", _edit, rights=DECIDES)
DELETE = Operation.of("discussion delete", "Delete messages, and everything derived from them.", _delete, rights=WRITES)
ERASE = replace(
    DELETE,
    name="discussion erase",
    summary="Erase messages permanently, from all earlier versions too.",
    run=partial(_delete, erase=True),
    rights=replace(DECIDES, destroys=True),
)
OPERATIONS = (LIST, RECORD, UPDATE, SHOW, SEARCH, STATE, EDIT, DELETE, ERASE)


def recording(plan: MakingPlan) -> Operation[RecordReport]:
    """Return `RECORD` with a plan for making memories."""
    return replace(RECORD, run=partial(_record, plan=plan))


def updating(plan: MakingPlan) -> Operation[UpdateReport]:
    """Return `UPDATE` with a plan for making memories."""
    return replace(UPDATE, run=partial(_update, plan=plan))
