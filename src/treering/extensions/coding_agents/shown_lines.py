"""Lines that a hook shows to an agent: each once in a session, fenced as data, within a budget."""

import json
import re
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from treering.core.characters import one_line
from treering.core.fencing import fence
from treering.stores.sqlite.ready import ready_folder

if TYPE_CHECKING:
    from treering.surfaces.python.space import Space

MAX_TOKENS = 250
"""Of a prompt, an edit and a failure: a few lines are read, a page is skipped."""

_ORIGIN, _BRIEF = "treering", "brief"
_OWN = "Last"
"""The label of the last conversation, which is the current one in a resumed session."""
_COUNT = re.compile(r"and \d+ more$")
_CURRENT = frozenset({"candidate", "active", "contested", "stale", "finalized", "open", "in_progress", "blocked"})
_SUFFIX = ".shown"
_COMPACTED = "compacted"
_MAX_AGE_SECONDS = 30 * 86_400
"""As long as Claude Code stores the transcripts of sessions by default, so that they can be resumed."""


@dataclass(frozen=True, slots=True)
class HookLine:
    """One line for an agent, shown once in a session under its key.

    The key of a decision before an edit is `know:…@path`: its title in the brief does not replace it. A line without a
    key is always shown.
    """

    key: str
    text: str


def digest_key(text: str) -> str:
    """Return a key for a line that no id of an object names."""
    return sha256(text.encode()).hexdigest()[:16]


class ShownLines:
    """The keys of the lines that a session was shown, in a file of the ready folder; none without a session."""

    def __init__(self, space: Path, session: str) -> None:
        name = sha256(session.encode("utf-8", "replace")).hexdigest()[:32]
        self._space = space
        self._session = session
        self._file = ready_folder(space) / f"{name}{_SUFFIX}"
        self.keys: set[str] = set()
        with suppress(OSError, ValueError):
            self.keys = set(self._file.read_text(encoding="utf-8").splitlines()) if session else set()

    @property
    def needs_brief(self) -> bool:
        """Whether the session was compacted, and had no brief since."""
        return _COMPACTED in self.keys

    def begin(self) -> None:
        """Forget the lines shown to the session, and sessions that ended long ago."""
        self.keys = set()
        with suppress(OSError):
            ready_folder(self._space, make=True)  # from now on, commands note their answers there
            for file in self._file.parent.glob(f"*{_SUFFIX}"):
                if file == self._file or time.time() - file.stat().st_mtime > _MAX_AGE_SECONDS:
                    file.unlink()

    def compact(self) -> None:
        """Forget the lines shown to the session, and note that it needs a brief."""
        self.begin()
        self.add([_COMPACTED])

    def add(self, keys: Iterable[str]) -> None:
        """Write down that lines are shown."""
        if self._session:
            with suppress(OSError):
                ready_folder(self._space, make=True)
                with self._file.open("a", encoding="utf-8", errors="backslashreplace") as file:
                    file.write("".join(f"{key}\n" for key in keys))


def show_lines(space: Path, session: str, lines: Sequence[HookLine]) -> str:
    """Return the lines that the session was not shown before, fenced as data; empty if none is left."""
    shown = ShownLines(space, session)
    new = [one for one in lines if one.key not in shown.keys]
    text, fitting = within_budget([*{one.text: one for one in new}.values()])
    texts = {one.text for one in fitting}
    shown.add(one.key for one in new if one.key and one.text in texts)
    return text


def begin_with(
    shown: ShownLines, lines: Sequence[str], ids: Iterable[str], over: Sequence[str] = (), resumed: str = ""
) -> str:
    """Return the lines of a brief that the session was not shown before, fenced as data, and note its objects too.

    `over`: lines about objects that the session was shown and that are not current any more. `resumed`: the transcript
    of a session without noted lines; the lines of its briefs count as shown.
    """
    # Imported here, as below: hooks that show nothing have no use for it.
    from treering.verbs.query.brief import LABEL_WIDTH

    label, labeled, new = "", "", dict[str, str]()
    keys = list(ids)
    known = _in_transcript(lines, resumed) if resumed else set[str]()
    goes_on = bool(shown.keys or known)
    for line in lines:
        label = line[:LABEL_WIDTH].strip() or label
        key = digest_key(label if _COUNT.fullmatch(line[LABEL_WIDTH:]) else line[LABEL_WIDTH:])
        if line in known:
            keys.append(key)
        elif key not in shown.keys and not (goes_on and label == _OWN):
            # A section is named by its first line, which may have been shown.
            is_first = line.startswith(" ") and label != labeled
            new[key] = f"{label:<{LABEL_WIDTH}}{line[LABEL_WIDTH:]}" if is_first else line
            labeled = label
    shown.add([*new, *keys])
    gone = [f"{'' if place else 'Over':<{LABEL_WIDTH}}{one}" for place, one in enumerate(over)]
    return fence("\n".join([*new.values(), *gone]), origin=_BRIEF) if new or gone else ""


def _in_transcript(lines: Iterable[str], transcript: str) -> set[str]:
    """Return the lines that are in a brief in a transcript, whose texts are JSON."""
    fence_start = json.dumps(f'<<treering:recalled origin="{_BRIEF}"')[1:-1]
    if fence_start not in transcript:
        return set()
    return {line for line in lines if json.dumps(line, ensure_ascii=False)[1:-1] in transcript}


def no_longer_current(space: "Space", keys: Iterable[str]) -> list[str]:
    """Return a line for each knowledge and work among some keys that is not current any more.

    The line of an erased object is its id.
    """
    ids = {key.partition("@")[0] for key in keys if key.startswith(("know:", "work:"))}
    heads = space.engine.ledger.heads(ids) if ids else {}
    over = [one for one in sorted(ids) if one not in heads or heads[one].status not in _CURRENT]
    return [f"{one_line(heads[one].title)}  {one}" if one in heads else one for one in over]


def within_budget(lines: Sequence[HookLine]) -> tuple[str, list[HookLine]]:
    """Return the text of the lines that fit into the budget, and these lines."""
    from treering.retrieval.search.packing import lines_within
    from treering.retrieval.text.analysis import cut_to_tokens, estimate_tokens

    most = MAX_TOKENS - estimate_tokens(fence("", origin=_ORIGIN))
    texts = lines_within([cut_to_tokens(one.text, most) for one in lines], origin=_ORIGIN, max_tokens=MAX_TOKENS)
    return fence("\n".join(texts), origin=_ORIGIN) if texts else "", list(lines[: len(texts)])
