"""What `--help` shows below the flags: the modes of a verb, straight from the catalogue, and examples."""

from typing import TYPE_CHECKING

from typer.core import TyperCommand

from treering.edges.surfaces.cli.examples import EXAMPLES

if TYPE_CHECKING:
    # Only the types: where typer keeps them changes from release to release.
    from typer._click import Context, HelpFormatter


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
