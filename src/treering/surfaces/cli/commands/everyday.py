"""One command for each everyday job: find, ask, show, record, correct, take back."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, Typer

from treering.facades import LazyModule
from treering.surfaces.cli import completing
from treering.surfaces.cli.flags import Access, Calling, IngestFlags, Note, QueryFlags, WriteFlags, add_commands

if TYPE_CHECKING:
    from treering.surfaces.cli import everyday, verbs
    from treering.verbs import everyday as calls
else:
    everyday = LazyModule("treering.surfaces.cli.everyday")
    verbs = LazyModule("treering.surfaces.cli.verbs")
    calls = LazyModule("treering.verbs.everyday")

Words = Annotated[list[str], Argument(metavar="TEXT", help="The words; quotes are not needed.")]
Statement = Annotated[list[str], Argument(metavar="TEXT", help="One sentence.")]
Because = Annotated[
    list[str] | None,
    Option(
        "--because",
        metavar="PLACE",
        help="Its evidence: path:10-14, path::symbol, a path, a quote, or the number of a hit; repeatable.",
        autocompletion=completing.evidence,
    ),
]
Scope = Annotated[str, Option("--scope", metavar="PATH", help="The scope in the space, such as /repo/acme-web.")]
Why = Annotated[str, Option("--why", metavar="TEXT", help="The reason.")]
AppliesTo = Annotated[str, Option("--for", metavar="PATH", help="The path or area it is limited to.")]
Limit = Annotated[int | None, Option("--limit", "-n", metavar="N", min=1, help="At most this many results.")]
_SHOWN_HITS = 5
"""Hits of up to six lines each that fit on a screen."""
Item = Annotated[
    str,
    Argument(
        metavar="ID|TITLE",
        help="An id or the end of one, words of its title, or the number of a hit.",
        autocompletion=completing.statements,
    ),
]


def add_everyday(app: Typer) -> None:
    """Add the commands to the command line."""
    add_commands(app, EVERYDAY)


def add(
    access: Access,
    writing: WriteFlags,
    bringing: IngestFlags,
    named: Note,
    what: Annotated[
        str, Argument(metavar="PATH|URL|-", help="A repository, folder, file or page; - for a text from stdin.")
    ] = "",
    note: Annotated[str | None, Option("--note", metavar="TEXT", help="Store this text instead.")] = None,
    scope: Scope = "/",
) -> None:
    """Read a repository, folder, file, page or note.

    Unchanged input changes nothing, so it is safe to repeat.
    """
    everyday.add(what, note, Calling(scope=scope), access, bringing, named, writing)


def search(
    access: Access,
    words: Words,
    limit: Annotated[int, Option("--limit", "-n", metavar="N", min=1, help="At most this many results.")] = _SHOWN_HITS,
    scope: Scope = "/",
) -> None:
    """Find passages and knowledge, with the lines that answer."""
    verbs.query(
        words, "search", access, Calling(scope=scope), QueryFlags(limit=limit, descend=True), proof=None, key=None
    )


def ask(
    access: Access,
    words: Words,
    max_tokens: Annotated[
        int | None, Option("--max-tokens", metavar="N", min=50, help="Limit the answer to this many tokens.")
    ] = None,
    scope: Scope = "/",
) -> None:
    """Gather the knowledge for a task, with its sources."""
    verbs.query(
        words, "", access, Calling(scope=scope), QueryFlags(max_tokens=max_tokens, descend=True), proof=None, key=None
    )


def brief(access: Access, scope: Scope = "/") -> None:
    """Show a brief before starting.

    The project, rules, decisions, open work and recent changes.
    """
    verbs.query([], "brief", access, Calling(scope=scope), QueryFlags(), proof=None, key=None)


def show(
    access: Access,
    what: Annotated[
        list[str],
        Argument(
            metavar="ID|PLACE|NAME|N",
            help="An id, path, path:10-14, path::symbol, title, name, or number of a hit.",
            autocompletion=completing.places,
        ),
    ],
    scope: Scope = "/",
) -> None:
    """Show an object, a file or some lines."""
    everyday.show(" ".join(what), access, scope)


def log(
    access: Access,
    about: Annotated[
        str,
        Argument(
            metavar="PATH|ID|TITLE",
            help="Only this file, folder or object, everything based on it, and its rules.",
            autocompletion=completing.places,
        ),
    ] = "",
    since: Annotated[
        str, Option("--since", metavar="WHEN", help="A day or time, such as yesterday or 2026-01-31.")
    ] = "",
    limit: Limit = None,
    scope: Scope = "/",
) -> None:
    """Show what changed, newest first."""
    everyday.log(about, since, limit, access, scope)


def decide(
    access: Access,
    writing: WriteFlags,
    text: Statement,
    because: Because = None,
    why: Why = "",
    instead_of: Annotated[
        list[str] | None, Option("--instead-of", metavar="TEXT", help="A rejected alternative; repeatable.")
    ] = None,
    question: Annotated[str, Option("--question", metavar="TEXT", help="The question it answers.")] = "",
    scope: Scope = "/",
) -> None:
    """Record a decision."""
    everyday.record(
        text,
        lambda words, based: calls.decide(words, based, question=question, why=why, instead_of=instead_of or []),
        because,
        scope,
        access,
        writing,
    )


def rule(
    access: Access,
    writing: WriteFlags,
    text: Statement,
    because: Because = None,
    applies_to: AppliesTo = "",
    why: Why = "",
    scope: Scope = "/",
) -> None:
    """Record a rule to follow."""
    everyday.record(
        text,
        lambda words, based: calls.rule(words, based, applies_to=applies_to, why=why),
        because,
        scope,
        access,
        writing,
    )


def prefer(
    access: Access,
    writing: WriteFlags,
    text: Statement,
    because: Because = None,
    applies_to: AppliesTo = "",
    scope: Scope = "/",
) -> None:
    """Record a preference."""
    everyday.record(
        text,
        lambda words, based: calls.prefer(words, based, applies_to=applies_to),
        because,
        scope,
        access,
        writing,
    )


def fact(
    access: Access,
    writing: WriteFlags,
    text: Annotated[list[str], Argument(metavar="NAME=VALUE", help="Such as: port = 8080")],
    because: Because = None,
    subject: Annotated[str, Option("--of", metavar="SUBJECT", help="The subject of the fact.")] = "",
    scope: Scope = "/",
) -> None:
    """Record a fact, such as "port = 8080"."""
    everyday.record(
        text,
        lambda words, based: calls.fact(words, based, subject=subject),
        because,
        scope,
        access,
        writing,
    )


def task(
    access: Access,
    writing: WriteFlags,
    text: Statement,
    priority: Annotated[str, Option("--priority", metavar="LEVEL", help="low, normal, high or urgent.")] = "normal",
    scope: Scope = "/",
) -> None:
    """Open a task."""
    everyday.record(
        text,
        lambda words, _: calls.task(words, priority=priority, scope=scope),
        None,
        scope,
        access,
        writing,
    )


def done(
    access: Access,
    writing: WriteFlags,
    item: Annotated[
        str,
        Argument(metavar="ID|TITLE", help="The task: its id, or words of its title.", autocompletion=completing.tasks),
    ],
    resolution: Annotated[list[str] | None, Argument(metavar="TEXT", help="The outcome.")] = None,
    scope: Scope = "/",
) -> None:
    """Resolve a task."""
    everyday.done(item, " ".join(resolution or []), access, writing, scope)


def replace(
    access: Access,
    writing: WriteFlags,
    item: Item,
    text: Annotated[list[str], Argument(metavar="TEXT", help="The new statement.")],
    because: Because = None,
    why: Why = "",
) -> None:
    """Replace a statement with a new one. The old one stays in the history."""
    everyday.replace(item, " ".join(text), because or [], why, access, writing)


def undo(
    access: Access,
    writing: WriteFlags,
    item: Annotated[
        str,
        Argument(metavar="PATCH|ID|TITLE", help="Default: your last record.", autocompletion=completing.items),
    ] = "",
) -> None:
    """Undo your last record, an entry, or a patch."""
    everyday.undo(item, access, writing)


_ALL: Sequence[Callable[..., None]] = (
    add,
    search,
    ask,
    brief,
    show,
    log,
    decide,
    rule,
    prefer,
    fact,
    task,
    done,
    replace,
    undo,
)
EVERYDAY: Mapping[str, Callable[..., None]] = {command.__name__: command for command in _ALL}
