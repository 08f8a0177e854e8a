"""The command that serves the four tools over MCP."""

from pathlib import Path
from typing import Annotated

from typer import Option, Typer

from treering.surfaces.cli.flags import add_commands
from treering.surfaces.cli.help import CommandHelp
from treering.system.settings import Settings


def add_mcp(app: Typer) -> None:
    """Add the command to the command line."""
    add_commands(app, mcp)


def mcp(
    space: Annotated[str, Option("--space", metavar="ADDRESS", help="As in every command.")] = "",
    underscore_names: Annotated[
        bool,
        Option(
            "--underscore-names", help="Name tools wiki_query instead of wiki.query, for clients that refuse a dot."
        ),
    ] = False,
    files: Annotated[
        Path | None,
        Option(
            "--files",
            metavar="FOLDER",
            help="Let ingest read the files in this folder. Default: the current folder, unless it is / or your home.",
        ),
    ] = None,
    allow_urls: Annotated[bool, Option("--allow-urls", help="Let ingest fetch web pages. Default: no.")] = False,
    timeout: Annotated[float, Option("--timeout", metavar="SECONDS", min=1, help="Time limit of a query.")] = 60.0,
) -> None:
    """Serve the four tools to an agent over MCP (stdio)."""
    from treering.extensions.mcp.server import build_server, serve
    from treering.ports.runtime import end_loading

    settings = Settings.read()
    underscored = underscore_names or settings.underscore_names
    address = settings.space_address(space or None)
    server = build_server(address, underscore_names=underscored, files=files, urls=allow_urls, read_seconds=timeout)
    end_loading()
    serve(server)


HELP = CommandHelp(
    groups={"Coding agents": ("mcp",)},
    examples={
        "mcp": (
            ("serve the four tools to an agent over stdio", "treering mcp"),
            (
                "in the configuration of a client",
                '{"command": "treering", "args": ["mcp", "--space", "sqlite:/path/to.db"]}',
            ),
        ),
    },
)
