"""A language model that gives answers written beforehand: for trying things without a model."""

import threading
from collections import deque
from collections.abc import Iterable
from decimal import Decimal

from treering.core.errors import Unavailable
from treering.derived.tokens import estimate_tokens
from treering.ports.model import Answer, Usage


class ScriptedModel:
    """A `LanguageModel` that gives its answers one after the other. May be used by threads."""

    def __init__(self, answers: Iterable[str], *, name: str = "scripted") -> None:
        self._answers = deque(answers)
        self._name = name
        self._lock = threading.Lock()

    @property
    def model_id(self) -> str:
        """Name the model."""
        return self._name

    def answer(self, prompt: str, *, system: str = "", max_output_tokens: int = 2_000) -> Answer:  # noqa: ARG002 - the port's
        """Return the next answer. Raises `Unavailable` when there is none left."""
        with self._lock:
            if not self._answers:
                raise Unavailable(f"{self._name} has no answer left.", hint="Write one answer for each question.")
            text = self._answers.popleft()
        return Answer(text, Usage(1, estimate_tokens(system + prompt), estimate_tokens(text), Decimal(0)))

    def price(self, *, input_tokens: int, output_tokens: int) -> Decimal | None:  # noqa: ARG002 - the port's
        """Cost nothing."""
        return Decimal(0)
