"""A discussion in a space, and a language model that answers by a script and notes every call."""

import json
import re
import threading
from dataclasses import dataclass, field, replace
from decimal import Decimal

from treering.core.errors import Unavailable
from treering.extensions.discussions.generators.by_model import ModelGenerator, Prompt, Prompts
from treering.extensions.discussions.generators.generator import DiscussionSettings
from treering.extensions.discussions.identity import discussion_ref
from treering.extensions.discussions.log.message_log import MessageLog
from treering.extensions.discussions.making import MemoryMaker
from treering.extensions.discussions.summaries.versions import Memories, Versions
from treering.extensions.encoder.asking import Budget
from treering.extensions.encoder.language_model import Answer, Usage
from treering.ports.ledger import Selection
from treering.testing.fakes import SteppingClock
from treering.verbs.engine import silent
from treering.verbs.ingest.turns import Message

PROMPTS = Prompts(
    memories=Prompt("MEMORIES [chunk]"),
    condense=Prompt("CONDENSE [memories]"),
    fold=Prompt("FOLD [summary] [memories]"),
    merge=Prompt("MERGE [document] [facts]"),
)
SETTINGS = DiscussionSettings(max_messages=2, lookback=0, state=False, summary=False)
_TURN = re.compile(r"turn (\d+)\b")
_TITLE = re.compile(r"- (m[\d+]+):")


def item(title, summary=None):
    return {"title": title, "summary": summary or f"What {title} tells."}


def turns(prompt):
    return _TURN.findall(prompt)


@dataclass
class ScriptedModel:
    """Makes of `turn 4 … turn 5` the memory `m4`; a function of the prompt may answer instead, or fail."""

    reply: object = None
    prompts: list[str] = field(default_factory=list)
    model_id: str = "scripted"
    lock: object = field(default_factory=threading.Lock)

    def answer(self, prompt, *, system="", max_output_tokens=2_000):
        with self.lock:
            self.prompts.append(prompt)
        given = self.reply(prompt) if self.reply else None
        return Answer(_usual(prompt) if given is None else given, Usage(1, 10, 5, Decimal("0.01")))

    def price(self, *, input_tokens, output_tokens):
        return Decimal("0.01")

    def calls(self, kind="MEMORIES"):
        """Return the first turn, or the titles, that each call of a kind was about."""
        asked = [prompt for prompt in self.prompts if prompt.startswith(kind)]
        return [turns(prompt)[0] if kind == "MEMORIES" else _TITLE.findall(prompt) for prompt in asked]


def _usual(prompt):
    if prompt.startswith("MEMORIES"):
        return json.dumps([item(f"m{turns(prompt)[0]}")])
    if prompt.startswith("CONDENSE"):
        return json.dumps([item("+".join(_TITLE.findall(prompt)))])
    return " ".join(dict.fromkeys(re.findall(r"\bm[\d+]+\b", prompt)))


def failing_at(*numbers):
    """Fail for the chunks that begin at these turns."""

    def reply(prompt):
        if prompt.startswith("MEMORIES") and int(turns(prompt)[0]) in numbers:
            raise Unavailable("The model is down.")

    return reply


class Talk:
    """One discussion in a space, by a clock of the test."""

    def __init__(self, space, model=None, settings=SETTINGS, prompts=PROMPTS):
        self.model = model or ScriptedModel()
        self.prompts = prompts
        self.clock = SteppingClock()
        self.engine = replace(space.engine, clock=self.clock)
        self.ref = discussion_ref("talk")
        self.settings = settings
        self.log = MessageLog(self.engine, self.ref)
        self.memories = Memories(self.engine, self.ref)

    def say(self, count, *, start=None):
        """Say so many more turns; return the discussion."""
        first = self.log.count() if start is None else start
        roles = ("user", "assistant")
        told = [Message(content=f"turn {n} of our talk", role=roles[n % 2]) for n in range(first, first + count)]
        self.log.record(told, start=first)
        return self

    def maker(self, *, progress=silent, **changes):
        generator = ModelGenerator(self.model, budget=Budget(requests=10_000), prompts=self.prompts)
        settings = replace(self.settings, **changes)
        return MemoryMaker(self.engine.with_progress(progress), self.ref, settings, generator)

    def make(self, *, most=None, wait_seconds=0.0, **changes):
        return self.maker(**changes).make(most=most, wait_seconds=wait_seconds)

    def titles(self):
        return [memory.item.title for memory in self.memories.all()]

    def states(self):
        """Return first position and status of every chunk."""
        blocks = [self.log.block(head) for head in self.log.blocks()]
        return [(state.first, state.status) for block in blocks for state in block.chunks]

    def state_at(self, first):
        blocks = [self.log.block(head) for head in self.log.blocks()]
        (found,) = (state for block in blocks for state in block.chunks if state.first == first)
        return found

    def text(self, form):
        return Versions(self.engine, self.ref, form).current()

    def knowledge(self, status="active"):
        found = self.engine.ledger.select(Selection(scope=self.ref.scope, types=("knowledge",)))
        return [each for each in found if each.status == status]
