"""Generating a wiki as a LangGraph workflow, with models and without."""

from importlib import import_module
from typing import Any

_HOMES = {
    "generate": ["generate_wiki"],
    "standalone": ["WikiWorkflowState", "create_page_agent", "create_structure_agent", "wiki_workflow"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    # Imported on first use: a wiki made by rules needs LangGraph alone, agents need LangChain.
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
