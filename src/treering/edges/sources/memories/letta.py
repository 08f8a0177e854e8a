"""Agents of Letta: the blocks of their memory, from an agent file."""

from collections.abc import Iterator, Mapping

from treering.edges.sources.loose_json import Record, listed, record, words
from treering.edges.sources.memories.memory import ForeignMemory, LeftOut, Told, besides, left_out, written


def claims(found: Record) -> bool:
    """Tell whether a document is an agent file."""
    if isinstance(found.get("agents"), list) and isinstance(found.get("blocks"), list):
        return any(map(_is_block, listed(found["blocks"]))) or any(
            "block_ids" in record(agent) for agent in listed(found["agents"])
        )
    return isinstance(found.get("core_memory"), list) and any(map(_is_block, listed(found["core_memory"])))


def read(found: Record) -> Iterator[Told]:
    """Read the blocks of all agents of a file."""
    agents = [record(one) for one in listed(found.get("agents"))] or [found]
    owners = _owners(agents)
    blocks = listed(found.get("blocks")) or listed(found.get("core_memory"))
    for place, one in enumerate(blocks):
        block = record(one)
        name = words(block.get("id")) or words(block.get("label"))
        if not words(block.get("value")).strip():
            yield LeftOut(name or f"blocks/{place}", "a block of memory without a value")
        else:
            yield _block(block, owners.get(name) or words(found.get("name")))
    spoken = sum(len(listed(agent.get("messages"))) for agent in agents)
    yield from left_out("messages", spoken, "message(s) of the agents are no memories of theirs and were left out")


def _is_block(value: object) -> bool:
    found = record(value)
    return isinstance(found.get("label"), str) and isinstance(found.get("value"), str)


def _owners(agents: list[Record]) -> Mapping[str, str]:
    return {words(id_): words(agent.get("name")) for agent in agents for id_ in listed(agent.get("block_ids"))}


def _block(block: Record, agent: str) -> ForeignMemory:
    label = words(block.get("label"))
    about = agent or label if label == "persona" else label
    return ForeignMemory(
        "letta",
        words(block.get("id")) or label,
        words(block.get("value")),
        title=f"{label} ({agent})" if agent else label,
        at=written(block),
        metadata=besides(block, "id", "value") | ({"agent": agent} if agent else {}),
        about=about,
    )
