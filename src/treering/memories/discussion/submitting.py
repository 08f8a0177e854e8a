"""Writing into a discussion: one patch, applied at once or refused."""

from collections.abc import Sequence

from treering.core.errors import Denied, Unavailable
from treering.core.patch import Operation, Receipt
from treering.core.policy import needs_review
from treering.memories.discussion.identity import Place
from treering.tools.engine import Engine
from treering.tools.envelope import Call
from treering.tools.submission import WriteOptions, build_patch, submit

ATTEMPTS = 5
"""How often a write that somebody else was faster than is tried."""


def apply_patch(
    engine: Engine, place: Place, operations: Sequence[Operation], *, reason: str, key: str | None = None
) -> Receipt:
    """Write operations as one patch; the same `key` again gives the first receipt.

    Raises `Denied` where the space wants a review, and what the ledger raises.
    """
    call = Call(engine, place.scope)
    patch = build_patch(call, operations, verb="crystallize", reason=reason)
    if needs_review(patch, engine.ledger.policy):
        raise Denied(
            "Discussion memory writes directly, and this space asks for a review.",
            hint=f"Allow the channel {engine.author.channel!r} to write in the policy of the space.",
            details={"channel": engine.author.channel},
        )
    options = WriteOptions(reason=f"{reason} of discussion {place.id}", idempotency_key=key)
    report = submit(call, operations, options, verb="crystallize", mode="knowledge")
    if report.receipt is None:
        raise Unavailable("The patch was not applied.", hint="Make the call again.")
    return report.receipt
