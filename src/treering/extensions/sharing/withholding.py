"""Withholding: what leaves a space, and what others learn of the evidence that its author does not share.

Objects in private scopes do not leave, nor do candidates with evidence there. A source there that supports knowledge
which does leave is announced by a notice: its author, its date, and hashes of it and of the cited segments, keyed by a
salt that stays here. A notice depends only on the source and its citations, so that it is the same in every copy.
Knowledge that is derived from withheld knowledge leaves with the evidence of that.
"""

from collections.abc import Collection, Iterable, Iterator

from treering.core.canonical import canonical_json, digest
from treering.core.evidence import EvidenceRef
from treering.core.filters import And, Compare
from treering.core.objects import Knowledge, Object, Source
from treering.core.policy import is_current
from treering.core.scope import ROOT
from treering.core.writing.integrity import is_earlier_version, references_of
from treering.extensions.sharing.merge_rules.entries import LoggedReadings, MergeEntry, entries_of
from treering.extensions.sharing.merge_rules.notices import WITHHELD, is_notice, notice_of
from treering.ports.ledger import Head, Ledger, Selection
from treering.verbs.query.authorship import AGENT_OF

_CONVERSATION = "conversation"
_RECORDED = ("conversation", "summary")
"""Kinds of the objects that the hooks of coding agents record in the scope of a session."""
_COUNT_CHARS = 6
_EVENT_CHARS = 44


class Outgoing:
    """Selects the entries that leave a space. `sessions`: withhold conversations with coding agents, unless shared."""

    def __init__(self, ledger: Ledger, *, sessions: bool = False) -> None:
        self._ledger = ledger
        self._policy = ledger.policy
        self._withholds_sessions = sessions
        self._private: dict[str, bool] = {}
        self._heads: dict[str, Head | None] = {}
        self._due: set[str] = set()
        """Withheld sources whose notice may have to leave."""
        self._named: set[str] = set()
        """The sources that objects other than knowledge refer to."""
        self.conversations: set[str] = set()
        """Scopes of the withheld conversations with coding agents among the entries."""

    def shared(self, entries: Iterable[MergeEntry]) -> Iterator[MergeEntry]:
        """Yield the entries that leave, without states that do not, and without links to missing objects."""
        batch = list(entries)
        self._look_up({end for entry in batch for end in (entry.link or ())[1:]})
        self._look_up({one for entry in batch if entry.after for one in references_of(entry.after)})
        for entry in batch:
            if entry.link:
                if self._heads[entry.link[1]] and not any(map(self._hides, entry.link[1:])):
                    yield entry
            elif entry.after is None:
                yield entry
            elif self.withholds(entry.after):
                self._note(entry.after)
            else:
                was_withheld = isinstance(before := entry.before, Object) and self.withholds(before)
                entry = self._with_evidence_of_parents(entry)
                self._note_references(entry.after)
                yield entry.model_copy(update={"before": None}) if was_withheld else entry
                if was_withheld:
                    yield from self._links_of(entry.target)

    def notices(self) -> Iterator[MergeEntry]:
        """Yield the notices of withheld sources that the entries so far are about or refer to."""
        for identity in sorted(self._due):
            source = self._ledger.get(identity) if self._head(identity) else None
            if isinstance(source, Source) and (notice := self._notice(source)):
                yield notice

    def count_until(self, seq: int) -> int:
        """Return the number of withheld conversations with coding agents that began before an event."""
        where = Compare("kind", "eq", _CONVERSATION)
        items = self._ledger.select(Selection(descend=True, types=("source",), where=where), altered={})
        scopes = {one.id: one.scope for one in items if self._is_private(one.scope)}
        began = {scope for one, scope in scopes.items() if self._ledger.events_of(one)[0].seq <= seq}
        return sum(not self._policy.is_private(scope) for scope in began)

    def withholds(self, item: Object) -> bool:
        """Return whether an object does not leave: it is private, or only a candidate with private evidence."""
        if self._is_private(item.scope):
            return True
        if not isinstance(item, Knowledge) or item.was_active:
            return False
        return any(self._is_private_evidence(ref.source_id) for ref in item.evidence_refs)

    def _is_private(self, scope: str) -> bool:
        if scope not in self._private:
            self._private[scope] = self._policy.is_private(scope) or (
                self._withholds_sessions and not self._policy.is_shared(scope) and self._is_of_session(scope)
            )
        return self._private[scope]

    def _is_of_session(self, scope: str) -> bool:
        """Return whether the hooks of a coding agent recorded a conversation, which has its own scope, in a scope."""
        if scope == ROOT:
            return False
        where = And((Compare("kind", "in", _RECORDED), Compare("scope", "eq", scope)))
        selection = Selection(scope, types=("source", "knowledge"), where=where)
        return any(self._is_by_hooks(item.id) for item in self._ledger.select(selection, altered={}))

    def _is_by_hooks(self, identity: str) -> bool:
        events = self._ledger.events_of(identity)
        return bool(events) and events[0].actor.startswith(AGENT_OF)

    def _is_private_evidence(self, source_id: str) -> bool:
        if head := self._head(source_id):
            return self._is_private(head.scope)
        # Of an erased source, the scope is unknown.
        by_hooks = self._withholds_sessions and self._is_by_hooks(source_id)
        return by_hooks or bool(self._policy.private_scopes)

    def _hides(self, identity: str) -> bool:
        """Return whether an object that exists does not leave."""
        head = self._head(identity)
        if head is None:
            return False
        is_open = head.type == "knowledge" and head.status != "active"
        return self._is_private(head.scope) or (is_open and self.withholds(self._ledger.get(identity)))

    def _head(self, identity: str) -> Head | None:
        self._look_up((identity,))
        return self._heads[identity]

    def _look_up(self, identities: Collection[str]) -> None:
        if missing := [one for one in identities if one not in self._heads]:
            heads = self._ledger.heads(missing)
            self._heads.update((one, heads.get(one)) for one in missing)

    def _note(self, item: Object) -> None:
        if isinstance(item, Source):
            self._due.add(item.id)
            if item.kind == _CONVERSATION and not self._policy.is_private(item.scope):
                self.conversations.add(item.scope)

    def _note_references(self, item: Object | None) -> None:
        for identity in references_of(item) if item else ():
            head = self._head(identity)
            if head and head.type == "source" and self._is_private(head.scope):
                self._due.add(identity)
                if not isinstance(item, Knowledge):
                    self._named.add(identity)

    def _with_evidence_of_parents(self, entry: MergeEntry) -> MergeEntry:
        """Return an entry in which knowledge has the evidence of its withheld parents in place of them."""
        states = {name: state for name in ("before", "after") if isinstance(state := getattr(entry, name), Knowledge)}
        if not any(self._hides(one) for state in states.values() for one in state.derived_from):
            return entry
        events = self._ledger.events_of(entry.target)
        written = {number: event.seq for event in events if (number := (event.after or {}).get("revision"))}
        grounded = {name: self._grounded(state, written[state.revision]) for name, state in states.items()}
        return entry.model_copy(update=grounded)

    def _grounded(self, item: Knowledge, seq: int) -> Knowledge:
        """Return knowledge as it was after an event, with the evidence that its withheld parents had then.

        A parent without valid evidence stays, so that the knowledge is as stale elsewhere as it is here.
        """
        parents: dict[str, None] = {}
        refs = {ref.key: ref for ref in item.evidence_refs}
        for identity in item.derived_from:
            inherited = self._evidence_of(identity, seq, {item.id}) if self._hides(identity) else {}
            refs = inherited | refs
            parents |= {} if inherited else {identity: None}
        return item.model_copy(update={"evidence_refs": tuple(refs.values()), "derived_from": tuple(parents)})

    def _evidence_of(self, identity: str, seq: int, visited: set[str]) -> dict[tuple[str, str, str], EvidenceRef]:
        """Return the evidence of current withheld knowledge and of its withheld parents after an event."""
        if identity in visited or not self._ledger.heads([identity], as_of=seq):
            return {}
        visited.add(identity)
        item = self._ledger.get(identity, as_of=seq)
        if not isinstance(item, Knowledge) or not (is_current(item) or is_earlier_version(item)):
            return {}
        refs = {ref.key: ref for ref in item.evidence_refs if ref.role == "supports"}
        for one in item.derived_from:
            refs |= self._evidence_of(one, seq, visited) if self._hides(one) else {}
        return refs

    def _supports_others(self, identity: str, visited: set[str]) -> bool:
        """Return whether knowledge that leaves is derived from withheld knowledge, directly or through such."""
        visited.add(identity)
        derived = [one for one in self._ledger.dependents(identity) if one not in visited]
        return any(not self._hides(one) or self._supports_others(one, visited) for one in derived)

    def _links_of(self, identity: str) -> Iterator[MergeEntry]:
        """Yield the entries of the links of an object that was withheld until now."""
        for link in self._ledger.links(identity):
            key = (link.type, link.source, link.target)
            if not any(map(self._hides, key[1:])):
                yield from (one for one in self._entries_of(link.source) if one.link == key)

    def _entries_of(self, identity: str) -> list[MergeEntry]:
        events = self._ledger.events_of(identity)
        numbered = {item.revision: item for item in self._ledger.history(identity)}
        readings = LoggedReadings({}, self._ledger.events_of)
        return entries_of(identity, events, lambda _, number: numbered.get(number), readings)

    def _notice(self, source: Source) -> MergeEntry | None:
        """Return the notice of a source; `None` if nothing that leaves refers to it."""
        dependents = self._ledger.dependents(source.id)
        items = [item for one in dependents if isinstance(item := self._ledger.get(one), Knowledge)]
        citing = [item for item in items if not self.withholds(item)]
        for item in items:
            if item not in citing and self._supports_others(item.id, set()):
                citing += [one for one in self._ledger.history(item.id) if isinstance(one, Knowledge)]
        if is_notice(source) or not (citing or source.id in self._named):
            return None
        changes = [one for one in self._entries_of(source.id) if one.after is not None and one.kind != WITHHELD]
        first, last = (which(changes, key=lambda one: one.order) for which in (min, max))
        cited = {ref.segment_id for item in citing for ref in item.evidence_refs if ref.source_id == source.id}
        notice = notice_of(source, cited, first.actor.removeprefix(AGENT_OF))
        # Of notices with one time, the one with the most citations is the newest.
        count = len(notice.withheld.hashes) if notice.withheld else 0
        name = digest(canonical_json([last.event, notice.model_dump(mode="json")]))
        return first.model_copy(
            update={
                "event": f"aud:{count:0{_COUNT_CHARS}}{name}"[:_EVENT_CHARS],
                "at": last.at,
                "seq": last.seq,
                "kind": WITHHELD,
                "reason": "",
                "before": None,
                "after": notice,
                "knew": None,
            }
        )
