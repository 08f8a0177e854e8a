"""Groups of flags that commands share, each a dataclass whose fields become flags."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, asdict, dataclass, field, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from typer import Context, Option, Typer

from treering.surfaces.cli.help import Command, shipped_modes
from treering.surfaces.cli.printing import say

AsJson = Annotated[bool, Option("--json", help="Print only the report, as JSON.")]
Scope = Annotated[str, Option("--scope", metavar="PATH", help="The scope in the space, such as /repo/acme-web.")]
MaxTokens = Annotated[
    int | None, Option("--max-tokens", metavar="N", min=50, help="Limit the answer to this many tokens.")
]
Endpoints = Annotated[
    list[str] | None,
    Option("--endpoint", metavar="NAME=MODEL", help="The model of an endpoint, such as main=openai:gpt-5-mini."),
]
Nodes = Annotated[
    list[str] | None,
    Option("--nodes", metavar="MODULE:NAME", help="Your own node type, or a list of them; repeatable."),
]
_FURTHER = "parts"


def modes(ctx: Context, incomplete: str) -> list[tuple[str, str]]:
    """Return the modes of the verb in the completed command line, with their summaries."""
    known = shipped_modes()[ctx.command_path.rpartition(" ")[2]]
    return [(name, summary) for name, summary, *_ in known if name.startswith(incomplete)]


@cache
def known_kinds() -> Mapping[str, Sequence[str]]:
    """Return the values of `--kind` of `crystallize`, by type."""
    from treering.verbs.catalog import TYPE_LABELS, kinds_of  # it imports all tools

    return {TYPE_LABELS[name]: kinds_of(name) for name in ("knowledge", "work_item", "activity")}


def kinds(incomplete: str) -> list[tuple[str, str]]:
    """Return the kinds of knowledge, work and activities."""
    return [(kind, what) for what, known in known_kinds().items() for kind in known if kind.startswith(incomplete)]


@dataclass(frozen=True, slots=True)
class Access:
    """The space, and the form of the answer."""

    space: Annotated[
        str,
        Option(
            "--space",
            metavar="ADDRESS",
            help="sqlite:PATH, postgresql://USER@HOST/DATABASE?space=NAME, or the name of a space. "
            "Default: TREERING_SPACE, else the space of this repository or folder.",
        ),
    ] = field(default="", repr=False)  # may contain a password
    as_json: AsJson = False
    verbose: Annotated[bool, Option("--verbose", "-v", help="Also show ids, audit numbers and details.")] = False


@dataclass(frozen=True, slots=True)
class WriteFlags:
    """The author of a write, and background work."""

    actor: Annotated[str, Option("--actor", metavar="NAME", help="The author. Default: your login name.")] = ""
    as_agent: Annotated[
        bool, Option("--as-agent", help="Write with the rights of an agent instead of a person (see the policy file).")
    ] = False
    no_background: Annotated[bool, Option("--no-background", help="Leave embedding to `treering vectors`.")] = False


@dataclass(frozen=True, slots=True)
class ModelFlags:
    """Language models, the limit of their requests, and additional types of workflow nodes."""

    endpoint: Endpoints = None
    endpoint_url: Annotated[
        str, Option("--endpoint-url", metavar="URL", help="An OpenAI-compatible endpoint that serves all the models.")
    ] = ""
    scripted: Annotated[
        Path | None,
        Option("--scripted", metavar="FILE", help="Prepared answers, in order, or a list per endpoint."),
    ] = None
    max_requests: Annotated[int, Option("--max-requests", min=0, help="At most this many model requests.")] = 200
    nodes: Nodes = None


@dataclass(frozen=True, slots=True)
class MakingFlags(ModelFlags):
    """The configuration that makes memories."""

    config: Annotated[
        Path | None,
        Option(
            "--config", metavar="FILE", help="The workflows, models and prompts that make memories. Default: rules."
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class Calling:
    """The parts of a call that all verbs have."""

    scope: Scope = "/"
    input: Annotated[
        str, Option("--input", metavar="JSON|@FILE|-", help="The input as a JSON object, from a file, or from stdin.")
    ] = ""
    option: Annotated[
        list[str] | None, Option("--option", metavar="KEY=VALUE", help="Any option of the mode; repeatable.")
    ] = None


@dataclass(frozen=True, slots=True)
class QueryFlags:
    """Options of a query."""

    limit: Annotated[
        int | None,
        Option("--limit", metavar="N", min=1, help="For context, search and recent: at most this many results."),
    ] = None
    max_tokens: MaxTokens = None
    as_of: Annotated[
        str | None,
        Option("--as-of", metavar="WHEN", help="Show the content recorded by an ISO time, day or sequence number."),
    ] = None
    descend: Annotated[bool, Option("--descend", help="Also include the scopes below.")] = False
    explain: Annotated[bool, Option("--explain", help="Show how each hit was found; -v does the same.")] = False
    withdrawn: Annotated[
        bool, Option("--withdrawn", help="For context and search: also show stale and superseded knowledge.")
    ] = False
    at: Annotated[
        str | None,
        Option("--at", metavar="TREE", help="Answer for this branch or commit. Default: the current work tree."),
    ] = None


@dataclass(frozen=True, slots=True)
class Recording:
    """Options of a write."""

    dry_run: Annotated[bool, Option("--dry-run", help="Only show what would change.")] = False
    idempotency_key: Annotated[
        str | None,
        Option("--idempotency-key", metavar="KEY", help="The same call with the same key gives the first receipt."),
    ] = None
    reason: Annotated[str | None, Option("--reason", metavar="TEXT", help="The reason, for the audit log.")] = None


@dataclass(frozen=True, slots=True)
class IngestFlags:
    """Options of an ingest."""

    wait: Annotated[bool, Option("--wait", help="Wait until everything is embedded.")] = False
    dry_run: Annotated[bool, Option("--dry-run", help="Read and compare without writing.")] = False
    again: Annotated[bool, Option("--again", help="Also read content that was erased before.")] = False
    worktree: Annotated[bool, Option("--worktree", help="Read the work tree, with uncommitted changes.")] = False


@dataclass(frozen=True, slots=True)
class Note:
    """Title and origin of a text from stdin."""

    title: Annotated[str, Option("--title", metavar="TEXT", help="For a text from stdin: its title.")] = ""
    origin: Annotated[
        str, Option("--origin", metavar="NAME", help="For a text from stdin: a stable name of its source.")
    ] = ""


@dataclass(frozen=True, slots=True)
class SharingFlags:
    """The remote over which git hooks share a space, and its signatures."""

    sync: Annotated[
        str,
        Option("--sync", metavar="REMOTE", help="Also share the space over this git remote, or a shared folder."),
    ] = ""
    key: Annotated[Path | None, Option("--key", metavar="FILE", help="As in `treering sync`.")] = None
    signers: Annotated[Path | None, Option("--signers", metavar="FILE", help="As in `treering sync`.")] = None


@dataclass(frozen=True, slots=True)
class RecordFlags:
    """The fields of a record in common cases; others are given with --input."""

    kind: Annotated[
        str,
        Option(
            "--kind",
            metavar="KIND",
            help="decision, fact, constraint …; task, bug …; debug, review …",
            autocompletion=kinds,
        ),
    ] = ""
    title: Annotated[str, Option("--title", metavar="TEXT", help="The title.")] = ""
    summary: Annotated[str, Option("--summary", metavar="TEXT", help="A short description.")] = ""
    status: Annotated[str, Option("--status", metavar="STATUS", help="Such as active; for work, such as resolved.")] = (
        ""
    )
    evidence: Annotated[
        list[str] | None,
        Option(
            "--evidence",
            metavar="PLACE",
            help="Its evidence: path:10-14, path::symbol, a path, a quote, or ids of a hit; repeatable.",
        ),
    ] = None
    question: Annotated[str, Option("--question", metavar="TEXT", help="Decision: the question.")] = ""
    outcome: Annotated[
        str, Option("--outcome", metavar="TEXT", help="Decision: the choice made. Activity: success, failure …")
    ] = ""
    rationale: Annotated[str, Option("--rationale", metavar="TEXT", help="Decision: why.")] = ""
    alternative: Annotated[
        list[str] | None, Option("--alternative", metavar="TEXT", help="Decision: a rejected alternative; repeatable.")
    ] = None
    subject: Annotated[str, Option("--subject", metavar="TEXT", help="Fact: the subject.")] = ""
    predicate: Annotated[str, Option("--predicate", metavar="TEXT", help="Fact: the relation or attribute.")] = ""
    target: Annotated[str, Option("--object", metavar="TEXT", help="Fact: the other end of a relation.")] = ""
    value: Annotated[str, Option("--value", metavar="JSON", help="Fact: the value of an attribute.")] = ""
    rule: Annotated[str, Option("--rule", metavar="TEXT", help="Constraint: the rule to follow.")] = ""
    statement: Annotated[str, Option("--statement", metavar="TEXT", help="Preference: the preferred way.")] = ""
    step: Annotated[
        list[str] | None, Option("--step", metavar="TEXT", help="Procedure: a step; repeatable, in order.")
    ] = None
    resolution: Annotated[str, Option("--resolution", metavar="TEXT", help="Work: how it was resolved.")] = ""
    into: Annotated[str, Option("--into", metavar="ID", help="Node: the node it is merged into.")] = ""
    by: Annotated[str, Option("--by", metavar="ID", help="Supersede: the knowledge that replaces it.")] = ""


def used_flags(group: QueryFlags | Recording | IngestFlags) -> dict[str, Any]:
    """Return the flags of a group that were given, as options."""
    return {name: value for name, value in asdict(group).items() if value is not None and value is not False}


def add_commands(app: Typer, *commands: Callable[..., None], **named: Callable[..., None]) -> None:
    """Add commands, each named as its function, without a final underscore: `import_` is `import`. `named`: by name."""
    for name, command in {**{one.__name__.rstrip("_"): one for one in commands}, **named}.items():
        app.command(name, cls=Command)(spread(command))


def add_group(
    app: Typer, group_name: str, summary: str, *commands: Callable[..., None], **named: Callable[..., None]
) -> None:
    """Add commands below a name, as `add_commands` does. The name alone shows their help."""
    group = Typer(rich_markup_mode=None, invoke_without_command=True)
    group.callback(help=summary)(_show_help)
    add_commands(group, *commands, **named)
    app.add_typer(group, name=group_name)


def _show_help(context: Context) -> None:
    if context.invoked_subcommand is None:
        say(context.get_help())


def spread(command: Callable[..., None], further: Mapping[str, type] | None = None) -> Callable[..., None]:
    """Return a command whose parameters of a group's type are replaced by one flag per field.

    `further`: additional groups, passed to the parameter `parts` of the command by their names.
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if is_dataclass(hint) and isinstance(hint, type)}
    if further is not None:
        del hints[_FURTHER]
        groups |= further

    def spreading(**given: Any) -> None:
        made: dict[str, Any] = {
            name: group(**{one.name: given.pop(one.name) for one in fields(group)}) for name, group in groups.items()
        }
        if further is not None:
            made[_FURTHER] = {name: made.pop(name) for name in further}
        command(**given, **made)

    parameters = list(_parameters(command, hints, groups))
    spreading.__name__, spreading.__doc__, spreading.__module__ = command.__name__, command.__doc__, command.__module__
    spreading.__annotations__ = {one.name: one.annotation for one in parameters}
    spreading.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # read by inspect
    return spreading


def _parameters(
    command: Callable[..., None], hints: dict[str, Any], groups: dict[str, type]
) -> Iterator[inspect.Parameter]:
    """Yield a command's own parameters, then those of its groups, in the order of `--help`."""
    for name, parameter in inspect.signature(command).parameters.items():
        if name in hints and name not in groups:
            yield _flag(name, hints[name], parameter.default)
    for group in groups.values():
        types = get_type_hints(group, include_extras=True)
        for one in fields(group):
            yield _flag(one.name, types[one.name], _default(one))


def _default(one: Field[Any]) -> Any:
    return inspect.Parameter.empty if one.default is MISSING else one.default


def _flag(name: str, hint: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)
