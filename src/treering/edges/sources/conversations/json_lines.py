"""JSON lines: sessions of Claude Code, messages one by one, or a conversation per line."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import BinaryIO

from treering.edges.sources.conversations import claude_code, role_messages
from treering.edges.sources.conversations.conversation import Parsed, Unread, named_apart
from treering.edges.sources.loose_json import Malformed, Record, over_limit, parse, record

Line = tuple[int, object]


def read(stream: BinaryIO, *, most_bytes: int) -> Iterator[Parsed] | None:
    """Read lines one by one; `None`: they are no conversations. `most_bytes` bounds a single line."""
    lines = _lines(stream, most_bytes)
    first = list(islice(lines, _LOOKED_AT))
    values = [value for _, value in first if not isinstance(value, Malformed)]
    return next((reader(chain(first, lines)) for are_such, reader in _FORMS if are_such(values)), None)


_LOOKED_AT = 50
_Reader = Callable[[Iterable[Line]], Iterator[Parsed]]


def _lines(stream: BinaryIO, most_bytes: int) -> Iterator[Line]:
    number = 0
    while line := stream.readline(most_bytes + 1):
        number += 1
        if len(line) > most_bytes:
            yield number, over_limit(most_bytes)
            while line and not line.endswith(b"\n"):
                line = stream.readline(most_bytes)
        elif text := line.strip().removeprefix(b"\xef\xbb\xbf"):
            yield number, parse(text)


def _sessions(lines: Iterable[Line]) -> Iterator[Parsed]:
    problems: list[Unread] = []
    yield from claude_code.read(_readable(lines, problems))
    yield from problems


def _messages(lines: Iterable[Line]) -> Iterator[Parsed]:
    """Read messages line by line, grouped by the session they name."""
    sessions: dict[str, list[Record]] = {}
    problems: list[Unread] = []
    for number, value in _readable(lines, problems):
        if role_messages.is_message(value):
            sessions.setdefault(role_messages.session_of(record(value)), []).append(record(value))
        else:
            problems.append(Unread(f"line {number}", "it is not a message"))
    yield from problems
    yield from named_apart([role_messages.of_messages(found, name) for name, found in sessions.items()])


def _conversations(lines: Iterable[Line]) -> Iterator[Parsed]:
    problems: list[Unread] = []
    for number, value in _readable(lines, problems):
        if role_messages.claims(record(value)):
            yield role_messages.read(record(value))
        else:
            problems.append(Unread(f"line {number}", "it is not a conversation"))
    yield from problems


def _readable(lines: Iterable[Line], problems: list[Unread]) -> Iterator[Line]:
    for number, value in lines:
        if isinstance(value, Malformed):
            problems.append(Unread(f"line {number}", value.why))
        else:
            yield number, value


def _are_sessions(values: Sequence[object]) -> bool:
    """Tell whether somebody speaks in some lines, and most name their type."""
    typed = sum("type" in record(value) for value in values)
    return any(map(claude_code.is_line, values)) and typed > len(values) / 2


def _are_conversations(values: Sequence[object]) -> bool:
    return sum(role_messages.claims(record(value)) for value in values) > len(values) / 2


_FORMS: tuple[tuple[Callable[[Sequence[object]], bool], _Reader], ...] = (
    (_are_sessions, _sessions),
    (_are_conversations, _conversations),
    (role_messages.are_messages, _messages),
)
