"""Treering: memory for LLM agents that can be checked.

import treering

with treering.open("sqlite:treering.db") as space:
    space.ingest(mode="repo", input={"path": "."})
    pack = space.query(input={"task": "make retries configurable"}).pack

What programs use stands here; `treering.testing` has what people need who write backends. Everything deeper may move.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treering.core.errors import (
        Conflict,
        Corrupt,
        Denied,
        InvalidInput,
        MissingExtra,
        NotFound,
        TreeringError,
        Unavailable,
    )
    from treering.core.evidence import EvidenceRef, Segment, Triple
    from treering.core.objects import Activity, Channel, Knowledge, Node, Source, WorkItem
    from treering.core.pack import ContextPack
    from treering.core.patch import Receipt
    from treering.core.policy import Policy
    from treering.derived.asking import Budget
    from treering.derived.extraction_by_model import ModelExtractor
    from treering.edges.discussion_files import read_discussion, write_discussion
    from treering.edges.models.pydantic_ai import open_model
    from treering.edges.moving import MoveReport, move
    from treering.edges.projects import Projects, open_projects
    from treering.edges.sources.conversations.exports import read_conversations
    from treering.edges.sources.wilmer.importing import WilmerImport
    from treering.edges.surfaces.space import Space, open_ledger
    from treering.edges.surfaces.space import open_space as open  # noqa: A004 - the name users expect
    from treering.edges.workflow_text import load as load_workflow
    from treering.memories.chat_memory import ChatBounds, ChatMemory
    from treering.memories.discussion.generators.built_in import BuiltInGenerator
    from treering.memories.discussion.generators.by_model import ModelGenerator
    from treering.memories.discussion.generators.generator import Generator
    from treering.memories.discussion.identity import discussion_ref
    from treering.memories.discussion.recall.search import DiscussionSearch
    from treering.memories.discussion.settings import DiscussionSettings
    from treering.memories.supervisor import Supervisor
    from treering.memories.ticket import TicketMemory
    from treering.memories.ticket_record import Ticket
    from treering.memories.workflow.catalog import NODE_TYPES
    from treering.memories.workflow.definition import NodeSettings
    from treering.memories.workflow.generator import GeneratorWorkflows, WorkflowGenerator
    from treering.memories.workflow.registry import NodeType
    from treering.memories.workflow.registry import Step as WorkflowStep
    from treering.memories.workflow.running import Runner as WorkflowRunner
    from treering.memories.workflow.scene import scene_of
    from treering.ports.embedder import Embedder
    from treering.ports.extractor import Excerpt
    from treering.ports.model import Answer, LanguageModel, Usage
    from treering.ports.reranker import Reranker
    from treering.tools.engine import Progress
    from treering.tools.reading import ShownHit as Hit
    from treering.tools.turns import Message

__version__ = "0.1.0"
__all__ = [
    "NODE_TYPES",
    "Activity",
    "Answer",
    "Budget",
    "BuiltInGenerator",
    "Channel",
    "ChatBounds",
    "ChatMemory",
    "Conflict",
    "ContextPack",
    "Corrupt",
    "Denied",
    "DiscussionSearch",
    "DiscussionSettings",
    "Embedder",
    "EvidenceRef",
    "Excerpt",
    "Generator",
    "GeneratorWorkflows",
    "Hit",
    "InvalidInput",
    "Knowledge",
    "LanguageModel",
    "Message",
    "MissingExtra",
    "ModelExtractor",
    "ModelGenerator",
    "MoveReport",
    "Node",
    "NodeSettings",
    "NodeType",
    "NotFound",
    "Policy",
    "Progress",
    "Projects",
    "Receipt",
    "Reranker",
    "Segment",
    "Source",
    "Space",
    "Supervisor",
    "Ticket",
    "TicketMemory",
    "TreeringError",
    "Triple",
    "Unavailable",
    "Usage",
    "WilmerImport",
    "WorkItem",
    "WorkflowGenerator",
    "WorkflowRunner",
    "WorkflowStep",
    "__version__",
    "discussion_ref",
    "load_workflow",
    "move",
    "open",
    "open_ledger",
    "open_model",
    "open_projects",
    "read_conversations",
    "read_discussion",
    "scene_of",
    "write_discussion",
]

_HOMES = {
    "treering.core.errors": (
        "Conflict Corrupt Denied InvalidInput MissingExtra NotFound TreeringError Unavailable".split()
    ),
    "treering.core.evidence": ["EvidenceRef", "Segment", "Triple"],
    "treering.core.objects": ["Activity", "Channel", "Knowledge", "Node", "Source", "WorkItem"],
    "treering.core.pack": ["ContextPack"],
    "treering.core.patch": ["Receipt"],
    "treering.core.policy": ["Policy"],
    "treering.derived.asking": ["Budget"],
    "treering.derived.extraction_by_model": ["ModelExtractor"],
    "treering.edges.discussion_files": ["read_discussion", "write_discussion"],
    "treering.edges.models.pydantic_ai": ["open_model"],
    "treering.edges.moving": ["MoveReport", "move"],
    "treering.edges.projects": ["Projects", "open_projects"],
    "treering.edges.sources.conversations.exports": ["read_conversations"],
    "treering.edges.sources.wilmer.importing": ["WilmerImport"],
    "treering.edges.surfaces.space": ["Space", "open", "open_ledger"],
    "treering.edges.workflow_text": ["load_workflow"],
    "treering.memories.chat_memory": ["ChatBounds", "ChatMemory"],
    "treering.memories.discussion.generators.built_in": ["BuiltInGenerator"],
    "treering.memories.discussion.generators.by_model": ["ModelGenerator"],
    "treering.memories.discussion.generators.generator": ["Generator"],
    "treering.memories.discussion.identity": ["discussion_ref"],
    "treering.memories.discussion.recall.search": ["DiscussionSearch"],
    "treering.memories.discussion.settings": ["DiscussionSettings"],
    "treering.memories.supervisor": ["Supervisor"],
    "treering.memories.ticket": ["TicketMemory"],
    "treering.memories.ticket_record": ["Ticket"],
    "treering.memories.workflow.catalog": ["NODE_TYPES"],
    "treering.memories.workflow.definition": ["NodeSettings"],
    "treering.memories.workflow.generator": ["GeneratorWorkflows", "WorkflowGenerator"],
    "treering.memories.workflow.registry": ["NodeType", "WorkflowStep"],
    "treering.memories.workflow.running": ["WorkflowRunner"],
    "treering.memories.workflow.scene": ["scene_of"],
    "treering.ports.embedder": ["Embedder"],
    "treering.ports.extractor": ["Excerpt"],
    "treering.ports.model": ["Answer", "LanguageModel", "Usage"],
    "treering.ports.reranker": ["Reranker"],
    "treering.tools.engine": ["Progress"],
    "treering.tools.reading": ["Hit"],
    "treering.tools.turns": ["Message"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

_NAMES_THERE = {
    "Hit": "ShownHit",
    "WorkflowRunner": "Runner",
    "WorkflowStep": "Step",
    "load_workflow": "load",
    "open": "open_space",
}
"""Of names that say more, or what users expect, where nothing around them tells what they are."""


def __getattr__(name: str) -> Any:
    # Imported on first use, so that `treering --help` need not load search and models.
    if name not in _HOME_OF:
        raise AttributeError(f"module 'treering' has no attribute {name!r}")
    found = getattr(import_module(_HOME_OF[name]), _NAMES_THERE.get(name, name))
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
