"""Commands that run and check workflows."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, Typer

from treering.core.characters import visible_line
from treering.core.counting import counted_things
from treering.core.errors import InvalidInput, NotFound, nearest
from treering.facades import LazyModule
from treering.surfaces.cli.flags import Access, AsJson, Endpoints, MakingFlags, Nodes, WriteFlags, add_group
from treering.surfaces.cli.help import CommandHelp
from treering.surfaces.cli.printing import line, say_document, tell
from treering.surfaces.cli.session import answer, embed_later, opened
from treering.system.machine import SystemClock

if TYPE_CHECKING:
    from treering.extensions.discussions.generators.generator import MakingPlan
    from treering.extensions.encoder.language_model import LanguageModel
    from treering.extensions.workflows import checking, endpoints, registry
    from treering.extensions.workflows.registry import Scene, Workflow
    from treering.verbs.ingest.turns import Message
else:
    checking = LazyModule("treering.extensions.workflows.checking")
    endpoints = LazyModule("treering.extensions.workflows.endpoints")
    registry = LazyModule("treering.extensions.workflows.registry")

File = Annotated[Path, Argument(metavar="FILE", help="A workflow, in YAML or JSON.")]


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
    from treering.extensions.workflows.running import Runner

    if asked.discussion and asked.messages:
        raise InvalidInput("--discussion and --messages cannot be combined.", hint="Give only one of them.")
    given = endpoints.GivenModels(making)
    workflow = checking.load(_text_of(asked.file), types=given.types)
    models = _models(given, workflow)
    runner = Runner(SystemClock(), endpoints=models, budget=given.budget)
    inputs = [_text_of(Path(text[1:])) if text.startswith("@") else text for text in asked.given or ()]
    plan = _plan(making, given, models)
    with _scene(asked, plan, access, writing) as scene:
        report = runner.run(workflow, inputs=inputs, scene=scene, progress=_tell_node)
    answer(access, report, [line(report.text)])
    for warning in () if access.as_json else report.warnings:
        tell(warning)
    if report.outcome != "done" and not access.as_json:
        tell(f"The workflow ended before its last node: {report.why}")


def check(file: File, endpoint: Endpoints = None, nodes: Nodes = None, as_json: AsJson = False) -> None:
    """Report all errors in a workflow at once.

    Unknown types, keys, variables, endpoints and presets; nothing is run.
    """
    named = frozenset(endpoints.named_models(tuple(endpoint or ())))
    known = checking.WorkflowEnvironment(endpoints=named or None)
    workflow = checking.load(_text_of(file), types=endpoints.load_node_types(tuple(nodes or ())), known=known)
    needs = _needs(workflow)
    lines = [f"{name}: {', '.join(map(str, what))}" for name, what in needs.items() if what]
    ok = line((f"ok, {counted_things(len(workflow.nodes), 'node')}", "green"))
    answer(Access(as_json=as_json), needs, [ok, *map(line, lines)])


def examples(
    name: Annotated[str, Argument(metavar="[NAME]", help="The example to print; without it, the list.")] = "",
    as_json: AsJson = False,
) -> None:
    """Show workflows that come with Treering."""
    known = _example_texts()
    if not name:
        descriptions = {one: _description(text) for one, text in known.items()}
        answer(
            Access(as_json=as_json),
            descriptions,
            [line((one, "bold"), f"  {what}") for one, what in descriptions.items()],
        )
        return
    if name not in known:
        raise NotFound(f"There is no example {name!r}.", hint=nearest(name, known))
    if as_json:
        answer(Access(as_json=as_json), {"name": name, "text": known[name]}, ())
    else:
        say_document(known[name])


def _example_texts() -> dict[str, str]:
    folder = files("treering.extensions.workflows") / "examples"
    shipped = {each.name: each for each in folder.iterdir() if each.name.endswith((".yaml", ".json"))}
    return {name.rpartition(".")[0]: shipped[name].read_text(encoding="utf-8") for name in sorted(shipped)}


def _needs(workflow: "Workflow") -> Mapping[str, Sequence[str | int]]:
    from treering.extensions.workflows.definition import NUMBERED

    mentions = [node.mentions for node in workflow.nodes]
    names = {name for one in mentions for _, template in one.templates for name in template.names}
    inputs = [int(match[1]) for match in map(NUMBERED.fullmatch, names) if match and match[2] == "Input"]
    endpoints = {one.endpoint for one in mentions if one.asks and one.endpoint} | set(workflow.header.endpoints)
    return {
        "nodes": [f"{node.id} ({node.type.name})" for node in workflow.nodes],
        "returns": [workflow.returned.id],
        "warnings": workflow.warnings,
        "inputs": list(range(1, max(inputs, default=0) + 1)),
        "endpoints": sorted(endpoints) or (["any one"] if any(one.asks for one in mentions) else []),
        "needs a conversation": ["yes"] if any(one.remembers for one in mentions) else [],
    }


def _description(text: str) -> str:
    data = checking.read(text)
    return str(data.get("description", "")).strip() if isinstance(data, dict) else ""


def _text_of(path: Path) -> str:
    return path.read_bytes().decode(errors="replace")


@contextmanager
def _scene(asked: RunFlags, plan: "MakingPlan", access: Access, writing: WriteFlags) -> "Iterator[Scene | None]":
    if asked.discussion:
        with opened(access, writing) as space:
            discussions = space.discussions(asked.within, settings=plan.settings, generator=plan.generator)
            discussion = discussions.open(asked.discussion)
            yield registry.scene_of(space.engine, discussion, system_prompt=asked.system)
            embed_later(space, writing)
    elif asked.messages:
        from treering.extensions.discussions.stateless import StatelessDiscussion

        stateless = StatelessDiscussion(_messages(asked.messages), generator=plan.generator)
        yield registry.Scene(stateless, system_prompt=asked.system)
    else:
        yield None


def _messages(path: Path) -> "list[Message]":
    from treering.verbs.envelope import parse
    from treering.verbs.ingest.turns import Message

    data = checking.read(_text_of(path))
    if not isinstance(data, list):
        raise InvalidInput(
            f"{path.name} must contain a list of messages.", hint='Use [{"role": "user", "content": "Hi"}].'
        )
    entries = [entry if isinstance(entry, dict) else {"content": entry} for entry in data]
    return [parse(Message, entry, where=f"{path.name}, message {number}") for number, entry in enumerate(entries, 1)]


def _models(given: "endpoints.GivenModels", workflow: "Workflow") -> "Mapping[str, LanguageModel]":
    """Open the models that the nodes of a workflow or the generator of its memories may call."""
    asks = any(node.mentions.asks or node.type.creates for node in workflow.nodes)
    named = {node.mentions.endpoint for node in workflow.nodes if node.mentions.endpoint}
    return given.opened(workflow.header.endpoints, sorted(named)) if asks else {}


def _plan(making: MakingFlags, given: "endpoints.GivenModels", models: "Mapping[str, LanguageModel]") -> "MakingPlan":
    """Return the plan for making memories: of a file, with the only given model, or by rules."""
    from treering.extensions.discussions.generators.generator import MakingPlan

    if making.config is None and len(models) != 1:
        return MakingPlan()

    def opened(declared: Mapping[str, str], names: Sequence[str]) -> "Mapping[str, LanguageModel]":
        more = {name: model for name, model in declared.items() if name not in models}
        wanted = [name for name in names if name not in models]
        return {**(given.opened(more, wanted) if more or wanted else {}), **models}

    return given.plan(making.config, endpoints=opened)


def _tell_node(what: str, done: int, total: int | None) -> None:
    if total is None or done < total:
        tell(f"{done + 1}/{total}  {visible_line(what)}")


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
