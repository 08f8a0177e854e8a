"""The commands, each one function, and the command line as a whole. Declaring them imports nothing slow."""

from typing import Annotated

import typer
from typer.main import get_command_name
from typer.models import CommandInfo, TyperInfo

from treering.registry import Extension, extensions, leave_out, load
from treering.surfaces.cli.commands.everyday import EVERYDAY, add_everyday
from treering.surfaces.cli.commands.reviews import add_reviews
from treering.surfaces.cli.commands.verbs import VERBS, add_verbs
from treering.surfaces.cli.help import GroupedCommands
from treering.surfaces.cli.printing import say


def command_line(first: str = "") -> typer.Typer:
    """Return all commands, or only the everyday ones or the four verbs if `first` is one of these.

    Declaring all others would take longer than reading the arguments of one.
    """
    # Plain help loads in a third of the time, is readable in a pipe, and is the same everywhere.
    app = typer.Typer(
        name="treering",
        cls=GroupedCommands,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        invoke_without_command=True,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(
        epilog="Start with `treering try`, or with `treering init` and `treering add .`. "
        "Exit codes: 0 done, 1 failed, 2 bad input, 3 not found, 4 conflict, 5 denied, 6 unavailable, 7 corrupt."
    )(treering)
    if first in EVERYDAY:
        add_everyday(app)
        return app
    add_verbs(app)
    if first not in VERBS:
        add_everyday(app)
        _add_others(app)
    return app


def treering(
    context: typer.Context,
    trust: Annotated[  # noqa: ARG001 - shown in the help; `run` takes it out of every command line
        bool, typer.Option("--trust", help="Open a space that came with the repository. For any command.")
    ] = False,
    no_pager: Annotated[  # noqa: ARG001 - as --trust
        bool, typer.Option("--no-pager", help="Do not page long output. For any command.")
    ] = False,
) -> None:
    """Memory for LLM agents that can be checked: evidence, contradictions, gaps and history, on one file."""
    if context.invoked_subcommand is None:
        say(context.get_help())


def _add_others(app: typer.Typer) -> None:
    """Add all commands except the verbs; those of extensions last."""
    from treering.surfaces.cli.commands.feedback import add_feedback
    from treering.surfaces.cli.commands.spaces import add_spaces

    for add in (add_reviews, add_feedback, add_spaces):
        add(app)
    for part in extensions():
        _add_commands_of(part, app)


def _add_commands_of(part: Extension, app: typer.Typer) -> None:
    """Add the commands of an extension; a command whose name is taken is logged and left out."""
    for place in part.commands:
        brought = typer.Typer()
        load(place)(brought)
        _add_brought(part, app, brought)


def _add_brought(part: Extension, app: typer.Typer, brought: typer.Typer, group: str = "") -> None:
    """Add commands and groups to the command line or a group of it; commands of a known group are added to that."""
    known = _names(app)
    groups = {_name(one): one.typer_instance for one in app.registered_groups}
    added: list[CommandInfo | TyperInfo] = [*brought.registered_commands, *brought.registered_groups]
    for one in added:
        name = _name(one)
        if isinstance(one, TyperInfo) and one.typer_instance and (into := groups.get(name)):
            _add_brought(part, into, one.typer_instance, f"{name} ")
        elif name in known:
            leave_out(
                f"The command {group + name!r} of the extension {part.name} is ignored: that name is already taken."
            )
        elif isinstance(one, TyperInfo):
            app.registered_groups.append(one)
        else:
            app.registered_commands.append(one)


def _names(commands: typer.Typer) -> list[str]:
    return [*map(_name, commands.registered_commands), *map(_name, commands.registered_groups)]


def _name(one: CommandInfo | TyperInfo) -> str:
    named = one.name or (one.typer_instance.info.name if isinstance(one, TyperInfo) and one.typer_instance else "")
    return named or get_command_name(one.callback.__name__ if one.callback else "")
