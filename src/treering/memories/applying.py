"""Writing a patch of a memory that has to be applied at once, or not at all."""

from collections.abc import Sequence

from treering.core.errors import Denied, Unavailable
from treering.core.patch import Operation, Receipt
from treering.core.policy import operations_need_review
from treering.tools.engine import Engine
from treering.tools.envelope import Call
from treering.tools.submission import WriteOptions, submit


def check_direct(engine: Engine, operations: Sequence[Operation], *, what: str) -> None:
    """Raise `Denied` where the policy of the space has the engine's author wait for a review with such operations."""
    if operations_need_review(operations, engine.author.channel, engine.ledger.policy):
        raise Denied(
            f"{what} writes directly, and this space asks for a review.",
            hint=f"Allow the channel {engine.author.channel!r} to write in the policy of the space.",
            details={"channel": engine.author.channel},
        )


def apply_directly(
    engine: Engine, scope: str, operations: Sequence[Operation], *, what: str, reason: str, key: str | None = None
) -> Receipt:
    """Write operations as one patch; the same `key` again gives the first receipt. `what` names the memory in errors.

    Raises `Denied` where the space wants a review, and what the ledger raises.
    """
    check_direct(engine, operations, what=what)
    options = WriteOptions(reason=reason, idempotency_key=key)
    report = submit(Call(engine, scope), operations, options, verb="crystallize", mode="knowledge")
    if report.receipt is None:
        raise Unavailable("The patch was not applied.", hint="Make the call again.")
    return report.receipt
