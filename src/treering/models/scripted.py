"""A language model that gives answers written beforehand: for trying things without a model."""

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal

from treering.core.errors import Unavailable
from treering.ports.models import MAX_OUTPUT_TOKENS, Answer, Prompt, ToolCall, ToolSpec, Usage, messages_of, words_of
from treering.retrieval.text.analysis import estimate_tokens


class ScriptedModel:
    """A `LanguageModel` that gives its answers one after the other: texts, and calls of tools. May be used by threads.

    What it gives was written for it: it looks at no tool, and stops at no length.
    """

    def __init__(self, answers: Iterable[str | Sequence[ToolCall]], *, name: str = "scripted") -> None:
        self._answers = deque(answers)
        self._name = name
        self._lock = threading.Lock()

    @property
    def model_id(self) -> str:
        """Name the model."""
        return self._name

    def answer(
        self,
        prompt: Prompt,
        *,
        system: str = "",
        tools: Sequence[ToolSpec] = (),
        max_output_tokens: int = MAX_OUTPUT_TOKENS,  # noqa: ARG002 - the port's
    ) -> Answer:
        """Return the next answer. Raises `Unavailable` when there is none left."""
        messages_of(prompt)
        with self._lock:
            if not self._answers:
                raise Unavailable(f"{self._name} has no answer left.", hint="Write one answer for each question.")
            given = self._answers.popleft()
        text, calls = (given, ()) if isinstance(given, str) else ("", tuple(given))
        asked = estimate_tokens(system + words_of(prompt, tools))
        return Answer(text, Usage(1, asked, estimate_tokens(text), Decimal(0)), calls)

    def stream(
        self,
        prompt: Prompt,
        *,
        system: str = "",
        tools: Sequence[ToolSpec] = (),
        max_output_tokens: int = MAX_OUTPUT_TOKENS,
    ) -> Iterator[str | Answer]:
        """Yield the next answer line by line, and last as a whole."""
        answer = self.answer(prompt, system=system, tools=tools, max_output_tokens=max_output_tokens)
        yield from answer.text.splitlines(keepends=True)
        yield answer

    def price(self, *, input_tokens: int, output_tokens: int) -> Decimal | None:  # noqa: ARG002 - the port's
        """Cost nothing."""
        return Decimal(0)
