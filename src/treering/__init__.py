"""Treering: memory for LLM agents that can be checked.

import treering

with treering.open("sqlite:treering.db") as space:
    space.ingest(mode="repo", input={"path": "."})
    pack = space.query(input={"task": "make retries configurable"}).pack
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treering.edges.projects import Projects, open_projects
    from treering.edges.surfaces.space import Space
    from treering.edges.surfaces.space import open_space as open  # noqa: A004 - the name users expect

__version__ = "0.1.0"
__all__ = ["Projects", "Space", "__version__", "open", "open_projects"]


def __getattr__(name: str) -> Any:
    # Imported on first use, so that `treering --help` need not load search and models.
    if name in {"Projects", "open_projects"}:
        from treering.edges import projects

        return getattr(projects, name)
    from treering.edges.surfaces import space

    if name == "open":
        return space.open_space
    if name == "Space":
        return space.Space
    raise AttributeError(f"module 'treering' has no attribute {name!r}")
