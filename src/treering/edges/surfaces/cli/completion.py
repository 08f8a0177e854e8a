"""What a shell completes: the modes of the verbs, and the kinds of what is recorded."""

from typer import Context


def modes(ctx: Context, incomplete: str) -> list[tuple[str, str]]:
    """Return the modes of the verb whose command line is completed, each with what it does."""
    from treering.tools.catalog import TOOLS  # it brings all of the tools with it

    tool = TOOLS[ctx.command_path.rpartition(" ")[2]]
    return [(mode.name, mode.summary) for mode in tool.modes.values() if mode.name.startswith(incomplete)]


def kinds(incomplete: str) -> list[tuple[str, str]]:
    """Return the kinds of knowledge, work and activities."""
    from treering.edges.surfaces.cli.kinds import KINDS

    return [(kind, what) for what, known in KINDS.items() for kind in known if kind.startswith(incomplete)]
