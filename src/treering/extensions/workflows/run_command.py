"""Implementation of `treering workflow`."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from treering.core.characters import visible_line
from treering.core.errors import InvalidInput, NotFound, nearest
from treering.extensions.discussions.generators.generator import MakingPlan
from treering.extensions.discussions.stateless import StatelessDiscussion
from treering.extensions.workflows.checking import WorkflowEnvironment, load, read
from treering.extensions.workflows.definition import NUMBERED
from treering.extensions.workflows.endpoints import GivenModels, load_node_types, named_models
from treering.extensions.workflows.registry import Scene, Workflow, scene_of
from treering.extensions.workflows.running import Runner
from treering.ports.models import LanguageModel
from treering.surfaces.cli.flags import Access, MakingFlags, WriteFlags
from treering.surfaces.cli.printing import line, say_document, tell
from treering.surfaces.cli.session import answer, embed_later, opened
from treering.system.machine import SystemClock
from treering.verbs.envelope import parse
from treering.verbs.ingest.turns import Message

if TYPE_CHECKING:
    from treering.extensions.workflows.commands import RunFlags

_EXAMPLES = files("treering.extensions.workflows") / "examples"
_SUFFIXES = (".yaml", ".json")


def run(asked: "RunFlags", making: MakingFlags, access: Access, writing: WriteFlags) -> None:
    """Run a workflow and print its result."""
    if asked.discussion and asked.messages:
        raise InvalidInput("--discussion and --messages cannot be combined.", hint="Give only one of them.")
    given = GivenModels(making)
    workflow = load(_text_of(asked.file), types=given.types)
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


def check(file: Path, endpoints: tuple[str, ...], nodes: tuple[str, ...], access: Access) -> None:
    """Report the needs of a workflow; raise its problems."""
    named = frozenset(named_models(endpoints))
    known = WorkflowEnvironment(endpoints=named or None)
    workflow = load(_text_of(file), types=load_node_types(nodes), known=known)
    needs = _needs(workflow)
    lines = [f"{name}: {', '.join(map(str, what))}" for name, what in needs.items() if what]
    count = len(workflow.nodes)
    answer(access, needs, [line((f"ok, {count} {'node' if count == 1 else 'nodes'}", "green")), *map(line, lines)])


def examples(name: str, access: Access) -> None:
    """List the built-in example workflows, or print one."""
    known = example_texts()
    if not name:
        descriptions = {one: _description(text) for one, text in known.items()}
        answer(access, descriptions, [line((one, "bold"), f"  {what}") for one, what in descriptions.items()])
        return
    if name not in known:
        raise NotFound(f"There is no example {name!r}.", hint=nearest(name, known))
    if access.as_json:
        answer(access, {"name": name, "text": known[name]}, ())
    else:
        say_document(known[name])


def example_texts() -> dict[str, str]:
    """Return the built-in example workflows, by name."""
    examples = sorted(
        (each for each in _EXAMPLES.iterdir() if each.name.endswith(_SUFFIXES)), key=lambda each: each.name
    )
    return {each.name.rpartition(".")[0]: each.read_text(encoding="utf-8") for each in examples}


def _needs(workflow: Workflow) -> Mapping[str, Sequence[str | int]]:
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
    data = read(text)
    return str(data.get("description", "")).strip() if isinstance(data, dict) else ""


def _text_of(path: Path) -> str:
    return path.read_bytes().decode(errors="replace")


@contextmanager
def _scene(asked: "RunFlags", plan: MakingPlan, access: Access, writing: WriteFlags) -> Iterator[Scene | None]:
    if asked.discussion:
        with opened(access, writing) as space:
            discussions = space.discussions(asked.within, settings=plan.settings, generator=plan.generator)
            discussion = discussions.open(asked.discussion)
            yield scene_of(space.engine, discussion, system_prompt=asked.system)
            embed_later(space, writing)
    elif asked.messages:
        stateless = StatelessDiscussion(_messages(asked.messages), generator=plan.generator)
        yield Scene(stateless, system_prompt=asked.system)
    else:
        yield None


def _messages(path: Path) -> list[Message]:
    data = read(_text_of(path))
    if not isinstance(data, list):
        raise InvalidInput(
            f"{path.name} must contain a list of messages.", hint='Use [{"role": "user", "content": "Hi"}].'
        )
    entries = [entry if isinstance(entry, dict) else {"content": entry} for entry in data]
    return [parse(Message, entry, where=f"{path.name}, message {number}") for number, entry in enumerate(entries, 1)]


def _models(given: GivenModels, workflow: Workflow) -> Mapping[str, LanguageModel]:
    """Open the models that the nodes of a workflow or the generator of its memories may call."""
    asks = any(node.mentions.asks or node.type.creates for node in workflow.nodes)
    named = {node.mentions.endpoint for node in workflow.nodes if node.mentions.endpoint}
    return given.opened(workflow.header.endpoints, sorted(named)) if asks else {}


def _plan(making: MakingFlags, given: GivenModels, models: Mapping[str, LanguageModel]) -> MakingPlan:
    """Return the plan for making memories: of a file, with the only given model, or by rules."""
    if making.config is None and len(models) != 1:
        return MakingPlan()

    def opened(declared: Mapping[str, str], names: Sequence[str]) -> Mapping[str, LanguageModel]:
        more = {name: model for name, model in declared.items() if name not in models}
        wanted = [name for name in names if name not in models]
        return {**(given.opened(more, wanted) if more or wanted else {}), **models}

    return given.plan(making.config, endpoints=opened)


def _tell_node(what: str, done: int, total: int | None) -> None:
    if total is None or done < total:
        tell(f"{done + 1}/{total}  {visible_line(what)}")
