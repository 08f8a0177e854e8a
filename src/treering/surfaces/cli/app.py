"""The command line as a whole."""

import typer

from treering.parts.coding_agents import commands as connect_commands
from treering.parts.discussions import commands as discussion_commands
from treering.parts.projects import commands as supervise_commands
from treering.parts.wiki import commands as mongodb_commands
from treering.parts.wiki import commands as wiki_commands
from treering.parts.workflows import commands as workflow_commands
from treering.surfaces.cli.commands import databases, serve, spaces, verbs
from treering.surfaces.cli.help import GroupedCommands
from treering.surfaces.cli.printing import say

# Plain help: it loads in a third of the time, reads well in a pipe, and is the same everywhere.
app = typer.Typer(
    name="treering",
    cls=GroupedCommands,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for commands in (
    verbs,
    verbs,
    spaces,
    connect_commands,
    spaces,
    serve,
    databases,
    supervise_commands,
    workflow_commands,
    discussion_commands,
    databases,
    mongodb_commands,
    databases,
    wiki_commands,
):
    commands.add_to(app)


@app.callback(
    epilog="Start with `treering try`, or with `treering init` and `treering ingest .`. "
    "Exit codes: 0 done, 1 failed, 2 bad input, 3 not found, 4 conflict, 5 denied, 6 unavailable, 7 corrupt."
)
def treering(context: typer.Context) -> None:
    """Memory for LLM agents that can be checked: evidence, contradictions, gaps and history, on one file."""
    if context.invoked_subcommand is None:
        say(context.get_help())
