"""Names that an adapter found in a file, cut to what an object may hold; the text itself is kept whole."""

from collections.abc import Sequence
from dataclasses import replace

from treering.core.lengths import HEADING, NAME, TITLE, shortened
from treering.ports.adapter import KnowledgeDraft, NodeDraft, SegmentDraft, SourceDraft


def with_short_names(draft: SourceDraft) -> SourceDraft:
    """Return a draft whose titles, headings and names are no longer than they may be. They end with `…` where cut."""
    return replace(
        draft,
        title=shortened(draft.title, TITLE),
        segments=_headed(draft.segments),
        nodes=[_named(node) for node in draft.nodes],
        knowledge=[_titled(known) for known in draft.knowledge],
    )


def _headed(segments: Sequence[SegmentDraft]) -> Sequence[SegmentDraft]:
    if all(len(part.heading) <= HEADING for part in segments):
        return segments
    return [replace(part, heading=shortened(part.heading, HEADING)) for part in segments]


def _named(node: NodeDraft) -> NodeDraft:
    aliases = tuple(shortened(alias, NAME) for alias in node.aliases)
    return replace(node, name=shortened(node.name, NAME), aliases=aliases)


def _titled(known: KnowledgeDraft) -> KnowledgeDraft:
    return replace(known, title=shortened(known.title, TITLE))
