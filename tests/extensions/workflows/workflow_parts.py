"""Workflows in short, models that note what they are asked, and discussions to run them in."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from treering.core.errors import InvalidInput, Unavailable
from treering.extensions.discussions.generators.generator import DiscussionSettings
from treering.extensions.discussions.memory import DiscussionMemory
from treering.extensions.discussions.stateless import StatelessDiscussion
from treering.extensions.encoder.language_model import Answer, Usage
from treering.extensions.workflows.checking import ANYTHING, from_data
from treering.extensions.workflows.registry import Scene, scene_of
from treering.extensions.workflows.running import Runner
from treering.testing.fakes import SteppingClock
from treering.verbs.ingest.turns import Message

_MARKERS = re.compile(r"<<treering:recalled [^\n]*>>\n|\n<<treering:end \w+>>")


@dataclass
class NotingModel:
    """Return its answers in turn; notes what it was asked: `asked` as it was, `prompts` without fence markers."""

    answers: Iterable[str] = ()
    model_id: str = "noting"
    prompts: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    systems: list[str] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)

    def __post_init__(self):
        self._left = list(self.answers)

    def answer(self, prompt: str, *, system: str = "", max_output_tokens: int = 2_000) -> Answer:
        self.asked.append(prompt)
        self.prompts.append(_MARKERS.sub("", prompt))
        self.systems.append(system)
        self.lengths.append(max_output_tokens)
        if not self._left:
            raise Unavailable("No answer is left.")
        return Answer(self._left.pop(0), Usage(1, 10, 5, Decimal("0.01")))

    def price(self, *, input_tokens: int, output_tokens: int) -> Decimal | None:
        return Decimal("0.01")


def say(text, **more):
    """A node that gives a text."""
    return {"type": "StaticResponse", "content": text, **more}


def ask(prompt, **more):
    """A node that asks a model."""
    return {"type": "Standard", "prompt": prompt, **more}


def runner(*models, **options):
    """A runner whose endpoints are called a, b, c, …"""
    return Runner(SteppingClock(), endpoints=dict(zip("abcdef", models, strict=False)), **options)


def run(nodes, *inputs, models=(), scene=None, **options):
    return runner(*models).run(from_data(nodes), inputs=inputs, scene=scene, **options)


def problems(data, known=ANYTHING, **options):
    """Return what is wrong with a workflow, as `place: problem`; nothing where all is well."""
    try:
        from_data(data, known=known, **options)
    except InvalidInput as error:
        return [f"{one['field']}: {one['problem']}" for one in error.details["fields"]]
    return []


def messages(*texts, speakers=("ann", "bob"), start=datetime(2026, 3, 2, 9, tzinfo=UTC)):
    """Messages of two people in turn, a minute apart."""
    return [
        Message(role="user", name=speakers[number % 2], content=text, at=start + timedelta(minutes=number))
        for number, text in enumerate(texts)
    ]


def discussion(space, *texts, name="launch", **options):
    """A discussion that is kept, with some messages; memories are made of every two."""
    settings = DiscussionSettings(max_messages=2, lookback=0, **options.pop("settings", {}))
    made = DiscussionMemory(space.engine, settings=settings, **options).open(name)
    if texts:
        made.record(messages(*texts))
    return made


def kept_run(space, talk, nodes, *inputs, models=(), **options):
    """Run a workflow in a kept discussion."""
    return run(nodes, *inputs, models=models, scene=scene_of(space.engine, talk), **options)


def at_hand(*texts, **options):
    """The scene of messages at hand."""
    return Scene(StatelessDiscussion(messages(*texts)), **options)
