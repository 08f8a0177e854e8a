from treering.core.errors import Conflict as Conflict
from treering.core.errors import Corrupt as Corrupt
from treering.core.errors import Denied as Denied
from treering.core.errors import InvalidInput as InvalidInput
from treering.core.errors import MissingExtra as MissingExtra
from treering.core.errors import NotFound as NotFound
from treering.core.errors import TreeringError as TreeringError
from treering.core.errors import Unavailable as Unavailable
from treering.core.evidence import EvidenceRef as EvidenceRef
from treering.core.evidence import Segment as Segment
from treering.core.evidence import Triple as Triple
from treering.core.objects import Activity as Activity
from treering.core.objects import Channel as Channel
from treering.core.objects import Knowledge as Knowledge
from treering.core.objects import Node as Node
from treering.core.objects import Source as Source
from treering.core.objects import WorkItem as WorkItem
from treering.core.patch import Receipt as Receipt
from treering.core.policy import Policy as Policy
from treering.extensions.conversations.exports import read_conversations as read_conversations
from treering.extensions.discussions.chat.chat_memory import ChatBounds as ChatBounds
from treering.extensions.discussions.chat.chat_memory import ChatMemory as ChatMemory
from treering.extensions.discussions.folder import read_discussion as read_discussion
from treering.extensions.discussions.folder import write_discussion as write_discussion
from treering.extensions.discussions.generators.built_in import BuiltInGenerator as BuiltInGenerator
from treering.extensions.discussions.generators.by_model import ModelGenerator as ModelGenerator
from treering.extensions.discussions.generators.generator import DiscussionSettings as DiscussionSettings
from treering.extensions.discussions.generators.generator import Generator as Generator
from treering.extensions.discussions.identity import discussion_ref as discussion_ref
from treering.extensions.discussions.search import DiscussionSearch as DiscussionSearch
from treering.extensions.discussions.wilmer import WilmerImport as WilmerImport
from treering.extensions.encoder.asking import Budget as Budget
from treering.extensions.encoder.language_model import Answer as Answer
from treering.extensions.encoder.language_model import LanguageModel as LanguageModel
from treering.extensions.encoder.language_model import Usage as Usage
from treering.extensions.encoder.language_models import open_model as open_model
from treering.extensions.projects.extraction_by_model import ModelExtractor as ModelExtractor
from treering.extensions.projects.spaces import Projects as Projects
from treering.extensions.projects.spaces import open_projects as open_projects
from treering.extensions.projects.supervisor import Supervisor as Supervisor
from treering.extensions.projects.ticket import TicketMemory as TicketMemory
from treering.extensions.projects.ticket_record import Ticket as Ticket
from treering.extensions.sharing.merging import DiffReport as DiffReport
from treering.extensions.sharing.merging import MergeReport as MergeReport
from treering.extensions.sharing.merging import diff as diff
from treering.extensions.sharing.merging import merge as merge
from treering.extensions.sharing.transfer import MoveReport as MoveReport
from treering.extensions.sharing.transfer import move as move
from treering.extensions.workflows.catalog import NODE_TYPES as NODE_TYPES
from treering.extensions.workflows.checking import load
from treering.extensions.workflows.definition import NodeSettings as NodeSettings
from treering.extensions.workflows.generator import GeneratorWorkflows as GeneratorWorkflows
from treering.extensions.workflows.generator import WorkflowGenerator as WorkflowGenerator
from treering.extensions.workflows.registry import NodeType as NodeType
from treering.extensions.workflows.registry import Step
from treering.extensions.workflows.registry import scene_of as scene_of
from treering.extensions.workflows.running import Runner
from treering.ports.models import Embedder as Embedder
from treering.ports.models import Excerpt as Excerpt
from treering.ports.models import Reranker as Reranker
from treering.retrieval.search.packing import ContextPack as ContextPack
from treering.surfaces.python.space import Space as Space
from treering.surfaces.python.space import open_ledger as open_ledger
from treering.surfaces.python.space import open_space
from treering.verbs.engine import Progress as Progress
from treering.verbs.ingest.turns import Message as Message
from treering.verbs.shown_hits import ShownHit

__version__: str

WorkflowStep = Step
WorkflowRunner = Runner
load_workflow = load
open = open_space  # noqa: A001 - the name users expect
Hit = ShownHit
