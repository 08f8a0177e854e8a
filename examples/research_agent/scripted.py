"""Models that follow a script, so that the program runs without a network. They read a language model's input."""

import json
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

DEFAULT_SEED = 19
STEP = -2


def planner_model() -> FunctionModel:
    """Return a planner that asks its memory first, and the papers where that has nothing to say."""
    return FunctionModel(_plan, model_name="scripted-planner")


def executor_model() -> FunctionModel:
    """Return an executor that aligns with the given seed length, and stores the outcome."""
    return FunctionModel(_execute, model_name="scripted-executor")


def _plan(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    returned = _returned(messages)
    question = _prompt(messages)
    if "retrieve_memory" not in returned:
        asked = {"query": question, "top_k": 10, "filters": {"memory_type": "parameter_tuning"}}
        return _call("retrieve_memory", asked)
    tunings = [one for one in returned["retrieve_memory"] if one["metadata"].get("mapped") is not None]
    if tunings:
        because = [one["content"] for one in tunings]
        return _decide(info, seed_length=_beyond([one["metadata"] for one in tunings]), step=STEP, because=because)
    if "search_papers" not in returned:
        return _call("search_papers", {"query": question})
    return _decide(info, seed_length=DEFAULT_SEED, step=STEP, because=[returned["search_papers"]["abstract"]])


def _execute(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
    returned = _returned(messages)
    order = json.loads(_prompt(messages))
    if "align_reads" not in returned:
        return _call("align_reads", order)
    mapped = returned["align_reads"].get("mapped")
    if "store_memory" not in returned:
        came = f"maps {mapped} % of the reads" if mapped else f"failed: {returned['align_reads']['error']}"
        content = f"Seed length {order['seed_length']} aligns the short reads of sample {order['sample']}: it {came}."
        metadata = {"memory_type": "parameter_tuning", "tags": ["parameter_tunings"], "mapped": mapped, **order}
        return _call("store_memory", {"content": content, "metadata": metadata, "importance": 0.7})
    return ModelResponse(parts=[TextPart(str(mapped))])


def _beyond(tunings: list[dict[str, Any]]) -> int:
    """Return the seed length after the best one that is known; the best one itself where that is known, too."""
    best = int(max(tunings, key=lambda one: one["mapped"])["seed_length"])
    return best if best + STEP in [one["seed_length"] for one in tunings] else best + STEP


def _prompt(messages: list[ModelMessage]) -> str:
    parts = messages[0].parts if isinstance(messages[0], ModelRequest) else []
    return next(str(part.content) for part in parts if part.part_kind == "user-prompt")


def _returned(messages: list[ModelMessage]) -> dict[str, Any]:
    """Return the result of each tool."""
    parts = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    return {part.tool_name: part.content for part in parts}


def _call(tool: str, arguments: dict[str, Any]) -> ModelResponse:
    return ModelResponse(parts=[ToolCallPart(tool, arguments)])


def _decide(info: AgentInfo, **plan: Any) -> ModelResponse:
    return _call(info.output_tools[0].name, plan)
