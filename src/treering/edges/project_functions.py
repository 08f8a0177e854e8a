"""Project memory as plain functions, for programs that name a project and a folder with every call."""

import atexit
from collections.abc import Sequence
from functools import cache
from os import PathLike
from pathlib import Path

from treering.core.evidence import Triple
from treering.derived.asking import Budget
from treering.edges.project_models import ProjectModels
from treering.edges.projects import Projects, open_projects
from treering.edges.settings import Settings
from treering.memories.answering import Answered, Recalled
from treering.memories.project import DeleteReport, IndexReport, ProjectId

Folder = str | PathLike[str]


def get_hipporag_kwargs() -> dict[str, str | None]:
    """Return the models that the environment names, as keyword arguments of the functions here.

    `llm_model_name` (`MEMORY_LLM_MODEL`) and `embedding_model_name` (`MEMORY_EMBEDDING_MODEL`) are always there, `None`
    where they are not set; `llm_base_url` and `embedding_base_url` (`MEMORY_…_BASE_URL`) where they are set.
    """
    found = ProjectModels.of(Settings.read())
    urls = {"llm_base_url": found.llm_base_url, "embedding_base_url": found.embedding_base_url}
    return {
        "llm_model_name": found.llm_model_name or None,
        "embedding_model_name": found.embedding_model_name or None,
        **{name: url for name, url in urls.items() if url},
    }


def index(
    project_id: ProjectId,
    docs: Sequence[str],
    base_save_dir: Folder | None = None,
    *,
    triples: Sequence[Sequence[Triple]] | None = None,
    wait: bool = False,
    budget: Budget | None = None,
    llm_model_name: str | None = None,
    llm_base_url: str | None = None,
    embedding_model_name: str | None = None,
    embedding_base_url: str | None = None,
) -> IndexReport:
    """Keep documents in a project, as `Projects.index` does. A language model that is named reads what they state.

    `base_save_dir`: the folder of the projects; default `MEMORY_SAVE_DIR`, else `projects` in the data folder.
    """
    models = _models(llm_model_name, llm_base_url, embedding_model_name, embedding_base_url)
    memory = _memory(base_save_dir, models)
    return memory.index(project_id, docs, triples=triples, wait=wait, budget=budget)


def retrieve(
    project_id: ProjectId,
    queries: Sequence[str],
    base_save_dir: Folder | None = None,
    num_to_retrieve: int = 5,
    *,
    llm_model_name: str | None = None,
    llm_base_url: str | None = None,
    embedding_model_name: str | None = None,
    embedding_base_url: str | None = None,
) -> list[Recalled]:
    """Return for each query the documents that answer it best: `{"question", "docs", "doc_scores"}`, best first."""
    models = _models(llm_model_name, llm_base_url, embedding_model_name, embedding_base_url)
    return _memory(base_save_dir, models).retrieve(project_id, queries, num_to_retrieve)


def delete(
    project_id: ProjectId,
    docs: Sequence[str],
    base_save_dir: Folder | None = None,
    *,
    erase: bool = False,
    llm_model_name: str | None = None,
    llm_base_url: str | None = None,
    embedding_model_name: str | None = None,
    embedding_base_url: str | None = None,
) -> DeleteReport:
    """Take documents out of a project by their exact text, as `Projects.delete` does."""
    models = _models(llm_model_name, llm_base_url, embedding_model_name, embedding_base_url)
    return _memory(base_save_dir, models).delete(project_id, docs, erase=erase)


def rag_qa(
    project_id: ProjectId,
    queries: Sequence[str],
    base_save_dir: Folder | None = None,
    num_to_retrieve: int = 5,
    *,
    budget: Budget | None = None,
    llm_model_name: str | None = None,
    llm_base_url: str | None = None,
    embedding_model_name: str | None = None,
    embedding_base_url: str | None = None,
) -> list[Answered]:
    """Answer queries from the documents of a project, with citations, as `Projects.rag_qa` does.

    Raises `InvalidInput` where no language model is named.
    """
    models = _models(llm_model_name, llm_base_url, embedding_model_name, embedding_base_url)
    return _memory(base_save_dir, models).rag_qa(project_id, queries, num_to_retrieve, budget=budget)


def _models(llm: str | None, llm_url: str | None, embedding: str | None, embedding_url: str | None) -> ProjectModels:
    return ProjectModels(llm or "", llm_url or "", embedding or "", embedding_url or "")


def _memory(folder: Folder | None, models: ProjectModels) -> Projects:
    return _opened(Path(folder if folder is not None else Settings.read().projects_dir).absolute(), models)


@cache
def _opened(folder: Path, models: ProjectModels) -> Projects:
    projects = open_projects(folder, model=models.open_model(), embedder=models.open_embedder())
    atexit.register(projects.close)
    return projects
