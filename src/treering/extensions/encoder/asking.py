"""Ask a language model for JSON that fits a schema, with one repair and within a budget."""

import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError

from treering.core.errors import Denied, InvalidInput, Unavailable
from treering.extensions.encoder.language_model import (
    MAX_OUTPUT_TOKENS,
    Answer,
    LanguageModel,
    Prompt,
    ToolSpec,
    Usage,
    words_of,
)
from treering.retrieval.text.analysis import cut_to_tokens, estimate_tokens

Data = TypeVar("Data", bound=BaseModel)

_FRAMING_TOKENS = 16  # that a provider adds to each message of a call
_QUOTED_TOKENS = 1_000  # of an invalid answer that the model is shown again
_PROBLEMS = 5
_CANDIDATES = 64
"""Positions in an answer that are tried as the beginning of JSON, a bound for answers full of braces."""


@dataclass(frozen=True, slots=True)
class Asked(Generic[Data]):
    """An answer that fits the schema, and its usage."""

    value: Data
    usage: Usage
    repaired: bool = False


@dataclass(frozen=True, slots=True)
class Misanswered:
    """Two answers in a row that do not fit the schema."""

    why: str
    usage: Usage


class Budget:
    """A ceiling on the usage of language models by one job. Threads may share it.

    A call is refused in advance if its maximal usage, plus the usage so far and the maximal usage of running calls,
    exceeds a ceiling. The length of a prompt in tokens is estimated, so one underestimated call may exceed a ceiling;
    the next call is then refused.
    """

    def __init__(
        self, *, requests: int | None = None, tokens: int | None = None, dollars: Decimal | None = None
    ) -> None:
        ceilings = {"requests": requests, "tokens": tokens, "dollars": dollars}
        self._ceilings = {unit: Decimal(most) for unit, most in ceilings.items() if most is not None}
        if not self._ceilings or min(self._ceilings.values()) < 0:
            raise InvalidInput(
                "A model budget needs at least one ceiling, and each must be 0 or more.",
                hint="Give requests, tokens or dollars, or several.",
            )
        self._lock = threading.Lock()
        self._used = Usage()
        self._under_way = _amounts(Usage())

    @property
    def used(self) -> Usage:
        """The usage so far."""
        with self._lock:
            return self._used

    def spend(self, most: Usage, call: Callable[[], Answer]) -> Answer:
        """Make one call that uses at most `most`, and charge its usage.

        A failed call is charged as a request without tokens, because providers bill only answers. Raises `Denied` if
        the budget does not allow the call, `InvalidInput` if there is a ceiling in dollars and the price of the model
        is unknown, and the errors of `call`.
        """
        self._reserve(most)
        used = Usage(requests=most.requests)
        try:
            answer = call()
            used = answer.usage if answer.usage.cost is not None else replace(answer.usage, cost=most.cost)
        finally:
            self._settle(most, used)
        return answer

    def _reserve(self, most: Usage) -> None:
        if most.cost is None and "dollars" in self._ceilings:
            raise InvalidInput(
                "The price of the model is unknown, so a ceiling in dollars cannot be enforced.",
                hint="Set a ceiling in tokens instead.",
            )
        more = _amounts(most)
        with self._lock:
            self._refuse_beyond(more)
            self._under_way = {unit: self._under_way[unit] + more[unit] for unit in more}

    def _refuse_beyond(self, more: dict[str, Decimal]) -> None:
        used = _amounts(self._used)
        for unit, ceiling in self._ceilings.items():
            if used[unit] + self._under_way[unit] + more[unit] > ceiling:
                raise Denied(
                    f"The model budget does not allow another call: of {ceiling} {unit}, {used[unit]} "
                    f"are used, {self._under_way[unit]} are reserved by running calls, and this one may "
                    f"take {more[unit]}.",
                    hint=f"Raise the ceiling of {unit}, or reduce the work of the model.",
                    details={"ceiling": {unit: str(ceiling)}, "used": {unit: str(used[unit]) for unit in used}},
                )

    def _settle(self, most: Usage, used: Usage) -> None:
        reserved = _amounts(most)
        with self._lock:
            self._under_way = {unit: self._under_way[unit] - reserved[unit] for unit in reserved}
            self._used += used


def ask(
    model: LanguageModel,
    prompt: str,
    schema: type[Data],
    *,
    system: str = "",
    budget: Budget,
    max_output_tokens: int = MAX_OUTPUT_TOKENS,
) -> Asked[Data]:
    """Request JSON that fits `schema`; retry once after an answer that does not fit.

    Raises `Unavailable` if the second answer does not fit either, and the errors of `Budget.spend` and the model.
    """
    outcome = try_asking(model, prompt, schema, system=system, budget=budget, max_output_tokens=max_output_tokens)
    if isinstance(outcome, Misanswered):
        raise Unavailable(
            f"The model {model.model_id} did not answer in the requested format: {outcome.why}",
            hint="Try again, allow longer answers, or use another model.",
            details={"model": model.model_id, "requests": outcome.usage.requests},
        )
    return outcome


def try_asking(
    model: LanguageModel,
    prompt: str,
    schema: type[Data],
    *,
    system: str = "",
    budget: Budget,
    max_output_tokens: int = MAX_OUTPUT_TOKENS,
) -> Asked[Data] | Misanswered:
    """Ask like `ask`, but return `Misanswered` if the second answer does not fit.

    Raises the errors of `Budget.spend` and the model.
    """

    def answer(wanted: str) -> Answer:
        most = most_used(model, wanted, system=system, max_output_tokens=max_output_tokens)
        return budget.spend(most, lambda: model.answer(wanted, system=system, max_output_tokens=max_output_tokens))

    whole = prompt_with_schema(prompt, schema)
    first = answer(whole)
    value = _parsed(first.text, schema)
    if not isinstance(value, str):
        return Asked(value, first.usage)
    second = answer(repair_prompt(whole, first.text, value))
    usage = first.usage + second.usage
    value = _parsed(second.text, schema)
    return Misanswered(value, usage) if isinstance(value, str) else Asked(value, usage, repaired=True)


def prompt_with_schema(prompt: str, schema: type[BaseModel]) -> str:
    """Return the prompt with the schema of the answer appended."""
    shape = json.dumps(schema.model_json_schema(), ensure_ascii=False, separators=(",", ":"))
    return f"{prompt}\n\nAnswer with one JSON object and nothing else. It must fit this JSON Schema:\n{shape}"


def repair_prompt(prompt: str, answer: str, problem: str, *, shape: str = "JSON object") -> str:
    """Return a prompt that quotes the unusable answer and its problem, and asks again for a whole `shape`."""
    shown = cut_to_tokens(answer, _QUOTED_TOKENS)
    return (
        f"{prompt}\n\nYou answered this before, and the answer could not be used: {problem}.\n"
        f"It began:\n{shown}\n\n"
        f"Answer again with the whole {shape} and nothing else. If it was cut off, be briefer."
    )


def json_values(text: str, *, begins: str = "{") -> Iterator[str]:
    """Yield the JSON objects in `text`, in order, without nested ones.

    With `begins="{["` lists too. If a value is cut off, the complete values inside it are yielded.
    """
    decoder, beginning = json.JSONDecoder(), re.compile(f"[{re.escape(begins)}]")
    match = beginning.search(text)
    for _ in range(_CANDIDATES):
        if match is None:
            return
        try:
            _, end = decoder.raw_decode(text, match.start())
            yield text[match.start() : end]
        except (ValueError, RecursionError):  # no JSON begins here, or it is nested too deeply
            end = match.end()
        match = beginning.search(text, end)


def most_used(
    model: LanguageModel,
    prompt: Prompt,
    *,
    system: str = "",
    tools: Sequence[ToolSpec] = (),
    max_output_tokens: int,
) -> Usage:
    """Estimate the maximal usage of a call: the whole prompt with its tools, and the longest allowed answer."""
    parts = 1 if isinstance(prompt, str) else len(prompt)
    tokens = estimate_tokens(words_of(prompt, tools)) + estimate_tokens(system)
    tokens += _FRAMING_TOKENS * (parts + len(tools))
    cost = model.price(input_tokens=tokens, output_tokens=max_output_tokens)
    return Usage(1, tokens, max_output_tokens, cost)


def _amounts(usage: Usage) -> dict[str, Decimal]:
    return {
        "requests": Decimal(usage.requests),
        "tokens": Decimal(usage.input_tokens + usage.output_tokens),
        "dollars": usage.cost or Decimal(0),
    }


def _parsed(text: str, schema: type[Data]) -> Data | str:
    """Return the first JSON object in `text` that fits, or else the problem of the longest one.

    Every object is tried, because models add fences, introductions and drafts.
    """
    longest, problem = 0, "it contains no JSON object"
    for candidate in json_values(text):
        try:
            return schema.model_validate_json(candidate)
        except ValidationError as error:
            if len(candidate) > longest:
                longest, problem = len(candidate), _problems(error)
    return problem


def _problems(error: ValidationError) -> str:
    errors = error.errors(include_url=False, include_input=False, include_context=False)
    lines = [f"{'.'.join(str(step) for step in each['loc']) or 'the object'}: {each['msg']}" for each in errors]
    more = [f"and {len(lines) - _PROBLEMS} more"] if len(lines) > _PROBLEMS else []
    return "; ".join([*lines[:_PROBLEMS], *more])
