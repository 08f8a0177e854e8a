"""What adapters share: the client they work on, threads for its work, and recalled text as data."""

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeVar

from treering.core.fingerprint import fence
from treering.edges.memory_client import BlockingMemoryClient, MemorySystemClient
from treering.memories.client.documents import MemoryItem

AnyClient = MemorySystemClient | BlockingMemoryClient
_Answer = TypeVar("_Answer")


def blocking(client: AnyClient) -> BlockingMemoryClient:
    """Return the blocking form of a client."""
    return client.sync if isinstance(client, MemorySystemClient) else client


async def in_thread(work: Callable[[], _Answer]) -> _Answer:
    """Do blocking work in a thread, off the event loop."""
    return await asyncio.to_thread(work)


def recalled_text(memories: Iterable[MemoryItem]) -> str:
    """Return memories as data for a model, each in a fence; nothing for none."""
    return fenced_texts((memory.id, memory.content) for memory in memories)


def fenced_texts(texts: Iterable[tuple[str, str]]) -> str:
    """Return texts with their origins as data for a model, each in a fence."""
    return "\n".join(fence(text, origin=origin) for origin, text in texts)
