"""Commands that connect coding agents, and what these call at the beginning and the end of a session."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer

from treering.surfaces.cli.flags import Access, add_commands, add_group
from treering.surfaces.cli.help import CommandHelp

Client = Annotated[
    str,
    Argument(metavar="CLIENT", help="claude-code, codex, cursor, vscode, gemini-cli, opencode or zed."),
]
OfUser = Annotated[bool, Option("--user", help="For all your projects, not only this folder.")]
AsJson = Annotated[bool, Option("--json", help="Print only the report, as JSON.")]


def add_connecting(app: Typer) -> None:
    """Add the commands to the command line."""
    add_commands(app, status, connect, disconnect)
    add_group(app, "session", "Answer the hooks of coding agents.", begin, keep, edit, prompt, failure, asked, work)


def status(
    access: Access,
    writes: Annotated[
        int, Option("--writes", metavar="N", min=0, max=100, help="Show this many of the last changes.")
    ] = 5,
) -> None:
    """Show the status of the space.

    Its content, pending work, stale knowledge, and the last author.
    """
    from treering.extensions.coding_agents import running

    running.status(access, writes)


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
    from treering.extensions.coding_agents import running

    wanted = running.WantedConnection(
        client, of_user=of_user, hooks=not no_hooks, without=tuple(without or ()), share=share
    )
    running.connect(wanted, dry_run=dry_run, print_only=print_only, as_json=as_json)


def disconnect(client: Client, of_user: OfUser = False, as_json: AsJson = False) -> None:
    """Remove Treering from a client's configuration.

    Restores a file that was not changed since. From a changed file, removes only
    the parts that `connect` added.
    """
    from treering.extensions.coding_agents import running

    running.disconnect(client, of_user=of_user, as_json=as_json)


def begin() -> None:
    """Give a new session the brief of its folder.

    Reads the hook's input from stdin and prints its answer: the current brief,
    or for a resumed session the changes since. Without a space, or if anything
    fails, the answer is empty and the session starts normally.
    """
    from treering.extensions.coding_agents import session_hooks

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
        from treering.extensions.coding_agents import session_hooks

        session_hooks.run("keep")
        return
    from treering.extensions.coding_agents import session_work

    session_work.keep_now(now)


def edit() -> None:
    """Print the rules and facts that matter for the files about to be edited.

    Reads the hook's input from stdin and prints its answer: rules and
    decisions, callers if a signature changes, tests with the command that
    runs them, files that change together. At most 250 tokens, each line once
    per session; empty if there is nothing to report.
    """
    from treering.extensions.coding_agents import session_hooks

    session_hooks.run("edit")


def prompt() -> None:
    """Print the rules, decisions, open work and places that match a prompt.

    Reads the hook's input from stdin and prints its answer, at most 250
    tokens; empty if nothing in the space matches the prompt.
    """
    from treering.extensions.coding_agents import session_hooks

    session_hooks.run("prompt")


def failure() -> None:
    """Print lessons from the same failure, and what the test protects.

    Reads the hook's input from stdin and prints its answer, at most 250
    tokens; empty if the tool did not fail or nothing is known about it.
    """
    from treering.extensions.coding_agents import session_hooks

    session_hooks.run("failure")


def asked() -> None:
    """Record which session got an answer of the tools or of `treering query`.

    Reads the hook's input from stdin. A file named in the answer counts as used
    if this session opens or edits it next. Prints an empty answer.
    """
    from treering.extensions.coding_agents import session_hooks

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
    from treering.extensions.coding_agents import session_work

    session_work.work(folder)


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
