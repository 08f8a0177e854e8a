"""What programs may import: these names, and nothing deeper, stay where they are."""

import ast
import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import treering
import treering.aio
import treering.client
import treering.project_memory
import treering.testing
import treering.wiki
from treering import frameworks


def is_installed(module):
    return find_spec(frameworks.FRAMEWORKS[module].package) is not None


PUBLIC = [
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
    "DiffReport",
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
    "MergeReport",
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
    "diff",
    "discussion_ref",
    "load_workflow",
    "merge",
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
FOR_BACKENDS = [
    "BACKENDS",
    "ENGINES",
    "AdapterContract",
    "AlreadyRead",
    "Backend",
    "Builder",
    "CollectionContract",
    "DocumentDraft",
    "EmbedderContract",
    "EngineBackend",
    "Failed",
    "FileAdapterContract",
    "FileToRead",
    "FormatContract",
    "FormatLimits",
    "HashingEmbedder",
    "IndexContract",
    "JobsContract",
    "LateIndexContract",
    "LeaseContract",
    "LedgerContract",
    "LedgerWithIndex",
    "Lines",
    "MemoryClientContract",
    "MemoryEngineContract",
    "MemoryLedger",
    "ModelContract",
    "NamedView",
    "OverlapReranker",
    "Extension",
    "Part",
    "ProjectionContract",
    "ReadLimits",
    "RerankerContract",
    "SegmentDraft",
    "Skipped",
    "SourceDraft",
    "SteppingClock",
    "Unchanged",
    "Vanished",
    "WikiMemoryContract",
    "follow",
    "instruction_flags",
]
FUNCTIONS = ["delete", "get_hipporag_kwargs", "index", "rag_qa", "retrieve"]
CLIENT = [
    "AgentProfile",
    "BlockingMemoryClient",
    "ExecutionHistoryMemoryBridge",
    "KeyedMemory",
    "MemoryConfig",
    "MemoryDependencies",
    "MemoryDocument",
    "MemoryItem",
    "MemoryState",
    "MemorySystemClient",
    "NestedContext",
    "SetAside",
    "StoredDocument",
    "Switches",
    "VectorStoreAdapter",
    "log_tool_runs",
    "memory_node",
    "memory_tools",
    "nested_memory",
    "read_memory_config",
    "recalled_memories",
    "retrieve_memory",
    "store_memory",
]
FRAMEWORKS = {
    "agent_framework": ["TreeringContextProvider", "TreeringHistoryProvider"],
    "crewai": ["TreeringStorage"],
    "google_adk": ["TreeringMemoryService"],
    "strands": ["TreeringMemoryStore"],
    "anthropic": ["AsyncTreeringMemoryTool", "TreeringMemoryTool"],
    "claude_agent_sdk": ["MEMORY_TOOLS", "TreeringSessionStore", "memory_hooks", "memory_server"],
    "haystack": ["TreeringDocumentRetriever", "TreeringDocumentStore"],
    "langchain": [
        "TreeringChatMessageHistory",
        "TreeringRetriever",
        "TreeringVectorStore",
        "WIKI_MEMORY_PROMPT",
        "WIKI_MEMORY_SYSTEM_PROMPT",
        "WikiAgentState",
        "WikiMemoryMiddleware",
        "WikiRunContext",
    ],
    "langgraph": ["TreeringSaver", "TreeringStore"],
    "llama_index": ["TreeringMemoryBlock", "TreeringNodeRetriever"],
    "openai_agents": ["TreeringSession", "recall_before_model"],
    "pydantic_ai_harness": ["TreeringFileStore"],
    "pydantic_ai": ["TreeringMemory", "memory_toolset"],
}
"""By module; those of frameworks that are not installed are looked at where they are."""
WIKI = [
    "EmbeddingTool",
    "LineCitation",
    "MemoryType",
    "MongoWikiMemories",
    "PageKind",
    "PagePlan",
    "PageStatus",
    "PublishedWiki",
    "WikiFolder",
    "WikiGenerationStore",
    "WikiMaterial",
    "WikiMemory",
    "WikiMemoryRepository",
    "WikiMemoryService",
    "WikiMemoryStore",
    "WikiMemoryType",
    "WikiPage",
    "WikiPlan",
    "WikiPublisher",
    "WikiReport",
    "WikiStatus",
    "WikiWorkflowState",
    "WikiWriter",
    "WikiWritten",
    "create_page_agent",
    "create_structure_agent",
    "generate_wiki",
    "wiki_workflow",
]
FACADES = [
    (treering, PUBLIC),
    (treering.testing, FOR_BACKENDS),
    (treering.project_memory, FUNCTIONS),
    (treering.client, CLIENT),
    (treering.wiki, WIKI),
    (treering.aio, ["AsyncSpace", "open"]),
    *((import_module(f"treering.{module}"), names) for module, names in FRAMEWORKS.items() if is_installed(module)),
]
NAMES = [module.__name__ for module, _ in FACADES]
facades = pytest.mark.parametrize(("module", "names"), FACADES, ids=NAMES)

HEAVY = ("apsw", "numpy", "onnxruntime", "pydantic", "pytest", "tokenizers", "tree_sitter", "typer", "yaml")
"""What takes time to import."""


@facades
def test_the_public_names_are_these(module, names):
    assert sorted(module.__all__) == sorted(names)
    assert set(names) <= set(dir(module))


@facades
def test_every_name_is_what_a_type_checker_takes_it_for(module, names):
    declared = dict(declared_names(module))
    assert set(declared) | {"__version__"} >= set(names)
    for name, (home, original) in declared.items():
        assert getattr(module, name) is getattr(import_module(home), original), name


@facades
def test_no_other_name_is_found(module, names):
    with pytest.raises(AttributeError, match="nothing_of_this_name"):
        _ = module.nothing_of_this_name


@pytest.mark.parametrize("module", NAMES)
def test_importing_a_facade_loads_nothing_heavy(module):
    loaded = modules_after(f"import {module}")
    assert module in loaded
    assert loaded.isdisjoint(HEAVY)
    assert not {name for name in loaded if name.startswith(("treering.core", "treering.frameworks"))}


def test_an_error_is_had_without_loading_a_store_or_a_model():
    loaded = modules_after("from treering import NotFound, TreeringError")
    assert "treering.core.errors" in loaded
    assert loaded.isdisjoint(HEAVY)


def declared_names(module):
    """Return (name, (home, name there)) for what the stub of a module offers."""
    stub = ast.parse(Path(module.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    there = {}
    for node in stub.body:
        match node:
            case ast.ImportFrom(module=home, names=names):
                there.update({alias.name: (home, alias.name) for alias in names})
                yield from ((alias.name, (home, alias.name)) for alias in names if alias.asname)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name(id=original)):
                yield name, there[original]


def modules_after(statement):
    """Return the names of all modules that a fresh Python has loaded after a statement."""
    program = f"{statement}\nimport sys\nprint('\\n'.join(sys.modules))"
    # -I: nothing of this folder or environment is loaded besides.
    done = subprocess.run([sys.executable, "-I", "-c", program], check=True, capture_output=True, text=True)
    return set(done.stdout.split())


def test_every_framework_has_a_facade_whose_names_are_pinned():
    assert sorted(FRAMEWORKS) == sorted(frameworks.FRAMEWORKS)


@pytest.mark.parametrize("module", sorted(FRAMEWORKS))
def test_a_facade_of_a_framework_that_is_not_installed_names_the_extra(module, monkeypatch):
    framework = frameworks.FRAMEWORKS[module]
    for name in [name for name in sys.modules if name.startswith(f"{framework.package}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, framework.package, None)
    for name in [name for name in sys.modules if f"{name}.".startswith(f"treering.frameworks.{module}.")]:
        monkeypatch.delitem(sys.modules, name)

    facade = import_module(f"treering.{module}")
    vars(facade).pop(FRAMEWORKS[module][0], None)  # it may have been loaded before
    with pytest.raises(treering.MissingExtra, match=framework.extra) as raised:
        getattr(facade, FRAMEWORKS[module][0])
    assert f"treering[{framework.extra}]" in raised.value.hint


@pytest.mark.skipif(not is_installed("langchain"), reason="needs the extra 'langchain'")
def test_a_name_that_needs_a_further_package_names_the_extra_and_the_others_need_it_not(monkeypatch):
    for name in [name for name in sys.modules if name.startswith(("langchain.", "treering.frameworks.langchain."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "langchain", None)
    facade = import_module("treering.langchain")
    vars(facade).pop("WikiMemoryMiddleware", None)  # it may have been loaded before
    assert facade.TreeringRetriever
    with pytest.raises(treering.MissingExtra, match="langchain"):
        _ = facade.WikiMemoryMiddleware


def test_every_extra_of_a_framework_is_one_of_the_package():
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {framework.extra for framework in frameworks.FRAMEWORKS.values()} <= set(project["optional-dependencies"])
