"""Memories that were promised when an exchange was stored: whatever process ends, another one makes them.

Where a space keeps no list of promised work, only the process that stored an exchange makes its memories.
"""

import json

from treering.memories.discussion.identity import DiscussionRef, discussion_ref
from treering.ports.backlog import MEMORIES, Claim
from treering.tools.engine import Engine

_CLAIM_SECONDS = 120.0
"""So long after a process died others make the memories that it had promised."""
_AGAIN_SECONDS = 5.0


def promise_memories(engine: Engine, place: DiscussionRef, owner: str) -> Claim | None:
    """Note, before an exchange is stored, that its memories are to be made, by `owner` first."""
    if engine.backlog is None:
        return None
    key = json.dumps([place.within, place.id])
    return engine.backlog.promise(MEMORIES, key, owner, seconds=_CLAIM_SECONDS)


def claim_memories(engine: Engine, owner: str) -> tuple[DiscussionRef, Claim] | None:
    """Claim the memories of a discussion that nobody is at, though they were promised."""
    claim = engine.backlog.claim(MEMORIES, owner, seconds=_CLAIM_SECONDS) if engine.backlog else None
    if claim is None:
        return None
    within, name = json.loads(claim.key)
    return discussion_ref(name, within=within), claim


def settle_promise(engine: Engine, claim: Claim | None, *, busy: bool) -> None:
    """Note that memories were made. `busy`: another process is at them, and may not have seen the newest exchange."""
    if claim is None or engine.backlog is None:
        return
    if busy:
        engine.backlog.postpone(claim, seconds=_AGAIN_SECONDS)
    else:
        engine.backlog.done(claim)
