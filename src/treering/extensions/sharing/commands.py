"""Commands that compare, merge and sync spaces, and check proofs."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Exit, Option, Typer

from treering.core.counting import counted_things
from treering.core.errors import InvalidInput, TreeringError
from treering.surfaces.cli.flags import Access, AsJson, add_commands
from treering.surfaces.cli.help import CommandHelp
from treering.surfaces.cli.printing import IndentedLine, line, say
from treering.surfaces.cli.session import answer, opened, watched
from treering.system.settings import Settings

if TYPE_CHECKING:
    from treering.extensions.sharing.merging import MergeReport
    from treering.ports.ledger import Ledger

_WITHHELD = "Confirmed rules, decisions and tasks from them are sent. To share one: shared_scopes in the policy file."


def add_sharing(app: Typer) -> None:
    """Add the commands to the command line."""
    add_commands(app, diff, merge, sync, verify)


def diff(
    left: Annotated[str, Argument(metavar="A", help="The address of a space.")],
    right: Annotated[str, Argument(metavar="B", help="The address of the other one.")],
    as_json: AsJson = False,
) -> None:
    """Show the differences between two spaces.

    Reads both without changing them.
    """
    from treering.extensions.sharing import merging

    report = merging.diff(left, right)
    lines = [line(f"{report.alike} objects are the same; {len(report.differences)} differ.")]
    marks = {"left": "-", "right": "+", "both": "~"}
    for one in report.differences:
        states = " -> ".join(dict.fromkeys(filter(None, (one.left, one.right))))
        lines.append(line(f"{marks[one.where]} {one.id} {one.title} ({states})", indent=2))
    lines.append(line(f"Changes: {report.common} in both, {report.left_only} and {report.right_only} in one only."))
    answer(Access(as_json=as_json), report, lines)


def merge(
    other: Annotated[str, Argument(metavar="FROM", help="The address of the space to merge into this one.")],
    access: Access,
) -> None:
    """Merge another space into this one.

    The other space is only read. Contradictions become contested, objects erased
    in the other space are erased here, and merging again changes nothing.
    """
    with opened(access) as space:
        report = space.merge(other)
        received = _merge_lines(report, space.engine.ledger)
    stay = f"Patches waiting for review stay in the other space: {len(report.waiting)} (treering review list there)."
    answer(access, report, [*received, *([line(stay)] if report.waiting else [])])


def sync(
    access: Access,
    remote: Annotated[
        str, Argument(metavar="REMOTE", help="A git remote, its address, or a shared folder. Default: origin.")
    ] = "",
    fetch: Annotated[bool, Option("--fetch", help="Only pull the changes of others.")] = False,
    push: Annotated[bool, Option("--push", help="Only push the changes made here.")] = False,
    key: Annotated[Path | None, Option("--key", metavar="FILE", help="Sign with this ssh key.")] = None,
    signers: Annotated[
        Path | None,
        Option(
            "--signers", metavar="FILE", help="Accept only changes signed by these keys: an ssh allowed_signers file."
        ),
    ] = None,
) -> None:
    """Share this space with others over a git remote or a folder.

    Pulls others' changes, merges them and pushes yours. Secrets, private scopes
    and conversations with coding agents are not sent; rules and decisions
    confirmed from a conversation are.
    """
    from treering.extensions.sharing.sync import SyncWishes

    options = SyncWishes(fetch=fetch or not push, push=push or not fetch, key=key, signers=signers)
    address = Settings.read().space_address(access.space or None)
    with _removed_if_new(address.file), opened(access, create=options.fetch) as space:
        with watched(space) as busy:
            report = busy.sync(remote, options)
        received = _merge_lines(report.received, space.engine.ledger) if report.received else []
    lines = list[IndentedLine]()
    if options.push:
        sent = f"{counted_things(report.sent, 'change')} ({report.bytes:,} bytes)" if report.sent else "nothing new"
        lines.append(line(f"Sent {sent} to {report.remote}."))
        if report.conversations:
            whole = counted_things(report.conversations, "whole conversation")
            lines.append(line(f"They include {whole}, with all messages."))
        if report.withheld_conversations:
            withheld = counted_things(report.withheld_conversations, "conversation")
            lines.append(line(f"Not sent: {withheld} with coding agents. {_WITHHELD}"))
    if report.received:
        lines += received
    elif options.fetch:
        lines.append(line("Nothing new received." if report.replicas else "No other copies there yet."))
    if report.waiting:
        lines.append(line(f"Not sent: {len(report.waiting)} waiting for review. See: treering review list"))
    answer(access, report, [*lines, *(line(one) for one in report.warnings)])


def verify(
    proof: Annotated[
        Path | None, Argument(metavar="PROOF", help="The file written by `treering query --proof`.")
    ] = None,
    anchor: Annotated[Path | None, Option("--anchor", metavar="FILE", help="The anchor of the space's log.")] = None,
    clone: Annotated[Path | None, Option("--clone", metavar="FOLDER", help="A clone of the cited repository.")] = None,
    signers: Annotated[
        Path | None, Option("--signers", metavar="FILE", help="Accepted signers: an ssh allowed_signers file.")
    ] = None,
    checker: Annotated[bool, Option("--checker", help="Print a checker, a program that needs no Treering.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check the proof of an answer without the space.

    Exits with 1 if the proof is not valid.
    """
    if checker:
        from treering.extensions.sharing.proof import checker as checker_program

        say(checker_program())
        return
    if proof is None:
        raise InvalidInput(
            "treering verify needs a proof.", hint="Give the file written by `treering query --proof FILE`."
        )
    from treering.extensions.sharing import proof_checking

    facts, problems = proof_checking.verify(proof, anchor, clone, signers)
    answer(Access(as_json=as_json), {"holds": facts, "problems": problems}, map(line, (*facts, *problems)))
    if problems:
        raise Exit(1)


@contextmanager
def _removed_if_new(file: Path | None) -> Iterator[None]:
    """Remove the file of a space if it was created by a command that failed."""
    is_new = file is not None and not file.exists()
    try:
        yield
    except TreeringError:
        if file and is_new:
            remove_space(file)
        raise


def remove_space(file: Path) -> None:
    """Remove the file of a space, with its log."""
    for end in ("", "-wal", "-shm"):
        file.with_name(file.name + end).unlink(missing_ok=True)


def _merge_lines(report: "MergeReport", ledger: "Ledger") -> list[IndentedLine]:
    if not (report.entries or report.created or report.changed or report.erased):
        return [line("Nothing new received.")]
    from treering.surfaces.cli.receipts import render_drift

    counts = {
        "new": report.created,
        "changed": report.changed,
        "contested": report.contested,
        "stale": report.staled,
        "erased": report.erased,
    }
    summary = ", ".join(f"{len(ids)} {what}" for what, ids in counts.items() if ids) or "nothing changed"
    lines = [line(f"Received {counted_things(report.entries, 'change')}: {summary}.")]
    return [*lines, *render_drift(ledger, report.staled, report.contested)]


HELP = CommandHelp(
    groups={
        "The four tools": ("verify",),
        "Copy and move a space": ("move", "export", "import", "diff", "merge", "sync"),
    },
    examples={
        "move": (
            (
                "to a database; run again to resume",
                "treering move acme.db 'postgresql://acme@db/team?space=acme'",
            ),
            ("back to a file", "treering move 'postgresql://acme@db/team?space=acme' copy.db"),
        ),
        "export": (("plain files, for storage or moving", "treering export backup/"),),
        "import": (("the same space in another place", "treering import backup/ --space copy"),),
        "diff": (("the differences to a copy", "treering diff .treering/space.db ../copy/.treering/space.db"),),
        "merge": (("the changes made in a copy", "treering merge ../copy/.treering/space.db"),),
        "sync": (
            ("with the remote of this repository", "treering sync"),
            ("over a shared folder", "treering sync /mnt/team/memory"),
            (
                "sign, and accept only changes signed by the team",
                "treering sync --key ~/.ssh/id_ed25519 --signers team.txt",
            ),
        ),
        "verify": (
            ("the proof of `treering query … --proof answer.proof`", "treering verify answer.proof"),
            ("also check the cited lines", "treering verify answer.proof --clone ."),
            ("also check the signature", "treering verify answer.proof --signers allowed_signers"),
            ("a checker that runs without Treering", "treering verify --checker > check.py"),
        ),
    },
)
