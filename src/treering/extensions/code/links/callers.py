"""Lines about the callers and tests of the code that a pack shows: they may break if that code changes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from treering.core.characters import label
from treering.core.counting import listed_up_to
from treering.core.evidence import Lines
from treering.extensions.code.links.neighbours import run_code_searches, users_here
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
"""Files with callers, and tests, that are named of each; more are counted."""
_MAX_LINES = 10
"""Lines named of a file."""


def lines_about_callers(call: Call, hits: Sequence[Hit], reach: Reach) -> Mapping[tuple[str, str], Sequence[str]]:
    """Return, by object and segment of the first hits in code, lines about the users of its names; tests have none.

    Empty for a read of the past: links of code are known for the present only.
    """
    places = dict(islice(_subjects(hits), _MAX_SUBJECTS)) if reach.at is None else {}
    if not places:
        return {}
    near = Reach(reach.scope, descend=reach.descend)
    searches = [users_of(subject, near, thorough=False) for subject in places.values()]
    results: list[list[CodeUser]] = run_code_searches(call, searches)
    return {
        place: _lines(call, subject, users) for (place, subject), users in zip(places.items(), results, strict=True)
    }


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


def _lines(call: Call, subject: CodeSubject, users: Sequence[CodeUser]) -> tuple[str, ...]:
    """Return a line about the users of each name of a subject, for names with users."""
    sure = [user for user in users if user.sure]
    by_name = {name: [user for user in sure if user.name in (name, "*")] for name in subject.names}
    named = {f"{name} ({subject.file.path})": used for name, used in by_name.items()}
    return tuple(line for name, used in named.items() if (line := _line(call, name, used)))


def _line(call: Call, name: str, users: Sequence[CodeUser]) -> str:
    used = [user for user in users if user.how != "imports"] or users
    tests = list(dict.fromkeys(label(user.place.file.path) for user in used if user.place.is_test))
    files: dict[str, list[CodeUser]] = {}
    for user in (user for user in used if not user.place.is_test):
        files.setdefault(user.place.file.path, []).append(user)
    shown = [_place(path, users_here(call, here)) for path, here in islice(files.items(), _MAX_NAMED)]
    code = [*shown, *islice(files, len(shown), None)]  # only shown files are compared with those on disk
    parts = [*_listed("used by", code), *_listed("tested by", tests)]
    return f"{label(name)}: {'; '.join(parts)}" if parts else ""


def _listed(word: str, names: Sequence[str]) -> list[str]:
    return [f"{word} {listed_up_to(_MAX_NAMED, names)}"] if names else []


def _place(path: str, users: Sequence[CodeUser]) -> str:
    """Return a file with the lines of its users and the definitions that contain them."""
    names = dict.fromkeys(name for user in users for name in user.definitions)
    lines = ", ".join(f"L{line}" for line in sorted({line for user in users for line in user.lines})[:_MAX_LINES])
    at = f"{path}#{lines}" if lines else path
    return label(f"{', '.join(islice(names, _MAX_NAMED))} ({at})" if names else at)
