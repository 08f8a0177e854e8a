"""What `treering wiki` does."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import typer

from treering.core.canonical import render_time
from treering.parts.wiki.operations import BUILD, PUBLISH, STATUS, WikiStatus, WikiWritten
from treering.parts.wiki.reading import PAGE
from treering.surfaces.cli.flags import Access
from treering.surfaces.cli.printing import say
from treering.surfaces.cli.rendering.lines import IndentedLine, line
from treering.surfaces.cli.session import answer, opened, watched
from treering.verbs.envelope import Operation

_NOT_IN_ORDER = 1
_MOST_LISTED = 20


def build(access: Access, scope: str, given: Mapping[str, str], options: Mapping[str, object]) -> None:
    """Write the wiki into its folder."""
    _write(BUILD, access, scope, given, options)


def publish(access: Access, scope: str, given: Mapping[str, str], options: Mapping[str, object]) -> None:
    """Write the wiki into another folder."""
    _write(PUBLISH, access, scope, given, options)


def status(access: Access, scope: str, given: Mapping[str, str], *, check: bool) -> None:
    """Tell how a wiki stands."""
    with opened(access) as space:
        told = space.perform(STATUS, scope, given)
    answer(access, told, _standing(told))
    if check and not told.in_order:
        raise typer.Exit(_NOT_IN_ORDER)


def page(access: Access, scope: str, given: Mapping[str, str]) -> None:
    """Show a page."""
    with opened(access) as space, watched(space) as busy:
        told = busy.perform(PAGE, scope, given)
    linked = [line(f"{one.path}  {one.title}", indent=2) for one in told.linked_from[:_MOST_LISTED]]
    changed = [
        line(f"{render_time(one.at)[:16].replace('T', ' ')}  {one.what} {one.path}  by {one.actor}", indent=2)
        for one in told.changes
    ]
    lines = [
        *(line(one) for one in told.text.strip().splitlines()),
        *([line(""), line("Linked from:"), *linked] if linked else []),
        *([line(""), line("Changes of its files:"), *changed] if changed else []),
    ]
    answer(access, told, lines)


def serve(folder: str, port: int) -> None:
    """Show a wiki until it is told to stop."""
    from treering.parts.wiki.serving import wiki_server

    with wiki_server(Path(folder), port=port) as server:
        say(f"The wiki is at http://127.0.0.1:{server.server_address[1]}/")
        server.serve_forever()


def _write(
    operation: Operation[WikiWritten],
    access: Access,
    scope: str,
    given: Mapping[str, str],
    options: Mapping[str, object],
) -> None:
    with opened(access) as space, watched(space) as busy:
        told = busy.perform(operation, scope, given, options)
    answer(access, told, _written(told))


def _written(told: WikiWritten) -> Iterator[IndentedLine]:
    would = "would be " if told.dry_run else ""
    count = f"{told.pages} {'page' if told.pages == 1 else 'pages'}"
    yield line((told.title, "bold"), f": {count} in {told.folder}")
    changes = (f"{len(told.written)} files {would}written", f"{len(told.unchanged)} unchanged")
    yield line(f"{', '.join(changes)}, {len(told.removed)} {would}removed.", indent=2)
    yield from _list(
        "Kept as they are, for a person wrote or changed them:",
        told.conflicts,
        "`treering ingest` proposes such edits; remove a page to have it written anew.",
    )


def _standing(told: WikiStatus) -> Iterator[IndentedLine]:
    fresh = sum(page.state == "fresh" for page in told.pages)
    yield line((told.title, "bold"), f": {fresh} of {len(told.pages)} pages are fresh, in {told.folder}")
    stale = [page for page in told.pages if page.state != "fresh"]
    for page in stale[:_MOST_LISTED]:
        yield line(f"{page.path} ", (page.state, "yellow"), indent=2)
        yield from (line(why, indent=4) for why in page.why)
    if len(stale) > _MOST_LISTED:
        yield line(f"and {len(stale) - _MOST_LISTED} more; --json lists them", indent=2)
    yield from _list("Changed by a person:", told.conflicts, "`treering ingest` proposes such edits.")
    yield from _list("Not there any more:", told.missing, "`treering wiki build` writes them again.")
    broken = [f"{one.page}: {one.target} ({one.why})" for one in told.broken_links]
    yield from _list("Links that lead nowhere:", broken, "")
    if told.in_order:
        yield line("Nothing to do.", indent=2)


def _list(title: str, names: Sequence[str], hint: str) -> Iterator[IndentedLine]:
    if not names:
        return
    yield line((title, "yellow"), indent=2)
    yield from (line(name, indent=4) for name in names[:_MOST_LISTED])
    if len(names) > _MOST_LISTED:
        yield line(f"and {len(names) - _MOST_LISTED} more; --json lists them", indent=4)
    if hint:
        yield line(hint, indent=4)
