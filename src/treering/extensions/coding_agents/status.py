"""The command that shows the status of a space."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from typer import Option

from treering.core.counting import counted_things
from treering.extensions.resident.client import how_it_is
from treering.facades import LazyModule
from treering.surfaces.cli.flags import Access
from treering.surfaces.cli.printing import IndentedLine, line
from treering.surfaces.cli.session import answer, is_piped, opened
from treering.system.address import Address, shown_address
from treering.system.settings import Settings

if TYPE_CHECKING:
    from treering.extensions.coding_agents import session_hooks
    from treering.surfaces import ingest_words
    from treering.surfaces.cli import history, rendering
    from treering.verbs import trees
    from treering.verbs.query import space_status
else:
    history = LazyModule("treering.surfaces.cli.history")
    ingest_words = LazyModule("treering.surfaces.ingest_words")
    rendering = LazyModule("treering.surfaces.cli.rendering")
    session_hooks = LazyModule("treering.extensions.coding_agents.session_hooks")
    space_status = LazyModule("treering.verbs.query.space_status")
    trees = LazyModule("treering.verbs.trees")


def status(
    access: Access,
    writes: Annotated[
        int, Option("--writes", metavar="N", min=0, max=100, help="Show this many of the last changes.")
    ] = 5,
) -> None:
    """Show the status of the space.

    Its content, pending work, stale knowledge, and the last author.
    """
    settings = Settings.read()
    chosen = settings.space_choice(access.space or None)
    address = chosen.address
    with opened(access) as space:
        state = space.perform(space_status.STATUS, options={"writes": writes})
        warnings = trees.unread_changes(space.engine, "/")
        latest = [] if access.as_json or not writes else history.events(space, {}, "/", until_enough=writes)
    transcripts = len({one.transcript for one in session_hooks.waiting_transcripts(settings)})
    resident = how_it_is()
    facts = {
        "space": str(address),
        "why": chosen.why,
        **state.model_dump(mode="json"),
        "warnings": warnings,
        "waiting_transcripts": transcripts,
        "resident": {name: float(value) for name, value in resident.items()} if resident else None,
    }
    lines = [*_status_lines(address, chosen.why, state, verbose=access.verbose)]
    if transcripts:
        waiting = counted_things(transcripts, "transcript")
        lines.append(line(f"{waiting} of sessions not read yet. Read with: treering session work"))
    if resident and access.verbose:
        lines.append(
            line(
                "A background process (pid {pid}) makes commands faster; it ends after {idle_minutes} idle minutes. "
                "To switch it off: TREERING_RESIDENT=0".format(**resident)
            )
        )
    lines += rendering.render_warnings(warnings)
    if latest:
        lines += [line(""), line(("Latest:", "bold")), *history.render_events(latest, fenced=is_piped())]
    answer(access, facts, lines)


def _status_lines(
    address: Address, why: str, state: "space_status.SpaceStatus", *, verbose: bool
) -> Iterator[IndentedLine]:
    yield line(("Space: ", "bold"), f"{shown_address(address)}{f' ({why})' if verbose else ''}")
    counts = {kind: sum(of.values()) for kind, of in state.objects.items()}
    shown = {kind: number for kind, number in counts.items() if verbose or kind != "node"}
    counted = (counted_things(number, kind.replace("_", " ")) for kind, number in shown.items())
    yield line(", ".join(counted) or _EMPTY)
    if state.pending_vectors:
        yield line(_of_vectors(state.making_vectors, state.pending_vectors))
    if state.behind:
        yield line(f"{state.behind:,} objects are not indexed yet.")
    for number, what, command in (
        (state.stale, "stale", "treering lint"),
        (state.contested, "contested", "treering lint"),
        (state.waiting, "waiting for review", "treering review list"),
    ):
        if number:
            yield line((f"{number:,} {what}", "yellow"), f". See: {command}")
    if protection := state.protection:
        yield line(_of_role(protection))


_EMPTY = "Nothing has been read yet. Start with: treering add ."


def _of_vectors(work: "space_status.VectorWork | None", pending: int) -> str:
    passages = counted_things(pending, "passage")
    if work is None:
        return f"Not embedded yet: {passages}. Searches find slightly less. Embed them with: treering vectors"
    minutes = work.minutes_left
    left = f": about {ingest_words.duration(max(60 * minutes, 1))} left" if minutes is not None else ""
    return f"Process {work.process} is embedding {passages}{left}. Searches work meanwhile."


def _of_role(protection: "space_status.SpaceProtection") -> str:
    if protection.protected:
        return f"protected: the database shows the role {protection.role!r} only the open space"
    return (
        f"not protected: the role {protection.role!r} {protection.why_not}, so the database does not restrict "
        "it to this space. Connect as a role prepared with `treering postgres plan --writer "
        "ROLE`"
    )
