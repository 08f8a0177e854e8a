"""Discussion memory: messages, memories, a rolling summary and a state document."""

from treering.registry import Part

PART = Part(
    name="discussions",
    commands=("treering.parts.discussions.commands:add_discussions",),
    operations="treering.parts.discussions.folder:OPERATIONS",
    pages="treering.parts.discussions.web:PAGES",
    serving="treering.parts.discussions.chat.endpoint:serve_chats",
    serving_flags="treering.parts.discussions.chat.flags:ChatFlags",
)
