"""What may break where the code that a pack shows is changed: what calls, uses and imports it, and its tests."""

from collections.abc import Iterable, Iterator, Sequence
from posixpath import basename

from treering.core.characters import label
from treering.core.locator import Lines
from treering.derived.code_names import file_at, names_in_heading
from treering.derived.code_places import place_of
from treering.derived.code_users import CodeSubject, CodeUser, users_of
from treering.derived.retrieval import Hit
from treering.derived.roles import is_test_path
from treering.derived.rounds import run_together
from treering.ports.reach import Reach
from treering.tools.envelope import Call

_MOST_SHOWN = 5
"""Pieces of code of which it is told."""
_NAMED = 3
"""Users and tests that are named of each; more are counted."""


def may_break(call: Call, hits: Sequence[Hit], reach: Reach) -> tuple[str, ...]:
    """Say for each of the first hits in code, tests aside, what uses it; asks two questions where there are any.

    Links of code are those of now: of an earlier time nothing is said.
    """
    subjects = list(_subjects(hits))[:_MOST_SHOWN] if reach.at is None else []
    if not subjects:
        return ()
    near = Reach(reach.scope, descend=reach.descend)
    searches = [users_of(subject, near, thorough=False) for subject in subjects]
    found: list[list[CodeUser]] = run_together(searches, index=call.engine.index, ledger=call.engine.ledger)
    told = (_told(subject, users) for subject, users in zip(subjects, found, strict=True))
    return tuple(filter(None, told))


def _subjects(hits: Iterable[Hit]) -> Iterator[CodeSubject]:
    """Return the definitions that hits show, each once."""
    seen = set()
    for hit in hits:
        file = file_at(hit.locator.path) if isinstance(hit.locator, Lines) else None
        place = place_of(hit.head, file.family) if file else None
        names = names_in_heading(hit.head.heading, file.path) if file else ()
        key = (hit.head.object_id, names)
        if file and place and names and key not in seen and not is_test_path(file.path):
            seen.add(key)
            yield CodeSubject(file, place.root, hit.head.object_id, names, whole=False)


def _told(subject: CodeSubject, users: Sequence[CodeUser]) -> str:
    others = [user for user in users if user.how != "imports"] or list(users)
    tests = list(dict.fromkeys(user.place.file.path for user in others if user.place.is_test))
    code = list(dict.fromkeys(_where(user) for user in others if not user.place.is_test))
    parts = [*_listed("used by", code), *_listed("tested by", [label(path) for path in tests])]
    name = label(f"{', '.join(subject.names[:_NAMED])} ({subject.file.path})")
    return f"{name}: {'; '.join(parts)}" if parts else ""


def _listed(word: str, names: Sequence[str]) -> list[str]:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return [f"{word} {', '.join(names[:_NAMED])}{more}"] if names else []


def _where(user: CodeUser) -> str:
    path, heading = user.place.file.path, user.place.head.heading
    name = "" if heading == basename(path) else heading
    at = f"{path}#L{user.line}" if user.line else path
    return label(f"{name} ({at})" if name else at)
