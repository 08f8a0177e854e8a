"""Commands for the wiki of a repository as files."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Exit, Option, Typer

from treering.core.counting import counted_things
from treering.facades import LazyModule
from treering.surfaces.cli.flags import Access, add_group
from treering.surfaces.cli.help import CommandHelp
from treering.surfaces.cli.printing import IndentedLine, line, say
from treering.surfaces.cli.session import answer, opened, watched

if TYPE_CHECKING:
    from treering.extensions.wiki import operations
    from treering.verbs.envelope import Operation
else:
    operations = LazyModule("treering.extensions.wiki.operations")

Scope = Annotated[str, Option("--scope", metavar="PATH", help="The scope of the repository in the space.")]
To = Annotated[str, Option("--to", metavar="FOLDER", help="The folder of the wiki. Default: wiki in the repository.")]
Repository = Annotated[
    str, Option("--repository", metavar="FOLDER", help="The work tree. Default: the one you are in.")
]
Links = Annotated[
    Literal["auto", "forge", "files", "text"],
    Option("--links", help="The target of citations. Default: a known forge, else files, else text."),
]
DryRun = Annotated[bool, Option("--dry-run", help="Only show what would change.")]


_MAX_LISTED = 20


def add_wiki(app: Typer) -> None:
    """Add the commands to the command line."""
    commands = (build, status, page, publish, serve)
    add_group(app, "wiki", "Write a wiki of a repository as Markdown, and view it.", *commands)


def build(
    access: Access,
    to: To = "",
    repository: Repository = "",
    links: Links = "auto",
    scope: Scope = "/",
    dry_run: DryRun = False,
) -> None:
    """Write the wiki of the repository in the space.

    Writes only files that differ, all of them or none. Text that a person wrote
    stays; pages that a person changed are listed.
    """
    options = {"links": links, "dry_run": dry_run}
    _write(operations.BUILD, access, scope, {"to": to, "repository": repository}, options)


def status(
    access: Access,
    to: To = "",
    repository: Repository = "",
    scope: Scope = "/",
    check: Annotated[bool, Option("--check", help="Exit with 1 if anything needs attention.")] = False,
) -> None:
    """List stale pages with the reason, pages changed by a person, and broken links."""
    with opened(access) as space:
        report = space.perform(operations.STATUS, scope, {"to": to, "repository": repository})
    answer(access, report, _status_lines(report))
    if check and not report.in_order:
        raise Exit(1)


def page(
    access: Access,
    path: Annotated[str, Argument(metavar="PAGE", help="Such as modules/flask-app.md. Default: the index.")] = "",
    of: Annotated[str, Option("--of", metavar="NAME", help="The repository, if the space has several.")] = "",
    scope: Scope = "/",
    generated: Annotated[
        str, Option("--generated", metavar="ID", help="Show the wiki that generate_wiki stored for this repository_id.")
    ] = "",
    branch: Annotated[str, Option("--branch", metavar="NAME", help="The branch of --generated.")] = "",
) -> None:
    """Show a page as it would be written now.

    Also shows the pages that link to it and the last changes of its files.
    Nothing is written.
    """
    from treering.core.canonical import render_time
    from treering.extensions.wiki.reading import PAGE

    given = {"path": path, "repository": of, "generated": generated, "branch": branch}
    with opened(access) as space, watched(space) as busy:
        report = busy.perform(PAGE, scope, given)
    linked = [line(f"{one.path}  {one.title}", indent=2) for one in report.linked_from[:_MAX_LISTED]]
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


def publish(
    to: Annotated[str, Argument(metavar="FOLDER", help="The folder to write to, such as the source of a site.")],
    access: Access,
    repository: Repository = "",
    links: Links = "auto",
    scope: Scope = "/",
    dry_run: DryRun = False,
    generated: Annotated[
        str,
        Option("--generated", metavar="ID", help="Publish the wiki that generate_wiki stored for this repository_id."),
    ] = "",
    branch: Annotated[str, Option("--branch", metavar="NAME", help="The branch of --generated.")] = "",
) -> None:
    """Write the wiki into a folder for other readers.

    Like build, but citations link to the forge or nowhere, never into the work
    tree. With --generated, publishes the pages written by agents.
    """
    paths = {"to": to, "repository": repository, "generated": generated, "branch": branch}
    _write(operations.PUBLISH, access, scope, paths, {"links": links, "dry_run": dry_run})


def serve(
    folder: Annotated[str, Argument(metavar="FOLDER", help="The folder of the wiki. Default: wiki.")] = "wiki",
    port: Annotated[
        int, Option("--port", metavar="N", min=0, max=65535, help="The port to listen on; 0 picks a free one.")
    ] = 8421,
) -> None:
    """Show a wiki in the browsers of this machine.

    Read-only. Prints its address and runs until stopped (Ctrl-C).
    """
    from treering.extensions.wiki.serving import wiki_server

    with wiki_server(Path(folder), port=port) as server:
        say(f"The wiki is at http://127.0.0.1:{server.server_address[1]}/")
        server.serve_forever()


def _write(
    operation: "Operation[operations.WikiWritten]",
    access: Access,
    scope: str,
    given: Mapping[str, str],
    options: Mapping[str, object],
) -> None:
    with opened(access) as space, watched(space) as busy:
        report = busy.perform(operation, scope, given, options)
    answer(access, report, _written_lines(report))


_ON_UNREAD = "Commit and run `treering add .`, or run `treering add . --worktree`."
_ON_EDITS = "`treering add .` proposes new edits for `treering review list`; delete a page to have it rewritten."


def _written_lines(report: "operations.WikiWritten") -> Iterator[IndentedLine]:
    would = "would be " if report.dry_run else ""
    yield line((report.title, "bold"), f": {counted_things(report.pages, 'page')} in {report.folder}")
    changes = (f"{len(report.written)} files {would}written", f"{len(report.unchanged)} unchanged")
    yield line(f"{', '.join(changes)}, {len(report.removed)} {would}removed.", indent=2)
    yield from _list(
        "Left unchanged because a person wrote or changed them:",
        report.conflicts,
        _ON_EDITS,
    )


def _status_lines(report: "operations.WikiStatus") -> Iterator[IndentedLine]:
    fresh = sum(page.state == "fresh" for page in report.pages)
    yield line((report.title, "bold"), f": {fresh} of {len(report.pages)} pages are fresh, in {report.folder}")
    stale = [page for page in report.pages if page.state != "fresh"]
    for page in stale[:_MAX_LISTED]:
        yield line(f"{page.path} ", (page.state, "yellow"), indent=2)
        yield from (line(why, indent=4) for why in page.why)
    if len(stale) > _MAX_LISTED:
        yield line(f"and {len(stale) - _MAX_LISTED} more; --json lists them", indent=2)
    yield from _list("Changed by a person and not accepted:", report.conflicts, _ON_EDITS)
    yield from _list("Missing:", report.missing, "`treering wiki build` restores them.")
    broken = [f"{one.page}: {one.target} ({one.why})" for one in report.broken_links]
    yield from _list("Broken links:", broken, "")
    yield from _list("Changed since they were read:", report.unread, _ON_UNREAD)
    if report.in_order and not report.unread:
        yield line("Nothing to do.", indent=2)


def _list(title: str, names: Sequence[str], hint: str) -> Iterator[IndentedLine]:
    if not names:
        return
    yield line((title, "yellow"), indent=2)
    yield from (line(name, indent=4) for name in names[:_MAX_LISTED])
    if len(names) > _MAX_LISTED:
        yield line(f"and {len(names) - _MAX_LISTED} more; --json lists them", indent=4)
    if hint:
        yield line(hint, indent=4)


HELP = CommandHelp(
    groups={"Wikis, conversations, tickets": ("wiki",), "Databases and engines": ("mongodb",)},
    examples={
        "mongodb index": (
            (
                "for an Atlas cluster or your own server",
                "treering mongodb index mongodb+srv://ada@cluster.example.org/wikis",
            ),
        ),
        "mongodb status": (("how searches are answered", "treering mongodb status mongodb://127.0.0.1/wikis"),),
        "wiki build": (
            ("of the current repository, into its folder wiki", "treering wiki build"),
            ("into another folder, only showing the changes", "treering wiki build --to ../wiki --dry-run"),
        ),
        "wiki status": (
            ("stale and edited pages, broken links", "treering wiki status"),
            ("in CI, failing if there are any", "treering wiki status --check"),
        ),
        "wiki page": (
            ("list the pages", "treering wiki page"),
            ("show a page", "treering wiki page modules/flask-app.md"),
        ),
        "wiki publish": (("into the source folder of a site", "treering wiki publish site/docs"),),
        "wiki serve": (("the pages in a local browser", "treering wiki serve"),),
    },
)
