"""Commands for discussions: continued conversations and their memories."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Option, Typer

from treering.surfaces.cli.flags import Access, MakingFlags, WriteFlags, add_group
from treering.surfaces.cli.help import CommandHelp

if TYPE_CHECKING:
    from treering.extensions.discussions.chat.endpoint import ServedChats
    from treering.system.settings import Settings

Id = Annotated[str, Argument(metavar="ID", help="The id of the discussion.")]
Within = Annotated[str, Option("--within", metavar="SCOPE", help="The scope of the discussions.")]


def add_discussions(app: Typer) -> None:
    """Add the commands to the command line."""
    commands = (list_, record, update, show, search, state, export, import_, delete)
    add_group(app, "discussion", "Store conversations and their memories.", *commands)


def list_(access: Access, within: Within = "/") -> None:
    """List all stored discussions."""
    from treering.extensions.discussions import running

    running.list_all(within, access)


@dataclass(frozen=True, slots=True)
class TranscriptFlags:
    """A transcript, and how to record it."""

    identity: Id
    file: Annotated[Path, Argument(metavar="FILE", help="A chat export, messages, or a transcript; - is stdin.")]
    conversation: Annotated[
        str, Option("--conversation", metavar="NAME", help="The conversation, by id or title, if the file has several.")
    ] = ""
    no_update: Annotated[bool, Option("--no-update", help="Do not make memories now; a later update does.")] = False
    propose: Annotated[bool, Option("--propose", help="Propose decisions and causes of failures as candidates.")] = (
        False
    )
    again: Annotated[bool, Option("--again", help="Also record messages that were erased before.")] = False
    within: Within = "/"


def record(flags: TranscriptFlags, writing: WriteFlags, access: Access, making: MakingFlags) -> None:
    """Store the messages of a file and make the memories that are due.

    The file may contain the whole conversation or its newest messages; messages
    already stored are not written again. If the file differs from the end of the
    stored conversation, it replaces one message, or at most as many as agree;
    otherwise the different messages are stored as a branch.
    """
    from treering.extensions.discussions import running

    running.record(flags, making, access, writing)


def update(
    identity: Id,
    writing: WriteFlags,
    access: Access,
    making: MakingFlags,
    wait: Annotated[
        float, Option("--wait", metavar="SECONDS", min=0, help="Wait this many seconds for another process.")
    ] = 0.0,
    within: Within = "/",
) -> None:
    """Make the memories that are due.

    Also updates the summary and the state document. Memories are made by rules,
    by the workflows, models and prompts in --config, or by the model of
    --endpoint. Exits with 1 if some failed.
    """
    from treering.extensions.discussions import running

    running.update(identity, within, wait, making, access, writing)


def show(
    identity: Id,
    access: Access,
    memories: Annotated[int, Option("--memories", metavar="N", min=0, help="Number of latest memories.")] = 5,
    messages: Annotated[int, Option("--messages", metavar="N", min=0, help="Number of latest messages.")] = 5,
    within: Within = "/",
) -> None:
    """Show the summary, the state document, and the last memories and messages."""
    from treering.extensions.discussions import running

    running.show(identity, within, access, memories=memories, messages=messages)
    """A search and its options."""


@dataclass(frozen=True, slots=True)
class SearchFlags:
    """A search and its options."""

    words: Annotated[list[str], Argument(metavar="[ID] QUERY", help="The discussion and the query.")]
    every: Annotated[bool, Option("--all", help="Search all discussions; omit the id.")] = False
    what: Annotated[Literal["memories", "turns", "both"], Option("--what", help="Turns are the messages.")] = "both"
    mode: Annotated[
        Literal["keywords", "natural", "semantic", "hybrid"],
        Option("--mode", help="Keywords: phrases between semicolons. Natural: the words of a question."),
    ] = "hybrid"
    limit: Annotated[int, Option("--limit", metavar="N", min=1, help="At most this many results.")] = 10
    since: Annotated[str, Option("--since", metavar="WHEN", help="Messages from this day or ISO time on.")] = ""
    until: Annotated[
        str, Option("--until", metavar="WHEN", help="Messages up to this day, inclusive, or ISO time.")
    ] = ""
    date: Annotated[
        str, Option("--date", metavar="DATE", help="Messages of a year, month or day, such as 2026-05.")
    ] = ""
    within: Within = "/"


def search(flags: SearchFlags, access: Access) -> None:
    """Find memories and messages, best first."""
    from treering.extensions.discussions import running

    running.search(flags, access)


def state(
    identity: Id,
    writing: WriteFlags,
    access: Access,
    edit: Annotated[
        Path | None, Option("--edit", metavar="FILE", help="Store this file as your edit of the document; - is stdin.")
    ] = None,
    within: Within = "/",
) -> None:
    """Print the state document, or store your edit of it.

    The last line states the version: if you leave it in, your edit is merged with
    newer changes. Lines that you add or delete stay added or deleted.
    """
    from treering.extensions.discussions import running

    if edit is None:
        running.print_state(identity, within, access)
    else:
        running.edit_state(identity, within, edit, access, writing)


def export(
    identity: Id,
    folder: Annotated[Path, Argument(metavar="FOLDER", help="The folder to write to.")],
    access: Access,
    form: Annotated[
        Literal["treering", "wilmer"],
        Option("--as", help="Treering's files, or WilmerAI's: <id>_memories.jsonl and so on, without messages."),
    ] = "treering",
    within: Within = "/",
) -> None:
    """Write a discussion as plain files into a folder."""
    from treering.extensions.discussions import running

    running.export(identity, within, folder, form, access)


def import_(
    identity: Id,
    path: Annotated[Path, Argument(metavar="PATH", help="An exported folder or a WilmerAI file.")],
    writing: WriteFlags,
    access: Access,
    within: Within = "/",
) -> None:
    """Import an exported folder, a WilmerAI file, or a folder of WilmerAI files.

    If the discussion already has messages, only the state document is imported, as
    an edit. Files of WilmerAI: <id>_memories.jsonl, <id>_summary.jsonl,
    <id>_vector_memory.db, state_document.md; also memories.json and
    chat_summary.json.
    """
    from treering.extensions.discussions import running

    running.import_from(identity, within, path, access, writing)


def delete(
    identity: Id,
    positions: Annotated[
        list[int], Argument(metavar="POSITION", min=0, help="Positions of the messages, as printed by `show`.")
    ],
    writing: WriteFlags,
    access: Access,
    erase: Annotated[bool, Option("--erase", help="Erase permanently, from all earlier versions too.")] = False,
    yes: Annotated[bool, Option("--yes", "-y", help="Do not ask before erasing.")] = False,
    within: Within = "/",
) -> None:
    """Delete messages, with everything derived from them.

    Their positions stay taken, so recording the same file again does not restore
    them.
    """
    from treering.extensions.discussions import running

    running.delete(identity, within, positions, access, writing, erase=erase, sure=yes)


@dataclass(frozen=True, slots=True)
class ChatFlags:
    """The upstream of chats, the limits of their memory, and how memories are made."""

    upstream: Annotated[
        str,
        Option("--upstream", metavar="URL", help="The API that answers chats, …/v1. Default: TREERING_UPSTREAM."),
    ] = ""
    key_env: Annotated[
        str,
        Option(
            "--upstream-key-env",
            metavar="NAME",
            help="The environment variable with the upstream's key. Default: OPENAI_API_KEY, if set.",
        ),
    ] = ""
    seconds: Annotated[
        float, Option("--upstream-timeout", metavar="SECONDS", min=1, help="Time limit for the upstream to send data.")
    ] = 600.0
    within: Annotated[str, Option("--memory-within", metavar="PATH", help="The scope of the discussions.")] = "/"
    tokens: Annotated[
        int, Option("--memory-tokens", metavar="N", min=1, help="At most this many tokens are recalled.")
    ] = 1_000
    wait_ms: Annotated[
        int, Option("--memory-wait", metavar="MS", min=1, help="Maximum wait for recall before an answer.")
    ] = 300
    store_ms: Annotated[
        int,
        Option("--memory-store-wait", metavar="MS", min=1, help="Maximum wait for storing at the end of an answer."),
    ] = 2_000
    tags: Annotated[
        bool,
        Option("--discussion-tags", help="Use [DiscussionId] tags in system and user messages as the discussion id."),
    ] = False
    memory_config: Annotated[
        Path | None,
        Option("--memory-config", metavar="FILE", help="The workflows, models and prompts that make memories."),
    ] = None
    memory_endpoint: Annotated[
        list[str] | None,
        Option("--memory-endpoint", metavar="NAME=MODEL", help="A model that makes memories. Default: rules."),
    ] = None
    memory_endpoint_url: Annotated[
        str, Option("--memory-endpoint-url", metavar="URL", help="An OpenAI-compatible endpoint that serves it.")
    ] = ""
    memory_requests: Annotated[
        int, Option("--memory-requests", metavar="N", min=0, help="At most this many model requests in total.")
    ] = 10_000
    memory_nodes: Annotated[
        list[str] | None,
        Option("--nodes", metavar="MODULE:NAME", help="Your own workflow node type; repeatable."),
    ] = None

    def chosen(self, settings: "Settings") -> "ServedChats":
        """Return the settings of the chats. Raises `InvalidInput` for invalid values."""
        from treering.extensions.discussions.chat.endpoint import MemorySettings, ServedChats
        from treering.extensions.discussions.chat.upstream import UpstreamPlace
        from treering.extensions.discussions.running import plan_by
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
        "discussion list": (("the stored discussions", "treering discussion list"),),
        "discussion record": (
            ("a conversation of your own program", "treering discussion record lamp messages.jsonl"),
            (
                "one conversation of an export of a chat program",
                'treering discussion record ports conversations.json --conversation "Ports of staging"',
            ),
            ("from another program", "my-chat --dump | treering discussion record lamp -"),
        ),
        "discussion update": (
            ("make due memories, or wait for the process that does", "treering discussion update lamp --wait 60"),
            (
                "with the workflows of a config file and a model",
                "treering discussion update lamp --config discussion.json --endpoint main=openai:gpt-5-mini",
            ),
        ),
        "discussion show": (
            ("its current state", "treering discussion show lamp"),
            ("everything, for a program", "treering discussion show lamp --memories 1000 --messages 1000 --json"),
        ),
        "discussion search": (
            ("in one discussion", 'treering discussion search lamp "what does it cost?"'),
            (
                "phrases, only in the messages",
                'treering discussion search lamp "oak; walnut" --mode keywords --what turns',
            ),
            ("in all discussions, in a month", 'treering discussion search --all "deadline" --date 2026-05'),
        ),
        "discussion state": (
            ("get the document to edit it", "treering discussion state lamp > state.md"),
            ("store the edited document", "treering discussion state lamp --edit state.md"),
        ),
        "discussion export": (
            ("plain files, to read, store or move", "treering discussion export lamp lamp-files"),
            ("in the format of WilmerAI", "treering discussion export lamp lamp-files --as wilmer"),
        ),
        "discussion import": (
            ("a discussion into another space", "treering discussion import lamp lamp-files --space copy"),
            ("memories of WilmerAI", "treering discussion import lamp memories.json"),
        ),
        "discussion delete": (
            ("two messages and everything derived from them", "treering discussion delete lamp 3 4"),
            ("erase one, from every earlier version too", "treering discussion delete lamp 3 --erase"),
        ),
    },
)
