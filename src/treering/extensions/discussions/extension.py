"""Memories and summaries of discussions."""

from treering.registry import Extension

EXTENSION = Extension(
    "discussions",
    needs=("conversations", "encoder", "statements"),
    commands=("treering.extensions.discussions.commands:add_discussions",),
    help="treering.extensions.discussions.commands:HELP",
    operations="treering.extensions.discussions.folder:OPERATIONS",
    erase_turns="treering.extensions.discussions.log.deleting:erase_turns",
    save_edits="treering.extensions.discussions.summaries.saved_edits:save_edits",
    pages="treering.extensions.discussions.web:PAGES",
    http_routes="treering.extensions.discussions.chat.endpoint:serve_chats",
    serve_flags="treering.extensions.discussions.commands:ChatFlags",
)
