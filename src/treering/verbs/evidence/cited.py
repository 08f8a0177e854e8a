"""The places that knowledge is based on."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from treering.core.declarations import is_declaration
from treering.core.errors import NotFound
from treering.core.evidence import EvidenceRef, Lines, Segment, place_today, short_place
from treering.core.objects import Knowledge, Object, Source
from treering.core.versions import TreeView
from treering.ports.ledger import Ledger
from treering.verbs.scoped_ledger import ScopedLedger, item_in_tree, on_all_branches


def cited_places(ledger: Ledger, item: Object) -> tuple[str, ...]:
    """Return the places an object is based on as people type them, such as `README.md:5-11`, each once.

    Evidence that was erased is left out.
    """
    return tuple(cited_words(ledger, item, ledger.tree if isinstance(ledger, ScopedLedger) else None))


def first_places(
    ledger: Ledger, items: Iterable[Object | None], distance: Callable[[EvidenceRef], int] = lambda _: 0
) -> dict[str, str]:
    """Return by id the first lines of a file that knowledge cites, such as `README.md:5-11`, with one read for all.

    `distance`: the order of the evidence of one object, nearest first.
    """
    refs = [(item.id, ref) for item in items if isinstance(item, Knowledge) for ref in item.evidence_refs]
    refs.sort(key=lambda one: distance(one[1]))
    supporting = [(identity, ref) for identity, ref in refs if ref.role == "supports"]
    cited = [(ref.source_id, ref.segment_id) for _, ref in supporting]
    segments = ledger.segments(cited, altered={}) if cited else {}
    places: dict[str, str] = {}
    for identity, ref in supporting:
        segment = segments.get((ref.source_id, ref.segment_id))
        if segment and isinstance(place := ref.locator(segment), Lines):
            places.setdefault(identity, short_place(place.cite()))
    return places


def cited_words(ledger: Ledger, item: Object, tree: TreeView | None = None) -> Mapping[str, str]:
    """Return the cited words by their place in a tree; see `cited_places`. Withheld words are empty."""
    refs = _refs(ledger, item, tree)
    withheld = {source.place_of_withheld: "" for ref, source in refs if source.withholds(ref.segment_id)}
    return {place: words for place, words, _, _ in _cited(ledger, refs, tree)} | withheld


def lost_places(
    ledger: Ledger, item: Object, tree: TreeView | None = None, path_now: Callable[[str], str] | None = None
) -> tuple[str, ...]:
    """Return the current state of the places an object was based on, such as `README.md:5-11 changed`, each once.

    `tree`: the tree in which they are looked up; without one, all branches. `path_now` returns the path that a file
    which is not in the tree was renamed to, or "".
    """
    lost: dict[str, None] = {}
    for place, _, cited, segment in _cited(ledger, _refs(ledger, item, tree), tree):
        source = source_today(ledger, cited)
        here = item_in_tree(source, tree) if source.status == "active" else None
        if here is None and tree and tree.changed.get(tree.path(source.origin)):
            continue  # the file of a branch that was not read
        if not isinstance(here, Source):
            now = path_now(tree.path(source.origin)) if path_now and tree and tree.has(source.origin) else ""
            lost[f"{place} removed{f', the file was renamed to {now}' if now else ''}"] = None
        elif segment.segment_id not in {one.segment_id for one in here.segments}:
            lost[f"{place} changed"] = None
    return tuple(lost)


def source_today(ledger: Ledger, source: Source) -> Source:
    """Return a source or, if it is archived, the active source with its origin.

    A sync archives one of two sources that copies of a space had read from the same file.
    """
    if source.status == "archived":
        state = ledger.sources_at(scope=source.scope, origins=[source.origin]).get(source.origin)
        if state and state.status == "active":
            return _sources(ledger, [state.id]).get(state.id, source)
    return source


def _refs(ledger: Ledger, item: Object, tree: TreeView | None) -> list[tuple[EvidenceRef, Source]]:
    return refs_in_tree(ledger, item, tree) if isinstance(item, Knowledge) else []


def _cited(
    ledger: Ledger, refs: Sequence[tuple[EvidenceRef, Source]], tree: TreeView | None
) -> Iterator[tuple[str, str, Source, Segment]]:
    """Yield places with their words, sources and segments.

    If branches have the same words in different segments, only the segment in the tree is returned.
    """
    cited: list[tuple[EvidenceRef, Source, Segment, Segment | None]] = []
    # One read for all that are in their sources now; others are read one by one.
    current = on_all_branches(ledger).segments([(ref.source_id, ref.segment_id) for ref, _ in refs]) if refs else {}
    for ref, source in refs:
        with suppress(NotFound):
            place = ref.source_id, ref.segment_id
            segment = current.get(place) or ledger.segment(*place)
            contents = tree.contents(source.origin, source.fingerprint) if tree and tree.has(source.origin) else None
            cited.append((ref, source, segment, segment.in_contents(contents)))
    words_here = {(source.id, ref.quote(segment)) for ref, source, segment, here in cited if here}
    for ref, source, segment, here in cited:
        words = ref.quote(segment)
        if here or (source.id, words) not in words_here:
            yield short_place(place_today(ref.locator(here or segment), source.origin)), words, source, segment


def refs_in_tree(ledger: Ledger, item: Knowledge, tree: TreeView | None) -> list[tuple[EvidenceRef, Source]]:
    """Return the evidence of knowledge with its sources; of files only those in the tree, if any of them is.

    A file that was renamed on a branch is cited under both paths. A declaration without a place is evidence of itself:
    it is left out, and so is what was erased.
    """
    sources = _sources(ledger, {ref.source_id for ref in item.evidence_refs})
    files = {one for one, source in sources.items() if tree and tree.has(source.origin)}
    here = {one for one in files if sources[one].status == "active" and item_in_tree(sources[one], tree)}
    shown = sources.keys() - (files - here) if here else sources.keys()
    return [(ref, sources[ref.source_id]) for ref in item.evidence_refs if ref.source_id in shown]


def _sources(ledger: Ledger, ids: Iterable[str]) -> dict[str, Source]:
    sources: dict[str, Source] = {}
    for identity in ids:
        with suppress(NotFound):
            source = ledger.get(identity)
            if isinstance(source, Source) and not is_declaration(source.origin):
                sources[identity] = source
    return sources
