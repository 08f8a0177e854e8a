"""A person's edits of the state document, which stay if the versions that contain them are erased."""

import re
from collections.abc import Callable, Collection, Iterator, Sequence

from treering.core.objects import Knowledge, Object, Source
from treering.extensions.discussions.identity import DiscussionRef, ref_of
from treering.extensions.discussions.log.message_log import MessageLog
from treering.extensions.discussions.summaries.lines import with_manual_lines
from treering.extensions.discussions.summaries.versions import Version, Versions, memory_source_of
from treering.extensions.statements.document import without_notes
from treering.retrieval.text.analysis import content_words
from treering.verbs.engine import Engine
from treering.verbs.lint.erasure import IsMeant, SavedEdits


def save_edits(engine: Engine, items: Sequence[Object], is_meant: IsMeant | None) -> Iterator[SavedEdits]:
    """Yield for each discussion with a source among the objects to erase its summaries, and the version written.

    A state document that is among the objects itself is not written again.
    """
    by_ref: dict[DiscussionRef, list[Source]] = {}
    for item in items:
        if isinstance(item, Source) and (ref := ref_of(item)):
            by_ref.setdefault(ref, []).append(item)
    for ref, sources in by_ref.items():
        repeats = _repeating(engine, ref, sources, is_meant)
        erased = _summaries_on(engine, [source.id for source in sources])
        written = Versions(engine, ref, "state_document").all()
        # A version that a person wrote before any update is based on no message, but may repeat some.
        erased += [one.id for one in written if one.id not in erased and any(map(repeats, _lines_of(one)))]
        edits = written[-1] if written else None
        is_saved = edits and edits.id in {*erased} - {item.id for item in items}
        if edits and is_saved and (edits.by_hand or edits.struck_by_hand):
            yield _write_without(engine, ref, edits, erased, repeats)
        else:
            yield SavedEdits(tuple(erased))


def _lines_of(version: Version) -> Iterator[str]:
    yield from version.text.splitlines()
    yield from version.struck_by_hand


def _summaries_on(engine: Engine, sources: Collection[str]) -> list[str]:
    """Return the summaries derived from some sources, directly or indirectly."""
    summaries: dict[str, None] = {}
    queue = list(sources)
    while queue:
        for identity in engine.ledger.dependents(queue.pop()):
            item = engine.ledger.get(identity)
            if isinstance(item, Knowledge) and item.kind == "summary" and identity not in summaries:
                summaries[identity] = None
                queue.append(identity)
    return list(summaries)


def _write_without(
    engine: Engine, ref: DiscussionRef, edits: Version, erased: Sequence[str], repeats: Callable[[str], bool]
) -> SavedEdits:
    """Archive the versions to erase, and write the newest one's manual lines again that repeat no erased message."""
    versions = Versions(engine, ref, "state_document")
    versions.archive(erased)
    current = versions.current()
    by_hand = [line for line in edits.by_hand if not repeats(line)]
    lost = [line for line in edits.by_hand if line not in by_hand]
    # A line that repeats the message only in its notes is stored without them.
    shortened = ("".join(without_notes(line)) if repeats(line) else line for line in edits.struck_by_hand)
    struck = [line for line in shortened if not repeats(line)]
    if not (by_hand or current):
        return SavedEdits(tuple(erased), lost=len(lost))
    # The headings are the places of the lines.
    lines = edits.text.splitlines()
    places = "\n".join(
        line for line in lines if line.strip() in by_hand or (line.startswith("#") and not repeats(line))
    )
    version = versions.write(
        with_manual_lines(current.text if current else places, places, written=by_hand, struck=[*struck, *lost]),
        after=current,
        last=current.last if current else -1,
        made_by=edits.made_by,
        by_hand=by_hand,
        struck_by_hand=struck,
        memory_source=memory_source_of(engine.author) if edits.by_person else "system_generated",
    )
    return SavedEdits(tuple(erased), version.id if by_hand else "", len(lost))


def _repeating(
    engine: Engine, ref: DiscussionRef, sources: Sequence[Source], is_meant: IsMeant | None
) -> Callable[[str], bool]:
    """Return a function that decides whether a line repeats an erased message.

    It does if it contains all words of one, or a word that no remaining message contains. If no message remains, it
    does if the messages contain half of its words, or one of its numbers with three digits or more.
    """
    ids = {source.id for source in sources}
    revisions = (one for identity in ids for one in engine.ledger.history(identity) if isinstance(one, Source))
    segments = {segment.excerpt for one in revisions for segment in filter(is_meant, one.segments)}
    messages = [frozenset(content_words(text)) for text in segments]
    remaining = [one.text for one in MessageLog(engine, ref).read() if not one.deleted and one.source_id not in ids]
    erased = {word for message in messages for word in message}.difference(*map(content_words, remaining))

    def repeats(line: str) -> bool:
        words = frozenset(content_words(_CITED.sub("", line)))
        shared = words & erased
        if any(message and message <= words for message in messages):
            return True
        if remaining:
            return bool(shared)
        return bool(shared) and (2 * len(shared) >= len(words) or any(map(_LONG_NUMBER.search, shared)))

    return repeats


_CITED = re.compile(r" \[(?:\d{4}-\d\d-\d\d, )?message \d+\]$")
_LONG_NUMBER = re.compile(r"\d{3}")
