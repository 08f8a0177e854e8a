"""One command for each everyday job: find, ask, show, record, correct, undo."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, Typer

from treering.core.characters import one_line
from treering.core.errors import InvalidInput
from treering.facades import LazyModule
from treering.surfaces.cli import completing
from treering.surfaces.cli.commands.reviews import candidate_of_several, dismiss_in, revert_in
from treering.surfaces.cli.commands.verbs import ingest, query
from treering.surfaces.cli.flags import (
    Access,
    Calling,
    IngestFlags,
    MaxTokens,
    Note,
    QueryFlags,
    Scope,
    WriteFlags,
    add_commands,
    used_flags,
)
from treering.surfaces.cli.printing import say
from treering.surfaces.cli.session import answer, is_piped, opened

if TYPE_CHECKING:
    from treering.surfaces.python.space import Space
    from treering.verbs import everyday
    from treering.verbs.envelope import Envelope
else:
    everyday = LazyModule("treering.verbs.everyday")

_PLACE = re.compile(r"[^\s:]+\.\w+(?::\d+(?:-\d+)?|#L\d+(?:-L\d+)?|::[\w.]+)")
"""A place in a file that cannot be mistaken for a word: `src/retry.py:3`, `retry.py:3-5`, `retry.py::retry`."""
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
Why = Annotated[str, Option("--why", metavar="TEXT", help="The reason.")]
AppliesTo = Annotated[str, Option("--for", metavar="PATH", help="The path or area it is limited to.")]
Limit = Annotated[int | None, Option("--limit", "-n", metavar="N", min=1, help="At most this many results.")]
_SHOWN_HITS = 5
"""Hits of up to six lines each that fit on a screen."""
_UNLIMITED_TOKENS = 10_000_000
"""On a terminal, which has a pager, `show` prints objects of any size."""
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
    add_commands(app, *EVERYDAY.values())


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
    if bool(what) == (note is not None):
        raise InvalidInput("treering add takes a path, an address or --note.", hint="Write: treering add .")
    if note is None:
        ingest(bringing, named, Calling(scope=scope), writing, access, what)
        return
    from treering.surfaces.cli.ingesting import ingest_and_answer
    from treering.surfaces.cli.request import envelope_of

    item = {"text": everyday.a_note(note), **{k: v for k, v in asdict(named).items() if v}}
    options = used_flags(bringing)
    envelope = envelope_of("ingest", "source", Calling(scope=scope), given={"items": [item]}, options=options)
    with opened(access, writing, create=True) as space:
        ingest_and_answer(space, envelope, access, writing)


def search(
    access: Access,
    words: Words,
    limit: Annotated[int, Option("--limit", "-n", metavar="N", min=1, help="At most this many results.")] = _SHOWN_HITS,
    scope: Scope = "/",
) -> None:
    """Find passages and knowledge, with the lines that answer."""
    if not any(one.strip() for one in words):
        raise InvalidInput("There are no words to search for.", hint="Write: treering search WORDS")
    query(QueryFlags(limit=limit, descend=True), Calling(scope=scope), access, words, "search")


def ask(
    access: Access,
    words: Words,
    max_tokens: MaxTokens = None,
    scope: Scope = "/",
) -> None:
    """Gather the knowledge for a task, with its sources."""
    if not " ".join(words).strip():
        raise InvalidInput("There is no task.", hint="Write: treering ask WORDS")
    query(QueryFlags(max_tokens=max_tokens, descend=True), Calling(scope=scope), access, words)


def brief(access: Access, scope: Scope = "/") -> None:
    """Show a brief before starting.

    The project, rules, decisions, open work and recent changes.
    """
    query(QueryFlags(), Calling(scope=scope), access, mode="brief")


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
    bounds = QueryFlags(descend=True, max_tokens=None if is_piped() else _UNLIMITED_TOKENS)
    query(bounds, Calling(scope=scope), access, [" ".join(what)], "page")


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
    from treering.surfaces.cli.history import LINES, events, recent, render_events
    from treering.surfaces.cli.last_answer import note_places

    filters = {name: value for name, value in {"about": about, "since": since}.items() if value}
    with opened(access) as space:
        if access.as_json:
            answer(access, recent(space, filters | ({"limit": limit} if limit else {}), scope), [])
            return
        shown = events(space, filters, scope, until_enough=limit or LINES)
        note_places(space.address, [one.place for one in shown])
        answer(access, [], render_events(shown, fenced=is_piped(), numbered=True, verbose=access.verbose))


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
    envelope = everyday.decide(
        *_statement(text, because, scope), question=question, why=why, instead_of=instead_of or []
    )
    _record(envelope, access, writing)


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
    words, evidence = _statement(text, because, scope)
    _record(everyday.rule(words, evidence, applies_to=applies_to, why=why), access, writing)
    if not access.as_json:
        _say_what_check_finds(words)


def prefer(
    access: Access,
    writing: WriteFlags,
    text: Statement,
    because: Because = None,
    applies_to: AppliesTo = "",
    scope: Scope = "/",
) -> None:
    """Record a preference."""
    envelope = everyday.prefer(*_statement(text, because, scope), applies_to=applies_to)
    _record(envelope, access, writing)


def fact(
    access: Access,
    writing: WriteFlags,
    text: Annotated[list[str], Argument(metavar="NAME=VALUE", help="Such as: api.port = 8080")],
    because: Because = None,
    subject: Annotated[str, Option("--of", metavar="SUBJECT", help="The thing that has the value, such as api.")] = "",
    scope: Scope = "/",
) -> None:
    """Record a fact, such as "api.port = 8080"."""
    envelope = everyday.fact(*_statement(text, because, scope), subject=subject)
    _record(envelope, access, writing)


def task(
    access: Access,
    writing: WriteFlags,
    text: Statement,
    priority: Annotated[str, Option("--priority", metavar="LEVEL", help="low, normal, high or urgent.")] = "normal",
    scope: Scope = "/",
) -> None:
    """Open a task."""
    _record(everyday.task(_words(text), priority=priority, scope=scope), access, writing)


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
    from treering.surfaces.cli.calls import write

    with opened(access, writing) as space:
        envelope = everyday.done(space.engine, item, " ".join(resolution or []), scope=scope)
        write(space, envelope, access, writing)


def replace(
    access: Access,
    writing: WriteFlags,
    item: Item,
    text: Annotated[list[str], Argument(metavar="TEXT", help="The new statement.")],
    because: Because = None,
    why: Why = "",
) -> None:
    """Replace a statement with a new one. The old one stays in the history."""
    from treering.surfaces.cli.calls import write

    with opened(access, writing) as space:
        envelope = everyday.replacement(space.engine, item, *_statement(text, because), why=why)
        write(space, _by_its_author(envelope, space), access, writing)


def undo(
    access: Access,
    writing: WriteFlags,
    item: Annotated[
        str,
        Argument(metavar="PATCH|ID|TITLE", help="Default: your last record.", autocompletion=completing.items),
    ] = "",
) -> None:
    """Undo your last record, an entry, or a patch."""
    from treering.verbs.naming import patch_named

    with opened(access, writing) as space:
        last = "" if item else everyday.last_patch(space.engine.ledger, space.engine.author.actor).id
        patch = last or patch_named(space.engine, item)
        if item and (candidate := candidate_of_several(space, item, patch)):
            dismiss_in(space, candidate, "undo", access)
            return
        revert_in(space, patch, "undo", access, writing)


def _record(envelope: "Envelope", access: Access, writing: WriteFlags) -> None:
    from treering.surfaces.cli.calls import write

    with opened(access, writing, create=True) as space:
        write(space, _by_its_author(envelope, space), access, writing)


def _by_its_author(envelope: "Envelope", space: "Space") -> "Envelope":
    """Return a call with `--as-agent` without its status: a statement of an agent is a candidate until it is confirmed.

    If a person has to review the write anyway, the review confirms it.
    """
    engine = space.engine
    is_direct = engine.author.channel == "agent" and "agent" in engine.ledger.policy.direct_channels
    if not is_direct or envelope.mode != "knowledge" or isinstance(envelope.input, str):
        return envelope
    given = {name: value for name, value in envelope.input.items() if name != "status"}
    return envelope.model_copy(update={"input": given})


_NOT_CHECKED = (
    "`treering check` cannot find violations of this rule, because it forbids no name of code. Forms that it reads: "
    "'Never use NAME in FOLDER', 'Never import from MODULE in FOLDER', 'Use NAME instead of NAME'."
)


def _say_what_check_finds(rule: str) -> None:
    from treering.registry import extensions
    from treering.verbs.forbidden_code import forbidden_by

    if "checks" in {one.name for one in extensions()}:
        names = " and ".join(dict.fromkeys(one_line(one.name) for one in forbidden_by(rule)))
        say(f"`treering check` reports added uses of {names}." if names else _NOT_CHECKED)


def _words(text: Sequence[str]) -> str:
    return " ".join(text).strip()


def _statement(text: Sequence[str], because: Sequence[str] | None, scope: str = "/") -> "tuple[str, everyday.Because]":
    """Return the words of a statement and its evidence; places after quoted words are evidence, as after --because."""
    quoted, *places = text
    if places and " " in quoted and all(map(_PLACE.fullmatch, places)):
        return quoted.strip(), everyday.Because((*(because or ()), *places), scope)
    return _words(text), everyday.Because(tuple(because or ()), scope)


EVERYDAY: Mapping[str, Callable[..., None]] = {
    command.__name__: command
    for command in (add, search, ask, brief, show, log, decide, rule, prefer, fact, task, done, replace, undo)
}
