"""A discussion of thousands of turns: what each step costs at its end against its beginning, and its model calls."""

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

import treering
from benchmarks.costs import Cost, cost_of, milliseconds, typical, wall_note
from benchmarks.figures import Figure, Row, at_most
from benchmarks.plan import Plan, workplace
from benchmarks.synthetic import StandIn, documents, questions
from treering import Space
from treering.extensions.discussions.generators.generator import (
    Background,
    Chunk,
    DiscussionSettings,
    Generated,
    GeneratedMemory,
    GeneratedText,
)
from treering.extensions.discussions.memory import Discussion, DiscussionMemory
from treering.extensions.discussions.search import DiscussionSearch
from treering.extensions.encoder.language_model import Usage
from treering.verbs.ingest.turns import Message

_SETTINGS = DiscussionSettings(summary=False)  # the rolling summary is measured by itself
_UPDATE_EVERY = _SETTINGS.max_messages
_FOLD_EVERY = _UPDATE_EVERY * _SETTINGS.loop_if_exceeds
_SEARCHES = 20
_STEPS = ("append a turn", "search", "make the memories of a chunk", "fold into the rolling summary")


@dataclass(frozen=True, slots=True)
class Span:
    """Some turns whose costs are told together."""

    first: int
    last: int

    def __contains__(self, turn: int) -> bool:
        return self.first <= turn < self.last

    def __str__(self) -> str:
        return f"turns {self.first:,} to {self.last:,}"


@dataclass
class ScriptedGenerator:
    """Makes of every chunk one memory, of its first words; counts how often it is asked."""

    calls: Counter[str] = field(default_factory=Counter)
    name: str = "scripted"

    def memories(self, chunk: Chunk, _background: Background) -> Generated:
        """Make one memory."""
        self.calls["memories"] += 1
        words = chunk.lines[0].text.split()
        item = GeneratedMemory(title=" ".join(words[:6]), summary=" ".join(words[:40]), key_phrases=tuple(words[:3]))
        return Generated((item,), usage=Usage(requests=1))

    def condense(self, memories: Sequence[GeneratedMemory]) -> Generated:
        """Return the first of the memories for all."""
        self.calls["condense"] += 1
        return Generated(tuple(memories[:1]))

    def fold(self, summary: str, memories: Sequence[GeneratedMemory]) -> GeneratedText:
        """Keep the last 2,000 characters."""
        self.calls["fold"] += 1
        return GeneratedText("\n".join([summary, *(item.summary for item in memories)])[-2_000:])

    def merge(self, facts: str, document: str) -> GeneratedText:
        """Keep the last 2,000 characters."""
        self.calls["merge"] += 1
        return GeneratedText(f"{document}\n{facts}"[-2_000:])


def growth(plan: Plan) -> list[Row]:
    """Drive one discussion turn by turn. `quick`: 400 turns."""
    turns = 400 if plan.quick else 5_000
    spans = (Span(100, 200), Span(300, 400)) if plan.quick else (Span(100, 300), Span(900, 1_100), Span(4_700, 5_000))
    *earlier, late = spans
    with workplace() as folder:
        embedder = StandIn()
        with treering.open(f"sqlite:{folder / 'space.db'}", background=False, embedder=embedder) as space:
            generator = ScriptedGenerator()
            driven = _Drive(space, generator, spans)
            driven.through(_talk(turns))
            rows = [*_compared(driven, earlier, late), *_calls(generator, driven.discussion, turns)]
        return [*rows, *_catching_up(turns // 2), *_naive(folder / "naive.json", _talk(turns), spans[0], late)]


class _Drive:
    """Appends turn after turn as a chat does, updating the memory every few turns, and notes what steps cost."""

    def __init__(self, space: Space, generator: ScriptedGenerator, spans: Sequence[Span]) -> None:
        memory = DiscussionMemory(space.engine, settings=_SETTINGS, generator=generator)
        self.discussion: Discussion = memory.open("long")
        self.costs: dict[tuple[str, Span], list[Cost]] = {}
        self._space = space
        self._spans = spans
        self._questions = questions(_SEARCHES)

    def through(self, messages: Sequence[Message]) -> None:
        """Go through a talk."""
        append, search, update, fold = _STEPS
        for turn, message in enumerate(messages, start=1):
            self._note(append, turn, lambda message=message: self.discussion.append([message]))
            if turn % _UPDATE_EVERY == 0:
                self._note(update, turn, self.discussion.update)
            if turn % _FOLD_EVERY == 0:
                self._note(fold, turn, self.discussion.fold_summary)
            if any(turn == span.last - 1 for span in self._spans):
                self._space.embed_pending()
                for question in self._questions:
                    self._note(search, turn, lambda question=question: self._search(question))

    def _search(self, question: str) -> None:
        self.discussion.search(question, DiscussionSearch(what="both", mode="hybrid", limit=10))

    def _note(self, step: str, turn: int, work: Callable[[], object]) -> None:
        cost = cost_of(work)
        for span in self._spans:
            if turn in span:
                self.costs.setdefault((step, span), []).append(cost)


def _compared(driven: _Drive, earlier: Sequence[Span], late: Span) -> Iterator[Figure]:
    """Tell the cost of each step in each span, and how it grew. Searching is cheaper while there is little to find."""
    for step in _STEPS:
        costs = {span: typical(driven.costs[step, span]) for span in (*earlier, late)}
        for span, cost in costs.items():
            yield Figure(f"{step}, {span}", milliseconds(cost.cpu), "ms CPU", None, wall_note(cost))
        for span in earlier:
            growth = costs[late].cpu / costs[span].cpu
            yield Figure(f"{step}: growth since {span}", growth, "times", at_most(1.5), f"{late} against {span}")


def _calls(generator: ScriptedGenerator, discussion: Discussion, turns: int) -> Iterator[Figure]:
    memories = len(discussion.all_memories())
    told = f"{turns:,} turns, {memories:,} memories"
    yield Figure("model calls for memories, per memory", generator.calls["memories"] / memories, "", at_most(1), told)
    for kind in ("merge", "fold"):
        yield Figure(f"model calls to {kind}", generator.calls[kind], "calls", None, told)


def _catching_up(turns: int) -> Iterator[Figure]:
    """Record a talk at once, as an import does, and make all its memories; compare with one a quarter as long."""
    short, whole = (_per_chunk(length) for length in (turns // 4, turns))
    for length, seconds in ((turns // 4, short), (turns, whole)):
        yield Figure(f"catch up with {length:,} turns", milliseconds(seconds), "ms CPU per chunk")
    yield Figure("catch up: growth", whole / short, "times", at_most(1.5), f"{turns:,} turns against {turns // 4:,}")


def _per_chunk(turns: int) -> float:
    with treering.open(":memory:", background=False, embedder=StandIn()) as space:
        memory = DiscussionMemory(space.engine, generator=ScriptedGenerator())
        discussion = memory.open("imported")
        discussion.record(_talk(turns), start=0)
        made = 0

        def update() -> None:
            nonlocal made
            made = discussion.update().done

        return cost_of(update).cpu / made


def _talk(turns: int) -> list[Message]:
    """Make a talk of two: short answers, long explanations, a topic for a while, pauses between days."""
    rng = np.random.default_rng(7)
    texts = [passage for part in documents(turns // 10 + 1, seed=7) for passage in part.passages]
    at = datetime(2025, 1, 6, 9, tzinfo=UTC)
    messages: list[Message] = []
    for turn in range(turns):
        at += timedelta(minutes=int(rng.integers(1, 12)), hours=14 if rng.random() < 0.01 else 0)
        text = ("ok", "thanks", "yes, do that")[int(rng.integers(3))] if rng.random() < 0.1 else texts[turn]
        messages.append(Message(content=text, role="user" if turn % 2 == 0 else "assistant", at=at))
    return messages


def _naive(path: Path, messages: Sequence[Message], early: Span, late: Span) -> Iterator[Figure]:
    """Do the same with one JSON file that is rewritten, durably, and searched word by word."""
    kept: list[dict[str, str]] = []
    costs: dict[tuple[str, Span], list[Cost]] = {}
    asked = questions(_SEARCHES)
    for turn, message in enumerate(messages, start=1):
        kept.append({"role": message.role, "content": message.content})
        for span in (early, late):
            if turn in span:
                costs.setdefault(("append a turn", span), []).append(cost_of(lambda: _rewrite(path, kept)))
            if turn == span.last - 1:
                costs["search", span] = [cost_of(lambda question=question: _scan(path, question)) for question in asked]
    for step in ("append a turn", "search"):
        before, after = (typical(costs[step, span]).cpu for span in (early, late))
        note = f"{milliseconds(before):.3g} ms against {milliseconds(after):.3g} ms CPU"
        yield Figure(f"one JSON file: {step}: growth", after / before, "times", None, note)


def _rewrite(path: Path, kept: Sequence[dict[str, str]]) -> None:
    beside = path.with_suffix(".new")
    with beside.open("w", encoding="utf-8") as file:
        json.dump(kept, file)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def _scan(path: Path, question: str) -> list[str]:
    words = set(re.findall(r"\w+", question.lower()))
    kept = json.loads(path.read_text(encoding="utf-8"))
    texts = [message["content"] for message in kept]
    return sorted(texts, key=lambda text: -len(words.intersection(re.findall(r"\w+", text.lower()))))[:10]
