"""Commands for discussions: continued conversations and their memories."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

from typer import Argument, Exit, Option, Typer

from treering.core.counting import counted_things
from treering.core.errors import InvalidInput
from treering.facades import LazyModule
from treering.registry import brought
from treering.surfaces.cli.flags import Access, MakingFlags, WriteFlags, add_group
from treering.surfaces.cli.help import CommandHelp
from treering.surfaces.cli.printing import line, say_document, tell
from treering.surfaces.cli.session import answer, confirm_destroying, embed_later, is_piped, opened, watched
from treering.system.settings import Settings, read_key

if TYPE_CHECKING:
    from treering.extensions.discussions import folder as folders
    from treering.extensions.discussions import operations, rendering
    from treering.extensions.discussions.chat.endpoint import ServedChats
    from treering.extensions.discussions.generators.generator import MakingPlan
    from treering.extensions.discussions.making import MakingReport
else:
    folders = LazyModule("treering.extensions.discussions.folder")
    operations = LazyModule("treering.extensions.discussions.operations")
    rendering = LazyModule("treering.extensions.discussions.rendering")

Id = Annotated[str, Argument(metavar="ID", help="The id of the discussion.")]
Within = Annotated[str, Option("--within", "--scope", metavar="SCOPE", help="The scope of the discussions.")]


def add_discussions(app: Typer) -> None:
    """Add the commands to the command line."""
    commands = (list_, record, update, show, search, state, export, import_, delete)
    add_group(app, "discussion", "Store conversations and their memories.", *commands)


def list_(access: Access, within: Within = "/") -> None:
    """List the stored discussions of a scope."""
    with opened(access) as space:
        report = space.perform(operations.LIST, within)
    answer(access, {"within": within, **dict(report)}, rendering.render_discussions(report, within))


@dataclass(frozen=True, slots=True)
class TranscriptFlags:
    """A transcript, and how to record it."""

    identity: Id
    file: Annotated[Path, Argument(metavar="FILE", help="A chat export, messages, or a transcript; - is stdin.")]
    conversation: Annotated[
        str, Option("--conversation", metavar="NAME", help="The conversation, by id or title, if the file has several.")
    ] = ""
    no_update: Annotated[bool, Option("--no-update", help="Do not make memories now; a later update does.")] = False
    propose: Annotated[
        bool, Option("--propose", help="Propose decisions, rules and causes of failures as candidates.")
    ] = False
    again: Annotated[bool, Option("--again", help="Also record messages that were erased before.")] = False
    within: Within = "/"


def record(flags: TranscriptFlags, writing: WriteFlags, access: Access, making: MakingFlags) -> None:
    """Store the messages of a file and make the memories that are due.

    The file may contain the whole conversation or its newest messages; messages
    already stored are not written again. If the file differs from the end of the
    stored conversation, it replaces one message, or at most as many as agree;
    otherwise the different messages are stored as a branch.
    """
    from treering.extensions.discussions.conversation_file import read_conversation
    from treering.extensions.discussions.identity import discussion_ref

    ref = discussion_ref(flags.identity, within=flags.within)
    conversation, notes = read_conversation(flags.file, flags.conversation)
    source = {"id": ref.id, "messages": conversation.messages}
    update = not flags.no_update
    operation = operations.recording(plan_by(making)) if update else operations.RECORD
    with opened(access, writing, create=operations.RECORD.makes_space) as space:
        options = {"update": update, "propose": flags.propose, "again": flags.again}
        with watched(space) as busy:
            report = busy.perform(operation, flags.within, source, options)
        lines = [*rendering.render_recorded(report.id, report.recorded), *rendering.render_proposed(report.proposed)]
        lines += [*(rendering.render_made(report.made) if report.made else ()), *rendering.render_notes(notes)]
        answer(access, {**dict(report), "notes": notes}, lines)
        embed_later(space, writing)
    _exit_if_failed(report.made)


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
    operation = operations.updating(plan_by(making))
    with opened(access, writing) as space:
        with watched(space) as busy:
            report = busy.perform(operation, within, {"id": identity}, {"wait_seconds": wait})
        answer(access, report, rendering.render_made(report.made))
        embed_later(space, writing)
    _exit_if_failed(report.made)


def show(
    identity: Id,
    access: Access,
    memories: Annotated[int, Option("--memories", metavar="N", min=0, help="Number of latest memories.")] = 5,
    messages: Annotated[int, Option("--messages", metavar="N", min=0, help="Number of latest messages.")] = 5,
    within: Within = "/",
) -> None:
    """Show the summary, the state document, and the last memories and messages."""
    with opened(access) as space:
        shown = space.perform(operations.SHOW, within, {"id": identity}, {"memories": memories, "messages": messages})
    titled = {"Summary": shown.summary, "State": shown.state}
    lines = [
        line((shown.id, "bold"), f"  {counted_things(shown.count, 'message')}"),
        line(""),
        *rendering.render_shown(shown.id, titled, shown.memories, shown.messages, fenced=is_piped()),
    ]
    answer(access, shown, lines)


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
    from treering.surfaces.cli.rendering import render_days, render_warnings

    words = flags.words
    query = " ".join(words if flags.every else words[1:])
    if not query.strip():
        raise InvalidInput("The query to search for is empty.", hint="Run: treering discussion search ID QUERY.")
    request, options = {"query": query, "id": None if flags.every else words[0]}, _options(flags)
    with opened(access) as space:
        report = space.perform(operations.SEARCH, flags.within, request, options)
    found = [{"discussion": one.discussion, **asdict(one.found), "lines": one.lines} for one in report.found]
    understood = {"understood": report.understood} if report.understood else {}
    data = {"query": query, "found": found, "warnings": report.warnings, **understood}
    lines = rendering.render_found(report.found, query, fenced=is_piped())
    answer(access, data, chain(lines, render_days(report.understood), render_warnings(report.warnings)))


def state(
    identity: Id,
    writing: WriteFlags,
    access: Access,
    edit: Annotated[
        Path | None, Option("--edit", metavar="FILE", help="Store this file as your edit of the document; - is stdin.")
    ] = None,
    as_of: Annotated[
        str,
        Option(
            "--as-of",
            metavar="WHEN",
            help="From messages recorded by this ISO time, day or audit number, without edits.",
        ),
    ] = "",
    within: Within = "/",
) -> None:
    """Print the state document, or store your edit of it.

    The last line states the version: if you leave it in, your edit is merged with
    newer changes. Lines that you add or delete stay added or deleted.
    """
    if edit is not None:
        from treering.extensions.discussions.conversation_file import read_text

        text = read_text(edit)
        with opened(access, writing) as space:
            report = space.perform(operations.EDIT, within, {"id": identity, "text": text})
            message = f"Saved as version {report.version.number}." if report.changed else "Nothing was changed."
            answer(access, report, [line(message)])
            embed_later(space, writing)
        return
    with opened(access) as space:
        shown = space.perform(operations.STATE, within, {"id": identity}, {"as_of": as_of} if as_of else {})
    if access.as_json:
        answer(access, {"id": shown.id, "state": shown.state, "warnings": shown.warnings}, ())
    else:
        for warning in shown.warnings:
            tell(f"warning: {warning}")
        say_document(shown.file)


def export(
    identity: Id,
    folder: Annotated[Path, Argument(metavar="FOLDER", help="The folder to write to.")],
    access: Access,
    form: Annotated[
        Literal["treering", "wilmer", "wilmer-folder"],
        Option(
            "--as",
            help="Treering's files, or WilmerAI's without messages: <id>_memories.jsonl and so on, or as in its folder "
            "of a discussion, memories.json and so on.",
        ),
    ] = "treering",
    within: Within = "/",
) -> None:
    """Write a discussion as plain files into a folder."""
    with opened(access) as space:
        report = space.perform(folders.EXPORT, within, {"id": identity, "path": folder}, {"form": form})
    listed = ", ".join(counted_things(count, _what(name)) for name, count in report.counts.items() if _what(name))
    answer(access, report, [line(f"Exported to {folder}: {listed or 'no memories yet'}.")])


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
    from treering.extensions.discussions.identity import discussion_ref

    ref = discussion_ref(identity, within=within)
    path.stat()  # a missing path must not create a space
    with opened(access, writing, create=folders.IMPORT.makes_space) as space:
        report = space.perform(folders.IMPORT, within, {"id": ref.id, "path": path})
        answer(access, {"id": report.id, "report": report.report}, rendering.render_imported(str(path), report))
        embed_later(space, writing)


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
    operation = operations.ERASE if erase else operations.DELETE
    with opened(access, writing) as space:
        if erase:  # do not ask about a discussion that does not exist
            space.perform(operations.SHOW, within, {"id": identity}, {"memories": 0, "messages": 0})
        confirm_destroying(operation, counted_things(len(set(positions)), "message"), sure=yes)
        report = space.perform(operation, within, {"id": identity, "positions": tuple(positions)})
        answer(access, report, rendering.render_deleted(report.report, space.engine.ledger))
        embed_later(space, writing)
    if report.report.receipt and not report.report.receipt.clean:
        raise Exit(1)


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

    def chosen(self, settings: Settings) -> "ServedChats":
        """Return the settings of the chats. Raises `InvalidInput` for invalid values."""
        from treering.extensions.discussions.chat.endpoint import MemorySettings, ServedChats
        from treering.extensions.discussions.chat.upstream import UpstreamPlace

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


def _what(name: str) -> str:
    """Return the name of the entries of a file; empty if they are not counted."""
    stems = {"messages": "message", "memories": "memory", "summary": "version of the summary"}
    return next((what for stem, what in stems.items() if Path(name).stem.endswith(stem)), "")


def _exit_if_failed(made: "MakingReport | None") -> None:
    if made and made.failed:
        raise Exit(1)


def _options(flags: SearchFlags) -> Mapping[str, object]:
    since, until = Settings.read().time_zone.window(flags.since, flags.until)
    named = {"what": flags.what, "mode": flags.mode, "limit": flags.limit, "date": flags.date}
    return {**named, "since": since, "until": until}


def plan_by(flags: MakingFlags) -> "MakingPlan":
    """Return the plan for making memories by options of the command line; by rules if there are none.

    Raises `InvalidInput` if they name models or workflows and the part `workflows` is missing.
    """
    from treering.extensions.discussions.generators.generator import MakingPlan

    for plan_of in brought("memory_plan"):
        return cast(MakingPlan, plan_of(flags))
    if flags != MakingFlags():
        raise InvalidInput(
            "Models and workflows need the part `workflows`.", hint="Omit these options; rules then make the memories."
        )
    return MakingPlan()


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
            ("for WilmerAI", "treering discussion export lamp Public/DiscussionIds/lamp --as wilmer-folder"),
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
