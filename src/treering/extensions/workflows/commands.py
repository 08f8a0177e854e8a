"""Commands that run and check workflows."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer

from treering.surfaces.cli.flags import Access, AsJson, MakingFlags, WriteFlags, add_group
from treering.surfaces.cli.help import CommandHelp

File = Annotated[Path, Argument(metavar="FILE", help="A workflow, in YAML or JSON.")]
Endpoints = Annotated[
    list[str] | None,
    Option("--endpoint", metavar="NAME=MODEL", help="The model of an endpoint, such as main=openai:gpt-5-mini."),
]
Nodes = Annotated[
    list[str] | None,
    Option("--nodes", metavar="MODULE:NAME", help="Your own node type, or a list of them; repeatable."),
]


def add_workflows(app: Typer) -> None:
    """Add the commands to the command line."""
    add_group(app, "workflow", "Run and check workflows over memory and models.", run, check, examples)


@dataclass(frozen=True, slots=True)
class RunFlags:
    """A workflow, its inputs, and its conversation."""

    file: File
    given: Annotated[
        list[str] | None,
        Option("--input", metavar="TEXT|@FILE", help="Inputs {agent1Input}, {agent2Input}, …; repeatable, in order."),
    ] = None
    discussion: Annotated[str, Option("--discussion", metavar="ID", help="The discussion it runs in.")] = ""
    within: Annotated[str, Option("--within", metavar="SCOPE", help="The scope of the discussions.")] = "/"
    messages: Annotated[
        Path | None,
        Option("--messages", metavar="FILE", help="Run on a list of {role, content} instead, storing nothing."),
    ] = None
    system: Annotated[str, Option("--system", metavar="TEXT", help="{chat_system_prompt}.")] = ""


def run(asked: RunFlags, writing: WriteFlags, access: Access, making: MakingFlags) -> None:
    """Run a workflow and print its result.

    Everything the workflow names is checked before it runs. A workflow that reaches
    a lock held by another run ends there without an error. Memories are made as
    --config specifies, else by the model of the only endpoint, else by rules.
    """
    from treering.extensions.workflows import run_command

    run_command.run(asked, making, access, writing)


def check(file: File, endpoint: Endpoints = None, nodes: Nodes = None, as_json: AsJson = False) -> None:
    """Report all errors in a workflow at once.

    Unknown types, keys, variables, endpoints and presets; nothing is run.
    """
    from treering.extensions.workflows import run_command

    run_command.check(file, tuple(endpoint or ()), tuple(nodes or ()), Access(as_json=as_json))


def examples(
    name: Annotated[str, Argument(metavar="[NAME]", help="The example to print; without it, the list.")] = "",
    as_json: AsJson = False,
) -> None:
    """Show workflows that come with Treering."""
    from treering.extensions.workflows import run_command

    run_command.examples(name, Access(as_json=as_json))


HELP = CommandHelp(
    groups={"Wikis, conversations, tickets": ("workflow",)},
    examples={
        "workflow run": (
            (
                "recall from a discussion",
                'treering workflow run recall.yaml --discussion launch --input "price"',
            ),
            (
                "with a language model",
                "treering workflow run answer.yaml --discussion launch --endpoint main=openai:gpt-5-mini",
            ),
            (
                "try without a model, on the messages of a file, without storing",
                "treering workflow run answer.yaml --messages chat.json --scripted answers.json",
            ),
        ),
        "workflow check": (("find all errors before a run", "treering workflow check answer.yaml"),),
        "workflow examples": (
            ("list them", "treering workflow examples"),
            ("take one as a start", "treering workflow examples recall > recall.yaml"),
        ),
    },
)
