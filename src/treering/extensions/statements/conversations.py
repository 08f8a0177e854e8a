"""The ledgers of stored conversations, read from their sources. Each source is read once per revision."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from itertools import accumulate, chain, islice
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from treering.core.objects import Source
from treering.extensions.statements import likeness
from treering.extensions.statements.contested import contesting
from treering.extensions.statements.ledger import ReplacedMessage, StatementLedger, StatementLinks
from treering.extensions.statements.reading import statements_of
from treering.extensions.statements.saved_links import SavedLinks, part_digest
from treering.extensions.statements.statement import SaidMessage, Statement
from treering.extensions.statements.stored import loaded
from treering.ports.ledger import AsOf, ObjectRequest
from treering.retrieval.text.dates import asked_ranges
from treering.retrieval.text.time_zones import TimeZone
from treering.verbs.engine import Engine
from treering.verbs.ingest.turns import Message, stored_turns
from treering.verbs.replaced_turns import FoundTurn, ReplacedTurns, ReplacingTurn, TurnPlace

MAX_REMEMBERED_MESSAGES = 10_000
"""Messages of conversations that stay in memory with their statements: 20 to 90 KB each."""
MAX_CONVERSATIONS = 5
"""Conversations of hits that are read: each costs a round trip to the store."""
MACHINES = frozenset({"assistant", "model", "ai", "bot", "system", "tool"})
"""Roles of messages that state nothing by themselves."""

MAX_MESSAGES = 4_000
"""Messages of a conversation that are compared: the newest, so that reading a long one takes seconds once."""
_STEP = 1_000
SAVED_FROM = 100
"""Statements compared since links were saved, from which on they are saved: comparing takes a tenth of a second."""
MAX_UNREAD = 1_000
"""Unread statements that a search reads, in about a second. Later ones continue there."""

_State = tuple[str, int, str]
"""A source, its revision and its fingerprint, which begins with the number of its messages."""


@dataclass(frozen=True, slots=True)
class StatedConversation:
    """The statements of a conversation, and the locations of its messages."""

    ledger: StatementLedger
    turns: Mapping[int, ReplacingTurn]
    """The first segment of each message, by position."""
    positions: Mapping[TurnPlace, int]

    def nearest_replacement(self, replaced: ReplacedMessage, question: str) -> ReplacingTurn:
        """Return the turn nearest to a question among those that replaced statements of a message."""
        turns = dict.fromkeys(new.message for _, new in replaced.changes)
        return self.turns[max(turns, key=lambda turn: _nearness(question, self.ledger.stated_in(turn)))]

    def contesting(self, position: int) -> ReplacingTurn | None:
        """Return the turn that contradicts a message, if any."""
        others = [other for one in self.ledger.stated_in(position) if (other := contesting(self.ledger, one))]
        return self.turns.get(others[-1].message) if others else None


@dataclass(frozen=True)
class _Part:
    """One source of a conversation."""

    messages: Sequence[SaidMessage] = ()
    stored: tuple[Statement, ...] | None = None
    """Its statements, if they need not be parsed."""
    turns: Mapping[int, ReplacingTurn] = field(default_factory=dict)
    positions: Mapping[TurnPlace, int] = field(default_factory=dict)
    digest: str = ""
    """A salted digest of the messages and of the statements that are stored with them."""
    is_cut: bool = False
    """Whether it has further statements, which are not read yet."""

    @cached_property
    def statements(self) -> tuple[Statement, ...]:
        """All statements."""
        return tuple(self._stated_in(self.messages))

    def first(self, count: int) -> "_Part":
        """Return it with no more than its first statements; only these are parsed."""
        stated = tuple(islice(self._stated_in(self.messages), count + 1))
        return replace(self, stored=stated[:count], is_cut=len(stated) > count)

    def may_be_replaced(self, place: TurnPlace) -> bool:
        """Return whether a message states something that others may replace or contest. Reads this message alone."""
        position = self.positions.get(place)
        stated = self._stated_in([one for one in self.messages if one.position == position])
        return any(one.is_stated or one.force == "suggested" for one in stated if one.message == position)

    def _stated_in(self, messages: Sequence[SaidMessage]) -> Iterable[Statement]:
        return chain.from_iterable(map(statements_of, messages)) if self.stored is None else self.stored


@dataclass(slots=True)
class Allowance:
    """How many unread statements may still be read, and whether others were left unread."""

    left: int
    saves_all: bool = False
    """Whether links are saved however few they are."""
    is_short: bool = False

    def begin_of(self, parts: Sequence[_Part], known: Sequence[Sequence[StatementLinks]]) -> tuple[_Part, ...]:
        """Return the parts up to the last statement that may be read. `known`: the links of read statements."""
        begun: list[_Part] = []
        for place, part in enumerate(parts):
            count = len(known[place]) if place < len(known) else 0
            begun.append(part.first(count + self.left))
            self.left -= max(0, len(begun[-1].statements) - count)
            if begun[-1].is_cut:
                self.is_short = True
                break
        return tuple(begun)


@dataclass(frozen=True, slots=True)
class _Known:
    """A conversation as read: all of it, and the ledger without its last source, which alone changes often."""

    states: tuple[_State, ...]
    parts: tuple[_Part, ...]
    conversation: StatedConversation
    closed: StatementLedger
    links: Sequence[Sequence[StatementLinks]]
    """The links of the statements of each source."""
    unsaved: int
    """How many statements were compared since links were saved."""
    uncompared: Mapping[_State, _Part] = field(default_factory=dict)
    """Sources that were read later, of which no statement had to be compared yet."""

    @property
    def size(self) -> int:
        """The number of its messages."""
        return len(self.conversation.turns) + sum(len(part.turns) for part in self.uncompared.values())

    @property
    def read(self) -> Mapping[_State, _Part]:
        """All its sources that were read."""
        return {**dict(zip(self.states, self.parts, strict=True)), **self.uncompared}

    def with_read(self, read: Mapping[_State, _Part]) -> "_Known":
        """Remember the newest sources, in place of earlier ones that were read but not compared."""
        return replace(self, uncompared={state: part for state, part in read.items() if state not in self.states})

    def is_begin_of(self, states: tuple[_State, ...]) -> bool:
        """Return whether these sources still begin the conversation; the last one may have changed."""
        return 0 < len(self.states) <= len(states) and self.states[:-1] == states[: len(self.states) - 1]


@dataclass(slots=True)
class _Cache:
    """The conversations read from one open space. A newer state replaces an older one, which may be withdrawn."""

    conversations: OrderedDict[tuple[str, str], _Known] = field(default_factory=OrderedDict)
    messages: int = 0
    lock: Lock = field(default_factory=Lock)

    def put(self, place: tuple[str, str], known: _Known) -> None:
        """Store a conversation, and drop the oldest ones, down to `MAX_REMEMBERED_MESSAGES`."""
        if older := self.conversations.pop(place, None):
            self.messages -= older.size
        self.conversations[place] = known
        self.messages += known.size
        while self.messages > MAX_REMEMBERED_MESSAGES and len(self.conversations) > 1:
            _, oldest = self.conversations.popitem(last=False)
            self.messages -= oldest.size


_CACHES: WeakKeyDictionary[Any, _Cache] = WeakKeyDictionary()
"""By the index of an open space."""


def forget(engine: Engine) -> None:
    """Drop everything that was read of a space, such as the words of erased messages."""
    _CACHES.pop(engine.index, None)
    statements_of.cache_clear()
    likeness.forget()


def _cache_of(engine: Engine) -> _Cache:
    return _CACHES.setdefault(engine.index, _Cache())


def conversation_at(
    engine: Engine,
    *,
    scope: str,
    root: str,
    as_of: AsOf = None,
    only_for: Sequence[TurnPlace] | None = None,
    allowance: Allowance | None = None,
) -> StatedConversation:
    """Return the conversation whose sources are at an origin, or below it with `#`; now, or as it was.

    `only_for`: an unread conversation is not compared, and returned empty, if none of these turns may be replaced.
    `allowance`: how much of it is read now; without one, all of it.
    """
    sources = engine.ledger.sources(scope=scope, root=root)
    if as_of is not None:
        return _earlier_conversation(engine, (scope, root), [state.id for _, state in sorted(sources.items())], as_of)
    active = sorted((origin, state) for origin, state in sources.items() if state.status == "active")
    states = [(state.id, state.revision, state.fingerprint) for _, state in active]
    return _conversation(engine, (scope, root), _newest(states), only_for, allowance)


def _earlier_conversation(
    engine: Engine, place: tuple[str, str], ids: Sequence[str], as_of: AsOf
) -> StatedConversation:
    """Return a conversation as it was. Such reads are rare, so nothing of them is stored."""
    (read,) = engine.ledger.read([ObjectRequest(objects=tuple(ids), as_of=as_of)])
    items = [item for one in ids if isinstance(item := read.objects.get(one), Source) and item.status == "active"]
    newest = {state[0] for state in _newest([(one.id, one.revision, one.fingerprint) for one in items])}
    parts = tuple(_part_of(item, engine.time_zone) for item in items if item.id in newest)
    saved = SavedLinks(engine.ready, place, [part.digest for part in parts])
    return _extended(StatementLedger(), (), parts, (), saved.read()).conversation


def replaced_turns(engine: Engine, turns: Sequence[FoundTurn], question: str, now: datetime) -> ReplacedTurns:
    """Return which of some turns, best first, later ones of their conversations replaced, and by which.

    This depends on the conversations alone. The question only decides which replacements come first.
    """
    until = max((days.last for days in asked_ranges(question, now) if days.last < now.date()), default=None)
    allowance = Allowance(MAX_UNREAD)
    found = ReplacedTurns()
    for (scope, root, as_of), group in islice(_by_conversation(turns).items(), MAX_CONVERSATIONS):
        conversation = conversation_at(engine, scope=scope, root=root, as_of=as_of, only_for=group, allowance=allowance)
        for place in group:
            position = conversation.positions.get(place, -1)
            replaced = conversation.ledger.replaced_message(position)
            other = conversation.contesting(position)
            if other and (replaced is None or replaced.degree == "perhaps"):
                found[place] = replace(other, leads=False, contests=True)
            elif replaced:
                turn = conversation.nearest_replacement(replaced, question)
                is_known = until is None or (turn.at is not None and turn.at.astimezone(now.tzinfo).date() <= until)
                leads = is_known and _is_about(question, replaced)
                found[place] = replace(turn, degree=replaced.degree, leads=leads)
    found.is_partial = allowance.is_short
    return found


def _is_about(question: str, replaced: ReplacedMessage) -> bool:
    """Return whether a question is rather about the replaced statements of a message than about the others."""
    return _nearness(question, [old for old, _ in replaced.changes]) >= _nearness(question, replaced.lasting)


def _nearness(question: str, statements: Iterable[Statement]) -> float:
    return max((likeness.cosine(question, one.text) for one in statements), default=-1.0)


def _by_conversation(turns: Sequence[FoundTurn]) -> Mapping[tuple[str, str, AsOf], list[TurnPlace]]:
    """Return the places of turns by the scope, the origin and the state of their conversations."""
    grouped: dict[tuple[str, str, AsOf], list[TurnPlace]] = {}
    for turn in turns:
        grouped.setdefault((turn.scope, turn.origin.partition("#")[0], turn.as_of), []).append(turn.place)
    return grouped


def _conversation(
    engine: Engine,
    place: tuple[str, str],
    states: tuple[_State, ...],
    only_for: Sequence[TurnPlace] | None,
    allowance: Allowance | None,
) -> StatedConversation:
    cache = _cache_of(engine)
    with cache.lock:
        known = cache.conversations.get(place)
    if known and known.states == states:
        return known.conversation
    read = known.read if known else {}
    parts = tuple(read.get(state) or _part(engine, state) for state in states)
    if only_for is not None and not any(part.may_be_replaced(one) for one in only_for for part in parts):
        compared = known if known and known.is_begin_of(states) else _nothing_compared()
        with cache.lock:
            cache.put(place, compared.with_read(dict(zip(states, parts, strict=True))))
        return StatedConversation(StatementLedger(), {}, {})
    saved = SavedLinks(engine.ready, place, [part.digest for part in parts])
    before: Sequence[Sequence[StatementLinks]]
    links: Sequence[Sequence[StatementLinks]]
    if known and known.is_begin_of(states):
        *before, last = known.links
        # The last source has grown or changed, or others follow.
        statements = known.parts[-1].statements
        links = [last] if parts[len(before)].first(len(statements)).statements == statements else []
        ledger, unsaved = known.closed, known.unsaved
    else:
        before, links, ledger, unsaved = [], saved.read(), StatementLedger(), 0
    if allowance is not None:
        parts = (*parts[: len(before)], *allowance.begin_of(parts[len(before) :], links))
        states = tuple(_state_of(state, part) for state, part in zip(states, parts, strict=False))
    made = _extended(ledger, states, parts, before, links)
    made = replace(made, unsaved=made.unsaved + unsaved)
    if made.unsaved >= (1 if allowance and allowance.saves_all else SAVED_FROM):
        saved.write(made.links)
        made = replace(made, unsaved=0)
    with cache.lock:
        cache.put(place, made)
    return made.conversation


def _state_of(state: _State, part: _Part) -> _State:
    """Return the state of a source of which this part was read: one that it never has if that is not all."""
    return (*state[:2], "") if part.is_cut else state


def _nothing_compared() -> _Known:
    return _Known((), (), StatedConversation(StatementLedger(), {}, {}), StatementLedger(), (), 0)


def _extended(
    ledger: StatementLedger,
    states: tuple[_State, ...],
    parts: tuple[_Part, ...],
    before: Sequence[Sequence[StatementLinks]],
    known: Sequence[Sequence[StatementLinks]],
) -> _Known:
    """Return a conversation from the ledger of its first sources, with the links `before`.

    `known`: links of statements in the next ones, which are not compared.
    """
    closed, links, unsaved = ledger, list(before), 0
    for at, part in enumerate(parts[len(before) :]):
        if at == 0 or part is parts[-1]:
            closed, ledger = ledger, ledger.copy()
        first = known[at] if at < len(known) else ()
        links.append(ledger.extend(part.statements, first))
        unsaved += len(part.statements) - len(first)
    return _Known(states, parts, _joined(ledger, parts), closed, links, unsaved)


def _joined(ledger: StatementLedger, parts: Sequence[_Part]) -> StatedConversation:
    return StatedConversation(
        ledger,
        {position: turn for part in parts for position, turn in part.turns.items()},
        {place: position for part in parts for place, position in part.positions.items()},
    )


def _newest(states: Sequence[_State]) -> tuple[_State, ...]:
    """Return the newest sources: those of about `MAX_MESSAGES` messages, beginning at the same one for a while."""
    counts = [_message_count(state) for state in states]
    over = sum(counts) - MAX_MESSAGES
    skipped = 0 if over <= 0 else (over // _STEP + 1) * _STEP
    begins = accumulate(counts, initial=0)
    return tuple(state for state, begin in zip(states, begins, strict=False) if begin >= skipped or state is states[-1])


def _message_count(state: _State) -> int:
    count = state[2].partition(":")[0]
    return int(count) if count.isdecimal() else 1


def _part(engine: Engine, state: _State) -> _Part:
    source = engine.ledger.get(state[0])
    return _part_of(source, engine.time_zone) if isinstance(source, Source) else _Part()


def said_of(message: Message, position: int, zone: TimeZone) -> SaidMessage:
    """Return a message for the rules, in the local time of the space."""
    machine = (message.role or message.name).casefold() in MACHINES
    return SaidMessage(
        position, message.speaker, message.content, zone.local(message.at) if message.at else None, machine
    )


def _part_of(source: Source, zone: TimeZone) -> _Part:
    messages: list[SaidMessage] = []
    turns: dict[int, ReplacingTurn] = {}
    positions: dict[TurnPlace, int] = {}
    for turn, segments in stored_turns(source.segments):
        text = "".join(segment.excerpt for segment in segments)
        said = said_of(Message(content=text, role=turn.role, name=turn.speaker, at=turn.at), turn.turn, zone)
        messages.append(said)
        first = segments[0].segment_id
        turns[turn.turn] = ReplacingTurn(source.id, first, turn.turn, said.text, said.speaker, said.at)
        positions.update({(source.id, segment.segment_id): turn.turn for segment in segments})
    return _Part(messages, loaded(source), turns, positions, part_digest(source, messages))
