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
    from treering.models.pydantic_ai import open_model
    from treering.parts.discussions.chat_memory import ChatBounds, ChatMemory
    from treering.parts.discussions.folder import read_discussion, write_discussion
    from treering.parts.discussions.generators.built_in import BuiltInGenerator
    from treering.parts.discussions.generators.by_model import ModelGenerator
    from treering.parts.discussions.generators.generator import Generator
    from treering.parts.discussions.identity import discussion_ref
    from treering.parts.discussions.recall.search import DiscussionSearch
    from treering.parts.discussions.settings import DiscussionSettings
    from treering.parts.discussions.wilmer import WilmerImport
    from treering.parts.projects.spaces import Projects, open_projects
    from treering.parts.projects.supervisor import Supervisor
    from treering.parts.projects.ticket import TicketMemory
    from treering.parts.projects.ticket_record import Ticket
    from treering.parts.workflows.catalog import NODE_TYPES
    from treering.parts.workflows.definition import NodeSettings
    from treering.parts.workflows.generator import GeneratorWorkflows, WorkflowGenerator
    from treering.parts.workflows.registry import NodeType
    from treering.parts.workflows.registry import Step as WorkflowStep
    from treering.parts.workflows.running import Runner as WorkflowRunner
    from treering.parts.workflows.scene import scene_of
    from treering.parts.workflows.text import load as load_workflow
    from treering.ports.models import Answer, Embedder, Excerpt, LanguageModel, Reranker, Usage
    from treering.retrieval.extraction.asking import Budget
    from treering.retrieval.extraction.by_model import ModelExtractor
    from treering.sources.conversations.exports import read_conversations
    from treering.spaces.transfer import MoveReport, move
    from treering.surfaces.python.space import Space, open_ledger
    from treering.surfaces.python.space import open_space as open  # noqa: A004 - the name users expect
    from treering.verbs.engine import Progress
    from treering.verbs.ingest.turns import Message
    from treering.verbs.reading import ShownHit as Hit

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
    "treering.core.errors": [
        "Conflict",
        "Corrupt",
        "Denied",
        "InvalidInput",
        "MissingExtra",
        "NotFound",
        "TreeringError",
        "Unavailable",
    ],
    "treering.core.evidence": ["EvidenceRef", "Segment", "Triple"],
    "treering.core.objects": ["Activity", "Channel", "Knowledge", "Node", "Source", "WorkItem"],
    "treering.core.pack": ["ContextPack"],
    "treering.core.patch": ["Receipt"],
    "treering.core.policy": ["Policy"],
    "treering.retrieval.extraction.asking": ["Budget"],
    "treering.retrieval.extraction.by_model": ["ModelExtractor"],
    "treering.parts.discussions.folder": ["read_discussion", "write_discussion"],
    "treering.models.pydantic_ai": ["open_model"],
    "treering.spaces.transfer": ["MoveReport", "move"],
    "treering.parts.projects.spaces": ["Projects", "open_projects"],
    "treering.sources.conversations.exports": ["read_conversations"],
    "treering.parts.discussions.wilmer": ["WilmerImport"],
    "treering.surfaces.python.space": ["Space", "open", "open_ledger"],
    "treering.parts.workflows.text": ["load_workflow"],
    "treering.parts.discussions.chat_memory": ["ChatBounds", "ChatMemory"],
    "treering.parts.discussions.generators.built_in": ["BuiltInGenerator"],
    "treering.parts.discussions.generators.by_model": ["ModelGenerator"],
    "treering.parts.discussions.generators.generator": ["Generator"],
    "treering.parts.discussions.identity": ["discussion_ref"],
    "treering.parts.discussions.recall.search": ["DiscussionSearch"],
    "treering.parts.discussions.settings": ["DiscussionSettings"],
    "treering.parts.projects.supervisor": ["Supervisor"],
    "treering.parts.projects.ticket": ["TicketMemory"],
    "treering.parts.projects.ticket_record": ["Ticket"],
    "treering.parts.workflows.catalog": ["NODE_TYPES"],
    "treering.parts.workflows.definition": ["NodeSettings"],
    "treering.parts.workflows.generator": ["GeneratorWorkflows", "WorkflowGenerator"],
    "treering.parts.workflows.registry": ["NodeType", "WorkflowStep"],
    "treering.parts.workflows.running": ["WorkflowRunner"],
    "treering.parts.workflows.scene": ["scene_of"],
    "treering.ports.models": ["Embedder", "Excerpt", "Answer", "LanguageModel", "Usage", "Reranker"],
    "treering.verbs.engine": ["Progress"],
    "treering.verbs.reading": ["Hit"],
    "treering.verbs.ingest.turns": ["Message"],
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
