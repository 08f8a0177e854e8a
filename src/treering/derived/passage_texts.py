"""The texts of passages by key, for engines that search texts instead of vectors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from treering.derived.passages import passages_of
from treering.ports.ledger import Ledger, ObjectRequest, ObjectsFound
from treering.ports.passages import PassageHead, PassageRequest, Passages


@dataclass(frozen=True, slots=True)
class PassageText:
    """The text of a passage, and which object it is of."""

    object_id: str
    title: str
    text: str


class PassageTexts:
    """Reads the texts of passages from a space. What is gone meanwhile is left out."""

    def __init__(self, passages: Passages, ledger: Ledger) -> None:
        self._passages = passages
        self._ledger = ledger

    def __call__(self, keys: Sequence[int]) -> Mapping[int, PassageText]:
        """Return the texts of passages, by key."""
        if not keys:
            return {}
        (found,) = self._passages.read([PassageRequest(keys=tuple(keys))])
        heads = [found.heads[key] for key in keys if key in found.heads]
        asked = ObjectRequest(
            objects=tuple(dict.fromkeys(head.object_id for head in heads if not head.part)),
            segments=tuple((head.object_id, head.part) for head in heads if head.part),
        )
        (read,) = self._ledger.read([asked])
        texts = ((head, _text(head, read)) for head in heads)
        return {head.key: PassageText(head.object_id, head.title, text) for head, text in texts if text is not None}


def _text(head: PassageHead, read: ObjectsFound) -> str | None:
    if head.part:
        segment = read.segments.get((head.object_id, head.part))
        return segment.excerpt if segment else None
    item = read.objects.get(head.object_id)
    return passages_of(item)[0].text if item else None
