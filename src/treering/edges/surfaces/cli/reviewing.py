"""What the commands by which a person decides do."""

from collections.abc import Mapping, Sequence
from typing import Any

import typer

from treering.edges.surfaces.cli.flags import Access, WriteFlags
from treering.edges.surfaces.cli.rendering.changes import (
    render_diff,
    render_erasure,
    render_proposals,
    render_receipt,
    render_work_proposals,
)
from treering.edges.surfaces.cli.rendering.lines import line
from treering.edges.surfaces.cli.session import answer, confirm_destroying, embed_later, is_piped, opened
from treering.tools.erasure import ERASE
from treering.tools.proposing import PROPOSE


def show_waiting(access: Access) -> None:
    """List the patches that wait."""
    with opened(access) as space:
        found = space.proposals()
    answer(access, found, render_proposals(found))


def show(patch: str, access: Access) -> None:
    """Show a patch as a diff."""
    with opened(access) as space:
        diff = space.proposal_diff(patch)
    answer(access, diff, [line((patch, "bold")), *render_diff(diff, fenced=is_piped())])


def apply(patches: Sequence[str], access: Access, writing: WriteFlags) -> None:
    """Apply patches, each by itself: those before one that fails stay applied."""
    with opened(access, writing) as space:
        for patch in patches:
            receipt = space.approve(patch)
            answer(access, receipt, render_receipt("Applied", receipt))
        embed_later(space, writing)


def propose(scope: str, options: Mapping[str, Any], access: Access, writing: WriteFlags) -> None:
    """Propose the work that sources ask for."""
    with opened(access, writing) as space:
        found = space.perform(PROPOSE, scope=scope, options=options)
    answer(access, found, render_work_proposals(found, dry_run=bool(options["dry_run"])))


def reject(patch: str, reason: str, access: Access, writing: WriteFlags) -> None:
    """Turn a patch down."""
    with opened(access, writing) as space:
        record = space.reject(patch, reason)
    answer(access, record, [line(f"Rejected {record.id}.")])


def revert(patch: str, reason: str, access: Access, writing: WriteFlags) -> None:
    """Take a patch back."""
    with opened(access, writing) as space:
        receipt = space.revert(patch, reason)
        answer(access, receipt, render_receipt(f"Reverted {patch} by", receipt))
        embed_later(space, writing)


def erase(ids: Sequence[str], reason: str, access: Access, writing: WriteFlags, *, sure: bool) -> None:
    """Erase objects, after asking. Exits with 1 where a probe still finds something."""
    confirm_destroying(ERASE, ids[0] if len(ids) == 1 else f"{len(ids)} objects", sure=sure)
    with opened(access, writing) as space:
        receipt = space.erase(ids, reason)
    answer(access, receipt, render_erasure(receipt))
    if not receipt.clean:
        raise typer.Exit(1)
