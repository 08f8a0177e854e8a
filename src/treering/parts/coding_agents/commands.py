"""Commands that connect coding agents, and what these call at the beginning and the end of a session."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Context, Option, Typer

from treering.surfaces.cli.flags import Access, spread
from treering.surfaces.cli.help import Command, CommandHelp
from treering.surfaces.cli.printing import say

Client = Annotated[
    str,
    Argument(metavar="CLIENT", help="claude-code, codex, cursor, vscode, gemini-cli, opencode or zed."),
]
OfUser = Annotated[bool, Option("--user", help="For all your projects, and not for this folder alone.")]
AsJson = Annotated[bool, Option("--json", help="Print the report as JSON, and nothing else.")]


def add_connecting(app: Typer) -> None:
    """Add the commands to the command line."""
    app.command("status", cls=Command)(spread(status))
    app.command("connect", cls=Command)(connect)
    app.command("disconnect", cls=Command)(disconnect)
    session = Typer(rich_markup_mode=None, invoke_without_command=True)
    session.callback()(tell)
    session.command("begin", cls=Command)(begin)
    session.command("keep", cls=Command)(keep)
    session.command("edit", cls=Command)(edit)
    session.command("prompt", cls=Command)(prompt)
    session.command("failure", cls=Command)(failure)
    session.command("asked", cls=Command)(asked)
    session.command("work", cls=Command)(work)
    app.add_typer(session, name="session")


def status(
    access: Access,
    writes: Annotated[int, Option("--writes", metavar="N", min=0, max=100, help="Show the last so many changes.")] = 5,
) -> None:
    """Tell how the space stands.

    What is in it, what waits, what is stale, and who wrote last.
    """
    from treering.parts.coding_agents import running

    running.status(access, writes)


def connect(
    client: Client,
    of_user: OfUser = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Tell what would change, and change nothing.")] = False,
    print_only: Annotated[bool, Option("--print", help="Print what to put where, and change nothing.")] = False,
    no_hooks: Annotated[
        bool, Option("--no-hooks", help="Only the tools; sessions are neither begun with memory nor kept.")
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
        Option("--share", metavar="REMOTE", help="Also install hooks of git that share the space over this remote."),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Give a coding agent this folder's memory.

    Puts the MCP server into the client's own configuration, and hooks where
    the client has them: a session begins with a brief of the folder, and its
    transcript is kept. What stood there stays, and `treering disconnect`
    puts it back byte for byte.
    """
    from treering.parts.coding_agents import running

    wanted = running.WantedConnection(
        client, of_user=of_user, hooks=not no_hooks, without=tuple(without or ()), share=share
    )
    running.connect(wanted, dry_run=dry_run, print_only=print_only, as_json=as_json)


def disconnect(client: Client, of_user: OfUser = False, as_json: AsJson = False) -> None:
    """Take Treering out of a client's configuration again.

    A file that nobody changed since is put back as it was. From another one
    only what connecting put in is taken out.
    """
    from treering.parts.coding_agents import running

    running.disconnect(client, of_user=of_user, as_json=as_json)


def tell(context: Context) -> None:
    """Answer the hooks of coding agents."""
    if context.invoked_subcommand is None:
        say(context.get_help())


def begin() -> None:
    """Give a session that begins the brief of its folder.

    Reads the hook's input from stdin and prints its answer: the brief as it
    is now, or of a resumed session what changed since. Without a space, or
    if anything fails, the answer is empty, and the session begins anyway.
    """
    from treering.parts.coding_agents import session_hooks

    session_hooks.run("begin")


def keep(
    now: Annotated[
        Path | None, Option("--now", metavar="FILE", help="Keep this transcript, and wait until it is kept.")
    ] = None,
) -> None:
    """Keep the transcript of a session as a discussion.

    Reads the hook's input from stdin, writes down which transcript is to be
    kept, and leaves the work to a process of its own. Only what is new is
    added. No language model is asked.
    """
    if now is None:
        from treering.parts.coding_agents import session_hooks

        session_hooks.run("keep")
        return
    from treering.parts.coding_agents import running

    running.keep_now(now)


def edit() -> None:
    """Give what governs the files that are about to be edited.

    Reads the hook's input from stdin and prints its answer: rules and
    decisions, callers if a signature changes, tests with the command that
    runs them, files that change together. At most 250 tokens, each line once
    in a session; empty if there is nothing to say.
    """
    from treering.parts.coding_agents import session_hooks

    session_hooks.run("edit")


def prompt() -> None:
    """Give the rules, decisions, open work and places that match a prompt.

    Reads the hook's input from stdin and prints its answer, at most 250
    tokens; empty if nothing in the space answers the prompt.
    """
    from treering.parts.coding_agents import session_hooks

    session_hooks.run("prompt")


def failure() -> None:
    """Give what was learned from the same failure, and what the test protects.

    Reads the hook's input from stdin and prints its answer, at most 250
    tokens; empty if the tool did not fail, or nothing is known about it.
    """
    from treering.parts.coding_agents import session_hooks

    session_hooks.run("failure")


def asked() -> None:
    """Note which session got an answer of the tools or of `treering query`.

    Reads the hook's input from stdin. A file that the answer named counts as
    used where this session opens or edits it next. Prints an empty answer.
    """
    from treering.parts.coding_agents import session_hooks

    session_hooks.run("asked")


def work(
    folder: Annotated[
        Path | None,
        Option("--for", metavar="FOLDER", help="Also record which answers were used in this folder."),
    ] = None,
) -> None:
    """Do what the hooks left to be done, and wait until it is.

    Keeps the transcripts that wait, and records which answers were used. The
    hook `keep` starts this in the background. A transcript that fails is
    reported here, and tried again by the next run.
    """
    from treering.parts.coding_agents import running

    running.work(folder)


HELP = CommandHelp(
    groups={"Begin": ("status",), "Coding agents": ("connect", "disconnect", "session")},
    examples={
        "status": (("of the folder you are in", "treering status"),),
        "connect": (
            ("for this folder", "treering connect claude-code"),
            ("see what would be written where", "treering connect cursor --print"),
            ("for all your projects, without hooks", "treering connect gemini-cli --user --no-hooks"),
        ),
        "disconnect": (("put everything back", "treering disconnect claude-code"),),
        "session begin": (("as a client calls it", "echo '{}' | treering session begin"),),
        "session keep": (("a transcript, now", "treering session keep --now session.jsonl"),),
        "session work": (("see why a transcript still waits", "treering session work"),),
    },
)
