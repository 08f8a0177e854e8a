"""Pointers for a prompt: the rules, decisions and open work that match it, and a few places in files."""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from treering.core.characters import one_line
from treering.core.scope import ROOT
from treering.parts.coding_agents.shown_lines import HookLine, digest_key
from treering.retrieval.search.lines import answering_lines
from treering.retrieval.text.analysis import content_words, telling_terms
from treering.surfaces.python.space import Space
from treering.verbs.reading import WEAK, ShownHit

_MAX_PLACES = 4
_MAX_ENTRIES = 3
_MAX_CHARS = 70
_MAX_PROMPT_CHARS = 4_000
_MEMORY: Mapping[str, Any] = {"limit": 6, "filter": {"type": {"in": ["knowledge", "work_item"]}}}
_FILES: Mapping[str, Any] = {"limit": 8, "group": "source"}
_KINDS = frozenset({"decision", "constraint", "preference", "procedure"})
_OPEN = frozenset({"open", "in_progress", "blocked"})
_MIN_SHARED = 2
"""Terms of the subject of a prompt that the best hit has to have."""
_NAME = re.compile(r"\b(?:\w+_\w+|[a-z]+[A-Z]\w*|[A-Z]\w*[a-z]\w*[A-Z]\w*|[\w-]+(?:[./][\w-]+)+|\w+(?=\())")
"""Names that no plain word is: `task_routes`, `parseBody`, `src/context.ts`, `retry(`."""

_WORKFLOW = frozenset(
    "add added adding again all amend another apply approve ask asked being believe better bit branch bug build "
    "bump carry change changed changelog changes check checks ci clean close code comment comments commit commits "
    "concise conflict conflicts continue cool correct course create debug delete deleted deploy diff different do "
    "docs done double error errors everything example explain fail failed failing fast faster few file files finish "
    "first fix fixed forget format function funny git give go going good got great green happen happened happens "
    "hear hello help helper hi hmm idea inline issue job keep last later latest lets lgtm line lines lint linter "
    "little long longer look looks main make makes many matter maybe mean means merge message mind minute missing "
    "moment more morning move moved name names need never next nice no none normal note now ok okay on once one "
    "open origin output own part perfect pick plan please possible pr previous problem proceed project pull push "
    "put question questions quick quickly read readable ready really reason rebase red redo refactor release remote "
    "remove rename repo rerun rest restart result results resume retry revert review right run said save say says "
    "script second sense short shorter should show simple simpler simplify skip something soon sorry sort sound "
    "sounds split squash start stash status stay step still stop such suggest suite summarize summary sure switch "
    "take taken takes talk tell test tests thank thanks thing things think third time times today todo tomorrow "
    "tried try turn under understand understood undo unit until update use used uses using verify version very wait "
    "want wanted was way well were what when whole word words work works would write written wrong wrote yep yes "
    "yesterday yet you".split()
)
"""Words of the work itself: a prompt of these alone has no subject that a memory could know about."""


def subject_of(prompt: str) -> frozenset[str]:
    """Return the terms of a prompt that are about something beyond the work itself."""
    words = (word for word in content_words(prompt) if word not in _WORKFLOW)
    return frozenset(term for word in words for term in telling_terms(word))


def pointers(space: Space, prompt: str) -> list[HookLine]:
    """Return pointers for a prompt: entries of memory first, then places. Empty if nothing in the space answers it."""
    asked = prompt[:_MAX_PROMPT_CHARS]
    subject = subject_of(asked)
    if len(subject) < _MIN_SHARED and not _NAME.search(asked):
        return []
    entries = [hit for hit in _found(space, asked, _MEMORY) if _is_entry(hit) and _is_about(hit, subject, asked)]
    files = [hit for hit in _found(space, asked, _FILES) if hit.first_line]
    if files and not _is_about(files[0], subject, asked):
        files = []
    return [*_entries(entries), *_places(files, asked)]


def _found(space: Space, asked: str, options: Mapping[str, Any]) -> list[ShownHit]:
    """Return the hits of a search that answer and are how things stand here."""
    report = space.query("search", ROOT, {"text": asked}, options)
    return [hit for hit in report.hits if hit.current and WEAK not in hit.flags]


def _is_about(hit: ShownHit, subject: frozenset[str], asked: str) -> bool:
    """Return whether a hit has a name of the prompt or several terms of its subject: one word may be chance."""
    held = f"{hit.origin}\n{hit.title}\n{hit.heading}\n{hit.text}"
    names = (found[0] for found in _NAME.finditer(asked))
    return len(subject.intersection(telling_terms(held))) >= _MIN_SHARED or any(name in held for name in names)


def _entries(hits: Iterable[ShownHit]) -> Iterator[HookLine]:
    for hit in islice(hits, _MAX_ENTRIES):
        state = f" ({hit.status.replace('_', ' ')})" if hit.type == "work_item" else ""
        yield HookLine(
            hit.object_id, f"{hit.kind.capitalize()}: {one_line(hit.title, most=_MAX_CHARS)}{state}  {hit.object_id}"
        )


def _is_entry(hit: ShownHit) -> bool:
    is_believed = hit.type == "knowledge" and hit.kind in _KINDS and hit.status == "active"
    return is_believed or (hit.type == "work_item" and hit.status in _OPEN)


def _places(hits: Iterable[ShownHit], asked: str) -> Iterator[HookLine]:
    for hit in islice(hits, _MAX_PLACES):
        lines = hit.text.split("\n")
        matched = answering_lines(hit.text, asked, most=1)
        best = next(iter(matched.matched or matched.shown), 0)
        where = f"{hit.place.rpartition('#L')[0]}:{hit.first_line + best}"
        symbol = _symbol(hit.heading, asked)
        said = one_line(lines[best].strip(), most=_MAX_CHARS)
        yield HookLine(digest_key(hit.place), " ".join(filter(None, (where, symbol, f"– {said}"))))


def _symbol(heading: str, asked: str) -> str:
    """Return of the symbols of a passage the one with the most words of the prompt."""
    symbols = [one.strip() for one in heading.split(",") if one.strip(" …")]
    words = frozenset(telling_terms(asked))
    return max(symbols, key=lambda one: len(words.intersection(telling_terms(one))), default="")
