"""Exports of conversations, tickets, and memories of other programs."""

from treering.registry import Extension

EXTENSION = Extension(
    "conversations",
    needs=("documents",),
    formats={
        "memories": "treering.extensions.conversations.memory_exports:MemoryFormat",
        "tickets": "treering.extensions.conversations.tickets:TicketFormat",
        "conversations": "treering.extensions.conversations.exports:ConversationFormat",
    },
)
