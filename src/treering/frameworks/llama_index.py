"""LlamaIndex: a memory block that stores messages leaving the chat buffer, and a retriever over memories."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import BaseMemoryBlock
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from pydantic import Field

from treering.core.arguments import check_count
from treering.extensions.client.blocking import MOST_RETRIEVED
from treering.extensions.client.items.documents import SESSION, TYPE, MemoryItem
from treering.extensions.client.profiles import AgentProfile
from treering.extensions.client.records import searchable
from treering.frameworks.client import AnyClient, blocking, fenced_memory, in_thread

_MESSAGE = "message"
_KEPT_ROLES = ("user", "assistant")
_CHARS_PER_TOKEN = 4
_MAX_ASKED = 2
"""A follow-up is searched together with the question before it."""


class TreeringMemoryBlock(BaseMemoryBlock[list[ChatMessage]]):
    """A block of LlamaIndex's `Memory`: store messages that leave the chat buffer, and recall matches for the last one.

    If the last message of the user matches nothing, it is searched together with the one before, as a follow-up.
    Recalled memories are data in user messages before the chat, best first. `filters`: which memories.
    `across_sessions=False` recalls only from the session of this `Memory`. With a `priority` above 0, `Memory` may
    shorten the recalled text to fit its token limit.
    """

    name: str = "treering"
    client: Any = Field(exclude=True)
    """A `MemorySystemClient` or `BlockingMemoryClient`."""
    top_k: int = Field(default=5, ge=1, le=MOST_RETRIEVED)
    filters: dict[str, Any] | None = None
    across_sessions: bool = True

    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> list[ChatMessage]:
        questions = [text for message in messages or [] if message.role == "user" and (text := message.content)]
        session_id = None if self.across_sessions else block_kwargs.get(SESSION)
        client = blocking(self.client)
        memories: Sequence[MemoryItem] = ()
        for count in range(1, min(len(questions), _MAX_ASKED) + 1):
            query = "\n".join(questions[-count:])
            search = partial(client.retrieve, query, self.top_k, self.filters, session_id)
            memories = memories or await in_thread(search)
        return [_shown(memory) for memory in memories]

    async def _aput(self, messages: list[ChatMessage]) -> None:
        client = blocking(self.client)
        kept = [(text, message) for message in messages if (text := _text(message))]
        await in_thread(lambda: [client.store(text, _metadata(message)) for text, message in kept])

    async def atruncate(self, content: list[ChatMessage], tokens_to_truncate: int) -> list[ChatMessage] | None:
        """Omit the last recalled memories until this many tokens are saved, by a rough count."""
        left = list(content)
        while left and tokens_to_truncate > 0:
            tokens_to_truncate -= len(left.pop().content or "") // _CHARS_PER_TOKEN + 1
        return left or None


class TreeringNodeRetriever(BaseRetriever):
    """A retriever of LlamaIndex over the memories of a client: a node for each, with its calibrated score."""

    def __init__(
        self,
        client: AnyClient,
        *,
        top_k: int | None = None,
        filters: Mapping[str, Any] | None = None,
        session_id: str | None = None,
        profile: AgentProfile | str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._client = blocking(client)
        if top_k is not None:
            check_count(top_k, name="top_k", most=MOST_RETRIEVED)
        self._top_k = top_k
        self._filters = filters
        self._session_id = session_id
        self._profile = profile

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = self._client.retrieve(
            query_bundle.query_str, self._top_k, self._filters, self._session_id, profile=self._profile
        )
        return [_node(memory) for memory in found]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await in_thread(lambda: self._retrieve(query_bundle))


def _shown(memory: MemoryItem) -> ChatMessage:
    return ChatMessage(role="user", content=fenced_memory(memory))


def _text(message: ChatMessage) -> str:
    """Return the text of a message to store, without tool calls and recalled text."""
    text = searchable(message.content or "") if message.role in _KEPT_ROLES else ""
    return text if text.strip() else ""


def _metadata(message: ChatMessage) -> dict[str, Any]:
    session_id = message.additional_kwargs.get(SESSION)
    return {TYPE: _MESSAGE, "role": message.role.value, **({SESSION: session_id} if session_id else {})}


def _node(memory: MemoryItem) -> NodeWithScore:
    node = TextNode(
        id_=memory.id,
        text=memory.content,
        metadata={**memory.metadata, **memory.replacement},
        excluded_llm_metadata_keys=[SESSION, TYPE],  # prompts would repeat them before each text
    )
    return NodeWithScore(node=node, score=memory.similarity_score)
