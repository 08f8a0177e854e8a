"""Lines about the callers and tests of the code that a pack shows: they may break if that code changes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from posixpath import basename

from treering.core.characters import label
from treering.core.counting import listed_up_to
from treering.core.evidence import Lines
from treering.extensions.code.links.neighbours import run_code_searches
from treering.extensions.code.links.places import place_of
from treering.extensions.code.links.users import CodeSubject, CodeUser, users_of
from treering.ports.passages import Reach
from treering.retrieval.index.code_names import file_at, names_in_heading
from treering.retrieval.index.code_places import is_test_path
from treering.retrieval.search.retrieval import Hit
from treering.verbs.envelope import Call

_MAX_SUBJECTS = 5
"""Definitions whose callers and tests are named."""
_MAX_NAMED = 3
"""Callers and tests that are named of each; more are counted."""


def lines_about_callers(call: Call, hits: Sequence[Hit], reach: Reach) -> Mapping[tuple[str, str], str]:
    """Return, by object and segment of the first hits in code, a line about its users; tests are left out.

    Empty for a read of the past: links of code are known for the present only.
    """
    places = dict(islice(_subjects(hits), _MAX_SUBJECTS)) if reach.at is None else {}
    if not places:
        return {}
    near = Reach(reach.scope, descend=reach.descend)
    searches = [users_of(subject, near, thorough=False) for subject in places.values()]
    results: list[list[CodeUser]] = run_code_searches(call, searches)
    lines = {place: _line(places[place], users) for place, users in zip(places, results, strict=True)}
    return {place: line for place, line in lines.items() if line}


def _subjects(hits: Iterable[Hit]) -> Iterator[tuple[tuple[str, str], CodeSubject]]:
    """Return the definitions that hits show, each once, with the object and the segment of the hit."""
    seen = set()
    for hit in hits:
        file = file_at(hit.locator.path) if isinstance(hit.locator, Lines) else None
        place = place_of(hit.head, file.family) if file else None
        names = names_in_heading(hit.head.heading, file.path) if file else ()
        key = (hit.head.object_id, names)
        if file and place and names and key not in seen and not is_test_path(file.path):
            seen.add(key)
            subject = CodeSubject(file, place.root, hit.head.object_id, names, whole=False)
            yield (hit.head.object_id, hit.head.part), subject


def _line(subject: CodeSubject, users: Sequence[CodeUser]) -> str:
    sure = [user for user in users if user.sure]
    others = [user for user in sure if user.how != "imports"] or sure
    tests = list(dict.fromkeys(user.place.file.path for user in others if user.place.is_test))
    code = list(dict.fromkeys(_where(user) for user in others if not user.place.is_test))
    parts = [*_listed("used by", code), *_listed("tested by", [label(path) for path in tests])]
    name = label(f"{', '.join(subject.names[:_MAX_NAMED])} ({subject.file.path})")
    return f"{name}: {'; '.join(parts)}" if parts else ""


def _listed(word: str, names: Sequence[str]) -> list[str]:
    return [f"{word} {listed_up_to(_MAX_NAMED, names)}"] if names else []


def _where(user: CodeUser) -> str:
    path, heading = user.place.file.path, user.place.head.heading
    name = "" if heading == basename(path) else heading
    at = f"{path}#L{user.line}" if user.line else path
    return label(f"{name} ({at})" if name else at)
