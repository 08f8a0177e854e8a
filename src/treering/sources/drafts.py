"""Draft many files: the first ones here, the others in a child process while the caller stores the drafts.

Drafting takes a third of the time of reading a repository, and storing the rest, so one child is enough. It runs the
code that runs here for fewer files, and the results are equal. Its answers are pickled: it parses nothing that is not
parsed in this process otherwise, and hostile formats have their own bounded processes.
"""

import pickle
import signal
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import cast

from treering.ports.adapter import Failed, Reading, ReadLimits, SourceDraft
from treering.ports.format import Formats
from treering.retrieval.index.projection import have_ready, terms_in_text
from treering.sources.formats import draft_file, formats_here
from treering.sources.reading.bounded_process import BoundedProcess, answer_questions

_FILES_READ_HERE = 200
"""A child takes 0.5 s of CPU to start, as long as drafting about this number of files."""
_GROUP_FILES = 64
_GROUP_BYTES = 1_000_000
"""Enough that a question costs little, and few enough that only some megabytes are held."""
_CPU_SECONDS = 60
"""For a group of files, which takes less than a second unless a format loops."""
_WALL_SECONDS = 600.0
_CHILD = BoundedProcess(__name__, _WALL_SECONDS)


@dataclass(frozen=True, slots=True)
class FileToDraft:
    """The contents of a file, and the arguments of `draft_file`."""

    data: bytes
    path: str
    origin: str
    fingerprint: str
    commit: str | None = None
    about: str | None = None
    """The subject of its knowledge that names none, as `kind:slug`."""


@dataclass(frozen=True, slots=True)
class Drafting:
    """Drafts files by the same settings."""

    limits: ReadLimits
    redact_secrets: bool
    formats: Formats

    def readings(self, items: Iterable[Reading | FileToDraft]) -> Iterator[Reading]:
        """Yield readings as they are, and for each file its draft, in the order of `items`.

        A file that ends the child twice is `Failed`.
        """
        may_start = self.limits.in_child and self.formats is formats_here()
        left, count = iter(items), 0
        for item in left:
            count += isinstance(item, FileToDraft)
            if may_start and count > _FILES_READ_HERE:
                yield from self._from_child(chain([item], left))
            else:
                yield self.reading(item)

    def reading(self, item: Reading | FileToDraft) -> Reading:
        """Return the draft of a file, or another reading as it is."""
        if not isinstance(item, FileToDraft):
            return item
        reading = draft_file(
            item.data,
            path=item.path,
            origin=item.origin,
            commit=item.commit,
            limits=self.limits,
            redact_secrets=self.redact_secrets,
            fingerprint=item.fingerprint,
            formats=self.formats,
        )
        if not isinstance(reading, SourceDraft) or not item.about:
            return reading
        stated = [known if known.about else replace(known, about=item.about) for known in reading.knowledge]
        return replace(reading, knowledge=stated)

    def _from_child(self, items: Iterable[Reading | FileToDraft]) -> Iterator[Reading]:
        if self._asked([]) is None:  # no child starts here
            yield from map(self.reading, items)
            return
        for group in _groups(items):
            files = [one for one in group if isinstance(one, FileToDraft)]
            drafts = iter((self._asked(files) or map(self._alone, files)) if files else ())
            yield from (next(drafts) if isinstance(one, FileToDraft) else one for one in group)

    def _alone(self, file: FileToDraft) -> Reading:
        drafts = self._asked([file])
        return drafts[0] if drafts else Failed(file.origin, "reading it ended or blocked the process that reads files")

    def _asked(self, files: Sequence[FileToDraft]) -> list[Reading] | None:
        answer = _CHILD.ask(pickle.dumps((self.limits, self.redact_secrets, files)), seconds=_CPU_SECONDS)
        if answer is None:
            return None
        drafts, terms = pickle.loads(answer)  # noqa: S301 - see the docstring of this module
        have_ready(terms)
        return cast("list[Reading]", drafts)


def serve() -> None:
    """Draft the files requested on standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this process
    answer_questions(answered)


def answered(question: bytes) -> bytes:
    """Return the drafts of the files in a question, and the terms of their texts."""
    limits, redact_secrets, files = pickle.loads(question)  # noqa: S301 - from the process that started this one
    drafting = Drafting(limits, redact_secrets, formats_here())
    drafts = list(map(drafting.reading, files))
    segments = (part for draft in drafts if isinstance(draft, SourceDraft) for part in draft.segments)
    texts = [(part.text, part.role == "symbol") for part in segments]
    return pickle.dumps((drafts, {text: terms_in_text(*text) for text in texts}), pickle.HIGHEST_PROTOCOL)


def _groups(items: Iterable[Reading | FileToDraft]) -> Iterator[list[Reading | FileToDraft]]:
    """Group files, with the readings between them. Other readings are passed on at once."""
    group: list[Reading | FileToDraft] = []
    size = 0
    for item in items:
        group.append(item)
        size += len(item.data) if isinstance(item, FileToDraft) else 0
        if not size or size >= _GROUP_BYTES or len(group) >= _GROUP_FILES:
            yield group
            group, size = [], 0
    if group:
        yield group
