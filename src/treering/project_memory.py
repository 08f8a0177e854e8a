"""Project memory as plain functions: a project and a folder are named with every call.

from treering.project_memory import get_hipporag_kwargs, index, retrieve

index("acme-web", ["Sessions are kept in one SQLite file."], "memories", **get_hipporag_kwargs())
retrieve("acme-web", ["Where are sessions kept?"], "memories", num_to_retrieve=5, **get_hipporag_kwargs())

Folders stay open until the program ends. `treering.open_projects` is the same memory as an object.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treering.parts.projects.spaces import delete, get_hipporag_kwargs, index, rag_qa, retrieve

__all__ = ["delete", "get_hipporag_kwargs", "index", "rag_qa", "retrieve"]


def __getattr__(name: str) -> Any:
    # Imported on first use, as in `treering`.
    if name not in __all__:
        raise AttributeError(f"module 'treering.project_memory' has no attribute {name!r}")
    return getattr(import_module("treering.parts.projects.spaces"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
