"""From what was read to the operations of the patch that brings it into the ledger."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from treering.core.errors import InvalidInput
from treering.core.evidence import EvidenceRef, Segment
from treering.core.objects import Knowledge, Node, Source, invalid_fields
from treering.core.patch import AddLink, Create, Link, Operation, Receipt, Transition, Update
from treering.core.versions import SEVERAL, HeldContents
from treering.ports.adapter import BranchRead, KnowledgeDraft, NodeDraft, SourceDraft
from treering.ports.ledger import SourceState
from treering.ports.runtime import Clock, fresh_id, fresh_salt, fresh_segment_id
from treering.verbs.ingest.branches import (
    contents_here,
    read_of,
    standing,
    told_of_branches,
    united,
    versions_after,
    versions_without,
    with_branches_of,
)
from treering.verbs.ingest.known import (
    DuplicateSources,
    KnownSources,
    divergence,
    duplicates_of,
    is_dated,
    is_live,
    is_undated,
    repointed,
    why_kept,
)
from treering.verbs.ingest.report import ItemResult
from treering.verbs.ingest.segments import Carried, carry, first_segments, moved_refs
from treering.verbs.ingest.transcripts import continued, is_transcript


@dataclass(frozen=True, slots=True)
class SourceToWrite:
    """A source as read that the ledger does not hold so yet. `earlier` are origins it had until now."""

    draft: SourceDraft
    earlier: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceRenamed:
    """A source that has another origin now, and says what it said. `earlier` are those it had until now."""

    origin: str
    earlier: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SourceGone:
    """An origin that is gone, from the branch that is read where there are several."""

    origin: str


@dataclass(frozen=True, slots=True)
class SourceStands:
    """A source that has contents on the branch that is read which the ledger holds for another branch."""

    origin: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class BranchesGone:
    """A source of a repository of which branches are gone."""

    origin: str
    branches: frozenset[str]


Item = SourceToWrite | SourceRenamed | SourceGone | SourceStands | BranchesGone


def origins_of(item: Item) -> tuple[str, ...]:
    """Return the origins an item is about."""
    match item:
        case SourceToWrite(draft, earlier):
            return (draft.origin, *earlier)
        case SourceRenamed(origin, earlier):
            return (origin, *earlier)
        case SourceGone(origin) | SourceStands(origin, _) | BranchesGone(origin, _):
            return (origin,)


class SourceChanges:
    """The operations for some items, against what the ledger holds at the moment.

    Raises `InvalidInput` for a draft that breaks a rule of the objects. Made anew where the ledger changed
    meanwhile; keeps nothing between two tries.
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
        try:
            self.results: list[ItemResult] = [self._take(item) for item in items]
        except ValidationError as error:
            raise invalid_fields(error) from error

    def operations(self) -> tuple[Operation, ...]:
        """Return all operations. Evidence comes last: it names segments that are only there by then."""
        moved = [
            Update(id=item.id, expected_revision=item.revision, changes={"evidence_refs": item.evidence_refs})
            for item in self._evidence.values()
        ]
        return (*self._operations, *moved)

    def nodes_after(self, receipt: Receipt) -> list[Node] | None:
        """Return the nodes a commit of the operations created, or `None` where it changed nodes otherwise."""
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
                return self._arrive(draft, earlier)
            case SourceRenamed(origin, earlier):
                return self._rename(origin, earlier)
            case SourceGone(origin):
                return self._depart(origin)
            case SourceStands(origin, fingerprint):
                return self._stand(origin, fingerprint)
            case BranchesGone(origin, branches):
                return self._lose(origin, branches)

    def _arrive(self, draft: SourceDraft, earlier: tuple[str, ...]) -> ItemResult:
        here = self._known_sources.source(draft.origin)
        read = read_of(draft.origin, self._branches)
        if here and contents_here(here.fingerprint, read) == draft.fingerprint and not earlier:
            return ItemResult(origin=draft.origin, outcome="unchanged", source_id=here.id)
        if here and is_dated(draft) and (kept := why_kept(self._known_sources.whole(here.id), draft)):
            return ItemResult(origin=draft.origin, outcome="skipped", source_id=here.id, why=kept)
        self._bring_nodes(draft.nodes)
        elsewhere = [name for name in earlier if self._stands_elsewhere(name)]
        for name in elsewhere:
            self._depart(name)
        earlier = tuple(name for name in earlier if name not in elsewhere)
        duplicates = duplicates_of(draft.origin, earlier, self._known_sources)
        if duplicates is None:
            return ItemResult(origin=draft.origin, outcome="created", source_id=self._create(draft))
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
        self._operations += duplicates.archiving()
        if here is None or here.id != kept.id:
            self._operations.append(Update(id=kept.id, expected_revision=kept.revision, changes={"origin": origin}))
        elif not duplicates.folded:
            return ItemResult(origin=origin, outcome="unchanged", source_id=kept.id, why=duplicates.note())
        if duplicates.folded:
            self._repoint(duplicates, self._known_sources.whole(kept.id).segments)
        return _moved(origin, duplicates, duplicates.note())

    def _repoint(self, duplicates: DuplicateSources, segments: Sequence[Segment]) -> None:
        """Move the evidence of candidates from the sources that are folded to the one that goes on."""
        for state in duplicates.folded:
            folded = self._known_sources.whole(state.id)
            for item in filter(is_live, self._known_sources.resting_on(state.id)):
                refs = self._evidence.get(item.id, item).evidence_refs
                moved = repointed(refs, folded, duplicates.kept.id, segments)
                if moved != refs:
                    self._evidence[item.id] = item.model_copy(update={"evidence_refs": moved})

    def _depart(self, origin: str) -> ItemResult:
        state = self._known_sources.source(origin)
        if state is None:
            return ItemResult(origin=origin, outcome="unchanged")
        read = read_of(origin, self._branches)
        left = versions_after(state.fingerprint, read, None) if read else HeldContents(())
        if left.each:
            self._restrict(state, left)
            return ItemResult(origin=origin, outcome="removed", source_id=state.id, why=_elsewhere(left))
        self._operations.append(Transition(id=state.id, expected_revision=state.revision, to="archived"))
        return ItemResult(origin=origin, outcome="removed", source_id=state.id)

    def _stands_elsewhere(self, origin: str) -> bool:
        """Tell whether a source is on another branch than the one that is read."""
        state, read = self._known_sources.source(origin), read_of(origin, self._branches)
        return bool(state and read and versions_after(state.fingerprint, read, None).each)

    def _stand(self, origin: str, contents: str) -> ItemResult:
        state = self._known_sources.source(origin)
        if state is None:
            return ItemResult(origin=origin, outcome="unchanged")
        self._restrict(state, versions_after(state.fingerprint, read_of(origin, self._branches), contents))
        return ItemResult(origin=origin, outcome="updated", source_id=state.id)

    def _lose(self, origin: str, branches: frozenset[str]) -> ItemResult:
        state, read = self._known_sources.source(origin), read_of(origin, self._branches)
        if state is None or read is None:
            return ItemResult(origin=origin, outcome="unchanged")
        left = versions_without(state.fingerprint, read, branches)
        told = told_of_branches(read, branches) if origin == read.root else {}
        if left.each:
            self._restrict(state, left, **told)
            return ItemResult(origin=origin, outcome="updated", source_id=state.id)
        self._operations.append(Transition(id=state.id, expected_revision=state.revision, to="archived"))
        return ItemResult(origin=origin, outcome="removed", source_id=state.id)

    def _restrict(self, state: SourceState, versions: HeldContents, **told: Any) -> None:
        """Leave of a source what stands in those of its contents that are left, and move evidence after it."""
        before = self._known_sources.whole(state.id)
        left = standing(before, versions)
        fields: dict[str, Any] = {
            "fingerprint": versions.text,
            "segments": left.segments,
            "payload": {**before.payload, **told},
        }
        changes = {name: value for name, value in fields.items() if value != getattr(before, name)}
        if changes:
            self._operations.append(Update(id=state.id, expected_revision=state.revision, changes=changes))
        if left.gone:
            for item in filter(is_live, self._known_sources.resting_on(state.id)):
                self._follow(item, before, left)

    def _create(self, draft: SourceDraft) -> str:
        salt, read = fresh_salt(self._clock), read_of(draft.origin, self._branches)
        segments = first_segments(draft.segments, salt=salt, new_id=self._segment_id)
        source = Source(
            id=fresh_id("source", self._clock),
            scope=self._scope,
            created_at=self._now,
            updated_at=self._now,
            salt=salt,
            **self._fields(draft, versions_after(None, read, draft.fingerprint)),
            segments=segments,
        )
        self._operations.append(Create(object=source))
        for known in draft.knowledge:
            self._state(self._claim(known, source.id, segments))
        return source.id

    def _update(
        self, draft: SourceDraft, state: SourceState, folded: Sequence[SourceState] = ()
    ) -> tuple[str, Sequence[Segment]]:
        """Bring a source up to date; return where its turns part from those before, if they do, and its segments."""
        before = self._known_sources.whole(state.id)
        resting = self._known_sources.resting_on(state.id)
        read = read_of(draft.origin, self._branches)
        told = continued(before, draft) if read is None and is_transcript(draft.kind, draft.metadata) else None
        draft = told.draft if told else draft
        named = {ref.segment_id for item in resting if is_live(item) for ref in item.evidence_refs}
        carried = carry(before.segments, draft.segments, named=named, salt=before.salt, new_id=self._segment_id)
        versions = versions_after(state.fingerprint, read, draft.fingerprint)
        if read:
            for one in folded:
                versions = with_branches_of(versions, one.fingerprint, read)
        read_now = carried.segments
        if len(versions.each) > 1 or before.fingerprint.startswith(SEVERAL):
            carried = united(before, carried, versions, draft.fingerprint)
        fields = {**self._fields(draft, versions, before), "segments": carried.segments}
        changes = {name: value for name, value in fields.items() if value != getattr(before, name)}
        if changes:
            self._operations.append(Update(id=state.id, expected_revision=state.revision, changes=changes))
        for item in filter(is_live, resting):
            self._follow(item, before, carried, read_now)
        # An invalid source is kept up to date, and states nothing.
        claims = draft.knowledge if state.status == "active" else ()
        stated = _by_meaning(resting) if claims else {}
        for known in claims:
            claim = self._claim(known, state.id, read_now)
            said_before = stated.get(claim.duplicate_key())
            if said_before and is_live(said_before):
                self._restate(said_before, claim.evidence_refs[0], gone=carried.gone)
            elif said_before is None or not self._known_sources.was_turned_down(said_before):
                self._state(claim)
        parted = told.why if told else divergence(before.segments, draft.segments, gone=carried.gone)
        return parted, carried.segments

    def _fields(self, draft: SourceDraft, versions: HeldContents, before: Source | None = None) -> dict[str, Any]:
        """Return the fields of a source. Where the contents that were read are not those it tells of, most stay."""
        read = read_of(draft.origin, self._branches)
        told = told_of_branches(read) if read and draft.origin == read.root else {}
        if before and versions.fingerprints[0] != draft.fingerprint:
            return {"origin": draft.origin, "fingerprint": versions.text, "payload": {**before.payload, **told}}
        return {
            "kind": draft.kind,
            "origin": draft.origin,
            "title": draft.title,
            "fingerprint": versions.text,
            "content_type": draft.content_type,
            "payload": {**draft.payload, **told},
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
            id=fresh_id("knowledge", self._clock),
            scope=self._scope,
            created_at=self._now,
            updated_at=self._now,
            salt=fresh_salt(self._clock),
            title=known.title,
            summary=known.summary,
            confidence=known.confidence,
            memory_source="imported" if known.imported else "system_generated",
            subject_refs=(about,) if about else (),
            evidence_refs=(EvidenceRef(source_id=source_id, segment_id=segments[known.segment].segment_id),),
            **fields,
        )

    def _state(self, claim: Knowledge) -> None:
        """Propose what a source states. The ledger merges it into the same knowledge from elsewhere.

        What went stale and is stated again starts anew as a candidate: nobody has verified it since, and an
        adapter must not. The stale one is archived, so that the ledger does not merge the new into the old.
        """
        followed = [item for item in self._known_sources.stale(claim) if item.id not in self._archived]
        self._operations += [
            Transition(id=item.id, expected_revision=item.revision, to="archived") for item in followed
        ]
        self._archived.update(item.id for item in followed)
        self._operations.append(Create(object=claim))
        self._operations += [_link("follows", claim.id, item.id) for item in followed]

    def _restate(self, item: Knowledge, ref: EvidenceRef, *, gone: frozenset[str]) -> None:
        """Move the evidence of what the source states still from the segments that are gone to where it stands."""
        refs = self._evidence.get(item.id, item).evidence_refs
        kept = tuple(
            one for one in refs if (one.source_id, one.role) != (ref.source_id, ref.role) or one.segment_id not in gone
        )
        places = {(one.source_id, one.segment_id, one.role) for one in kept}
        now = kept if (ref.source_id, ref.segment_id, ref.role) in places else (*kept, ref)
        if now != refs:
            self._evidence[item.id] = item.model_copy(update={"evidence_refs": now})

    def _follow(
        self, item: Knowledge, before: Source, carried: Carried, read_now: Sequence[Segment] | None = None
    ) -> None:
        """Move evidence from the segments that are gone to where what it is about still stands.

        From segments that are gone on the branch that is read, and stand on others, it does not go: it comes to stand
        on both. `read_now`: the segments on that branch.
        """
        refs = {_place(ref): ref for ref in moved_refs(item, before, carried.segments, gone=carried.gone)}
        here = {segment.segment_id for segment in read_now or ()}
        if read_now is not None and (elsewhere := {part.segment_id for part in carried.segments} - here):
            refs |= {_place(ref): ref for ref in moved_refs(item, before, read_now, gone=frozenset(elsewhere))}
        now = tuple(dict.fromkeys((*(one for one in item.evidence_refs if _place(one) in refs), *refs.values())))
        if now != item.evidence_refs:
            self._evidence[item.id] = item.model_copy(update={"evidence_refs": now})

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
                return  # somebody decided against it

    def _renew_node(self, known: Node, draft: NodeDraft) -> None:
        if changes := dict(self._node_changes(known, draft)):
            self._operations.append(Update(id=known.id, expected_revision=known.revision, changes=changes))

    def _node(self, draft: NodeDraft) -> Node:
        fields: dict[str, Any] = {"kind": draft.kind}
        return Node(
            id=fresh_id("node", self._clock),
            scope=self._scope,
            created_at=self._now,
            updated_at=self._now,
            salt=fresh_salt(self._clock),
            name=draft.name,
            slug=draft.slug,
            summary=draft.summary,
            aliases=draft.aliases,
            **fields,
        )

    def _node_changes(self, known: Node, draft: NodeDraft) -> Iterator[tuple[str, Any]]:
        names = (draft.name, *draft.aliases)
        aliases = dict.fromkeys([*known.aliases, *(name for name in names if name != known.name)])
        if tuple(aliases) != known.aliases:
            yield "aliases", tuple(aliases)
        # A summary that a person or an agent wrote is theirs.
        if draft.summary and draft.summary != known.summary and self._known_sources.is_untouched(known):
            yield "summary", draft.summary

    def _node_id(self, key: str | None) -> str | None:
        if key is None or key in self._nodes:
            return self._nodes.get(key or "")
        known = self._known_sources.node(key)
        return known.id if known else None

    def _segment_id(self) -> str:
        return fresh_segment_id(self._clock)


def _place(ref: EvidenceRef) -> tuple[str, str, str]:
    return (ref.source_id, ref.segment_id, ref.role)


def _elsewhere(left: HeldContents) -> str:
    names = left.branches_of(left.fingerprints) or ()
    return f"it still exists on {', '.join(names)}"


def _moved(origin: str, duplicates: DuplicateSources, why: str) -> ItemResult:
    return ItemResult(
        origin=origin, outcome="moved", source_id=duplicates.kept.id, moved_from=duplicates.before, why=why
    )


def _by_meaning(items: Iterable[Knowledge]) -> Mapping[str, Knowledge]:
    """Return undated knowledge by what it says: what is live before what is stale before the rest, newest first."""
    found = sorted(filter(is_undated, items), key=lambda item: (is_live(item), item.status == "stale", item.id))
    return {item.duplicate_key(): item for item in found}


def _link(kind: Any, source: str, target: str) -> AddLink:
    return AddLink(link=Link(type=kind, source=source, target=target))
