"""Tool calls reported by a client: failures, calls of Treering, and the use of its answers.

An answer was used if the agent opens or edits a file that it named. Hooks note that, and it is recorded as feedback
later. The session that got an answer is known from the hook after each call of Treering; otherwise an answer counts
for all sessions for an hour.
"""

import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treering.core.errors import TreeringError
from treering.extensions.coding_agents.client_input import object_in
from treering.extensions.coding_agents.shown_lines import ShownLines
from treering.extensions.conversations.tool_calls import FAILED_LINE, texts_in
from treering.stores.sqlite.noted_answers import digest_of_text, note_session, noted_answers
from treering.stores.sqlite.ready import missing, ready_folder

if TYPE_CHECKING:
    from treering.surfaces.python.space import Space

USED = "used.jsonl"
"""The file with the used answers."""
_MOST_USED = 3
"""The maximum number of answers noted for one edit."""
_MOST_USED_BYTES = 50_000
_USED_SECONDS = 3600
"""The time after an answer in which opening or editing a named file counts as use."""


def note_asking(space: Path, session: str, given: Mapping[str, Any]) -> None:
    """Note the session that got the answers of a call of Treering. Raises `OSError`.

    The call is identified by the name of its answer, or by its question.
    """
    names, questions = _answer_names(given), {digest_of_text(text) for text in _questions(given)}
    own = digest_of_text(session)
    got = [
        one.answer
        for one in (noted_answers(space) if session and (names or questions) else ())
        if own not in one.sessions and (one.answer in names or not questions.isdisjoint(one.asked))
    ]
    if got:
        note_session(space, session, list(dict.fromkeys(got)))


def note_used(space: Path, session: str, paths: Sequence[str], top: Path) -> None:
    """Note the files that recent answers named, each once per session. Raises `OSError`, `Unavailable`.

    An answer counts only in the sessions known to have got it; if none is known, in all.
    """
    if not session:
        return
    own = digest_of_text(session)
    recent = [
        one
        for one in noted_answers(space)
        if time.time() - one.at < _USED_SECONDS and (own in one.sessions or not (one.sessions or one.in_shell))
    ]
    recent.sort(key=lambda one: own not in one.sessions)
    named = [
        (one.answer, one.scope, place)
        for path in paths
        for one in recent
        if (place := one.files.get(path) or one.files.get(str(top / path)))
    ][:_MOST_USED]
    shown = ShownLines(space, session)
    marks = {f"used:{sha256(' '.join(one).encode()).hexdigest()[:16]}": one for one in named}
    new = {mark: one for mark, one in marks.items() if mark not in shown.keys}
    file = ready_folder(space) / USED
    if not new or (file.exists() and file.stat().st_size > _MOST_USED_BYTES):
        return
    with file.open("ab") as used:
        used.write("".join(f"{json.dumps(one)}\n" for one in new.values()).encode())
    ids = {place.partition(" ")[0] for _, _, place in new.values()}
    if missing(space, ids):
        file.unlink(missing_ok=True)  # one was erased in the meantime
    shown.add(new)


def record_used(space: "Space") -> None:
    """Record the used answers as feedback of an agent, or discard them if feedback is off."""
    if space.address.file is None:
        return
    file = ready_folder(space.address.file) / USED
    taken = file.with_name(f"{USED}.{os.getpid()}")
    try:
        file.replace(taken)
    except FileNotFoundError:
        return
    used: dict[tuple[str, str], dict[str, None]] = {}
    for line in taken.read_bytes().splitlines():
        with suppress(ValueError, TypeError, RecursionError):
            answer, scope, place = map(str, json.loads(line))
            used.setdefault((answer, scope), {})[place] = None
    taken.unlink()
    # Imported here, because it is slow and hooks do not need it.
    from treering.verbs.feedback import is_on

    agent = space.with_actor("hooks", channel="agent")
    for (answer, scope), places in used.items():
        for place in places:
            with suppress(TreeringError):  # it was deleted, or agents need a review
                if is_on(agent.engine, scope):
                    agent.crystallize("feedback", scope, {"question": answer, "used": [place]})


_ANSWER = re.compile(r"\bans:[\w=-]+")
_OUTPUTS = ("tool_response", "tool_output", "tool_result", "result_json")
_COMMAND = "treering"
_MOST_COMMAND = 4_000
_NO_WORD = frozenset("-|&;<>()")
_EXIT = re.compile(r"\bexit(?:ed)?(?: with)?(?: (?:code|status))?\"?\s*[:=]?\s*(\d{1,3})\b", re.IGNORECASE)
_ENDED_BADLY = re.compile(
    r"^Traceback \(most recent|^\W*(?:[\w.]+(?:Error|Exception)|error(?:\[\w+\])?|fatal|panic)\b *:|^FAILED\b"
    r"|^=+ .*\b\d+ (?:failed|errors?)\b|\bcommand not found$|^npm ERR!",
    re.MULTILINE,
)
"""Lines written by failing commands and hardly any others."""
_MOST_OUTPUT = 20_000
_MOST_LINES = 40


def calls_us(given: Mapping[str, Any]) -> bool:
    """Return whether a tool may have run a command of Treering."""
    return any(_COMMAND in text for text in texts_in(object_in(given.get("tool_input"))))


def _answer_names(given: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of answers in the output of a tool."""
    answered = (given.get(key) for key in _OUTPUTS)
    return frozenset(name for one in answered for text in texts_in(one) for name in _ANSWER.findall(text))


def _questions(given: Mapping[str, Any]) -> Iterator[str]:
    """Yield the possible questions of a call; in a command, the words up to the next option or pipe."""
    for text in texts_in(object_in(given.get("tool_input"))):
        yield text
        if _COMMAND in text and len(text) <= _MOST_COMMAND:
            with suppress(ValueError):
                words = [*_shell_words(text), "|"]
                ends = [at for at, word in enumerate(words) if word[:1] in _NO_WORD]
                starts = (at for at, word in enumerate(words) if word[:1] not in _NO_WORD)
                for start in starts:
                    yield " ".join(words[start : next(end for end in ends if end > start)])


def _shell_words(command: str) -> list[str]:
    # Imported here, because few hooks follow a command of Treering.
    import shlex

    read = shlex.shlex(command, posix=True, punctuation_chars=True)
    read.whitespace_split, read.commenters = True, ""
    return list(read)


def output_of(given: Mapping[str, Any]) -> str:
    """Return the end of the output of a tool, after its error."""
    return "\n".join([*texts_in(_error_of(given)), "\n".join(texts_in(_answer_of(given)))[-_MOST_OUTPUT:]])


def failure_of(given: Mapping[str, Any]) -> str:
    """Return the error lines of a failed tool, or "" if it did not fail."""
    output, error = _answer_of(given), _error_of(given)
    answered = object_in(output)
    text = "\n".join(texts_in(output))[-_MOST_OUTPUT:]
    if not error:
        error = answered.get("error")
        code = next((answered[key] for key in ("exit_code", "exitCode", "returncode") if key in answered), None)
        exits = [int(one) for one in _EXIT.findall(f"{text[:2_000]}\n{text[-2_000:]}")]
        # Codex passes only the output of a command, without an exit code.
        unknown = isinstance(output, str) and not answered and not exits
        if not (
            error
            or code not in (None, 0, "0")
            or (code is None and any(exits))
            or (unknown and _ENDED_BADLY.search(text))
        ):
            return ""
    lines = "\n".join([*texts_in(error), text]).splitlines()
    telling = [one.strip()[:500] for one in lines if FAILED_LINE.search(one)] or [one[:500] for one in lines[-5:]]
    return "\n".join(telling[-_MOST_LINES:])


def _error_of(given: Mapping[str, Any]) -> Any:
    return given.get("error") or given.get("error_message")


def _answer_of(given: Mapping[str, Any]) -> Any:
    return next((given[key] for key in _OUTPUTS if key in given), None)
