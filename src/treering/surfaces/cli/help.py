"""The help below the flags: the modes of a verb from the catalogue, and examples."""

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from typer.core import TyperCommand, TyperGroup

from treering.registry import brought

if TYPE_CHECKING:
    from typer._click import Context, HelpFormatter


Example = tuple[str, str]
"""A purpose, and the command line for it."""
_EXAMPLES: Mapping[str, tuple[Example, ...]] = {
    "init": (
        ("a space for this folder and all below it", "treering init"),
        ("a named space, in your data folder", "treering init --space notes"),
    ),
    "add": (
        ("the repository or folder you are in", "treering add ."),
        ("a note", 'treering add --note "Releases are cut on Tuesdays."'),
        ("a page", "treering add https://example.org/handbook"),
    ),
    "search": (("find where something is", "treering search retry limit"),),
    "ask": (("the knowledge for a task", "treering ask make the retry limit configurable"),),
    "show": (
        ("some lines", "treering show src/retry.py:10-14"),
        ("the second hit of the last answer", "treering show 2"),
        ("a statement by the end of its id", "treering show know:…7jc4"),
    ),
    "log": (("changes since yesterday of knowledge based on a file", "treering log src/retry.py --since yesterday"),),
    "decide": (
        ("a decision and its evidence", 'treering decide "Retries are bounded" --because README.md:5-11'),
        ("with its reason", 'treering decide "One file" --why "Nothing to operate" --instead-of "A server"'),
    ),
    "rule": (("a rule for a part of the code", 'treering rule "No new dependencies" --for src/api'),),
    "prefer": (("how you like things", 'treering prefer "Short functions"'),),
    "fact": (
        ("a value and the line that states it", 'treering fact "api.port = 8080" --because api/config.py:3'),
        ("the same", 'treering fact "port = 8080" --of api --because api/config.py:3'),
    ),
    "task": (("something to do", 'treering task "Write the docs"'),),
    "done": (("by words of its title", 'treering done "write docs" "Written"'),),
    "replace": (("replace the second hit", 'treering replace 2 "Retries are limited to five"'),),
    "undo": (("undo your last record", "treering undo"),),
    "ingest": (
        ("the repository you are in", "treering ingest ."),
        ("the work tree with uncommitted changes; wait for embeddings", "treering ingest . --worktree --wait"),
        ("a part of it, only Markdown", "treering ingest . --option subfolder=docs --option include='*.md'"),
        ("a note", "echo 'Releases are cut on Tuesdays.' | treering ingest - --title Releases"),
        ("the pages listed in a file, one address per line", "treering ingest --mode url addresses.txt"),
        ("the state of the last run", "treering ingest --mode status"),
    ),
    "query": (
        ("the knowledge for a task", 'treering query "make the retry limit configurable"'),
        (
            "ranked hits and the reasons for their rank",
            'treering query --mode search "retry limit" --limit 5 --explain',
        ),
        ("the exact lines behind a hit", "treering query --mode expand 'src:01k… 3f2a…'"),
        ("what changed since Monday", 'treering query --mode recent --input \'{"since": "2026-01-05T00:00:00Z"}\''),
        ("the answer as of that day", 'treering query "retry limit" --as-of 2026-01-01T00:00:00Z'),
    ),
    "crystallize": (
        (
            "a decision",
            'treering crystallize --kind decision --title "One file per space" \\\n'
            '      --question "Where is a space stored?" --outcome "In one SQLite file" \\\n'
            '      --rationale "Nothing to operate" --alternative "A server"',
        ),
        (
            "a fact with its evidence",
            'treering crystallize --kind fact --title "Default port" --subject api \\\n'
            "      --predicate port --value 8080 --evidence 'src:01k… 3f2a…' --status active",
        ),
        ("promote a candidate", "treering crystallize --mode promote know:01k…"),
        ("replace outdated knowledge", "treering crystallize --mode supersede know:01k… --by know:01m…"),
        ("finished work with everything it produced", "treering crystallize --mode activity --input @activity.json"),
        ("finish a draft", "treering crystallize act:01k… --status finalized"),
        ("merge a node into another", "treering crystallize node:01k… --into node:01m…"),
        ("mark a source as wrong", "treering crystallize src:01k… --status invalid"),
        ("resolve a task", 'treering crystallize work:01k… --kind task --status resolved --resolution "Done"'),
    ),
    "lint": (
        ("look for broken references and drifted knowledge", "treering lint"),
        ("fail in CI if there are errors or stale statements", "treering lint --strict"),
        ("see the repairs, then apply them", "treering lint repair && treering lint repair --apply"),
        ("verify the audit log; who changed this", "treering lint audit know:01k…"),
        ("rebuild the indexes", "treering lint reindex --apply"),
    ),
    "review list": (("the patches waiting for a decision", "treering review list"),),
    "review show": (("the changes in a patch", "treering review show patch:01k…"),),
    "review apply": (("apply it", "treering review apply patch:01k…"),),
    "review reject": (("reject it", 'treering review reject patch:01k… --reason "No evidence"'),),
    "revert": (("revert a patch", 'treering revert patch:01k… --reason "Wrong branch"'),),
    "feedback give": (
        ("a right and a wrong hit", "treering feedback give 'how often is it retried' --right src:01k…"),
        ("an answer by its id from `query --json`", "treering feedback give ans:… --used know:01k…"),
        ("remove a mark", "treering feedback give 'how often is it retried' --neither src:01k…"),
    ),
    "feedback status": (("the stored feedback", "treering feedback status"),),
    "feedback off": (("ignore feedback, everywhere", "treering feedback off"),),
    "feedback on": (("use it again", "treering feedback on"),),
    "feedback erase": (("delete all of it", "treering feedback erase"),),
    "erase": (
        ("remove a source permanently, everywhere", 'treering erase src:01k… --reason "Asked by its author"'),
        ("everything of a user", "treering erase --scope /users/ada"),
    ),
    "backup": (
        ("a backup, while others work", "treering backup ~/backups/acme.db"),
        ("replace the last backup", "treering backup ~/backups/acme.db --force"),
    ),
    "vectors": (("embed everything that is pending, now", "treering vectors"),),
    "unlock": (
        ("the leases of this space", "treering unlock"),
        ("release the lease for vectors", "treering unlock vectors"),
    ),
    "version": (("the installed version", "treering version"),),
}
_GROUPS: Mapping[str, Sequence[str]] = {
    "Every day": (
        "add",
        "search",
        "ask",
        "brief",
        "show",
        "log",
        "decide",
        "rule",
        "prefer",
        "fact",
        "task",
        "done",
        "replace",
        "undo",
    ),
    "Begin": ("init",),
    "The four tools": ("ingest", "query", "crystallize", "lint"),
    "Coding agents": (),
    "Stay up to date": ("vectors",),
    "Decide and take back": ("review", "revert", "feedback", "erase"),
    "Wikis, conversations, tickets": (),
    "Serve others": (),
    "Copy and move a space": ("backup",),
    "Databases and engines": ("unlock",),
    "Other": ("version",),
}
"""The commands that are not of a part."""
_MARGIN = 6  # columns before and between
_NAME_COLUMNS = 8
_OTHERS = "Other commands"
_IN_FULL = ("Every day", "Begin")
_MORE = "More (treering COMMAND --help)"
_EVERYDAY_OF_MODES = {"context": "ask", "expand": "show", "page": "show", "recent": "log", "supersede": "replace"}


@dataclass(frozen=True, slots=True)
class CommandHelp:
    """The help that a part adds for its commands."""

    groups: Mapping[str, Sequence[str]]
    """Its commands, by the title of their group; an unknown title starts a new group."""
    examples: Mapping[str, tuple[Example, ...]]
    """Examples, by the command."""


def examples() -> Mapping[str, tuple[Example, ...]]:
    """Return the examples of each command. The first part with examples for a command takes precedence."""
    return {name: lines for one in reversed(_all_help()) for name, lines in one.examples.items()}


def command_groups() -> Mapping[str, Sequence[str]]:
    """Return the commands by the title of their group. The first part that names a command takes precedence."""
    groups: dict[str, list[str]] = {}
    grouped: set[str] = set()
    for one in _all_help():
        for title, names in one.groups.items():
            groups.setdefault(title, []).extend(name for name in names if name not in grouped)
            grouped.update(names)
    return groups


def _all_help() -> list[CommandHelp]:
    return [CommandHelp(_GROUPS, _EXAMPLES), *brought("help")]


class GroupedCommands(TyperGroup):
    """The commands of `treering`: everyday ones with their help, others by name, so that all fit on a screen."""

    def format_commands(self, ctx: "Context", formatter: "HelpFormatter") -> None:  # noqa: ARG002 - theirs
        """Write the commands by group."""
        groups = command_groups()
        grouped = {name for names in groups.values() for name in names}
        groups = {**groups, _OTHERS: [name for name in self.commands if name not in grouped]}
        for title in _IN_FULL:
            self._format_in_full(title, groups.pop(title, ()), formatter)
        with formatter.section(_MORE):
            named = {title: [name for name in names if name in self.commands] for title, names in groups.items()}
            formatter.write_dl([(title, ", ".join(names)) for title, names in named.items() if names], col_max=40)

    def _format_in_full(self, title: str, names: Sequence[str], formatter: "HelpFormatter") -> None:
        shown = [self.commands[name] for name in names if name in self.commands]
        with formatter.section(title) if shown else nullcontext():
            limit = formatter.width - _MARGIN - _NAME_COLUMNS
            # Names are padded, so that the texts of all groups are in one column.
            formatter.write_dl(
                [(str(one.name).ljust(_NAME_COLUMNS), one.get_short_help_str(limit)) for one in shown], col_max=80
            )


class Command(TyperCommand):
    """A command whose help ends with examples."""

    def format_epilog(self, ctx: "Context", formatter: "HelpFormatter") -> None:
        """Write the examples of this command."""
        name = ctx.command_path.removeprefix("treering ")
        shown = examples().get(name, ())
        with formatter.section("Examples") if shown else nullcontext():
            for what, line in shown:
                formatter.write(f"  # {what}\n  {line}\n")


class VerbCommand(Command):
    """A verb's command, whose help lists the modes with their input and options."""

    def format_epilog(self, ctx: "Context", formatter: "HelpFormatter") -> None:
        """Write the modes, then the examples."""
        with formatter.section("Modes"):
            for name, summary, given, options in shipped_modes()[ctx.command_path.rpartition(" ")[2]]:
                formatter.write_dl([(name, summary)])
                with formatter.indentation():
                    formatter.write_dl([("input", given or "none")])
                    formatter.write_dl([("options", options or "none")])
        super().format_epilog(ctx, formatter)


def command_for(verb: str, mode: str) -> str:
    """Return how a mode is written on the command line: as its everyday command if it has one."""
    everyday = _EVERYDAY_OF_MODES.get(mode, mode if mode in ("search", "brief") else "")
    return f"treering {everyday} …" if everyday else f"treering {verb} --mode {mode} …"


def shipped_modes() -> Mapping[str, Sequence[Sequence[str]]]:
    """Read `modes.json`: the modes of each verb with name, summary, input and options, as `rendered_modes` wrote it."""
    shipped: Mapping[str, Sequence[Sequence[str]]] = json.loads(
        Path(__file__).with_name("modes.json").read_text(encoding="utf-8")
    )
    return shipped


def rendered_modes() -> str:
    """Return the help of the modes from the catalogue, as stored in `modes.json`."""
    from treering.verbs.catalog import TOOLS  # it imports all tools, which would slow the help down

    modes = {
        verb: [
            [mode.name, mode.summary, ", ".join(mode.input.model_fields), ", ".join(mode.options.model_fields)]
            for mode in tool.modes.values()
        ]
        for verb, tool in TOOLS.items()
    }
    return json.dumps(modes, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    # Renders `modes.json`: python -m treering.surfaces.cli.help > …/modes.json
    sys.stdout.write(rendered_modes())
