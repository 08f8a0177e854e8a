"""What `treering workflow` does."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from treering.core.characters import visible_line
from treering.core.errors import InvalidInput, NotFound, nearest
from treering.derived.asking import Budget
from treering.edges.clock import SystemClock
from treering.edges.models.scripted import ScriptedModel
from treering.edges.surfaces.cli.flags import Access, WriteFlags
from treering.edges.surfaces.cli.printing import say_document, tell
from treering.edges.surfaces.cli.rendering.lines import line
from treering.edges.surfaces.cli.session import answer, embed_later, opened
from treering.edges.workflow_text import load, read
from treering.memories.discussion.memory import DiscussionMemory
from treering.memories.discussion.recall.stateless import StatelessDiscussion
from treering.memories.workflow.checking import WorkflowEnvironment
from treering.memories.workflow.running import Runner
from treering.memories.workflow.scene import Scene, scene_of
from treering.memories.workflow.steps import Workflow
from treering.memories.workflow.variables import NUMBERED
from treering.ports.model import LanguageModel
from treering.tools.envelope import parse
from treering.tools.turns import Message

_EXAMPLES = files("treering.memories.workflow") / "examples"
_SUFFIXES = (".yaml", ".json")
_SCRIPT = 'Write a list of texts such as `["Hello"]`, or one such list by the name of each endpoint.'


@dataclass(frozen=True, slots=True)
class WorkflowArguments:
    """What the command line says."""

    file: Path
    inputs: tuple[str, ...]
    discussion: str
    within: str
    messages: Path | None
    system: str
    endpoints: tuple[str, ...]
    endpoint_url: str
    scripted: Path | None
    requests: int


def run(asked: WorkflowArguments, access: Access, writing: WriteFlags) -> None:
    """Run a workflow and print what it returns."""
    if asked.discussion and asked.messages:
        raise InvalidInput("--discussion and --messages cannot be given together.", hint="Give one of the two.")
    workflow = load(_text_of(asked.file))
    runner = Runner(SystemClock(), endpoints=_models(asked, workflow), budget=Budget(requests=asked.requests))
    inputs = [_text_of(Path(text[1:])) if text.startswith("@") else text for text in asked.inputs]
    with _scene(asked, access, writing) as scene:
        report = runner.run(workflow, inputs=inputs, scene=scene, progress=_tell_node)
    answer(access, report, [line(report.text)])
    for warning in () if access.as_json else report.warnings:
        tell(warning)
    if report.outcome != "done" and not access.as_json:
        tell(f"The workflow ended before its last node: {report.why}")


def check(file: Path, endpoints: tuple[str, ...], access: Access) -> None:
    """Say what a workflow needs; raise what is wrong with it."""
    named = frozenset(_named_models(endpoints))
    workflow = load(_text_of(file), known=WorkflowEnvironment(endpoints=named or None))
    needs = _needs(workflow)
    told = [f"{name}: {', '.join(map(str, what))}" for name, what in needs.items() if what]
    nodes = len(workflow.nodes)
    answer(access, needs, [line((f"ok, {nodes} {'node' if nodes == 1 else 'nodes'}", "green")), *map(line, told)])


def examples(name: str, access: Access) -> None:
    """List the workflows that come with Treering, or print one."""
    known = example_texts()
    if not name:
        told = {one: _told_of(text) for one, text in known.items()}
        answer(access, told, [line((one, "bold"), f"  {what}") for one, what in told.items()])
        return
    if name not in known:
        raise NotFound(f"There is no example {name!r}.", hint=nearest(name, known))
    if access.as_json:
        answer(access, {"name": name, "text": known[name]}, ())
    else:
        say_document(known[name])


def example_texts() -> dict[str, str]:
    """Return the workflows that come with Treering, by name."""
    found = sorted((each for each in _EXAMPLES.iterdir() if each.name.endswith(_SUFFIXES)), key=lambda each: each.name)
    return {each.name.rpartition(".")[0]: each.read_text(encoding="utf-8") for each in found}


def _needs(workflow: Workflow) -> Mapping[str, Sequence[str | int]]:
    mentions = [node.mentions for node in workflow.nodes]
    names = {name for one in mentions for _, template in one.templates for name in template.names}
    inputs = [int(found[1]) for found in map(NUMBERED.fullmatch, names) if found and found[2] == "Input"]
    asked = {one.endpoint for one in mentions if one.asks and one.endpoint} | set(workflow.header.endpoints)
    return {
        "nodes": [f"{node.id} ({node.type.name})" for node in workflow.nodes],
        "returns": [workflow.returned.id],
        "warnings": workflow.warnings,
        "inputs": list(range(1, max(inputs, default=0) + 1)),
        "endpoints": sorted(asked) or (["any one"] if any(one.asks for one in mentions) else []),
        "needs a conversation": ["yes"] if any(one.remembers for one in mentions) else [],
    }


def _told_of(text: str) -> str:
    """Return what an example says of itself."""
    data = read(text)
    return str(data.get("description", "")).strip() if isinstance(data, dict) else ""


def _text_of(path: Path) -> str:
    return path.read_bytes().decode(errors="replace")


@contextmanager
def _scene(asked: WorkflowArguments, access: Access, writing: WriteFlags) -> Iterator[Scene | None]:
    if asked.discussion:
        with opened(access, writing) as space:
            discussion = DiscussionMemory(space.engine, within=asked.within).open(asked.discussion)
            yield scene_of(space.engine, discussion, system_prompt=asked.system)
            embed_later(space, writing)
    elif asked.messages:
        yield Scene(StatelessDiscussion(_messages(asked.messages)), system_prompt=asked.system)
    else:
        yield None


def _messages(path: Path) -> list[Message]:
    data = read(_text_of(path))
    if not isinstance(data, list):
        raise InvalidInput(
            f"{path.name} must hold a list of messages.", hint='Write [{"role": "user", "content": "Hi"}].'
        )
    entries = [entry if isinstance(entry, dict) else {"content": entry} for entry in data]
    return [parse(Message, entry, where=f"{path.name}, message {number}") for number, entry in enumerate(entries, 1)]


def _models(asked: WorkflowArguments, workflow: Workflow) -> dict[str, LanguageModel]:
    """Open the models a workflow may ask: those given, else those it declares itself."""
    if asked.scripted:
        return _scripted(asked.scripted, workflow)
    named = {name: model for name, model in workflow.header.endpoints.items() if model}
    named |= _named_models(asked.endpoints)
    if not named or not any(node.mentions.asks for node in workflow.nodes):
        return {}
    from treering.edges.models.pydantic_ai import open_model  # it needs an extra, which no other workflow does

    return {name: open_model(model, base_url=asked.endpoint_url or None) for name, model in named.items()}


def _named_models(endpoints: Sequence[str]) -> dict[str, str]:
    found = {}
    for given in endpoints:
        name, equals, model = given.partition("=")
        if not (name and equals and model):
            raise InvalidInput(f"--endpoint needs NAME=MODEL, got {given!r}.", hint="Such as main=openai:gpt-5-mini.")
        found[name] = model
    return found


def _scripted(path: Path, workflow: Workflow) -> dict[str, LanguageModel]:
    data = read(_text_of(path))
    if isinstance(data, dict):
        return {
            str(name): ScriptedModel(_answers(path, given), name=f"scripted {name}") for name, given in data.items()
        }
    model = ScriptedModel(_answers(path, data))
    named = {node.mentions.endpoint for node in workflow.nodes if node.mentions.endpoint}
    return dict.fromkeys(sorted(named | set(workflow.header.endpoints)) or ["scripted"], model)


def _answers(path: Path, data: object) -> list[str]:
    if not isinstance(data, list) or not all(isinstance(text, str) for text in data):
        raise InvalidInput(f"{path.name} must hold a list of answers.", hint=_SCRIPT)
    return data


def _tell_node(what: str, done: int, total: int | None) -> None:
    if total is None or done < total:
        tell(f"{done + 1}/{total}  {visible_line(what)}")
