"""Commands for decisions of a person: review, revert, erase."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Exit, Option, Typer

from treering.core.characters import label
from treering.core.errors import InvalidInput, NotFound
from treering.facades import LazyModule
from treering.surfaces.cli.flags import Access, WriteFlags, add_commands, add_group
from treering.surfaces.cli.printing import line
from treering.surfaces.cli.session import answer, confirm_destroying, embed_later, is_piped, opened
from treering.system.settings import Settings

if TYPE_CHECKING:
    from treering.core.objects import Knowledge
    from treering.surfaces.cli import receipts, rendering_changes
    from treering.surfaces.python.space import Space
    from treering.verbs import naming, short_ids
else:
    receipts = LazyModule("treering.surfaces.cli.receipts")
    rendering_changes = LazyModule("treering.surfaces.cli.rendering_changes")
    naming = LazyModule("treering.verbs.naming")
    short_ids = LazyModule("treering.verbs.short_ids")

Patch = Annotated[str, Argument(metavar="PATCH", help="The id of a patch.")]
PatchOrCandidate = Annotated[str, Argument(metavar="PATCH|ID|N", help="A patch, or a candidate of `review list`.")]
Reason = Annotated[str, Option("--reason", metavar="TEXT", help="The reason, for the audit log.")]


def add_reviews(app: Typer) -> None:
    """Add the commands to the command line."""
    add_group(app, "review", "Decide about patches waiting for review.", list_, show, apply, reject)
    add_commands(app, revert, erase)


def list_(access: Access) -> None:
    """List the patches waiting for review, newest first, and statements to confirm."""
    from treering.surfaces.cli import last_answer

    with opened(access) as space:
        waiting = space.proposals()
        ledger = space.engine.ledger
        candidates = rendering_changes.candidates_in(ledger)
        places = [*(one.id for one in waiting), *(item.id for item, _ in candidates.stated)]
        last_answer.note_places(space.address, places)
        lines = rendering_changes.render_proposals(waiting, candidates, ledger, verbose=access.verbose)
        answer(access, waiting, lines)


def show(patch: Patch, access: Access) -> None:
    """Show the changes of a waiting patch, field by field."""
    with opened(access) as space:
        patch = naming.patch_named(space.engine, patch)
        diff = space.proposal_diff(patch)
    answer(access, diff, [line((patch, "bold")), *rendering_changes.render_diff(diff, fenced=is_piped())])


def apply(
    patches: Annotated[list[str], Argument(metavar="PATCH", help="The ids of patches.")],
    writing: WriteFlags,
    access: Access,
) -> None:
    """Apply waiting patches, each separately.

    You cannot approve your own proposal unless the policy file allows it.
    """
    with opened(access, writing) as space:
        actor = Settings.read().actor
        for patch in patches:
            receipt = space.approve(naming.patch_named(space.engine, patch))
            lines = receipts.render_receipt(space.engine.ledger, receipt, actor=actor, verbose=access.verbose)
            answer(access, receipt, lines)
        embed_later(space, writing)


def reject(patch: PatchOrCandidate, writing: WriteFlags, access: Access, reason: Reason = "") -> None:
    """Reject a waiting patch, or dismiss a candidate."""
    with opened(access, writing) as space:
        if candidate := _candidate(space, patch):
            dismiss_in(space, candidate, reason, access)
            return
        patch = naming.patch_named(space.engine, patch)
        titles = receipts.titles_of_patch(space.engine.ledger, space.engine.ledger.patch(patch))
        record = space.reject(patch, reason)
    answer(access, record, [line(("Rejected: ", "bold"), titles)])


def dismiss_in(space: "Space", candidate: "Knowledge", reason: str, access: Access) -> None:
    """Archive a candidate of an open space and print its title."""
    given = {"id": candidate.id, "status": "archived"}
    report = space.crystallize("knowledge", input=given, options={"reason": reason or "dismissed"})
    restore = f". To restore it: treering crystallize {short_ids.short_id(candidate.id)} --status active"
    answer(access, report, [line(("Dismissed: ", "bold"), label(candidate.title), restore)])


def _candidate(space: "Space", text: str) -> "Knowledge | None":
    """Return the candidate that an id or a number of the last list names, if it does."""
    from treering.core.objects import Knowledge

    with suppress(NotFound, InvalidInput):
        item = space.engine.ledger.get(naming.place_given(space.engine, text)[0])
        return item if isinstance(item, Knowledge) and item.status == "candidate" else None
    return None


def candidate_of_several(space: "Space", text: str, patch: str) -> "Knowledge | None":
    """Return the candidate that a text names if its patch recorded others, too, which reverting would undo."""
    candidate = _candidate(space, text)
    events = space.engine.ledger.patch(patch).effects if candidate else ()
    recorded = {event.target for event in events if event.target.startswith("know:")}
    return candidate if len(recorded) > 1 else None


def revert(patch: Patch, writing: WriteFlags, access: Access, reason: Reason = "") -> None:
    """Revert a patch, or explain why that is not possible."""
    with opened(access, writing) as space:
        revert_in(space, naming.patch_named(space.engine, patch), reason, access, writing)


def revert_in(space: "Space", patch: str, reason: str, access: Access, writing: WriteFlags) -> None:
    """Revert a patch of an open space and print the receipt."""
    receipt = space.revert(patch, reason)
    answer(access, receipt, receipts.render_reverted(space.engine.ledger, receipt, patch, verbose=access.verbose))
    embed_later(space, writing)


def erase(
    writing: WriteFlags,
    access: Access,
    ids: Annotated[
        list[str] | None, Argument(metavar="ID|PATH|N", help="Ids, also of discussions; paths; numbers of hits.")
    ] = None,
    scope: Annotated[
        str | None, Option("--scope", metavar="PATH", help="Everything in this scope and the scopes below it.")
    ] = None,
    reason: Reason = "",
    yes: Annotated[bool, Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Erase objects permanently, everywhere, and prove it.

    Of a hit in a discussion, only the message is erased; of a discussion, everything
    that was made from it, too. This cannot be undone. The audit log retains the fact
    and hashes.
    """
    from treering.verbs.lint.erasure import ERASE, ErasureTarget, ScopeContents

    if (scope is None) == (not ids):
        hint = "For example: treering erase --scope /users/ada"
        raise InvalidInput("Give either the objects to erase, or --scope.", hint=hint)
    with opened(access, writing) as space:
        named = [one for text in ids or () for one in _conversations(space, text) or [_id_to_erase(space, text)]]
        targets = [str(ErasureTarget.of(space.engine, one)) for one in named]
        contents = [str(ScopeContents.of(space.engine, scope))] if scope else []
        confirm_destroying(ERASE, "; ".join(dict.fromkeys([*targets, *contents])), sure=yes)
        receipt = space.erase(named, reason, scope=scope)
        answer(access, receipt, rendering_changes.render_erasure(receipt, space.engine.ledger))
    if not receipt.clean:
        raise Exit(1)


def _conversations(space: "Space", name: str) -> list[str]:
    """Return the sources of the discussion with this id, or of an export with this path.

    Raises `InvalidInput` if discussions of several owners have this id.
    """
    from treering.core.filters import And, Compare
    from treering.ports.ledger import Selection

    if name.isdecimal():
        return []  # the number of a hit
    origins = [f"discussion:{name}#", *([f"file:{Path(name).resolve().as_posix()}#"] if Path(name).suffix else [])]
    for origin in origins:
        where = And((Compare("kind", "eq", "conversation"), Compare("origin", "prefix", origin)))
        found = [*space.engine.ledger.select(Selection(descend=True, types=("source",), where=where))]
        scopes = sorted({source.scope for source in found})
        if origin.startswith("discussion:") and len(scopes) > 1:
            ids = ", ".join(source.id for source in found)
            hint = f"Give the ids of the one to erase: {ids}."
            raise InvalidInput(f"{label(name)} is a discussion in {' and '.join(scopes)}.", hint=hint)
        if found:
            return [source.id for source in found]
    return []


def _id_to_erase(space: "Space", text: str) -> str:
    """Return the ids that a text gives, shortens or numbers, or of the source with this path. Raises `NotFound`."""
    from treering.core.canonical import is_object

    try:
        identity, segment = naming.place_given(space.engine, text)
    except NotFound:
        if short_ids.is_short_id(text):
            raise
    else:
        if is_object(identity):
            return f"{identity} {segment}".strip()
    hint = "Find the object with `treering search`, and give the number of the hit."
    if Path(text).exists():
        hint = "The space does not contain this file. If it was erased, `treering log` shows when."
    with suppress(NotFound):
        item = space.query("page", input={"name": text}, options={"descend": True}).object
        if f"/{item.get('origin', '')}".replace("#", "/").endswith(f"/{text}"):
            return str(item["id"])
        if "id" in item:
            hint = f"To erase all of {label(item['title'])}, give its id: {item['id']}."
    raise NotFound(f"Erasing needs an id or the path of a source, not {label(text)}.", hint=hint)
