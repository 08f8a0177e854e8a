"""The command that serves spaces over HTTP."""

from pathlib import Path
from typing import Annotated

from typer import Option, Typer, echo

from treering.edges.surfaces.cli.flags import spread
from treering.edges.surfaces.cli.help import Command

_EXTRA = "server"
_OF_THE_EXTRA = {"fastapi", "uvicorn"}


def add_to(app: Typer) -> None:
    """Add the command to the command line."""
    app.command("serve", cls=Command)(spread(serve))


def serve(
    space: Annotated[str, Option("--space", metavar="ADDRESS", help="Of the four tools; as for every command.")] = "",
    projects: Annotated[
        Path | None,
        Option("--projects", metavar="FOLDER", help="Where projects are kept. Default: TREERING_DATA_DIR/projects."),
    ] = None,
    files: Annotated[
        Path | None,
        Option("--files", metavar="FOLDER", help="Let ingest read what lies below it. Default: no files."),
    ] = None,
    host: Annotated[str, Option("--host", metavar="NAME", help="A name of this machine; no other is allowed.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, Option("--port", metavar="N", min=0, max=65535, help="0: any that is free.")] = 8420,
) -> None:
    """Serve the four tools and project memory over HTTP.

    To this machine only. Prints its address, and answers until it is told to stop (Ctrl-C); /openapi.json there
    says what it can be asked.
    """
    # Only what serving needs; and the extra, where it is missing, is missed here.
    from treering.core.errors import MissingExtra
    from treering.edges.settings import Settings

    try:
        from treering.edges.surfaces.rest.app import Serving
        from treering.edges.surfaces.rest.serving import serve_until_stopped
    except ModuleNotFoundError as error:
        if error.name not in _OF_THE_EXTRA:
            raise
        raise MissingExtra(_EXTRA, needed_for="`treering serve`") from error

    settings = Settings.read()
    what = Serving.of(settings, space=space, projects=projects, files=files)
    serve_until_stopped(what, host=host, port=port, tell=lambda address: echo(f"Treering listens on {address}"))
