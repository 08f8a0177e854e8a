"""Which files answers named, so that a hook can recognize that an agent opened or edited one of them."""

import os
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from treering.stores.sqlite.ready import missing, ready_folder, sealed, unsealed
from treering.system.machine import replace_file

_ANSWERS = "answers.jsonl"
_FEW_ANSWERS = 20  # lines, of which some tell of sessions
_MOST_ANSWER_BYTES = 60_000


@dataclass(frozen=True, slots=True)
class NamedFiles:
    """The files that an answer named."""

    answer: str
    """What feedback calls the answer."""
    scope: str
    at: float
    """When, in seconds since 1970."""
    files: Mapping[str, str]
    """By path, from the top of a repository or whole, the place in the space: an id, and where it has parts, a part."""
    asked: tuple[str, ...] = ()
    """Digests of the texts of the call: whoever sees a client call us knows by them which answer it got."""
    in_shell: bool = False
    """Whether a command asked, which may be a person's: it counts for a session that is known to have asked."""
    sessions: frozenset[str] = frozenset()
    """Digests of the sessions that are known to have asked; none where no client told of its calls."""


def note_answer(
    path: str | Path,
    answer: str,
    scope: str,
    files: Mapping[str, str],
    asked: Collection[str] = (),
    *,
    in_shell: bool = False,
) -> None:
    """Note which files an answer named, unless one of them was erased meanwhile. The last answers are kept.

    What a command asked is noted where hooks are in use. Raises `OSError`, `Unavailable`.
    """
    file = ready_folder(path, make=not in_shell) / _ANSWERS
    if not file.parent.is_dir():
        return
    said = {"answer": answer, "scope": scope, "at": time.time(), "files": files}
    said |= {"asked": [*map(digest_of_text, asked)], "in_shell": in_shell}
    with file.open("ab") as lines:
        lines.write(sealed(said) + b"\n")
    if file.stat().st_size > _MOST_ANSWER_BYTES:
        replace_file(file, b"\n".join(file.read_bytes().splitlines()[-_FEW_ANSWERS:]) + b"\n")
    # After it was written: erasing removes what is there then, and what it did before is seen now.
    ids = {place.partition(" ")[0] for place in files.values()}
    if missing(path, ids):
        file.unlink(missing_ok=True)


def note_session(path: str | Path, session: str, answers: Collection[str]) -> None:
    """Note that a session asked for answers which were noted. Raises `OSError`."""
    told = {"session": digest_of_text(session), "answers": [*answers]}
    # Not made where it is gone: what was noted was erased meanwhile.
    file = os.open(ready_folder(path) / _ANSWERS, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(file, sealed(told) + b"\n")
    finally:
        os.close(file)


def noted_answers(path: str | Path) -> list[NamedFiles]:
    """Return what was noted of answers, the newest first; without lines that are damaged. Raises `OSError`."""
    file = ready_folder(path) / _ANSWERS
    found: list[NamedFiles] = []
    sessions: dict[str, set[str]] = {}
    with suppress(OSError):
        lines = file.read_bytes().splitlines() if file.stat().st_size <= 2 * _MOST_ANSWER_BYTES else []
        for told in filter(None, map(unsealed, reversed(lines))):
            if "session" in told:
                for answer in told["answers"]:
                    sessions.setdefault(answer, set()).add(told["session"])
                continue
            of = frozenset(sessions.get(told["answer"], ()))
            with suppress(TypeError):  # another version of Treering noted it
                found.append(NamedFiles(**{**told, "asked": tuple(told["asked"]), "sessions": of}))
    return found


def digest_of_text(text: str) -> str:
    """Return the first 64 bits of the SHA-256 of a text in hex, however its words are spaced."""
    return sha256(" ".join(text.split()).encode("utf-8", "replace")).hexdigest()[:16]
