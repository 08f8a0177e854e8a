"""Patches that wait for a decision: list, show, apply, reject; and taking back what was applied."""

from collections.abc import Sequence

from treering.core.diff import ObjectChange, changes_of
from treering.core.journal import patch_of
from treering.core.patch import PatchRecord, Receipt
from treering.core.screening import screened
from treering.tools.engine import Engine


def proposals(engine: Engine, *, limit: int = 100) -> Sequence[PatchRecord]:
    """Return the patches that wait, newest first."""
    return engine.ledger.patches(status="proposed", limit=limit)


def proposal_diff(engine: Engine, patch_id: str) -> tuple[ObjectChange, ...]:
    """Return what a waiting patch would change now. Raises what applying it would."""
    return changes_of(engine.ledger.preview(patch_of(engine.ledger.patch(patch_id))).writes)


def approve(engine: Engine, patch_id: str) -> Receipt:
    """Apply a waiting patch in the engine's name. Raises `Denied` for one's own."""
    receipt = engine.ledger.approve(patch_id, by=engine.author)
    engine.vectoriser.start()
    return receipt


def reject(engine: Engine, patch_id: str, *, reason: str) -> PatchRecord:
    """Turn a waiting patch down; secrets in the reason are redacted."""
    return engine.ledger.reject(patch_id, by=engine.author, reason=screened(reason).value)


def revert(engine: Engine, patch_id: str, *, reason: str) -> Receipt:
    """Take back an applied patch, or raise `Conflict` saying what has changed since.

    Secrets in the reason are redacted.
    """
    receipt = engine.ledger.revert(patch_id, by=engine.author, reason=screened(reason).value)
    engine.vectoriser.start()
    return receipt
