"""The implementation of `treering wiki`."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from treering.core.canonical import render_time
from treering.extensions.wiki.operations import BUILD, PUBLISH, STATUS, WikiStatus, WikiWritten
from treering.extensions.wiki.reading import PAGE
from treering.surfaces.cli.flags import Access
from treering.surfaces.cli.printing import IndentedLine, line, say
from treering.surfaces.cli.session import answer, opened, watched
from treering.verbs.envelope import Operation

if TYPE_CHECKING:
    pass


_NOT_IN_ORDER = 1
_MOST_LISTED = 20


def build(access: Access, scope: str, given: Mapping[str, str], options: Mapping[str, object]) -> None:
    """Write the wiki into its folder."""
    _write(BUILD, access, scope, given, options)


def publish(access: Access, scope: str, given: Mapping[str, str], options: Mapping[str, object]) -> None:
    """Write the wiki into another folder."""
    _write(PUBLISH, access, scope, given, options)


def status(access: Access, scope: str, given: Mapping[str, str], *, check: bool) -> None:
    """Report the status of a wiki."""
    with opened(access) as space:
        report = space.perform(STATUS, scope, given)
    answer(access, report, _standing(report))
    if check and not report.in_order:
        raise typer.Exit(_NOT_IN_ORDER)


def page(access: Access, scope: str, given: Mapping[str, str]) -> None:
    """Show a page."""
    with opened(access) as space, watched(space) as busy:
        report = busy.perform(PAGE, scope, given)
    linked = [line(f"{one.path}  {one.title}", indent=2) for one in report.linked_from[:_MOST_LISTED]]
    changed = [
        line(f"{render_time(one.at)[:16].replace('T', ' ')}  {one.what} {one.path}  by {one.actor}", indent=2)
        for one in report.changes
    ]
    lines = [
        *(line(one) for one in report.text.strip().splitlines()),
        *([line(""), line("Linked from:"), *linked] if linked else []),
        *([line(""), line("Changes of its files:"), *changed] if changed else []),
    ]
    answer(access, report, lines)


def serve(folder: str, port: int) -> None:
    """Show a wiki until interrupted."""
    from treering.extensions.wiki.serving import wiki_server

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
        report = busy.perform(operation, scope, given, options)
    answer(access, report, _written(report))


def _written(report: WikiWritten) -> Iterator[IndentedLine]:
    would = "would be " if report.dry_run else ""
    count = f"{report.pages} {'page' if report.pages == 1 else 'pages'}"
    yield line((report.title, "bold"), f": {count} in {report.folder}")
    changes = (f"{len(report.written)} files {would}written", f"{len(report.unchanged)} unchanged")
    yield line(f"{', '.join(changes)}, {len(report.removed)} {would}removed.", indent=2)
    yield from _list(
        "Left unchanged because a person wrote or changed them:",
        report.conflicts,
        "`treering ingest` proposes such edits; delete a page to have it rewritten.",
    )


def _standing(report: WikiStatus) -> Iterator[IndentedLine]:
    fresh = sum(page.state == "fresh" for page in report.pages)
    yield line((report.title, "bold"), f": {fresh} of {len(report.pages)} pages are fresh, in {report.folder}")
    stale = [page for page in report.pages if page.state != "fresh"]
    for page in stale[:_MOST_LISTED]:
        yield line(f"{page.path} ", (page.state, "yellow"), indent=2)
        yield from (line(why, indent=4) for why in page.why)
    if len(stale) > _MOST_LISTED:
        yield line(f"and {len(stale) - _MOST_LISTED} more; --json lists them", indent=2)
    yield from _list("Changed by a person:", report.conflicts, "`treering ingest` proposes such edits.")
    yield from _list("Missing:", report.missing, "`treering wiki build` restores them.")
    broken = [f"{one.page}: {one.target} ({one.why})" for one in report.broken_links]
    yield from _list("Broken links:", broken, "")
    if report.in_order:
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
