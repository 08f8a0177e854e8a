"""Project memory behind one lock for each project: `index`, `retrieve` and `delete` never overlap in a project."""

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

from treering import project_memory
from treering.project_memory import get_hipporag_kwargs as get_hipporag_kwargs

_locks: dict[str, Lock] = {}


def index(project_id: str, docs: Sequence[str], base_save_dir: str, **options: Any) -> Any:
    """Store documents in a project; return a report."""
    return _locked(project_id, project_memory.index, docs, base_save_dir, **options)


def retrieve(project_id: str, queries: Sequence[str], base_save_dir: str, **options: Any) -> Any:
    """Return `question`, `docs` and `doc_scores` for each query; options: `num_to_retrieve` (5), and models."""
    return _locked(project_id, project_memory.retrieve, queries, base_save_dir, **options)


def delete(project_id: str, docs: Sequence[str], base_save_dir: str, **options: Any) -> Any:
    """Delete documents by their exact text; return a report."""
    return _locked(project_id, project_memory.delete, docs, base_save_dir, **options)


def _locked(project_id: str, work: Callable[..., Any], *given: Any, **options: Any) -> Any:
    # Treering needs no lock. Here, calls of one project wait for each other, as in a backend whose store needs it.
    with _locks.setdefault(project_id, Lock()):
        return work(project_id, *given, **options)
