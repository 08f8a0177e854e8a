"""The command line as a whole."""

import typer

from treering.edges.surfaces.cli import (
    connect_commands,
    discussion_commands,
    index_commands,
    key_commands,
    mongodb_commands,
    postgres_commands,
    review_commands,
    serving_commands,
    space_commands,
    supervise_commands,
    verb_commands,
    watch_commands,
    wiki_commands,
    workflow_commands,
)
from treering.edges.surfaces.cli.help import GroupedCommands
from treering.edges.surfaces.cli.printing import say

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
    verb_commands,
    review_commands,
    space_commands,
    connect_commands,
    watch_commands,
    serving_commands,
    key_commands,
    supervise_commands,
    workflow_commands,
    discussion_commands,
    postgres_commands,
    mongodb_commands,
    index_commands,
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
