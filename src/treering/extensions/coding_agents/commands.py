"""Commands that connect coding agents, and the commands of their hooks."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, Typer

from treering.core.errors import InvalidInput, nearest
from treering.extensions.coding_agents.git_exclude import exclude_file
from treering.extensions.coding_agents.status import status
from treering.facades import LazyModule
from treering.surfaces.cli.flags import Access, AsJson, SharingFlags, add_commands, add_group
from treering.surfaces.cli.help import CommandHelp
from treering.surfaces.cli.printing import IndentedLine, line, say_document
from treering.surfaces.cli.session import answer
from treering.system.address import shown_address
from treering.system.machine import StartCommand
from treering.system.settings import Settings

if TYPE_CHECKING:
    from treering.extensions.code import git_hooks
    from treering.extensions.coding_agents import connecting, session_hooks, session_work
else:
    connecting = LazyModule("treering.extensions.coding_agents.connecting")
    git_hooks = LazyModule("treering.extensions.code.git_hooks")
    session_hooks = LazyModule("treering.extensions.coding_agents.session_hooks")
    session_work = LazyModule("treering.extensions.coding_agents.session_work")

Client = Annotated[
    str,
    Argument(metavar="CLIENT", help="claude-code, codex, cursor, vscode, gemini-cli, opencode, copilot-cli or zed."),
]
OfUser = Annotated[bool, Option("--user", help="For all your projects, not only this folder.")]


def add_connecting(app: Typer) -> None:
    """Add the commands to the command line."""
    add_commands(app, status, connect, disconnect)
    add_group(app, "session", "Answer the hooks of coding agents.", begin, keep, edit, prompt, failure, asked, work)


def connect(
    client: Client,
    of_user: OfUser = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Only show what would change.")] = False,
    print_only: Annotated[bool, Option("--print", help="Only print the settings and their files.")] = False,
    no_hooks: Annotated[
        bool, Option("--no-hooks", help="Install only the tools; sessions get no brief and are not stored.")
    ] = False,
    without: Annotated[
        list[str] | None,
        Option(
            "--without",
            metavar="HOOK",
            help="Leave out one hook: begin, keep, edit, prompt, failure, asked; repeatable.",
        ),
    ] = None,
    share: Annotated[
        str,
        Option("--share", metavar="REMOTE", help="Also install git hooks that share the space over this remote."),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Give a coding agent this folder's memory.

    Adds the MCP server to the client's own configuration, and hooks if the client
    has them: each session starts with a brief of the folder, and its transcript is
    stored. Existing settings stay; `treering disconnect` restores the
    configuration byte for byte.
    """
    agent, settings = connecting.client_named(client), Settings.read()
    folder = None if of_user else settings.folder.resolve()
    program = connecting.start_command()
    hooks = StartCommand(program.program, (*program.arguments, "session")) if not no_hooks else None
    planned = connecting.plan_connection(
        agent,
        folder=folder,
        home=Path.home(),
        server=_server(program, settings, folder),
        hooks=hooks,
        without=_known_hooks(tuple(without or ())),
    )
    sharing = SharingFlags(share)
    if share:
        git_hooks.put_hooks("", settings.folder, sharing, dry_run=True)  # what cannot be done changes nothing
    if print_only:
        say_document("\n".join(_printed(one) for one in planned.changes))
        return
    if planned.changes and not dry_run:
        _records(settings).make(planned)
    if share and not dry_run:
        git_hooks.put_hooks("", settings.folder, sharing)
    chosen = settings.space_choice()
    facts = {
        "client": agent.name,
        "files": [str(one.file) for one in planned.changes],
        "share": share,
        "dry_run": dry_run,
        "space": str(chosen.address),
        "why": chosen.why,
    }
    lines = [*_connected_lines(planned, agent.title, settings, dry_run=dry_run)]
    if hooks and agent.hooks_note and planned.changes:
        lines.append(line(agent.hooks_note, indent=2))
    lines += _sharing_lines(share, settings.folder, of_user=of_user, dry_run=dry_run)
    answer(Access(as_json=as_json), facts, lines)


def _printed(change: connecting.FileChange) -> str:
    place = str(change.file) if change.before is None else f"Add to {change.file}"
    return f"{place}:\n{change.addition}\n"


def disconnect(client: Client, of_user: OfUser = False, as_json: AsJson = False) -> None:
    """Remove Treering from a client's configuration.

    Restores a file that was not changed since. From a changed file, removes only
    the parts that `connect` added. With the last client of a folder, removes
    Treering's lines from the git hooks of its repository, too.
    """
    agent, settings = connecting.client_named(client), Settings.read()
    records, folder = _records(settings), settings.folder.resolve()
    undone = records.undo(agent.name, None if of_user else folder)
    others = [] if of_user else records.clients_in(folder)
    hooks = [] if of_user or others else git_hooks.remove_own(folder)
    facts = {
        "client": agent.name,
        "files": {str(one.file): one.how for one in undone},
        "git_hooks": [str(one.file) for one in hooks],
    }
    lines = [
        line(f"{agent.title} is no longer connected."),
        *(line(f"{one.file}: {one.how}", indent=2) for one in undone),
    ]
    lines += [line(f"{one.file}: removed Treering's lines", indent=2) for one in hooks]
    if not of_user and git_hooks.are_installed(folder):
        reason = f", because {' and '.join(others)} still uses this space" if others else ""
        lines.append(line(f"The git hooks of this repository remain{reason}. To remove them: treering hook uninstall"))
    answer(Access(as_json=as_json), facts, lines)


def begin() -> None:
    """Give a new session the brief of its folder.

    Reads the hook's input from stdin and prints its answer: the current brief,
    or for a resumed session the changes since. Without a space, or if anything
    fails, the answer is empty and the session starts normally.
    """
    session_hooks.run("begin")


def keep(
    now: Annotated[Path | None, Option("--now", metavar="FILE", help="Store this transcript and wait for it.")] = None,
) -> None:
    """Store the transcript of a session as a discussion.

    Reads the hook's input from stdin, queues the transcript, and leaves the work
    to a background process. Adds only new messages. Does not call a language
    model.
    """
    if now is None:
        session_hooks.run("keep")
        return
    session_work.keep_now(now)


def edit() -> None:
    """Print the rules and facts that matter for the files about to be edited.

    Reads the hook's input from stdin and prints its answer: rules and
    decisions, callers if a signature changes, tests with the command that
    runs them, files that change together. At most 250 tokens, each line once
    per session; empty if there is nothing to report.
    """
    session_hooks.run("edit")


def prompt() -> None:
    """Print the rules, decisions, open work and places that match a prompt.

    Reads the hook's input from stdin and prints its answer, at most 250
    tokens; empty if nothing in the space matches the prompt.
    """
    session_hooks.run("prompt")


def failure() -> None:
    """Print lessons from the same failure, and what the test protects.

    Reads the hook's input from stdin and prints its answer, at most 250
    tokens; empty if the tool did not fail or nothing is known about it.
    """
    session_hooks.run("failure")


def asked() -> None:
    """Record the session that received an answer of the tools or of `treering query`.

    Reads the hook's input from stdin. A file named in the answer counts as used
    if this session opens or edits it next. Prints an empty answer.
    """
    session_hooks.run("asked")


def work(
    folder: Annotated[
        Path | None,
        Option("--for", metavar="FOLDER", help="Also record which answers were used in this folder."),
    ] = None,
) -> None:
    """Do the queued work of the hooks and wait for it.

    Stores the queued transcripts and records which answers were used. The hook
    `keep` starts this in the background. A transcript that fails is reported here
    and retried in the next run.
    """
    session_work.work(folder)


def _sharing_lines(share: str, folder: Path, *, of_user: bool, dry_run: bool) -> Iterator[IndentedLine]:
    if share:
        yield line("Git hooks would share the space:" if dry_run else "Git hooks share the space:", indent=2)
        yield from (line(note, indent=4) for note in git_hooks.sharing_notes(share))
        yield line("To undo: treering hook uninstall", indent=4)
    elif not of_user:
        yield from (line(offer, indent=2) for offer in git_hooks.hooks_to_offer(folder))


def _known_hooks(names: tuple[str, ...]) -> tuple[str, ...]:
    for one in names:
        if one not in connecting.HOOK_WORDS:
            raise InvalidInput(
                f"Unknown hook {one!r}.",
                hint=nearest(one, connecting.HOOK_WORDS),
                details={"known": [*connecting.HOOK_WORDS]},
            )
    return names


def _server(program: StartCommand, settings: Settings, folder: Path | None) -> StartCommand:
    """Return how a client starts our server: for a folder, with the space that commands there use."""
    if folder is None:
        return StartCommand(program.program, (*program.arguments, "mcp"))
    address = settings.space_address(None)
    # The address of a database may hold a password: the client's environment has to name it.
    space = ("--space", str(address)) if address.is_file else ()
    return StartCommand(program.program, (*program.arguments, "mcp", *space, "--files", str(folder)))


def _records(settings: Settings) -> "connecting.ConnectionRecords":
    return connecting.ConnectionRecords(settings.data_dir / "connections")


def _connected_lines(
    planned: "connecting.Connection", title: str, settings: Settings, *, dry_run: bool
) -> Iterator[IndentedLine]:
    if not planned.changes:
        yield line(f"{title} is already connected.")
        return
    yield line(f"{title} would be connected; nothing was changed." if dry_run else f"{title} is connected.")
    excluding = exclude_file(planned.folder) if planned.folder else None
    for one in planned.changes:
        note = _EXCLUDING if one.file == excluding else _OF_THIS_MACHINE if excluding else ""
        yield line(f"{'created' if one.before is None else 'changed'} {one.file}{note}", indent=2)
    address = settings.space_choice().address
    yield line(f"space {shown_address(address)}", indent=2)
    if address.file is not None and not address.file.is_file():
        yield line("There is no space here yet: treering init && treering add .", indent=2)
    if not address.is_file:
        yield line("The space is in a database: set TREERING_SPACE in the client's environment.", indent=2)
    yield line(f"Restart {title}. To undo it: treering disconnect {planned.client}", indent=2)


_OF_THIS_MACHINE = " (contains paths of this machine; do not commit it)"
_EXCLUDING = " (so that git ignores the configuration)"


HELP = CommandHelp(
    groups={"Begin": ("status",), "Coding agents": ("connect", "disconnect", "session")},
    examples={
        "status": (("of the current folder", "treering status"),),
        "connect": (
            ("for this folder", "treering connect claude-code"),
            ("see the changes and their files", "treering connect cursor --print"),
            ("for all your projects, without hooks", "treering connect gemini-cli --user --no-hooks"),
        ),
        "disconnect": (("restore everything", "treering disconnect claude-code"),),
        "session begin": (("as called by a client", "echo '{}' | treering session begin"),),
        "session keep": (("store a transcript now", "treering session keep --now session.jsonl"),),
        "session work": (("see why a transcript is still pending", "treering session work"),),
    },
)
