"""Commands for discussions: conversations that go on, and what is remembered of them."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Context, Option, Typer

from treering.surfaces.cli.flags import Access, MakingFlags, WriteFlags, spread
from treering.surfaces.cli.help import Command, CommandHelp
from treering.surfaces.cli.printing import say

if TYPE_CHECKING:
    from treering.parts.discussions.chat.endpoint import ServedChats
    from treering.system.settings import Settings

Id = Annotated[str, Argument(metavar="ID", help="The id of the discussion.")]
Within = Annotated[str, Option("--within", metavar="SCOPE", help="Below which scope discussions are kept.")]


def add_discussions(app: Typer) -> None:
    """Add the commands to the command line."""
    discussion = Typer(rich_markup_mode=None, invoke_without_command=True)
    discussion.callback()(discuss)
    for name, command in (
        ("list", list_all),
        ("record", record),
        ("update", update),
        ("show", show),
        ("search", search),
        ("state", state),
        ("export", export),
        ("import", import_from),
        ("delete", delete),
    ):
        discussion.command(name, cls=Command)(spread(command))
    app.add_typer(discussion, name="discussion")


def discuss(context: Context) -> None:
    """Keep conversations, and what is remembered of them."""
    if context.invoked_subcommand is None:
        say(context.get_help())


def list_all(access: Access, within: Within = "/") -> None:
    """List the discussions of which anything is kept."""
    from treering.parts.discussions import running

    running.list_all(within, access)


@dataclass(frozen=True, slots=True)
class TranscriptFlags:
    """What is recorded where, and what follows."""

    identity: Id
    file: Annotated[Path, Argument(metavar="FILE", help="A chat export, messages, or a transcript; - is stdin.")]
    conversation: Annotated[
        str, Option("--conversation", metavar="NAME", help="Which one, by id or title, where a file holds several.")
    ] = ""
    no_update: Annotated[bool, Option("--no-update", help="Leave memories that are due to a later update.")] = False
    propose: Annotated[
        bool, Option("--propose", help="Propose what was decided, and why something failed, as candidates.")
    ] = False
    again: Annotated[bool, Option("--again", help="Also record what was erased before.")] = False
    within: Within = "/"


def record(told: TranscriptFlags, writing: WriteFlags, access: Access, making: MakingFlags) -> None:
    """Keep the messages of a file, and make what is due.

    All of a conversation, or its newest messages: what is known is not written
    again. Where the file parts from the end of what was kept, it replaces one
    message, or no more than agree; what is new otherwise stands beside it.
    """
    from treering.parts.discussions import running

    running.record(told, making, access, writing)


def update(
    identity: Id,
    writing: WriteFlags,
    access: Access,
    making: MakingFlags,
    wait: Annotated[
        float, Option("--wait", metavar="SECONDS", min=0, help="Wait so long for another process that is at it.")
    ] = 0.0,
    within: Within = "/",
) -> None:
    """Make the memories that are due.

    And bring summary and state document up to date. By rules, or by the workflows,
    models and prompts that --config names, or by the model of --endpoint. Exit code
    1 where some failed.
    """
    from treering.parts.discussions import running

    running.update(identity, within, wait, making, access, writing)


def show(
    identity: Id,
    access: Access,
    memories: Annotated[int, Option("--memories", metavar="N", min=0, help="So many of the last memories.")] = 5,
    messages: Annotated[int, Option("--messages", metavar="N", min=0, help="So many of the last messages.")] = 5,
    within: Within = "/",
) -> None:
    """Show summary, state document, and the last memories and messages."""
    from treering.parts.discussions import running

    running.show(identity, within, access, memories=memories, messages=messages)


@dataclass(frozen=True, slots=True)
class SearchFlags:
    """What is looked for, where, and how."""

    words: Annotated[list[str], Argument(metavar="[ID] QUERY", help="The discussion, and what to look for.")]
    every: Annotated[bool, Option("--all", help="In all discussions; then no id is given.")] = False
    what: Annotated[
        Literal["memories", "turns", "both"], Option("--what", help="Turns are the messages themselves.")
    ] = "both"
    mode: Annotated[
        Literal["keywords", "natural", "semantic", "hybrid"],
        Option("--mode", help="Keywords: phrases between semicolons. Natural: the words of a question."),
    ] = "hybrid"
    limit: Annotated[int, Option("--limit", metavar="N", min=1, help="At most so many results.")] = 10
    since: Annotated[str, Option("--since", metavar="WHEN", help="Said from a day, or an ISO time, on.")] = ""
    until: Annotated[str, Option("--until", metavar="WHEN", help="Said up to a day, all of it, or an ISO time.")] = ""
    date: Annotated[str, Option("--date", metavar="DATE", help="Said in 2026, in 2026-05 or on 2026-05-01.")] = ""
    within: Within = "/"


def search(looking: SearchFlags, access: Access) -> None:
    """Find memories and messages, best first."""
    from treering.parts.discussions import running

    running.search(looking, access)


def state(
    identity: Id,
    writing: WriteFlags,
    access: Access,
    edit: Annotated[
        Path | None, Option("--edit", metavar="FILE", help="Keep this as your edit of the document; - is stdin.")
    ] = None,
    within: Within = "/",
) -> None:
    """Print the state document, or keep your edit of it.

    The last line says which version it is: with that line left in, an edit is
    merged with what came since. Lines you write stay; lines you strike stay out.
    """
    from treering.parts.discussions import running

    if edit is None:
        running.print_state(identity, within, access)
    else:
        running.edit_state(identity, within, edit, access, writing)


def export(
    identity: Id,
    folder: Annotated[Path, Argument(metavar="FOLDER", help="Where to write.")],
    access: Access,
    form: Annotated[
        Literal["treering", "wilmer"],
        Option("--as", help="Our own files, or those of WilmerAI: <id>_memories.jsonl and so on, without messages."),
    ] = "treering",
    within: Within = "/",
) -> None:
    """Write a discussion as plain files into a folder."""
    from treering.parts.discussions import running

    running.export(identity, within, folder, form, access)


def import_from(
    identity: Id,
    path: Annotated[Path, Argument(metavar="PATH", help="A folder of an export, or a file of WilmerAI.")],
    writing: WriteFlags,
    access: Access,
    within: Within = "/",
) -> None:
    """Read a folder of an export, or a file of WilmerAI, or a folder of those.

    A discussion that holds messages takes only the state document of an export,
    as an edit. Files of WilmerAI: <id>_memories.jsonl, <id>_summary.jsonl,
    <id>_vector_memory.db, state_document.md; also memories.json and
    chat_summary.json.
    """
    from treering.parts.discussions import running

    running.import_from(identity, within, path, access, writing)


def delete(
    identity: Id,
    positions: Annotated[list[int], Argument(metavar="POSITION", min=0, help="Of the messages, as `show` says.")],
    writing: WriteFlags,
    access: Access,
    erase: Annotated[bool, Option("--erase", help="Out of all earlier versions too, for good.")] = False,
    yes: Annotated[bool, Option("--yes", "-y", help="Do not ask before erasing.")] = False,
    within: Within = "/",
) -> None:
    """Take messages away, with all that tells of them.

    Their positions stay taken: the same file again does not bring them back.
    """
    from treering.parts.discussions import running

    running.delete(identity, within, positions, access, writing, erase=erase, sure=yes)


@dataclass(frozen=True, slots=True)
class ChatFlags:
    """Which API answers chats, what memory may cost them, and what makes their memories."""

    upstream: Annotated[
        str,
        Option("--upstream", metavar="URL", help="The API that answers chats, …/v1. Default: TREERING_UPSTREAM."),
    ] = ""
    key_env: Annotated[
        str,
        Option(
            "--upstream-key-env", metavar="NAME", help="The variable with its key. Default: OPENAI_API_KEY, if set."
        ),
    ] = ""
    seconds: Annotated[
        float, Option("--upstream-timeout", metavar="SECONDS", min=1, help="How long it may be silent.")
    ] = 600.0
    within: Annotated[
        str, Option("--memory-within", metavar="PATH", help="The scope below which discussions are kept.")
    ] = "/"
    tokens: Annotated[int, Option("--memory-tokens", metavar="N", min=1, help="At most so much is recalled.")] = 1_000
    wait_ms: Annotated[
        int, Option("--memory-wait", metavar="MS", min=1, help="An answer waits at most so long for what is recalled.")
    ] = 300
    store_ms: Annotated[
        int,
        Option("--memory-store-wait", metavar="MS", min=1, help="Its end waits at most so long until it is stored."),
    ] = 2_000
    tags: Annotated[
        bool,
        Option("--discussion-tags", help="Let [DiscussionId] tags of system and user messages name the discussion."),
    ] = False
    memory_config: Annotated[
        Path | None,
        Option("--memory-config", metavar="FILE", help="Which workflows, models and prompts make memories."),
    ] = None
    memory_endpoint: Annotated[
        list[str] | None,
        Option("--memory-endpoint", metavar="NAME=MODEL", help="A model that makes memories. Default: rules."),
    ] = None
    memory_endpoint_url: Annotated[
        str, Option("--memory-endpoint-url", metavar="URL", help="An OpenAI-compatible endpoint that has it.")
    ] = ""
    memory_requests: Annotated[
        int, Option("--memory-requests", metavar="N", min=0, help="How often it is asked at most, until the end.")
    ] = 10_000
    memory_nodes: Annotated[
        list[str] | None,
        Option("--nodes", metavar="MODULE:NAME", help="A type of workflow node of your own; repeatable."),
    ] = None

    def chosen(self, settings: "Settings") -> "ServedChats":
        """Return what is served. Raises `InvalidInput` for what makes no sense."""
        from treering.parts.discussions.chat.endpoint import MemorySettings, ServedChats
        from treering.parts.discussions.chat.upstream import UpstreamPlace
        from treering.parts.discussions.running import plan_by
        from treering.system.settings import read_key

        url = self.upstream or settings.upstream
        return ServedChats(
            upstream=UpstreamPlace(url, read_key(self.key_env), self.seconds) if url else None,
            memory=MemorySettings(
                within=self.within,
                tokens=self.tokens,
                wait_seconds=self.wait_ms / 1_000,
                tags=self.tags,
                store_seconds=self.store_ms / 1_000,
            ),
            making=plan_by(
                MakingFlags(
                    config=self.memory_config,
                    endpoint=self.memory_endpoint,
                    endpoint_url=self.memory_endpoint_url,
                    max_requests=self.memory_requests,
                    nodes=self.memory_nodes,
                )
            ),
        )


HELP = CommandHelp(
    groups={"Wikis, conversations, tickets": ("discussion",)},
    examples={
        "discussion list": (("which discussions are kept", "treering discussion list"),),
        "discussion record": (
            ("a conversation of your own program", "treering discussion record lamp messages.jsonl"),
            (
                "one conversation of an export of a chat program",
                'treering discussion record ports conversations.json --conversation "Ports of staging"',
            ),
            ("from another program", "my-chat --dump | treering discussion record lamp -"),
        ),
        "discussion update": (
            ("make what is due, or wait for who is at it", "treering discussion update lamp --wait 60"),
            (
                "by the workflows of a config file, and a model",
                "treering discussion update lamp --config discussion.json --endpoint main=openai:gpt-5-mini",
            ),
        ),
        "discussion show": (
            ("how it stands", "treering discussion show lamp"),
            ("all of it, for a program", "treering discussion show lamp --memories 1000 --messages 1000 --json"),
        ),
        "discussion search": (
            ("in one discussion", 'treering discussion search lamp "what does it cost?"'),
            (
                "phrases, in the messages alone",
                'treering discussion search lamp "oak; walnut" --mode keywords --what turns',
            ),
            ("in all discussions, in a month", 'treering discussion search --all "deadline" --date 2026-05'),
        ),
        "discussion state": (
            ("take it, to correct it", "treering discussion state lamp > state.md"),
            ("give it back", "treering discussion state lamp --edit state.md"),
        ),
        "discussion export": (
            ("plain files, to keep, to read or to move", "treering discussion export lamp lamp-files"),
            ("as WilmerAI keeps a discussion", "treering discussion export lamp lamp-files --as wilmer"),
        ),
        "discussion import": (
            ("a discussion somewhere else", "treering discussion import lamp lamp-files --space copy"),
            ("memories of WilmerAI", "treering discussion import lamp memories.json"),
        ),
        "discussion delete": (
            ("two messages, and what tells of them", "treering discussion delete lamp 3 4"),
            ("one for good, out of every earlier version", "treering discussion delete lamp 3 --erase"),
        ),
    },
)
