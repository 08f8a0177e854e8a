"""The ledgers of stored conversations, read from their sources. Each source is read once per revision."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby, islice
from threading import Lock
from typing import TypeVar

from treering.core.evidence import Segment, Turn
from treering.core.objects import Source
from treering.extensions.statements.ledger import StatementLedger
from treering.extensions.statements.reading import statements_of, topics_of
from treering.extensions.statements.statement import SaidMessage, Statement
from treering.extensions.statements.stored import loaded
from treering.ports.ledger import Ledger as Store
from treering.retrieval.text.time_zones import TimeZone
from treering.verbs.engine import Engine
from treering.verbs.ingest.turns import Message
from treering.verbs.replaced_turns import FoundTurn, ReplacingTurn, TurnPlace

MAX_SOURCES = 2_000
"""Sources whose statements stay in memory: about 40 messages each."""
MAX_LEDGERS = 50
"""Conversations whose ledgers stay in memory."""
MAX_CONVERSATIONS = 5
"""Conversations of hits that are read: each costs a round trip to the store."""
MACHINES = frozenset({"assistant", "model", "ai", "bot", "system", "tool"})
"""Roles of messages that state nothing by themselves."""

MAX_MESSAGES = 4_000
"""Messages of a conversation that are compared: the newest, so that reading a long one takes seconds once."""
_STEP = 1_000

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
_State = tuple[str, int, str]
"""A source, its revision and its fingerprint: copies of a space can have equal revisions of different contents."""


@dataclass(frozen=True, slots=True)
class StatedConversation:
    """What a conversation states, and where its messages are."""

    ledger: StatementLedger
    turns: Mapping[int, ReplacingTurn]
    """The first segment of each message, by position."""
    positions: Mapping[TurnPlace, int]


@dataclass(frozen=True, slots=True)
class _Part:
    """One source of a conversation."""

    statements: tuple[Statement, ...]
    turns: Mapping[int, ReplacingTurn]
    positions: Mapping[TurnPlace, int]


@dataclass(slots=True)
class _Cache:
    parts: OrderedDict[str, tuple[_State, _Part]] = field(default_factory=OrderedDict)
    conversations: OrderedDict[tuple[_State, ...], StatedConversation] = field(default_factory=OrderedDict)
    ledgers: OrderedDict[tuple[_State, ...], StatementLedger] = field(default_factory=OrderedDict)
    """The ledgers of conversations without their last source, which alone changes often."""
    lock: Lock = field(default_factory=Lock)


_CACHE = _Cache()


def conversation_at(engine: Engine, *, scope: str, root: str) -> StatedConversation:
    """Return the conversation whose sources are at an origin, or below it with `#`."""
    sources = engine.ledger.sources(scope=scope, root=root)
    active = sorted((origin, state) for origin, state in sources.items() if state.status == "active")
    return _conversation(engine, [(state.id, state.revision, state.fingerprint) for _, state in active])


def replaced_turns(engine: Engine, turns: Sequence[FoundTurn], question: str) -> dict[TurnPlace, ReplacingTurn]:
    """Return which of some turns, best first, later ones of their conversations replaced, and by which."""
    topics = topics_of(question)
    found: dict[TurnPlace, ReplacingTurn] = {}
    for (scope, root), group in islice(_by_conversation(turns).items(), MAX_CONVERSATIONS):
        conversation = conversation_at(engine, scope=scope, root=root)
        replaced = conversation.ledger.replaced_messages(topics)
        for place in group:
            one = replaced.get(conversation.positions.get(place, -1))
            if one and (turn := conversation.turns.get(one.relation.source.message)):
                is_certain = one.degree != "perhaps" and one.relation.kind != "completes"
                found[place] = replace(turn, degree=one.degree, leads=is_certain)
    return found


def _by_conversation(turns: Sequence[FoundTurn]) -> Mapping[tuple[str, str], list[TurnPlace]]:
    """Return the places of turns by the scope and the origin of their conversations."""
    grouped: dict[tuple[str, str], list[TurnPlace]] = {}
    for turn in turns:
        grouped.setdefault((turn.scope, turn.origin.partition("#")[0]), []).append(turn.place)
    return grouped


def _conversation(engine: Engine, states: Sequence[_State]) -> StatedConversation:
    key = _newest(states)
    with _CACHE.lock:
        known = _CACHE.conversations.get(key)
    if known:
        return known
    parts = [_part(engine.ledger, state, engine.time_zone) for state in key]
    made = StatedConversation(
        _ledger_of(key, parts),
        {position: turn for part in parts for position, turn in part.turns.items()},
        {place: position for part in parts for place, position in part.positions.items()},
    )
    _remember(_CACHE.conversations, key, made, MAX_LEDGERS)
    return made


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


def _ledger_of(key: tuple[_State, ...], parts: Sequence[_Part]) -> StatementLedger:
    """Return the ledger of some sources, going on from that of all but the last one."""
    closed = key[:-1]
    with _CACHE.lock:
        known, before = _CACHE.ledgers.get(closed), _CACHE.ledgers.get(closed[:-1])
    if known is None:
        known = before.copy() if before else StatementLedger()
        for part in parts[-2:-1] if before else parts[:-1]:
            known.extend(part.statements)
        _remember(_CACHE.ledgers, closed, known, MAX_LEDGERS)
    ledger = known.copy()
    ledger.extend(parts[-1].statements if parts else ())
    return ledger


def _remember(cache: OrderedDict[_Key, _Value], key: _Key, value: _Value, most: int) -> None:
    with _CACHE.lock:
        cache[key] = value
        cache.move_to_end(key)
        while len(cache) > most:
            cache.popitem(last=False)


def _part(store: Store, state: _State, zone: TimeZone) -> _Part:
    source_id = state[0]
    with _CACHE.lock:
        known = _CACHE.parts.get(source_id)
    if known and known[0] == state:
        return known[1]
    source = store.get(source_id)
    part = _part_of(source, zone) if isinstance(source, Source) else _Part((), {}, {})
    _remember(_CACHE.parts, source_id, (state, part), MAX_SOURCES)
    return part


def said_of(message: Message, position: int, zone: TimeZone) -> SaidMessage:
    """Return a message for the rules, in the local time of the space."""
    machine = (message.role or message.name).casefold() in MACHINES
    return SaidMessage(
        position, message.speaker, message.content, zone.local(message.at) if message.at else None, machine
    )


def _messages(source: Source, zone: TimeZone) -> Iterator[tuple[SaidMessage, Segment]]:
    """Return the messages in a source, each with its first segment."""
    turns = [(segment.locator, segment) for segment in source.segments if isinstance(segment.locator, Turn)]
    for _, group in groupby(turns, key=lambda pair: pair[0].turn):
        pairs = list(group)
        turn, first = pairs[0]
        text = "".join(segment.excerpt for _, segment in pairs)
        message = Message(content=text, role=turn.role, name=turn.speaker, at=turn.at)
        yield said_of(message, turn.turn, zone), first


def _part_of(source: Source, zone: TimeZone) -> _Part:
    messages = list(_messages(source, zone))
    stored = loaded(source.payload)
    statements = stored if stored is not None else tuple(one for said, _ in messages for one in statements_of(said))
    turns = {
        said.position: ReplacingTurn(source.id, segment.segment_id, said.position, said.text, said.speaker, said.at)
        for said, segment in messages
    }
    positions = {
        (source.id, segment.segment_id): segment.locator.turn
        for segment in source.segments
        if isinstance(segment.locator, Turn)
    }
    return _Part(statements, turns, positions)
