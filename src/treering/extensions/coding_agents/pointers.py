"""Pointers for a prompt: the rules, decisions and open work that match it, and a few places in files."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from treering.core.characters import one_line
from treering.core.objects import Knowledge, kind_in_words
from treering.core.scope import ROOT
from treering.extensions.coding_agents.found_passages import passages_to_show
from treering.extensions.coding_agents.governing import HeldRule, call_on, rules_citing
from treering.extensions.coding_agents.named_places import (
    NamedPlace,
    NamedPlaces,
    definitions_about,
    definitions_of,
    last_part,
    names_file,
    names_in,
    places_named,
    values_in,
)
from treering.extensions.coding_agents.option_places import names_option, option_places
from treering.extensions.coding_agents.shown_lines import HookLine, digest_key
from treering.ports.ledger import ObjectRequest
from treering.retrieval import limits
from treering.retrieval.search.import_lines import is_comment, is_import
from treering.retrieval.search.question import asks
from treering.retrieval.search.relevance import WEAK
from treering.retrieval.text.analysis import telling_terms
from treering.retrieval.tuning import TUNING
from treering.surfaces.python.space import Space
from treering.verbs.query.authorship import agent_note
from treering.verbs.query.branch_edits import edited_on_branch
from treering.verbs.query.brief import repository_of, statement_of, with_note
from treering.verbs.query.unconfirmed import KINDS, by_author, is_shown, is_unconfirmed, stale_in_words
from treering.verbs.shown_hits import ShownHit
from treering.verbs.trees import CHANGED, AskedTree

_HOOKS = TUNING.hooks
_MANY_SHARED_TERMS = _HOOKS.min_shared_terms + 1
_MAX_MEMORY_HITS = 6
_MAX_FILE_HITS = 8

_MAX_PROMPT_CHARS = 4_000
_MAX_OUTPUT_CHARS = 40_000
"""Characters of a prompt that are read for names of files: the frame that failed may be the last line."""
_BELIEVED = ("active", "contested", "stale")
_OPEN = ("open", "in_progress", "blocked")
_UNCONFIRMED = "candidate"
_DOUBTFUL = ("contested", "stale", _UNCONFIRMED)
"""Statuses of knowledge that may never have been active."""
_MEMORY: Mapping[str, Any] = {
    "limit": _MAX_MEMORY_HITS,
    "lines": 0,
    "filter": {
        "type": {"in": ["knowledge", "work_item"]},
        "or": [
            {"status": {"in": [*_BELIEVED, *_OPEN]}},
            {"status": _UNCONFIRMED, "channel": {"in": ["agent", "user"]}, "kind": {"in": [*KINDS]}},
        ],
    },
    "withdrawn": True,
}
"""Stale and unconfirmed entries too, marked: an agent that works on their code should know of them."""
_FILES: Mapping[str, Any] = {"limit": _MAX_FILE_HITS, "lines": 1, "group": "source"}
_KINDS = frozenset({"decision", "constraint", "preference", "procedure"})
_WORD = re.compile(r"\w+")
_MIN_TITLE_WORDS = 4
"""Words of a title that a prompt without a subject must repeat, all of them: `why will there never be a just 2.0`."""
_BESIDE_CODE = re.compile(
    r"(?:issue|pull_request|merge_request)_templates?[/.]|\.(?:css|scss|sass|less)(?:\.\w+)?$"
    r"|(?:^|/)\.(?:github|gitlab|circleci)/",
    re.IGNORECASE,
)
"""Files that share words with prompts about code by chance."""
_GOES_ON = re.compile(
    r"\W*(?:(?:ok(?:ay)?|yes|yep|yeah|sure|right|great|good|perfect|fine|go ahead)\b"
    r"(?:\W+\w+){0,4}?\W+(?:it|that|this|them)|do (?:it|that|so))\b",
    re.IGNORECASE,
)
"""The beginning of an answer, such as `ok, do it`: its subject is in an earlier message."""
_REQUEST = re.compile(
    r"\W*(?:\w+\W+){0,3}?(?:adds?|allow|implement|introduce|let|make|new|supports?|want)\b", re.IGNORECASE
)
"""The beginning of a request for something that the project does not have."""
_TOPIC = re.compile(r"\W*(\w+(?: \w+)?): ")
"""The topic before a prompt: `logger: skip some paths`."""

_WORKFLOW = frozenset(
    telling_terms(
        "add address agree all another apply ask better branch build bump change changelog check clean code comment "
        "commit concise conflict continue create debug delete do doc done entry error everything example explain "
        "fail file find finish fix format function git go good great help implement issue later let line lint long "
        "look make merge message mind move need new next now number ok okay old open option other output perfect plan "
        "please problem proceed project pull push question ready really rebase refactor release remove rename repo "
        "repository review run second show simple split start step stop suite summarize support sure take test thank "
        "thing think try two understand update use verify version wait want way work write wrong yes"
    )
)
"""Terms of the work itself: a prompt with only these has no subject to search for."""


def subject_of(prompt: str) -> frozenset[str]:
    """Return the terms of a prompt that are about something beyond the work itself."""
    return frozenset(term for term in telling_terms(prompt) if term not in _WORKFLOW and not term.isdigit())


def pointers(space: Space, prompt: str) -> list[HookLine]:
    """Return pointers for a prompt: entries of memory first, then places. Empty if nothing in the space answers it."""
    asked, output = prompt[:_MAX_PROMPT_CHARS], prompt[:_MAX_OUTPUT_CHARS]
    subject, names, values = subject_of(asked), names_in(asked), values_in(asked)
    has_subject = (
        len(subject) >= _HOOKS.min_shared_terms
        or bool(names)
        or bool(subject and _REQUEST.match(asked))
        or names_file(output)
        or names_option(asked)
    )
    words = _words(asked)
    if not has_subject and not values and len(words) < _MIN_TITLE_WORDS:
        return []
    found = space.query("search", ROOT, {"text": asked}, _MEMORY)

    def is_about(hit: ShownHit) -> bool:
        if values & values_in(_held(hit)):
            return True
        return WEAK not in hit.flags and (_is_about(hit, subject, names) or _has_title(hit, words))

    edited = _edited_rules(space, found.hits)
    entries = [
        hit for hit in found.hits if (hit.object_id in edited or _is_current(hit)) and _is_entry(hit) and is_about(hit)
    ]
    known = [*_entries(space, entries, edited), *_commands(found.commands if asks(asked) else ())]
    if not has_subject:
        return known
    call = call_on(space)
    named = places_named(call, output)
    cited = [rule.line_for("prompt") for rule in rules_citing(call, named.places)]
    known = [*cited, *(one for one in known if one.key not in {line.key for line in cited})]
    # A long prompt, such as an issue with code, has names that it is not about.
    is_short = len(named.rest) <= TUNING.question.max_short_chars
    defined = [*definitions_of(call, named.rest), *option_places(call, named.rest)] if is_short else []
    found_hits = [] if any(one.is_exact for one in named.places) else _found(space, named)
    places = islice(_places(named, defined, found_hits, call.tree), _HOOKS.max_places)
    return [*known, *places]


def _found(space: Space, named: NamedPlaces) -> Sequence[ShownHit]:
    """Return what a search finds for the rest of a prompt: in the files that it names, then in others.

    Next to a named file, other files must have half of the rest of the prompt.
    """
    text, ids = named.rest[:_MAX_PROMPT_CHARS], {one.source.id for one in named.places}
    if not ids and _GOES_ON.match(text):
        return []
    subject, names = subject_of(text), names_in(text)
    if len(subject) < _HOOKS.min_shared_terms and not names and not (subject and _REQUEST.match(text)):
        return []
    hits = space.query("search", ROOT, {"text": text}, _FILES).hits
    files = [hit for hit in hits if _is_current(hit) and hit.first_line and not _is_beside_code(hit, subject)]
    if not ids:
        return _answering(files, text, subject, names) or _requested(files, text, subject) or _named_after(files, text)
    in_named = [hit for hit in files if hit.object_id in ids and _is_about(hit, subject, names)]
    others = [hit for hit in _answering(files, text, subject, names) if hit.object_id not in ids]
    least = max(_MANY_SHARED_TERMS, len(subject) / 2)
    shared = [hit for hit in others if _shared(hit, subject) >= least]
    return [*passages_to_show(in_named, text, subject), *shared]


def _is_current(hit: ShownHit) -> bool:
    """Return whether a hit is current or stale, and not of another branch."""
    return hit.current or _is_stale(hit)


def _edited_rules(space: Space, hits: Iterable[ShownHit]) -> dict[str, HeldRule]:
    """Return by id the knowledge among hits that the branch of the work tree contradicts."""
    notes = {hit.object_id: hit.note for hit in hits if hit.type == "knowledge" and hit.note}
    if not notes:
        return {}
    call = call_on(space)
    items = [item for one in notes if isinstance(item := space.engine.ledger.get(one), Knowledge)]
    edited = edited_on_branch(call, repository_of(call, {}), items, notes)
    return {item.id: HeldRule(item, edited[item.id]) for item in items if item.id in edited}


def _commands(commands: Sequence[str]) -> Iterator[HookLine]:
    """Write the commands of the project on one line. A request to run them needs none, only a question."""
    if commands:
        line = one_line(f"Commands: {' · '.join(commands)}", most=limits.MAX_PLACE_CHARS)
        yield HookLine(digest_key(line), line)


def _is_stale(hit: ShownHit) -> bool:
    """Return whether knowledge is stale, at least in the work tree."""
    return hit.type == "knowledge" and (hit.note.startswith(CHANGED) or (hit.status == "stale" and not hit.note))


def _requested(files: Sequence[ShownHit], text: str, subject: frozenset[str]) -> Sequence[ShownHit]:
    """Return the best files for a short request for something new, if their names have a word of it.

    A new feature has no words in the project yet: `make the output colored`, `let the logger print milliseconds`.
    """
    if len(subject) > _HOOKS.min_shared_terms or not _REQUEST.match(text):
        return []
    first = files[: _HOOKS.max_found_places]
    return [hit for hit in first if WEAK not in hit.flags and _is_named(hit, subject)]


def _named_after(files: Sequence[ShownHit], text: str) -> Sequence[ShownHit]:
    """Return the best file if it is named after the topic of a prompt, or a definition after two of its words."""
    topic = _TOPIC.match(text)
    if not files:
        return []
    of_topic = topic is not None and _is_named(files[0], subject_of(topic[1]))
    words = frozenset(telling_terms(text)).intersection(telling_terms(last_part(files[0].symbol)))
    return files[:1] if of_topic or (WEAK not in files[0].flags and len(words) >= _HOOKS.min_shared_terms) else []


def _is_named(hit: ShownHit, subject: frozenset[str]) -> bool:
    """Return whether a file, its folder or the definition found in it is named after a term of the subject."""
    path = hit.place.rpartition("#L")[0].split("/")[-2:]
    return not subject.isdisjoint(telling_terms(f"{' '.join(path)} {hit.symbol}"))


def _answering(
    files: Sequence[ShownHit], text: str, subject: frozenset[str], names: Sequence[str]
) -> Sequence[ShownHit]:
    """Return the passages that answer a prompt, best first; none if the best file is not about it.

    The score of a search is relative to the best hit. The share of the subject shows how much a hit has by itself.
    """
    share = _HOOKS.best_subject_weight

    def score(hit: ShownHit) -> float:
        return (1 - share) * hit.score + share * _shared(hit, subject) / max(1, len(subject))

    best = max(files, key=score, default=None)
    if best is None or WEAK in best.flags or not _is_about(best, subject, names):
        return []
    if best is not files[0] and not any(
        (_is_about(files[0], subject, names), _is_about(best, subject, names, least=_MANY_SHARED_TERMS))
    ):
        return []  # two words in a hit that the search does not find best may be chance
    return passages_to_show(files, text, subject)


def _is_beside_code(hit: ShownHit, subject: frozenset[str]) -> bool:
    """Return whether a hit is a style sheet, or a form or script of a forge, and the prompt has no term of its path."""
    path = hit.place.rpartition("#L")[0]
    return bool(_BESIDE_CODE.search(path)) and subject.isdisjoint(telling_terms(path))


def _is_about(
    hit: ShownHit, subject: frozenset[str], names: Sequence[str], *, least: int = _HOOKS.min_shared_terms
) -> bool:
    """Return whether a hit has a name of the prompt or enough terms of its subject."""
    enough = min(_MANY_SHARED_TERMS, max(least, _HOOKS.min_shared_share * len(subject)))
    return _shared(hit, subject) >= enough or any(name in _held(hit) for name in names)


def _has_title(hit: ShownHit, words: frozenset[str]) -> bool:
    """Return whether the words of a prompt include all words of a title that is not short."""
    title = _words(hit.title)
    return len(title) >= _MIN_TITLE_WORDS and title <= words


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold()))


def _shared(hit: ShownHit, subject: frozenset[str]) -> int:
    return len(subject.intersection(telling_terms(_held(hit))))


def _held(hit: ShownHit) -> str:
    return f"{hit.origin}\n{hit.title}\n{hit.heading}\n{hit.text}"


def _entries(space: Space, hits: Sequence[ShownHit], edited: Mapping[str, HeldRule]) -> Iterator[HookLine]:
    (read,) = space.engine.ledger.read([ObjectRequest(objects=tuple(hit.object_id for hit in hits))])
    entries = {item.id: item for item in read.objects.values() if isinstance(item, Knowledge)}
    items = {
        hit.object_id: entries[hit.object_id] for hit in hits if hit.status in _DOUBTFUL and hit.object_id in entries
    }
    authors = by_author(space.engine.ledger, filter(is_unconfirmed, items.values()))
    notes = {item.id: author for item, author in authors}
    shown = (hit for hit in hits if hit.object_id not in items or is_shown(items[hit.object_id]))
    for hit in islice(shown, _HOOKS.max_entries):
        if hit.object_id in edited:
            yield edited[hit.object_id].line_for("prompt")
            continue
        entry = entries.get(hit.object_id)
        status = stale_in_words(entry) if entry and _is_stale(hit) else hit.status
        state = notes.get(hit.object_id, "" if status == "active" else status.replace("_", " "))
        statement, recorder = (statement_of(entry), agent_note(entry)) if entry else (hit.title, "")
        text = f"{kind_in_words(hit.kind).capitalize()}: {one_line(statement, most=limits.MAX_RULE_CHARS)}"
        notes_shown = "; ".join(filter(None, (state, hit.cites, recorder)))
        yield HookLine(f"{hit.object_id}@prompt", f"{with_note(text, notes_shown)}  {hit.object_id}")


def _is_entry(hit: ShownHit) -> bool:
    is_believed = hit.type == "knowledge" and hit.kind in _KINDS and hit.status in (*_BELIEVED, _UNCONFIRMED)
    return is_believed or (hit.type == "work_item" and hit.status in _OPEN)


def _places(
    named: NamedPlaces, defined: Sequence[NamedPlace], found: Sequence[ShownHit], tree: AskedTree | None
) -> Iterator[HookLine]:
    """Yield the places of a prompt: named files, then definitions, then hits in other files."""
    exact = [one for one in named.places if one.is_exact]
    exact += [one for one in defined if not any(_is_in(one, other) for other in exact)]
    shown = {one.source.id for one in exact}
    subject = subject_of(named.rest)
    for one in [*exact, *(one for one in named.places if one.source.id not in shown)]:
        hits = [] if one.is_exact else [hit for hit in found if hit.object_id == one.source.id]
        about = [] if one.is_exact or hits else definitions_about(one.source, subject)
        yield from (_hit_line(hit, subject) for hit in hits)
        note = tree.note_of_place(one.source.origin) if tree else ""
        yield from (_place_line(place, note) for place in ([] if hits else about or [one]))
        shown.add(one.source.id)
    yield from (_hit_line(hit, subject) for hit in found if hit.object_id not in shown)


def _is_in(one: NamedPlace, other: NamedPlace) -> bool:
    """Return whether another place is in the same definition as one, or in a member of it."""
    return one.source.id == other.source.id and f"{other.symbol}.".startswith(f"{one.symbol}.")


def _hit_line(hit: ShownHit, subject: frozenset[str]) -> HookLine:
    """Write the place of a passage. A definition is shown instead of an import, unless the prompt is about imports."""
    lines, at = hit.text.split("\n"), next(iter(hit.lines), 0)
    if "import" not in subject and is_import(lines, at):
        best = next((one for one in range(at, len(lines)) if _defines(hit, lines, one)), at)
    else:
        below = next((one for one in range(at, len(lines)) if not is_comment(lines[one])), at)
        best = below if _defines(hit, lines, below) else at
    return _line(hit.place.rpartition("#L")[0], hit.first_line + best, hit.symbol, lines[best], hit.note)


def _defines(hit: ShownHit, lines: Sequence[str], at: int) -> bool:
    """Return whether a line of a passage has the name of the definition there, and is no import."""
    name = last_part(hit.symbol)
    return bool(name and re.search(rf"\b{re.escape(name)}\b", lines[at])) and not is_import(lines, at)


def _place_line(place: NamedPlace, note: str) -> HookLine:
    return _line(place.path, place.line, place.symbol, place.text, note)


def _line(path: str, number: int, symbol: str, text: str, note: str) -> HookLine:
    """Write a place on one line; `number` 0 is a whole file. `note`: what became of the file."""
    where = f"{path}:{number}" if number else path
    line = one_line(text.strip(), most=limits.MAX_POINTER_CHARS)
    named = symbol if symbol not in line else ""
    shown = (where, named, note and f"({note})", line and f"– {line}")
    return HookLine(digest_key(where), " ".join(filter(None, shown)))
