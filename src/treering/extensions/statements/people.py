"""Statements by and about a person: one view across all conversations that a call may read."""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from difflib import get_close_matches

from treering.core.counting import counted_things
from treering.core.errors import InvalidInput, NotFound, nearest
from treering.core.filters import And, Compare, Not
from treering.core.objects import Source
from treering.core.scope import ROOT
from treering.extensions.statements.comparison import Comparison
from treering.extensions.statements.conversations import MACHINES, StatedConversation, conversation_at
from treering.extensions.statements.document import SECTIONS, Line, Part, Section, about, by_section, lines_of, within
from treering.extensions.statements.names import people_in, without_title
from treering.extensions.statements.relations import relations_of
from treering.extensions.statements.statement import Relation
from treering.ports.ledger import Selection
from treering.ports.passages import PassageRequest, Reach
from treering.ports.search import TextRequest
from treering.retrieval.text.analysis import query_terms
from treering.verbs.engine import Engine
from treering.verbs.envelope import Call, parse
from treering.verbs.named_views import NamedView
from treering.verbs.reading import ReadOptions, SearchOptions, moment_of, parse_moment, reach_of, recorded_later

PERSON_TOKENS = 2_000
"""The default size of a view."""
MAX_CONVERSATIONS = 50
"""Conversations read for a view, the best matches of the name; each costs a round trip."""
_MAX_PASSAGES = 400
"""Passages by which conversations are found at a time."""
_NEWEST_SOURCES = 50
"""The newest sources whose speakers an error may suggest."""
_MAX_NAME_WORDS = 3
_APART = 3
"""Messages between two lines, for the comparison of lines of different conversations."""


@dataclass(frozen=True, slots=True)
class PersonLine:
    """A statement of or about a person. `place`: the citation of its message, such as `discussion:cabin#17`."""

    line: Line
    place: str
    source_id: str = ""

    @property
    def section(self) -> Section:
        """The heading it is under."""
        return self.line.section

    @property
    def text(self) -> str:
        """The statement with its speaker."""
        return self.line.words

    def __str__(self) -> str:
        return self.line.cited(self.place)


@dataclass(frozen=True, slots=True)
class Person:
    """Statements by and about a person, section by section, oldest first."""

    name: str
    lines: tuple[PersonLine, ...]
    left_out: int = 0
    """Lines that are not shown."""
    minor: int = 0
    """The lines that are not shown in any size: older ones without an important statement."""
    unread: bool = False
    """Whether more conversations mention the name than were read."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Notes on missing parts."""
        longer = self.left_out - self.minor
        fit = (
            f"{counted_things(longer, 'more statement')} did not fit; allow more tokens to see them." if longer else ""
        )
        minor = (
            f"{counted_things(self.minor, 'less important older statement')} left out; a search finds them."
            if self.minor
            else ""
        )
        unread = (
            f"Only {MAX_CONVERSATIONS} conversations were read; name a scope to read others." if self.unread else ""
        )
        return tuple(filter(None, (fit, minor, unread)))

    def __str__(self) -> str:
        return by_section((line.section, str(line)) for line in self.lines)


def person(
    engine: Engine,
    name: str,
    *,
    scope: str = ROOT,
    as_of: int | str | date | None = None,
    max_tokens: int = PERSON_TOKENS,
) -> Person:
    """Return the statements by and about a person in the conversations of a scope and below it, now or in the past.

    `as_of`: `parse_moment`. Raises `NotFound` with similar names for a name that no statement gives to a
    person, and `InvalidInput` if it is a part of several names.
    """
    moment = parse_moment(as_of, engine.time_zone)
    options = parse(ReadOptions, {"as_of": moment, "descend": True, "max_tokens": max_tokens}, where="options")
    call = Call(engine, scope)
    view = _person(call, name, options)
    if view is None:
        names = _known_names(call, options)
        hint = nearest(name, names) if names else recorded_later(call, moment) or "No conversation is stored there."
        raise NotFound(f"No statement in {scope} is about a person {name!r}.", hint=hint)
    return view


def person_view(call: Call, name: str, options: ReadOptions) -> NamedView | list[str]:
    """Return the view of a person, or else similar names (`verbs.named_views.FindView`)."""
    view = _person(call, name, options)
    if view is None:
        is_like_name = name[:1].isupper() and len(name.split()) <= _MAX_NAME_WORDS
        return get_close_matches(name, _known_names(call, options), n=1) if is_like_name else []
    ids = tuple(dict.fromkeys(line.source_id for line in view.lines))
    return NamedView("person", view.name, str(view), ids, view.warnings)


@dataclass(frozen=True, slots=True)
class _Conversation:
    root: str
    stated: StatedConversation


def _person(call: Call, name: str, options: ReadOptions) -> Person | None:
    wanted = " ".join(name.split())
    bare = without_title(wanted)
    return _person_named(call, wanted, options) or (_person_named(call, bare, options) if bare != wanted else None)


def _person_named(call: Call, wanted: str, options: ReadOptions) -> Person | None:
    places = _conversations_with(call, wanted, options) if wanted else []
    moment, engine = moment_of(call, options), call.engine
    conversations = [
        _Conversation(root, conversation_at(engine, scope=scope, root=root, as_of=moment))
        for scope, root in places[:MAX_CONVERSATIONS]
    ]
    names = _names_of(wanted, {one for each in conversations for one in _people_in(each.stated, wanted)})
    if not names:
        return None
    lines = [line for each in conversations for line in _lines_in(each, names)]
    lines = _across(sorted(lines, key=_time))
    budget = options.max_tokens or PERSON_TOKENS
    every = [each.line for each in lines]
    shown = {line.first.message: line for line in within(every, budget)}
    chosen = [replace(each, line=line) for each in lines if (line := shown.get(each.line.first.message))]
    chosen.sort(key=lambda each: SECTIONS.index(each.section))
    left_out = len(lines) - len(chosen)
    minor = len(lines) - len(within(every, sys.maxsize)) if left_out else 0
    return Person(names[0], tuple(chosen), left_out, minor, unread=len(places) > MAX_CONVERSATIONS)


def _conversations_with(call: Call, name: str, options: ReadOptions) -> list[tuple[str, str]]:
    """Return the scopes and origins of the conversations that mention a name, at most one more than are read."""
    conversations = SearchOptions(as_of=options.as_of, descend=options.descend, filter={"kind": "conversation"})
    reach = reach_of(call, conversations)
    places: dict[tuple[str, str], None] = {}
    while len(places) <= MAX_CONVERSATIONS:
        roots = dict.fromkeys(root for _, root in places)
        others = (Not(Compare("origin", "prefix", root)) for root in roots)
        new = _origins(call, name, replace(reach, where=And((reach.where, *others))))
        if not new:
            break
        places.update(dict.fromkeys(new))
    return list(places)


def _origins(call: Call, name: str, reach: Reach) -> list[tuple[str, str]]:
    index = call.engine.index
    (hits,) = index.text.search([TextRequest(reach, _MAX_PASSAGES, words=query_terms(name).words)])
    (read,) = index.passages.read([PassageRequest(tuple(hit.key for hit in hits.words), reach)])
    heads = [read.heads[hit.key] for hit in hits.words if hit.key in read.visible]
    return list(dict.fromkeys((head.scope, head.origin.partition("#")[0]) for head in heads))


def _people_in(conversation: StatedConversation, wanted: str) -> Iterator[str]:
    """Return the names that begin like one: of speakers, of others whom statements are about or introduce."""
    first = wanted.casefold().split()[0]
    statements = conversation.ledger.statements.values()
    speakers = {turn.speaker for turn in conversation.turns.values()} | {one.author for one in statements}
    yield from (name for name in speakers if _first_word(name) == first)
    others = {one.owner for one in statements if _first_word(one.owner) == first} - speakers
    text = "\n".join(turn.text for turn in conversation.turns.values()) if others else ""
    yield from (name for name in others if _is_written_as_name(name, text))
    texts = (one.text for one in statements if first in one.text.casefold())
    yield from (name for each in texts for name in people_in(each) if _first_word(name) == first)


def _first_word(name: str) -> str:
    return name.casefold().partition(" ")[0]


def _is_written_as_name(name: str, text: str) -> bool:
    """Return whether a word has a capital inside a sentence, or wherever it is: `Retry fails` may be about a retry."""
    is_inside = re.search(rf"[\w,] {re.escape(name)}(?!\w)", text)
    return bool(is_inside) or not re.search(rf"(?<!\w){re.escape(name.lower())}(?!\w)", text)


def _names_of(wanted: str, known: Iterable[str]) -> list[str]:
    """Return the names of the person with a name, the fullest first: Ada may also be Ada Lovelace, if no other Ada is.

    Raises `InvalidInput` if several people have it.
    """
    people = {one for one in known if one and one.casefold() not in MACHINES}
    exact = [one for one in people if one.casefold() == wanted.casefold()]
    longer = [one for one in people if _begins(one, wanted) and one not in exact]
    fullest = [one for one in longer if not any(_begins(other, one) and other != one for other in longer)]
    if len({one.casefold() for one in fullest}) > 1:
        raise InvalidInput(
            f"{wanted!r} is a part of several names.", hint=f"Give one of: {', '.join(sorted(fullest))}."
        )
    shorter = [one for one in people if _begins(wanted, one) and one not in exact and _is_only(one, wanted, people)]
    return [*longer, *exact, *shorter] if longer or exact else []


def _begins(name: str, beginning: str) -> bool:
    return name.casefold().startswith(f"{beginning.casefold()} ")


def _is_only(name: str, wanted: str, people: Iterable[str]) -> bool:
    """Return whether a short name can only be the wanted person's."""
    return all(one.casefold() == wanted.casefold() for one in people if _begins(one, name))


def _lines_in(conversation: _Conversation, names: Sequence[str]) -> Iterator[PersonLine]:
    for line in about(lines_of(conversation.stated.ledger), names):
        message = line.first.message
        turn = conversation.stated.turns.get(message)
        yield PersonLine(line, f"{conversation.root}#{message}", turn.source_id if turn else "")


def _time(each: PersonLine) -> tuple[float, str, int, int]:
    at = each.line.first.at
    return at.timestamp() if at else 0.0, each.place.rpartition("#")[0], *each.line.first.id


def _across(lines: Sequence[PersonLine]) -> list[PersonLine]:
    """Let statements in one conversation replace those in another, oldest first, each line with its own message."""
    current: dict[int, PersonLine] = {}
    for rank, each in enumerate(lines, start=1):
        new = replace(each, line=_at(each.line, rank * _APART))
        others = [old for old in current.values() if _may_replace(new, old)]
        candidates = [statement for old in others for statement in old.line.statements]
        for statement in new.line.statements if candidates else ():
            for relation in relations_of(Comparison(statement, candidates, (), rank * _APART)):
                new = _related(new, current, relation)
        current[rank] = new
    return list(current.values())


def _at(line: Line, message: int) -> Line:
    """Return a line with another message."""
    parts = (replace(part, statement=replace(part.statement, message=message)) for part in line.parts)
    return replace(line, parts=tuple(parts))


def _may_replace(new: PersonLine, old: PersonLine) -> bool:
    """Return whether two lines are of different conversations, and dated, so that one is known to be later."""
    is_apart = new.place.rpartition("#")[0] != old.place.rpartition("#")[0]
    return is_apart and bool(new.line.first.at and old.line.first.at)


def _related(new: PersonLine, current: dict[int, PersonLine], relation: Relation) -> PersonLine:
    """Mark or remove the target of a relation, and return the new line with the statement that it replaced."""
    rank = relation.target.message // _APART
    old = current.get(rank)
    part = next((one for one in old.line.parts if one.statement.id == relation.target.id), None) if old else None
    if old is None or part is None:
        return new
    if not relation.sure:
        doubted = replace(part, section="Unsure", doubt=relation.source)
        current[rank] = replace(old, line=_with(old.line, part, doubted))
        return new
    if len(old.line.parts) == 1:
        del current[rank]
    else:
        current[rank] = replace(old, line=_with(old.line, part))
    if relation.kind == "repeats":
        return new
    source = next(one for one in new.line.parts if one.statement.id == relation.source.id)
    changed = replace(source, earlier=(*part.earlier, part.statement, *source.earlier))
    return replace(new, line=_with(new.line, source, changed))


def _with(line: Line, part: Part, *instead: Part) -> Line:
    """Return a line with other parts instead of one."""
    parts = [one for each in line.parts for one in (instead if each is part else (each,))]
    return replace(line, parts=tuple(parts))


def _known_names(call: Call, options: ReadOptions) -> list[str]:
    """Return the names of speakers of the newest conversations in reach."""
    where = And((Compare("kind", "eq", "conversation"), Compare("status", "eq", "active")))
    selection = Selection(call.scope, options.descend, ("source",), where, moment_of(call, options), _NEWEST_SOURCES)
    sources = [one for one in call.engine.ledger.select(selection) if isinstance(one, Source)]
    speakers = (getattr(segment.locator, "speaker", "") for one in sources for segment in one.segments)
    return list(dict.fromkeys(one for one in speakers if one and one.casefold() not in MACHINES))
