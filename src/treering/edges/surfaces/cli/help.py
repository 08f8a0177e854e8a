"""What `--help` shows below the flags: the modes of a verb, straight from the catalogue, and examples."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from typer.core import TyperCommand, TyperGroup

from treering.edges.surfaces.cli.examples import EXAMPLES

if TYPE_CHECKING:
    # Only the types: where typer keeps them changes from release to release.
    from typer._click import Context, HelpFormatter


GROUPS: Mapping[str, Sequence[str]] = {
    "Begin": ("try", "init", "status", "version"),
    "Bring in, ask, record, check": ("ingest", "query", "crystallize", "lint"),
    "Coding agents": ("connect", "disconnect", "mcp", "session"),
    "Stay up to date": ("watch", "hook", "vectors"),
    "Decide and take back": ("review", "revert", "erase"),
    "Wikis, conversations, tickets": ("wiki", "discussion", "supervise", "workflow"),
    "Serve others": ("serve", "key"),
    "Copy and move a space": ("backup", "move", "export", "import"),
    "Databases and engines": ("index", "postgres", "mongodb", "unlock"),
}
"""The commands of `treering`, as its help shows them."""
_MARGIN = 6  # columns before and between
_OTHERS = "Other commands"


class GroupedCommands(TyperGroup):
    """The commands of `treering`, whose help shows them in groups."""

    def format_commands(self, ctx: "Context", formatter: "HelpFormatter") -> None:  # noqa: ARG002 - theirs
        """Write the groups, each command with the first sentence of its help."""
        grouped = {name for names in GROUPS.values() for name in names}
        groups = {**GROUPS, _OTHERS: [name for name in self.commands if name not in grouped]}
        widest = max(map(len, self.commands))
        for title, names in groups.items():
            shown = [self.commands[name] for name in names if name in self.commands]
            if shown:
                with formatter.section(title):
                    limit = formatter.width - _MARGIN - widest
                    # The name is filled up, so that all groups have their texts in one column.
                    formatter.write_dl(
                        [(str(one.name).ljust(widest), one.get_short_help_str(limit)) for one in shown], col_max=80
                    )


class Command(TyperCommand):
    """A command whose help ends with examples."""

    def format_epilog(self, ctx: "Context", formatter: "HelpFormatter") -> None:
        """Write the examples of this command."""
        name = ctx.command_path.removeprefix("treering ")
        with formatter.section("Examples"):
            for what, line in EXAMPLES[name]:
                formatter.write(f"  # {what}\n  {line}\n")


class VerbCommand(Command):
    """A verb's command, whose help names the modes with what they take."""

    def format_epilog(self, ctx: "Context", formatter: "HelpFormatter") -> None:
        """Write the modes, then the examples."""
        # The catalogue brings all of the tools with it; only this help needs it.
        from treering.tools.catalog import TOOLS

        tool = TOOLS[ctx.command_path.rpartition(" ")[2]]
        with formatter.section("Modes"):
            for mode in tool.modes.values():
                formatter.write_dl([(mode.name, mode.summary)])
                with formatter.indentation():
                    formatter.write_dl([("input", ", ".join(mode.input.model_fields) or "none")])
                    formatter.write_dl([("options", ", ".join(mode.options.model_fields) or "none")])
        super().format_epilog(ctx, formatter)
