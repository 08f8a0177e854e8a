"""Projects: the spaces of project memory that this server keeps, each with the same pages as the server's own."""

from collections.abc import Sequence

from treering.edges.surfaces.web.view import Rendered


def list_projects(names: Sequence[str]) -> Rendered:
    """Show the projects."""
    return Rendered("projects.html", {"names": names, "command": ("treering", "serve", "--projects", "FOLDER")})
