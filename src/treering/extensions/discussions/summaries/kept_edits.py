"""A person's edits of the state document, which stay if the versions that contain them are erased."""

import re
from collections.abc import Collection, Sequence

from treering.core.errors import NotFound
from treering.core.objects import Source
from treering.extensions.discussions.identity import DiscussionRef, ref_of
from treering.extensions.discussions.log.deleting import erase_messages
from treering.extensions.discussions.log.message_log import MessageLog
from treering.extensions.discussions.log.snapshot import LogSnapshot
from treering.extensions.discussions.summaries.lines import with_manual_lines
from treering.extensions.discussions.summaries.versions import Versions, memory_source_of
from treering.retrieval.text.analysis import content_words
from treering.verbs.engine import Engine
from treering.verbs.lint.erasure import ErasureReceipt


def erase_turns(
    engine: Engine, sources: Sequence[Source], positions: Collection[int], reason: str
) -> ErasureReceipt | None:
    """Erase the messages at some positions of the discussion with these sources; `None` if it is not a discussion.

    Raises the errors of `erase_messages`, and `NotFound` if the sources are earlier versions of the discussion.
    """
    ref = ref_of(sources[0])
    if ref is None:
        return None
    current = {head.source_id for head in LogSnapshot.of(engine.ledger, ref).heads}
    if not current.issuperset(source.id for source in sources):
        raise NotFound(f"The messages of discussion {ref.id} changed.", hint="Search again, and give the new hit.")
    return erase_messages(engine, ref, positions, reason=reason, keep=keep_edits).receipt


def keep_edits(engine: Engine, ref: DiscussionRef, texts: Sequence[str], erased: Collection[str]) -> int:
    """Store the edits again if their version will be erased; return the number of added lines that are lost.

    `texts`: the erased messages, which are deleted already. A line is lost if it contains all words of one of them,
    or a word that no other message contains.
    """
    versions = Versions(engine, ref, "state_document")
    state, known = versions.state(), versions.all()
    if not (state.by_hand or state.struck_by_hand) or known[-1].id not in erased:
        return 0
    messages = [frozenset(content_words(text)) for text in texts]
    others = {word for message in MessageLog(engine, ref).read() for word in content_words(message.text)}

    def stays(line: str) -> bool:
        words = frozenset(content_words(_CITED.sub("", line)))
        return not any(words & message - others or (message and message <= words) for message in messages)

    by_hand, struck = [*filter(stays, state.by_hand)], [*filter(stays, state.struck_by_hand)]
    lost = [line for line in state.by_hand if line not in by_hand]
    # The headings are the places of the lines.
    newest = known[-1].text.splitlines()
    places = "\n".join(line for line in newest if line.strip() in by_hand or (line.startswith("#") and stays(line)))
    text = state.current.text if state.current else places
    versions.write(
        with_manual_lines(text, places, written=by_hand, struck=[*struck, *lost]),
        after=state.current,
        last=state.current.last if state.current else -1,
        made_by=known[-1].made_by,
        by_hand=by_hand,
        struck_by_hand=struck,
        memory_source=memory_source_of(engine.author) if known[-1].by_person else "system_generated",
    )
    return len(lost)


_CITED = re.compile(r" \[(?:\d{4}-\d\d-\d\d, )?message \d+\]$")
