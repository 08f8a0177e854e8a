"""The files that answers named, so that a hook recognizes when an agent opens or edits one of them."""

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
_FEW_ANSWERS = 20  # lines, including those about sessions
_MOST_ANSWER_BYTES = 60_000


@dataclass(frozen=True, slots=True)
class NamedFiles:
    """The files that an answer named."""

    answer: str
    """The id of the answer in feedback."""
    scope: str
    at: float
    """Seconds since 1970."""
    files: Mapping[str, str]
    """The place in the space (an id, and a part if it has parts) by path, absolute or relative to the repository."""
    asked: tuple[str, ...] = ()
    """Digests of the texts of the call, by which a hook finds the answer to a client's call."""
    in_shell: bool = False
    """Whether the call came from a command, possibly of a person. It then counts only for sessions that are known."""
    sessions: frozenset[str] = frozenset()
    """Digests of the sessions that are known to have asked; empty if the client reported no calls."""


def note_answer(
    path: str | Path,
    answer: str,
    scope: str,
    files: Mapping[str, str],
    asked: Collection[str] = (),
    *,
    in_shell: bool = False,
) -> None:
    """Store the files that an answer named, unless one of them was erased meanwhile.

    Only the last answers are retained. Answers to commands are stored only if hooks are in use. Raises `OSError`,
    `Unavailable`.
    """
    file = ready_folder(path, make=not in_shell) / _ANSWERS
    if not file.parent.is_dir():
        return
    record = {"answer": answer, "scope": scope, "at": time.time(), "files": files}
    record |= {"asked": [*map(digest_of_text, asked)], "in_shell": in_shell}
    with file.open("ab") as lines:
        lines.write(sealed(record) + b"\n")
    if file.stat().st_size > _MOST_ANSWER_BYTES:
        replace_file(file, b"\n".join(file.read_bytes().splitlines()[-_FEW_ANSWERS:]) + b"\n")
    # After writing: a later erasure deletes the file, and an earlier one is detected here.
    ids = {place.partition(" ")[0] for place in files.values()}
    if missing(path, ids):
        file.unlink(missing_ok=True)


def note_session(path: str | Path, session: str, answers: Collection[str]) -> None:
    """Record that a session requested answers. Raises `OSError`."""
    record = {"session": digest_of_text(session), "answers": [*answers]}
    # Not created if it is missing: it was deleted by an erasure.
    file = os.open(ready_folder(path) / _ANSWERS, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(file, sealed(record) + b"\n")
    finally:
        os.close(file)


def noted_answers(path: str | Path) -> list[NamedFiles]:
    """Return the stored answers, the newest first, without damaged lines. Raises `OSError`."""
    file = ready_folder(path) / _ANSWERS
    answers: list[NamedFiles] = []
    sessions: dict[str, set[str]] = {}
    with suppress(OSError):
        lines = file.read_bytes().splitlines() if file.stat().st_size <= 2 * _MOST_ANSWER_BYTES else []
        for record in filter(None, map(unsealed, reversed(lines))):
            if "session" in record:
                for answer in record["answers"]:
                    sessions.setdefault(answer, set()).add(record["session"])
                continue
            of = frozenset(sessions.get(record["answer"], ()))
            with suppress(TypeError):  # written by another version of Treering
                answers.append(NamedFiles(**{**record, "asked": tuple(record["asked"]), "sessions": of}))
    return answers


def digest_of_text(text: str) -> str:
    """Return the first 64 bits of the SHA-256 of a text in hex, ignoring differences in white space."""
    return sha256(" ".join(text.split()).encode("utf-8", "replace")).hexdigest()[:16]
