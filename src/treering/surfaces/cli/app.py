"""The command line as a whole."""

import typer

from treering.registry import load, parts
from treering.surfaces.cli.commands.databases import add_index, add_keys, add_postgres
from treering.surfaces.cli.commands.serve import add_serving
from treering.surfaces.cli.commands.spaces import add_spaces, add_watching
from treering.surfaces.cli.commands.verbs import add_reviews, add_verbs
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
for add in (add_verbs, add_reviews, add_spaces, add_watching, add_serving, add_keys, add_postgres, add_index):
    add(app)
for place in (place for part in parts() for place in part.commands):
    load(place)(app)


@app.callback(
    epilog="Start with `treering try`, or with `treering init` and `treering ingest .`. "
    "Exit codes: 0 done, 1 failed, 2 bad input, 3 not found, 4 conflict, 5 denied, 6 unavailable, 7 corrupt."
)
def treering(context: typer.Context) -> None:
    """Memory for LLM agents that can be checked: evidence, contradictions, gaps and history, on one file."""
    if context.invoked_subcommand is None:
        say(context.get_help())
