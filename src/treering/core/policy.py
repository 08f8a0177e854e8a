"""The rules of changes: a space's policy (who may write), and the lifecycle (allowed status transitions)."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from operator import not_
from typing import Annotated, Any, Literal, cast

from pydantic import Field, field_validator

from treering.core.canonical import FrozenModel, is_node
from treering.core.errors import Denied, IllegalTransition
from treering.core.evidence import EvidenceRef
from treering.core.objects import Channel, Knowledge, Object, WorkItem
from treering.core.patch import Author, Create, Erase, MoveScope, Operation, Patch, Supersede, Transition, Update
from treering.core.scope import is_within

# A text is trusted according to its channel and status, never according to its content.
TrustLevel = Literal["high", "medium", "low"]

LEVELS: tuple[TrustLevel, ...] = ("high", "medium", "low")
"""From the most to the least trusted."""

CHANNEL_TRUST: Mapping[Channel, TrustLevel] = {
    "user": "high",
    "system": "high",
    "adapter": "medium",
    "agent": "low",
    "import": "low",
}
"""`high`: written by a person; `medium`: read from files a person chose; `low`: passed on by a program or model."""

TRUST_WEIGHTS: Mapping[TrustLevel, float] = {"high": 1.0, "medium": 0.85, "low": 0.7}
"""The factor on a score by trust (`docs/poisoning.md`)."""

_WORDS = frozenset({"title", "summary", "name", "aliases", "payload", "segments", "resolution"})


def trust_of(channel: str, status: str, levels: Mapping[Channel, TrustLevel] = CHANNEL_TRUST) -> TrustLevel:
    """Return the trust in an object: the trust of its channel, and one level less for a candidate.

    An unknown channel has the least trust.
    """
    place = _place(channel, levels)
    return LEVELS[min(place + (status == "candidate"), len(LEVELS) - 1)]


def less_trusted(one: str, other: str, levels: Mapping[Channel, TrustLevel]) -> bool:
    """Return whether the channel `one` is trusted less than the channel `other`."""
    return _place(one, levels) > _place(other, levels)


def changes_words(fields: Mapping[str, object]) -> bool:
    """Return whether changing these fields changes the content of an object."""
    return not _WORDS.isdisjoint(fields)


def _place(channel: str, levels: Mapping[Channel, TrustLevel]) -> int:
    # Only a damaged row has an unknown channel; it gets the least trust.
    return LEVELS.index(levels.get(cast("Channel", channel), LEVELS[-1]))


ALL_CHANNELS: frozenset[Channel] = frozenset({"user", "agent", "adapter", "import", "system"})

PERSONS: frozenset[Channel] = frozenset({"user", "system"})
"""Channels of a person, or of the operator of the space."""

FUNCTIONAL_PREDICATES = frozenset(
    "age birthday birthplace born_in capital ceo date_of_birth deadline default_branch died_in due_date email "
    "employer founded_in headquarters height home_page hometown job job_title language license licence "
    "lives_in located_in maintainer married_to name owner phone port price primary_key released_on "
    "requires_python residence size spouse status timezone title version works_at works_for".split()
)


_PROPOSING = "Propose a candidate instead, or ask a person to do it; the space's policy file controls this."
_ERASING = (
    'Erasing is restricted: ask a user to do it (a memory client in Python acts for one with channel="user"), or add '
    "the channel to erasing_channels in the space's policy file."
)


class Policy(FrozenModel):
    """The rules of one space, stored in its audit log. A space without a policy has these defaults."""

    direct_channels: frozenset[Channel] = ALL_CHANNELS
    """Channels whose patches are applied at once; patches of others wait as `proposed` for review."""
    reviewed_operations: frozenset[str] = frozenset()
    """Operations (`erase`, `supersede`, …) that wait for review on every channel."""
    candidate_only_channels: frozenset[Channel] = frozenset({"adapter"})
    """Channels that may propose knowledge but never make it active."""
    erasing_channels: frozenset[Channel] = frozenset({"user", "system"})
    """Channels that may erase."""
    declaring_channels: frozenset[Channel] = frozenset({"user", "import", "system"})
    """Channels that may set `user_declared` or `human_curated`."""
    channel_trust: dict[Channel, TrustLevel] = Field(default=dict(CHANNEL_TRUST))
    """The trust of each channel when answers are ranked: `high`, `medium` or `low`."""
    trust_weights: dict[TrustLevel, Annotated[float, Field(gt=0, le=1)]] = Field(default=dict(TRUST_WEIGHTS))
    """The factor on a text's score by the trust in its channel, above 0 and up to 1."""
    functional_predicates: frozenset[str] = FUNCTIONAL_PREDICATES
    """Relations with one object at a time. Facts with a `value` are always functional."""
    newer_supersedes: bool = True
    """A claim with a later `valid_from` and evidence in the same source supersedes instead of contesting."""
    silenced_rules: dict[str, str] = Field(default={})
    """Lint rules to silence, each with the reason."""
    self_approval: bool = False
    """Whether the proposer of a patch may approve it."""
    private_scopes: frozenset[str] = Field(default=frozenset(), exclude_if=not_)
    """Scopes that are withheld from others by merge and sync, including the scopes below them."""
    shared_scopes: frozenset[str] = Field(default=frozenset(), exclude_if=not_)
    """Scopes that are shared although they would be withheld: conversations with coding agents, or in a private scope
    that contains them."""

    def is_private(self, scope: str) -> bool:
        """Return whether a private scope contains a scope, and no shared scope inside of it does."""
        return not self.is_shared(scope) and _longest(scope, self.private_scopes) > 0

    def is_shared(self, scope: str) -> bool:
        """Return whether a shared scope contains a scope, and no private scope inside of it does."""
        return _longest(scope, self.shared_scopes) > _longest(scope, self.private_scopes)

    @field_validator("channel_trust", mode="before")
    @classmethod
    def _other_channels_by_default(cls, given: Any) -> Any:
        return {**CHANNEL_TRUST, **given} if isinstance(given, Mapping) else given

    @field_validator("trust_weights", mode="before")
    @classmethod
    def _other_weights_by_default(cls, given: Any) -> Any:
        return {**TRUST_WEIGHTS, **given} if isinstance(given, Mapping) else given


def _longest(scope: str, containing: Iterable[str]) -> int:
    """Return the length of the longest of these scopes that contains a scope, or 0."""
    return max((len(one) for one in containing if is_within(scope, one)), default=0)


def needs_review(patch: Patch, policy: Policy) -> bool:
    """Return whether a patch must wait as `proposed`."""
    return operations_need_review(patch.operations, patch.source.channel, policy)


def operations_need_review(operations: Iterable[Operation], channel: Channel, policy: Policy) -> bool:
    """Return whether a patch of these operations, written through a channel, must wait as `proposed`."""
    return channel not in policy.direct_channels or any(
        operation.op in policy.reviewed_operations for operation in operations
    )


def check_trust(patch: Patch, policy: Policy) -> None:
    """Raise `Denied` if the author's channel claims more trust than the policy grants it."""
    for operation in patch.operations:
        _check_operation(operation, patch.source, policy)


def check_revision_of(item: Object | None, changes: Mapping[str, Any], author: Author, policy: Policy) -> None:
    """Raise `Denied` if a channel that only proposes knowledge changes more than a candidate.

    Moving evidence within its sources after they changed is allowed.
    """
    if not isinstance(item, Knowledge) or author.channel not in policy.candidate_only_channels:
        return
    if item.status != "candidate" and not _only_moves_evidence(item, changes):
        raise _denied(author, f"change {item.status} knowledge")


def _only_moves_evidence(item: Knowledge, changes: Mapping[str, Any]) -> bool:
    refs = changes.get("evidence_refs", ())
    moves = len(changes) == 1 and refs and all(isinstance(ref, EvidenceRef) for ref in refs)
    return bool(moves) and _sources_of(refs) == _sources_of(item.evidence_refs)


def _sources_of(refs: Iterable[EvidenceRef]) -> set[tuple[str, str]]:
    return {(ref.source_id, ref.role) for ref in refs}


def check_gate(patch: Patch, policy: Policy) -> None:
    """Raise `Denied` if a patch that must wait for review is to be applied."""
    if needs_review(patch, policy):
        raise Denied(
            f"The space's policy requires a review of this patch from {patch.source.channel!r}.",
            hint="Propose the patch and ask someone to approve it.",
            details={"channel": patch.source.channel},
        )


def check_reverter(author: Author, policy: Policy) -> None:
    """Raise `Denied` if a channel reverts a patch that it could not have applied."""
    if author.channel not in policy.direct_channels or author.channel in policy.candidate_only_channels:
        raise _denied(author, "revert patches")


def check_approval(proposer: Author, approver: Author, policy: Policy) -> None:
    """Raise `Denied` for approving your own proposal, or for approving through a channel that itself needs review.

    The name of an actor is not verified; so a channel that needs review cannot approve at all, except in a space in
    which every channel does.
    """
    if policy.direct_channels and approver.channel not in policy.direct_channels:
        raise _denied(approver, "approve patches")
    if not policy.self_approval and proposer.actor == approver.actor and proposer.channel == approver.channel:
        raise Denied(
            f"{approver.actor} proposed this patch and may not approve it.",
            hint="Ask someone else to review it, or set self_approval in the policy file.",
        )


def check_policy_change(old: Policy, new: Policy, author: Author) -> None:
    """Raise `Denied` if a channel without a person would loosen an existing policy."""
    loosened = loosened_fields(old, new)
    if loosened and author.channel not in PERSONS:
        raise Denied(
            f"The channel {author.channel!r} may not loosen the policy: {', '.join(loosened)}.",
            hint="Ask a person to open the space once with the policy file: `treering lint audit`.",
            details={"channel": author.channel, "fields": list(loosened)},
        )


def loosened_fields(old: Policy, new: Policy) -> tuple[str, ...]:
    """Return the fields in which `new` allows, trusts or hides more than `old`, in order."""
    stricter = {
        # If no channel is direct, each may approve what others propose.
        "direct_channels": new.direct_channels <= old.direct_channels
        and bool(new.direct_channels or not old.direct_channels),
        "reviewed_operations": new.reviewed_operations >= old.reviewed_operations,
        "candidate_only_channels": new.candidate_only_channels >= old.candidate_only_channels,
        "erasing_channels": new.erasing_channels <= old.erasing_channels,
        "declaring_channels": new.declaring_channels <= old.declaring_channels,
        "channel_trust": all(_weight(name, new) <= _weight(name, old) for name in ALL_CHANNELS),
        "functional_predicates": new.functional_predicates >= old.functional_predicates,
        "newer_supersedes": new.newer_supersedes <= old.newer_supersedes,
        "silenced_rules": new.silenced_rules.keys() <= old.silenced_rules.keys(),
        "self_approval": new.self_approval <= old.self_approval,
        "private_scopes": new.private_scopes >= old.private_scopes,
        "shared_scopes": new.shared_scopes <= old.shared_scopes,
    }
    return tuple(name for name, holds in stricter.items() if not holds)


def _weight(channel: Channel, policy: Policy) -> float:
    return policy.trust_weights[policy.channel_trust[channel]]


def _check_operation(operation: Operation, author: Author, policy: Policy) -> None:
    match operation:
        case Create(object=Knowledge() as item):
            _check_declaration(item.memory_source, author, policy)
            if item.status == "active" and author.channel in policy.candidate_only_channels:
                raise _denied(author, "create active knowledge")
        case Update(changes=changes):
            _check_declaration(changes.get("memory_source"), author, policy)
        case Transition(id=identity, to="active") if is_node(identity):
            return  # a node is not a belief
        case Transition(to="active") | Supersede() | MoveScope():
            if author.channel in policy.candidate_only_channels:
                raise _denied(author, f"{operation.op} objects")
        case Erase():
            _require(author, policy.erasing_channels, "erase", hint=_ERASING)
        case _:
            return


def _check_declaration(memory_source: object, author: Author, policy: Policy) -> None:
    if memory_source in {"user_declared", "human_curated"}:
        _require(author, policy.declaring_channels, f"say {memory_source!r}")


def _require(author: Author, allowed: frozenset[Channel], action: str, *, hint: str = _PROPOSING) -> None:
    if author.channel not in allowed:
        raise _denied(author, action, hint=hint)


def _denied(author: Author, action: str, *, hint: str = _PROPOSING) -> Denied:
    return Denied(
        f"The channel {author.channel!r} may not {action}.",
        hint=hint,
        details={"channel": author.channel},
    )


Table = Mapping[str, frozenset[str]]
"""The statuses that may follow each status."""


def _table(**moves: str) -> Table:
    return {status: frozenset(targets.split()) for status, targets in moves.items()}


TRANSITIONS: Mapping[str, Table] = {
    "source": _table(active="invalid archived", invalid="active archived", archived="", withheld=""),
    "node": _table(active="merged archived", merged="", archived="active"),
    "knowledge": _table(
        candidate="active contested archived",
        active="contested superseded stale archived",
        contested="active superseded archived",
        stale="active superseded archived",
        superseded="stale archived",
        archived="active",
    ),
    "activity": _table(draft="finalized archived", finalized="archived", archived=""),
    "work_item": _table(
        open="in_progress blocked resolved cancelled",
        in_progress="open blocked resolved cancelled",
        blocked="open in_progress cancelled",
        resolved="closed open",
        closed="open",
        cancelled="open",
    ),
}

INITIAL: Mapping[str, frozenset[str]] = {
    "source": frozenset({"active", "invalid"}),
    "node": frozenset({"active"}),
    "knowledge": frozenset({"candidate", "active"}),
    "activity": frozenset({"draft", "finalized"}),
    "work_item": frozenset({"open", "in_progress", "blocked"}),
}

CURRENT: Mapping[str, frozenset[str]] = {
    "source": frozenset({"active"}),
    "node": frozenset({"active"}),
    "knowledge": frozenset({"candidate", "active", "contested"}),
    "activity": frozenset({"draft", "finalized"}),
    "work_item": frozenset({"open", "in_progress", "blocked", "resolved", "closed"}),
}
"""Statuses in which an object may be presented as current, unless it is over (`is_over`)."""

CITABLE = frozenset({"active", "withheld"})
"""Statuses in which a source supports knowledge."""

WITHDRAWN_BY_CASCADE = frozenset({"candidate", "active", "contested"})
"""Knowledge with these statuses becomes `stale` when its last support is lost. `TRANSITIONS` allows only `active` to
become stale on request. The cascade includes candidates and contested claims, because without evidence they may not
be presented as current, and archiving them would hide that they can be verified again."""


def check_transition(item: Object, to: str) -> None:
    """Raise `IllegalTransition`, naming both states and the allowed ones, unless `item` may move to `to`."""
    allowed = TRANSITIONS[item.type][item.status]
    if to not in allowed:
        raise IllegalTransition(
            f"{item.type} {item.id} cannot change from {item.status!r} to {to!r}.",
            hint=f"Allowed from {item.status!r}: {', '.join(sorted(allowed)) or 'nothing'}.",
            details={"id": item.id, "from": item.status, "to": to, "allowed": sorted(allowed)},
        )


def is_current(item: Object) -> bool:
    """Return whether the object's status lets it be presented as current."""
    return item.status in CURRENT[item.type]


def is_over(item: Object, *, now: datetime) -> bool:
    """Return whether it has ended regardless of its status: knowledge past `valid_until`, and archived work."""
    match item:
        case Knowledge(valid_until=until):
            return until is not None and until <= now
        case WorkItem(lifecycle_state=state):
            return state == "archived"
        case _:
            return False
