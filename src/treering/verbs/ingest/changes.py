"""Conversion of readings to the operations of a patch."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from treering.core.cited_lines import lines_in_source, segments_on
from treering.core.errors import InvalidInput
from treering.core.evidence import EvidenceRef, Segment, any_place_holds, extended
from treering.core.evidence import united as all_united
from treering.core.objects import Knowledge, Node, Source, invalid_fields
from treering.core.patch import AddLink, Create, Link, Operation, Receipt, Transition, Update
from treering.core.versions import SEVERAL, HeldContents
from treering.ports.adapter import BranchRead, KnowledgeDraft, NodeDraft, SourceDraft
from treering.ports.ledger import SourceState
from treering.ports.runtime import Clock, fresh_id, fresh_salt, fresh_segment_id
from treering.verbs.ingest.branches import (
    branch_payload,
    cites_new_lines,
    contents_here,
    read_of,
    restricted,
    united,
    versions_after,
    versions_without,
    with_branches_of,
    with_losses,
)
from treering.verbs.ingest.known import (
    DuplicateSources,
    KnownSources,
    divergence,
    duplicates_of,
    is_dated,
    is_live,
    is_undated,
    reason_to_skip,
    repointed,
)
from treering.verbs.ingest.report import ItemResult
from treering.verbs.ingest.segments import Carried, carry, first_segments, moved_refs
from treering.verbs.ingest.transcripts import continued, is_transcript


@dataclass(frozen=True, slots=True)
class SourceToWrite:
    """A new or changed source. `earlier` are its previous origins."""

    draft: SourceDraft
    earlier: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceRenamed:
    """An unchanged source with a new origin. `earlier` are its previous origins."""

    origin: str
    earlier: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SourceGone:
    """An origin that no longer exists, or not on the branch being read."""

    origin: str


@dataclass(frozen=True, slots=True)
class SourceOnBranch:
    """A source whose contents on the branch being read are already stored for another branch."""

    origin: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class BranchesGone:
    """A source with contents on deleted branches."""

    origin: str
    branches: frozenset[str]


Item = SourceToWrite | SourceRenamed | SourceGone | SourceOnBranch | BranchesGone


def origins_of(item: Item) -> tuple[str, ...]:
    """Return the origins of an item."""
    match item:
        case SourceToWrite(draft, earlier):
            return (draft.origin, *earlier)
        case SourceRenamed(origin, earlier):
            return (origin, *earlier)
        case SourceGone(origin) | SourceOnBranch(origin, _) | BranchesGone(origin, _):
            return (origin,)


class SourceChanges:
    """The operations for some items, compared with the current ledger.

    Raises `InvalidInput` for a draft that breaks a rule of the objects. Create it again if the ledger changed; nothing
    is reused.
    """

    def __init__(
        self,
        items: Iterable[Item],
        *,
        known_sources: KnownSources,
        scope: str,
        clock: Clock,
        branches: Sequence[BranchRead] = (),
    ) -> None:
        self._branches = branches
        self._known_sources = known_sources
        self._scope = scope
        self._clock = clock
        self._now = clock.now()
        self._operations: list[Operation] = []
        self._nodes: dict[str, str] = {}
        self._evidence: dict[str, Knowledge] = {}
        self._archived: set[str] = set()
        self.renamed: dict[str, str] = {}
        """By id of a source whose file is another source on the branch now, such as a renamed one, the id of that."""
        self.lost: list[str] = []
        """Ids of knowledge that lost its support on the branch being read."""
        self.partly_lost: list[str] = []
        """Ids of knowledge that lost evidence on all branches; other evidence may still support it."""
        try:
            self.results: list[ItemResult] = [self._take(item) for item in items]
        except ValidationError as error:
            raise invalid_fields(error) from error

    def operations(self) -> tuple[Operation, ...]:
        """Return all operations. Evidence comes last, because it cites segments of the earlier operations."""
        moved = [
            Update(id=item.id, expected_revision=item.revision, changes={"evidence_refs": item.evidence_refs})
            for item in self._evidence.values()
        ]
        return (*self._operations, *moved)

    def nodes_after(self, receipt: Receipt) -> list[Node] | None:
        """Return the nodes created by a commit of the operations, or `None` if it changed other nodes."""
        created = []
        for operation, result in zip(self._operations, receipt.results, strict=False):
            match operation:
                case Create(object=Node() as node) if result.outcome == "created":
                    created.append(node)
                case Create(object=Node()):
                    return None
                case Update(id=identity) | Transition(id=identity) if identity in self._nodes.values():
                    return None
                case _:
                    continue
        return created

    def _take(self, item: Item) -> ItemResult:
        match item:
            case SourceToWrite(draft, earlier):
                return self._upsert(draft, earlier)
            case SourceRenamed(origin, earlier):
                return self._rename(origin, earlier)
            case SourceGone(origin):
                return self._archive(origin)
            case SourceOnBranch(origin, fingerprint):
                return self._add_branch(origin, fingerprint)
            case BranchesGone(origin, branches):
                return self._remove_branches(origin, branches)

    def _upsert(self, draft: SourceDraft, earlier: tuple[str, ...]) -> ItemResult:
        here = self._known_sources.source(draft.origin)
        read = read_of(draft.origin, self._branches)
        if here and contents_here(here.fingerprint, read) == draft.fingerprint and not earlier:
            return ItemResult(origin=draft.origin, outcome="unchanged", source_id=here.id)
        if here and is_dated(draft) and (reason := reason_to_skip(self._known_sources.whole(here.id), draft)):
            return ItemResult(origin=draft.origin, outcome="skipped", source_id=here.id, why=reason)
        self._bring_nodes(draft.nodes)
        elsewhere = [name for name in earlier if self._is_on_other_branch(name)]
        before = [self._archive(name).source_id for name in elsewhere]
        earlier = tuple(name for name in earlier if name not in elsewhere)
        duplicates = duplicates_of(draft.origin, earlier, self._known_sources, is_moved=read is not None)
        if duplicates is None:
            created = self._create(draft)
            self.renamed |= dict.fromkeys(before, created)
            return ItemResult(origin=draft.origin, outcome="created", source_id=created)
        self.renamed |= dict.fromkeys((*before, *(one.id for one in duplicates.folded)), duplicates.kept.id)
        self._operations += duplicates.archiving()
        parted, segments = self._update(draft, duplicates.kept, duplicates.folded)
        self._repoint(duplicates, segments)
        why = "; ".join(filter(None, [parted, duplicates.note()]))
        if here and here.id == duplicates.kept.id and not duplicates.folded:
            return ItemResult(origin=draft.origin, outcome="updated", source_id=here.id, why=why)
        return _moved(draft.origin, duplicates, why)

    def _rename(self, origin: str, earlier: tuple[str, ...]) -> ItemResult:
        duplicates = duplicates_of(origin, earlier, self._known_sources)
        if duplicates is None:
            return ItemResult(origin=origin, outcome="unchanged")
        here, kept = self._known_sources.source(origin), duplicates.kept
        self.renamed |= dict.fromkeys((one.id for one in duplicates.folded), kept.id)
        self._operations += duplicates.archiving()
        if here is None or here.id != kept.id:
            self._operations.append(Update(id=kept.id, expected_revision=kept.revision, changes={"origin": origin}))
        elif not duplicates.folded:
            return ItemResult(origin=origin, outcome="unchanged", source_id=kept.id, why=duplicates.note())
        if duplicates.folded:
            self._repoint(duplicates, self._known_sources.whole(kept.id).segments)
        return _moved(origin, duplicates, duplicates.note())

    def _repoint(self, duplicates: DuplicateSources, segments: Sequence[Segment]) -> None:
        """Move the evidence of candidates from the folded sources to the remaining one.

        Other knowledge has evidence in both, and follows with the authority of the caller (`follow_renames`).
        """
        for state in duplicates.folded:
            folded = self._known_sources.whole(state.id)
            candidates = (one for one in self._known_sources.citing(state.id) if one.status == "candidate")
            for item in candidates:
                refs = self._evidence.get(item.id, item).evidence_refs
                moved = repointed(refs, folded, duplicates.kept.id, segments)
                if moved != refs:
                    self._evidence[item.id] = item.model_copy(update={"evidence_refs": moved})

    def _archive(self, origin: str) -> ItemResult:
        state = self._known_sources.source(origin)
        if state is None:
            return ItemResult(origin=origin, outcome="unchanged")
        read = read_of(origin, self._branches)
        left = versions_after(state.fingerprint, read, None) if read else HeldContents(())
        if left.each:
            self._restrict(state, left)
            return ItemResult(origin=origin, outcome="removed", source_id=state.id, why=_elsewhere(left))
        self._operations.append(Transition(id=state.id, expected_revision=state.revision, to="archived"))
        if read and (citing := [*filter(is_live, self._known_sources.citing(state.id))]):
            before = self._known_sources.whole(state.id)
            for item in citing:
                self._follow(item, before, Carried(before.segments, frozenset()), (), HeldContents(()))
        return ItemResult(origin=origin, outcome="removed", source_id=state.id)

    def _is_on_other_branch(self, origin: str) -> bool:
        """Return whether a source is also on a branch other than the one being read."""
        state, read = self._known_sources.source(origin), read_of(origin, self._branches)
        return bool(state and read and versions_after(state.fingerprint, read, None).each)

    def _add_branch(self, origin: str, contents: str) -> ItemResult:
        state = self._known_sources.source(origin)
        if state is None:
            return ItemResult(origin=origin, outcome="unchanged")
        self._restrict(state, versions_after(state.fingerprint, read_of(origin, self._branches), contents))
        return ItemResult(origin=origin, outcome="updated", source_id=state.id)

    def _remove_branches(self, origin: str, branches: frozenset[str]) -> ItemResult:
        state, read = self._known_sources.source(origin), read_of(origin, self._branches)
        if state is None or read is None:
            return ItemResult(origin=origin, outcome="unchanged")
        left = versions_without(state.fingerprint, read, branches)
        payload = branch_payload(read, branches) if origin == read.root else {}
        if left.each:
            self._restrict(state, left, **payload)
            return ItemResult(origin=origin, outcome="updated", source_id=state.id)
        self._operations.append(Transition(id=state.id, expected_revision=state.revision, to="archived"))
        return ItemResult(origin=origin, outcome="removed", source_id=state.id)

    def _restrict(self, state: SourceState, versions: HeldContents, **payload: Any) -> None:
        """Restrict a source to these contents, and move evidence accordingly."""
        before = self._known_sources.whole(state.id)
        left = restricted(before, versions)
        fields = {"fingerprint": versions.text, "segments": left.segments, "payload": {**before.payload, **payload}}
        self._change(before, state.revision, fields)
        here = segments_on(left.segments, contents_here(versions.text, read_of(before.origin, self._branches)))
        for item in filter(is_live, self._known_sources.citing(state.id)):
            self._follow(item, before, left, here, versions)

    def _create(self, draft: SourceDraft) -> str:
        stamps, read = self._stamps("source"), read_of(draft.origin, self._branches)
        segments = first_segments(draft.segments, salt=stamps["salt"], new_id=self._segment_id)
        fields = self._fields(draft, versions_after(None, read, draft.fingerprint))
        source = Source(**stamps, **fields, segments=segments)
        self._operations.append(Create(object=source))
        if read and (before := self._known_sources.archived(draft.origin)):
            self.renamed[before] = source.id  # a removed file is back, as after a revert
        for known in draft.knowledge:
            self._state(self._claim(known, source.id, segments))
        return source.id

    def _update(
        self, draft: SourceDraft, state: SourceState, folded: Sequence[SourceState] = ()
    ) -> tuple[str, Sequence[Segment]]:
        """Update a source; return where its turns diverge from the stored ones, if they do, and its segments."""
        before = self._known_sources.whole(state.id)
        citing = self._known_sources.citing(state.id)
        read = read_of(draft.origin, self._branches)
        is_merged = read is None and is_transcript(draft.kind, draft.metadata)
        draft, parted = continued(before, draft) if is_merged else (draft, "")
        named = {ref.segment_id for item in citing if is_live(item) for ref in item.evidence_refs}
        carried = carry(before.segments, draft.segments, named=named, salt=before.salt, new_id=self._segment_id)
        versions = versions_after(state.fingerprint, read, draft.fingerprint)
        if read:
            for one in folded:
                versions = with_branches_of(versions, one.fingerprint, read)
        read_now = carried.segments
        if len(versions.each) > 1 or before.fingerprint.startswith(SEVERAL):
            carried = united(before, carried, versions, draft.fingerprint)
        self._change(before, state.revision, {**self._fields(draft, versions, before), "segments": carried.segments})
        for item in filter(is_live, citing):
            self._follow(item, before, carried, read_now, versions)
        # An invalid source is updated, but states nothing.
        claims = draft.knowledge if state.status == "active" else ()
        stated = _by_meaning(citing) if claims else {}
        for known in claims:
            claim = self._claim(known, state.id, read_now)
            stored = stated.get(claim.duplicate_key())
            if stored and is_live(stored):
                self._restate(stored, claim.evidence_refs[0], gone=carried.gone)
            elif stored is None or not self._known_sources.was_rejected(stored):
                self._state(claim)
        if not is_merged:
            parted = divergence(before.segments, draft.segments, gone=carried.gone)
        return parted, carried.segments

    def _fields(self, draft: SourceDraft, versions: HeldContents, before: Source | None = None) -> dict[str, Any]:
        """Return the fields of a source. If it represents other contents than those read, most stay unchanged."""
        read = read_of(draft.origin, self._branches)
        payload = branch_payload(read, drawn=draft.payload) if read and draft.origin == read.root else {}
        if before and versions.fingerprints[0] != draft.fingerprint:
            return {"origin": draft.origin, "fingerprint": versions.text, "payload": {**before.payload, **payload}}
        return {
            "kind": draft.kind,
            "origin": draft.origin,
            "title": draft.title,
            "fingerprint": versions.text,
            "content_type": draft.content_type,
            "payload": {**draft.payload, **payload},
            "metadata": dict(draft.metadata),
            "captured_at": draft.captured_at or self._now,
        }

    def _claim(self, known: KnowledgeDraft, source_id: str, segments: Sequence[Segment]) -> Knowledge:
        if not 0 <= known.segment < len(segments):
            raise InvalidInput(
                f"The adapter puts {known.title!r} in segment {known.segment}, but there are only {len(segments)}.",
                hint="Report this to the author of the adapter.",
            )
        about = self._node_id(known.about)
        fields: dict[str, Any] = {"kind": known.kind, "payload": dict(known.payload)}
        return Knowledge(
            **self._stamps("knowledge"),
            title=known.title,
            summary=known.summary,
            confidence=known.confidence,
            memory_source="imported" if known.imported else "system_generated",
            subject_refs=(about,) if about else (),
            evidence_refs=(EvidenceRef(source_id=source_id, segment_id=segments[known.segment].segment_id),),
            **fields,
        )

    def _state(self, claim: Knowledge) -> None:
        """Propose a statement of a source. The ledger merges it into the same knowledge from elsewhere.

        If stale knowledge is stated again, it becomes a new candidate, because no one has verified it since. The stale
        knowledge is archived, so that the ledger does not merge the new one into it.
        """
        followed = [item for item in self._known_sources.stale(claim) if item.id not in self._archived]
        self._operations += [
            Transition(id=item.id, expected_revision=item.revision, to="archived") for item in followed
        ]
        self._archived.update(item.id for item in followed)
        self._operations.append(Create(object=claim))
        self._operations += [_link("follows", claim.id, item.id) for item in followed]

    def _restate(self, item: Knowledge, ref: EvidenceRef, *, gone: frozenset[str]) -> None:
        """Move evidence of a statement that is still in the source from removed segments to its current segment."""
        refs = self._evidence.get(item.id, item).evidence_refs
        remaining = tuple(
            one for one in refs if (one.source_id, one.role) != (ref.source_id, ref.role) or one.segment_id not in gone
        )
        now = extended(remaining, [ref])
        if now != refs:
            self._evidence[item.id] = item.model_copy(update={"evidence_refs": now})

    def _follow(
        self, item: Knowledge, before: Source, carried: Carried, here: Sequence[Segment], versions: HeldContents
    ) -> None:
        """Move evidence from removed segments to the segments that contain the same lines now.

        Evidence in segments that are only gone on the branch being read stays, and is added there. `here` are the
        segments on that branch, `versions` the contents of the source now.
        """
        item = self._evidence.get(item.id, item)
        moved = self._with_lines_back(item, before, carried)
        refs = {ref.key: ref for ref in moved}
        if elsewhere := {part.segment_id for part in carried.segments} - {segment.segment_id for segment in here}:
            item_now = item.model_copy(update={"evidence_refs": moved})
            refs |= {ref.key: ref for ref in moved_refs(item_now, before, here, gone=frozenset(elsewhere))}
        now = tuple(({one.key: one for one in item.evidence_refs if one.key in refs} | refs).values())
        if read := read_of(before.origin, self._branches):
            now = with_losses(now, before, carried.segments, versions, read)
            if cites_new_lines(item.evidence_refs, before, here, read):
                remaining = {segment.segment_id for segment in carried.segments}
                now = tuple(one for one in now if one.source_id != before.id or one.segment_id in remaining)
            lost_before = {one.key for one in item.evidence_refs if read.branch in one.lost_on}
            lost_now = {one.key for one in now if read.branch in one.lost_on}
            if lost_now - lost_before and not self._any_place_is_here(now, before, carried, here):
                self.lost.append(item.id)
        if any(ref.source_id == before.id and ref.segment_id in carried.gone for ref in now):
            self.partly_lost.append(item.id)
            if item.is_only_read:  # it was read from other lines too, which remain
                now = (
                    tuple(ref for ref in now if ref.source_id != before.id or ref.segment_id not in carried.gone) or now
                )
        if now != item.evidence_refs:
            self._evidence[item.id] = item.model_copy(update={"evidence_refs": now})

    def _any_place_is_here(
        self, refs: Sequence[EvidenceRef], before: Source, carried: Carried, here: Sequence[Segment]
    ) -> bool:
        """Return whether a place of evidence is on the branch being read, each part in any of the cited segments."""
        segments = {one.segment_id: one for one in (*before.segments, *carried.segments)}
        left = {segment.segment_id for segment in here}
        quotes = {
            ref.key: ref.quote(segments[ref.segment_id])
            for ref in refs
            if ref.source_id == before.id and ref.segment_id in segments
        }
        quotes_here = {quote for key, quote in quotes.items() if key[1] in left}
        return any_place_holds(
            refs, lambda ref: quotes.get(ref.key) in quotes_here if ref.source_id == before.id else self._is_here(ref)
        )

    def _with_lines_back(self, item: Knowledge, before: Source, carried: Carried) -> tuple[EvidenceRef, ...]:
        """Return evidence moved from removed segments, also from earlier removed ones whose lines are back."""
        earlier = {one.segment_id for one in before.segments} | {one.segment_id for one in carried.segments}
        moved: list[EvidenceRef] = []
        for ref in moved_refs(item, before, carried.segments, gone=carried.gone):
            is_lost = ref.source_id == before.id and ref.segment_id not in earlier
            cited = self._known_sources.removed_segment(ref) if is_lost else None
            moved += (lines_in_source(ref, cited, before.id, carried.segments) if cited else ()) or [ref]
        return all_united(moved)

    def _is_here(self, ref: EvidenceRef) -> bool:
        """Return whether a file is on the branch being read; other sources always are."""
        head = self._known_sources.head(ref.source_id)
        read = read_of(head.origin, self._branches) if head else None
        return head is not None and head.status == "active" and contents_here(head.fingerprint, read) is not None

    def _bring_nodes(self, drafts: Sequence[NodeDraft]) -> None:
        for draft in drafts:
            if f"{draft.kind}:{draft.slug}" not in self._nodes:
                self._bring_node(draft)
        for draft in drafts:
            node, whole = self._node_id(f"{draft.kind}:{draft.slug}"), self._node_id(draft.part_of)
            if node and whole and node != whole:
                self._operations.append(_link("part_of", node, whole))

    def _bring_node(self, draft: NodeDraft) -> None:
        key = f"{draft.kind}:{draft.slug}"
        known = self._known_sources.node(key)
        departed = None if known else self._known_sources.departed_node(key)
        match known or departed:
            case None:
                node = self._node(draft)
                self._nodes[key] = node.id
                self._operations.append(Create(object=node))
            case Node(merged_into=str(into)):
                self._nodes[key] = into
            case Node(status="active") as node:
                self._nodes[key] = node.id
                self._renew_node(node, draft)
            case Node() as node if self._known_sources.was_archived_by_adapter(node):
                self._nodes[key] = node.id
                self._operations.append(Transition(id=node.id, expected_revision=node.revision, to="active"))
                self._renew_node(node.model_copy(update={"revision": node.revision + 1}), draft)
            case _:
                return  # a person or an agent archived it

    def _change(self, item: Source | Node, revision: int, fields: Mapping[str, Any]) -> None:
        changes = {name: value for name, value in fields.items() if value != getattr(item, name)}
        if changes:
            self._operations.append(Update(id=item.id, expected_revision=revision, changes=changes))

    def _renew_node(self, known: Node, draft: NodeDraft) -> None:
        names = (draft.name, *draft.aliases)
        fields: dict[str, Any] = {
            "aliases": tuple(dict.fromkeys([*known.aliases, *(name for name in names if name != known.name)]))
        }
        # A summary written by a person or an agent is not changed.
        if draft.summary and draft.summary != known.summary and self._known_sources.is_untouched(known):
            fields["summary"] = draft.summary
        self._change(known, known.revision, fields)

    def _node(self, draft: NodeDraft) -> Node:
        kind: Any = draft.kind
        return Node(
            **self._stamps("node"),
            name=draft.name,
            slug=draft.slug,
            summary=draft.summary,
            aliases=draft.aliases,
            kind=kind,
        )

    def _node_id(self, key: str | None) -> str | None:
        if key is None or key in self._nodes:
            return self._nodes.get(key or "")
        known = self._known_sources.node(key)
        return known.id if known else None

    def _stamps(self, kind: str) -> dict[str, Any]:
        """Return the id, scope, times and salt of a new object."""
        times = {"created_at": self._now, "updated_at": self._now}
        return {"id": fresh_id(kind, self._clock), "scope": self._scope, "salt": fresh_salt(self._clock), **times}

    def _segment_id(self) -> str:
        return fresh_segment_id(self._clock)


def _elsewhere(left: HeldContents) -> str:
    names = left.branches_of(left.fingerprints) or ()
    return f"it still exists on {', '.join(names)}"


def _moved(origin: str, duplicates: DuplicateSources, why: str) -> ItemResult:
    return ItemResult(
        origin=origin, outcome="moved", source_id=duplicates.kept.id, moved_from=duplicates.before, why=why
    )


def _by_meaning(items: Iterable[Knowledge]) -> Mapping[str, Knowledge]:
    """Return undated knowledge by content: live before stale before other knowledge, newest first."""
    ranked = sorted(filter(is_undated, items), key=lambda item: (is_live(item), item.status == "stale", item.id))
    return {item.duplicate_key(): item for item in ranked}


def _link(kind: Any, source: str, target: str) -> AddLink:
    return AddLink(link=Link(type=kind, source=source, target=target))
