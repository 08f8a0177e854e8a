"""Pointers for a prompt: the rules, decisions and open work that match it, and a few places in files."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from treering.core.characters import one_line
from treering.core.objects import Knowledge
from treering.core.scope import ROOT
from treering.extensions.coding_agents.shown_lines import HookLine, digest_key
from treering.retrieval import limits
from treering.retrieval.search.question import asks
from treering.retrieval.search.relevance import WEAK
from treering.retrieval.text.analysis import telling_terms
from treering.retrieval.tuning import TUNING
from treering.surfaces.python.space import Space
from treering.verbs.shown_hits import ShownHit
from treering.verbs.trees import CHANGED

_HOOKS = TUNING.hooks
_MANY_SHARED_TERMS = _HOOKS.min_shared_terms + 1
_MAX_MEMORY_HITS = 6
_MAX_FILE_HITS = 8

_MAX_PROMPT_CHARS = 4_000
_BELIEVED = ("active", "contested", "stale")
_OPEN = ("open", "in_progress", "blocked")
_MEMORY: Mapping[str, Any] = {
    "limit": _MAX_MEMORY_HITS,
    "lines": 0,
    "filter": {"type": {"in": ["knowledge", "work_item"]}, "status": {"in": [*_BELIEVED, *_OPEN]}},
    "withdrawn": True,
}
"""Stale entries too: an agent that works on their code should know that they are in doubt."""
_FILES: Mapping[str, Any] = {"limit": _MAX_FILE_HITS, "lines": 1, "group": "source"}
_KINDS = frozenset({"decision", "constraint", "preference", "procedure"})
_NAME = re.compile(r"\b(?:\w+_\w+|[a-z]+[A-Z]\w*|[A-Z]\w*[a-z]\w*[A-Z]\w*|[\w-]+(?:[./][\w-]+)+|\w+(?=\())")
"""Names that no plain word is: `task_routes`, `parseBody`, `src/context.ts`, `retry(`."""

_WORD = re.compile(r"\w+")
_MIN_TITLE_WORDS = 4
"""Words of a title that a prompt without a subject must repeat, all of them: `why will there never be a just 2.0`."""
_NUMBER = re.compile(r"[\d./-]+")

_WORKFLOW = frozenset(
    telling_terms(
        "add address agree all another apply ask better branch build bump change changelog check clean code comment "
        "commit concise conflict continue create debug delete do doc done entry error everything example explain "
        "fail file find finish fix format function git go good great help implement issue later let line lint long "
        "look make merge message mind move need next now number ok okay old open option other output perfect plan "
        "please problem proceed project pull push question ready really rebase refactor release remove rename repo "
        "repository review run second show simple split start step stop suite summarize sure take test thank thing "
        "think try two understand update use verify version wait want way work write wrong yes"
    )
)
"""Terms of the work itself: a prompt with only these has no subject to search for."""


def subject_of(prompt: str) -> frozenset[str]:
    """Return the terms of a prompt that are about something beyond the work itself."""
    return frozenset(term for term in telling_terms(prompt) if term not in _WORKFLOW and not term.isdigit())


def pointers(space: Space, prompt: str) -> list[HookLine]:
    """Return pointers for a prompt: entries of memory first, then places. Empty if nothing in the space answers it."""
    asked = prompt[:_MAX_PROMPT_CHARS]
    subject, names = subject_of(asked), _names_in(asked)
    has_subject = len(subject) >= _HOOKS.min_shared_terms or bool(names)
    words = _words(asked)
    if not has_subject and len(words) < _MIN_TITLE_WORDS:
        return []
    found = space.query("search", ROOT, {"text": asked}, _MEMORY)
    entries = [
        hit
        for hit in _current(found.hits)
        if _is_entry(hit)
        and WEAK not in hit.flags
        and (_is_about(hit, subject, names) or _has_title(hit, words))
        and _was_active(space, hit)
    ]
    known = [*_entries(entries), *_commands(found.commands if asks(asked) else ())]
    if not has_subject:
        return known
    files = [hit for hit in _current(space.query("search", ROOT, {"text": asked}, _FILES).hits) if hit.first_line]
    return [*known, *_places(_answering(files, subject, names))]


def _current(hits: Iterable[ShownHit]) -> list[ShownHit]:
    """Return the current and stale hits."""
    return [hit for hit in hits if hit.current or _is_stale(hit)]


def _commands(commands: Sequence[str]) -> Iterator[HookLine]:
    """Write the commands of the project on one line. A request to run them needs none, only a question."""
    if commands:
        line = one_line(f"Commands: {' · '.join(commands)}", most=limits.MAX_PLACE_CHARS)
        yield HookLine(digest_key(line), line)


def _is_stale(hit: ShownHit) -> bool:
    """Return whether knowledge is stale, at least in the work tree."""
    return hit.type == "knowledge" and (hit.note.startswith(CHANGED) or (hit.status == "stale" and not hit.note))


def _names_in(asked: str) -> list[str]:
    """Return the names in a prompt that no plain word is; not numbers such as `12/14`."""
    return [found[0] for found in _NAME.finditer(asked) if not _NUMBER.fullmatch(found[0])]


def _answering(files: Sequence[ShownHit], subject: frozenset[str], names: Sequence[str]) -> Sequence[ShownHit]:
    """Return the files that answer a prompt; none if the best is not about it: one word in common may be chance."""
    if not files:
        return []
    if WEAK in files[0].flags:
        least = max(_MANY_SHARED_TERMS, _HOOKS.min_shared_share * len(subject))
        return files if _shared(files[0], subject) >= least else []
    return [hit for hit in files if WEAK not in hit.flags] if _is_about(files[0], subject, names) else []


def _is_about(hit: ShownHit, subject: frozenset[str], names: Sequence[str]) -> bool:
    """Return whether a hit has a name of the prompt or enough terms of its subject."""
    least = min(_MANY_SHARED_TERMS, max(_HOOKS.min_shared_terms, _HOOKS.min_shared_share * len(subject)))
    return _shared(hit, subject) >= least or any(name in _held(hit) for name in names)


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


def _entries(hits: Iterable[ShownHit]) -> Iterator[HookLine]:
    for hit in islice(hits, _HOOKS.max_entries):
        status = "stale" if _is_stale(hit) else hit.status
        state = "" if status == "active" else f" ({status.replace('_', ' ')})"
        yield HookLine(
            f"{hit.object_id}@prompt",
            f"{hit.kind.capitalize()}: {one_line(hit.title, most=limits.MAX_POINTER_CHARS)}{state}  {hit.object_id}",
        )


def _is_entry(hit: ShownHit) -> bool:
    is_believed = hit.type == "knowledge" and hit.kind in _KINDS and hit.status in _BELIEVED
    return is_believed or (hit.type == "work_item" and hit.status in _OPEN)


def _was_active(space: Space, hit: ShownHit) -> bool:
    item = space.engine.ledger.get(hit.object_id) if hit.status in ("contested", "stale") else None
    return not isinstance(item, Knowledge) or item.was_active


def _places(hits: Iterable[ShownHit]) -> Iterator[HookLine]:
    for hit in islice(hits, _HOOKS.max_places):
        best = next(iter(hit.lines), 0)
        where = f"{hit.place.rpartition('#L')[0]}:{hit.first_line + best}"
        line = one_line(hit.text.split("\n")[best].strip(), most=limits.MAX_POINTER_CHARS)
        named = hit.symbol if hit.symbol not in line else ""
        yield HookLine(digest_key(hit.place), " ".join(filter(None, (where, named, f"– {line}"))))
