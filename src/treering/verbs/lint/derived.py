"""Objects that repeat sentences of erased content.

Objects that Treering derived from files are erased, too; others are listed in the receipt.

Derived objects are written again without these sentences, under new ids, because an erased object has no revisions.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from treering.core.characters import texts_in
from treering.core.errors import TreeringError
from treering.core.filters import And, Compare
from treering.core.objects import Node, Object, Source
from treering.core.patch import AddLink, Create, Link, Operation, Update
from treering.core.writing.integrity import fields_naming, rename_references
from treering.ports.ledger import Selection
from treering.ports.passages import Reach
from treering.retrieval.index.passages import passages_of
from treering.verbs.crystallize.submission import new_patch
from treering.verbs.engine import Engine
from treering.verbs.ingest.copied import copies_from, derived_without, sentences_of
from treering.verbs.ingest.erased import MIN_CHARS, passages_with, root_of

MAX_SENTENCES = 2_000
"""Sentences that are searched in other objects, at about a millisecond each."""
_REASON = "Written again without erased content."


@dataclass(slots=True)
class Derived:
    """Derived objects that copied erased sentences, and the objects that replace them."""

    before: list[Object] = field(default_factory=list)
    after: dict[str, Source | Node] = field(default_factory=dict)
    """By old id. Objects that were archived are not written again."""
    links: list[Link] = field(default_factory=list)
    sentences: list[str] = field(default_factory=list)
    """The copied sentences, as the derived objects contain them."""

    @property
    def new_ids(self) -> dict[str, str]:
        """The new ids by old id."""
        return {old: new.id for old, new in self.after.items()}


def derived_from(engine: Engine, texts: Sequence[str], *, gone: Sequence[Object]) -> Derived:
    """Return the derived objects that copied sentences of texts in any revision, except those `gone` anyway."""
    derived, ids = Derived(), {item.id for item in gone}
    is_copied = copies_from(texts)
    for item in _derived_objects(engine, gone) if texts else ():
        copied = [one for one in sentences_of(_texts_of(engine, item)) if is_copied(one)]
        if copied and item.id not in ids:
            derived.sentences += copied
            derived.before.append(item)
            if item.status == "active":
                derived.after[item.id] = derived_without(item, is_copied, engine.clock)
    new, erased = derived.new_ids, ids.union(item.id for item in derived.before)
    links = {link for item in derived.before for link in engine.ledger.links(item.id)}
    derived.links = [
        Link(type=one.type, source=new.get(one.source, one.source), target=new.get(one.target, one.target))
        for one in links
        if (erased - new.keys()).isdisjoint((one.source, one.target))
    ]
    return derived


def write_again(engine: Engine, derived: Derived) -> tuple[str, ...]:
    """Write the replacements of derived objects, in their channel; describe what could not be written.

    This is a patch of its own, because the channel of the erasure may be trusted more.
    """
    channels = dict.fromkeys(item.origin_channel for item in derived.after.values())
    try:
        for channel in channels:
            own = [Create(object=item) for item in derived.after.values() if item.origin_channel == channel]
            author = engine.author.model_copy(update={"channel": channel})
            engine.ledger.commit(new_patch(engine, own, author=author, reason=_REASON).value)
        again: list[Operation] = [AddLink(link=link) for link in derived.links]
        again += _renaming(engine, derived.new_ids)
        if again:
            engine.ledger.commit(new_patch(engine, again, author=engine.author, reason=_REASON).value)
    except TreeringError as error:
        return (f"the repository map: it is missing until the repository is read again ({error.message})",)
    return ()


@dataclass(frozen=True, slots=True)
class RepeatedSentences:
    """Objects that repeat erased sentences, and a note about sentences that were not searched."""

    ids: frozenset[str] = frozenset()
    unsearched: tuple[str, ...] = ()


def repeated_sentences(engine: Engine, texts: Sequence[str], citing: Collection[str]) -> RepeatedSentences:
    """Search current objects, and the knowledge that cited erased content, for its sentences."""
    is_copied = copies_from(texts)
    items = (engine.ledger.get(identity) for identity in engine.ledger.heads(citing))
    ids = {item.id for item in items if any(map(is_copied, sentences_of(_passages(item))))}
    sentences = [one for one in sentences_of(texts) if len(one) >= MIN_CHARS]
    for sentence in sentences[:MAX_SENTENCES]:
        hits = passages_with(engine.index, sentence, Reach("/", descend=True))
        ids |= {hit.object_id for hit in hits or ()}
    left = len(sentences) - MAX_SENTENCES
    note = f"other objects with one of the last {left} sentences, which were not searched"
    return RepeatedSentences(frozenset(ids), (note,) if left > 0 else ())


def _passages(item: Object) -> Iterator[str]:
    yield from (text for passage in passages_of(item) for text in (passage.title, passage.text))


def _renaming(engine: Engine, new_ids: Mapping[str, str]) -> Iterator[Update]:
    """Yield updates of the objects that refer to derived objects, except as evidence."""
    referrers = sorted({one for old in new_ids for one in engine.ledger.referrers(old)})
    for identity in engine.ledger.heads(referrers):
        item = engine.ledger.get(identity)
        renamed = rename_references(item, new_ids)
        names = [name for name in fields_naming(item, new_ids) if getattr(renamed, name) != getattr(item, name)]
        if names:
            changes = {name: getattr(renamed, name) for name in names}
            yield Update(id=item.id, expected_revision=item.revision, changes=changes)


def _derived_objects(engine: Engine, gone: Sequence[Object]) -> Iterator[Source | Node]:
    """Yield the maps of the repositories of erased files, and the nodes that adapters made from files."""
    roots = tuple({root_of(one.origin) for one in gone if isinstance(one, Source) and one.origin_channel == "adapter"})
    if not roots:
        return
    where = And((Compare("kind", "eq", "repo"), Compare("origin", "in", roots)))
    maps = engine.ledger.select(Selection(descend=True, types=("source",), where=where))
    nodes = engine.ledger.select(Selection(descend=True, types=("node",), where=Compare("channel", "eq", "adapter")))
    yield from (one for one in maps if isinstance(one, Source) and one.content_type == "repo_map")
    yield from (one for one in nodes if isinstance(one, Node))


def _texts_of(engine: Engine, item: Object) -> Iterator[str]:
    """Yield the texts of all revisions of a derived object."""
    for one in engine.ledger.history(item.id) if item.revision > 1 else [item]:
        yield from _passages(one)
        yield from texts_in(one.payload) if isinstance(one, Source) else ()
