"""Treering in Python: one open space, with the four verbs as methods."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, cast, overload

from pydantic import BaseModel

from treering.core.arguments import check_items, check_type
from treering.core.audit import Anchor
from treering.core.errors import TreeringError
from treering.core.objects import Channel
from treering.core.patch import PatchRecord, Receipt
from treering.core.scope import ROOT
from treering.core.writing.draft import ObjectChange
from treering.facades import LazyModule
from treering.ports.adapter import FileAccess
from treering.ports.ledger import Ledger
from treering.ports.models import Embedder, Reranker
from treering.ports.stores import BackUp
from treering.registry import load
from treering.sources.reading.access import AnyFile, files_below
from treering.spaces import wiring
from treering.spaces.policy_and_anchor import AnchorPlace
from treering.spaces.wiring import Opening, author, open_engine
from treering.surfaces.python.everyday import EverydayMethods
from treering.system.address import Address, file_address, shown_address
from treering.system.settings import Settings
from treering.verbs import catalog
from treering.verbs.catalog import TOOLS
from treering.verbs.engine import Engine, Progress
from treering.verbs.envelope import EVERYTHING, Answer, Envelope, Operation, Report, parse, plain

if TYPE_CHECKING:
    from treering.extensions.discussions.generators.generator import DiscussionSettings, Generator
    from treering.extensions.discussions.memory import DiscussionMemory
    from treering.extensions.sharing import methods as sharing
    from treering.extensions.sharing import transfer
    from treering.extensions.sharing.merging import MergeReport
    from treering.extensions.sharing.sync import SyncReport, SyncWishes
    from treering.verbs.crystallize import review
    from treering.verbs.crystallize.submission import WriteReport
    from treering.verbs.lint import erasure, upkeep
    from treering.verbs.lint.erasure import ErasureReceipt
    from treering.verbs.query.brief import BriefReport
    from treering.verbs.query.browsing import ExpandReport, PageReport
    from treering.verbs.query.context import ContextReport
    from treering.verbs.query.recent import RecentReport
    from treering.verbs.query.related import RelatedReport
    from treering.verbs.query.search import SearchReport

    QueryReport = ContextReport | BriefReport | SearchReport | PageReport | RelatedReport | RecentReport | ExpandReport
else:
    # Imported at their first use: queries do not wait for modules that change a space.
    sharing = LazyModule("treering.extensions.sharing.methods")
    transfer = LazyModule("treering.extensions.sharing.transfer")
    review = LazyModule("treering.verbs.crystallize.review")
    erasure = LazyModule("treering.verbs.lint.erasure")
    upkeep = LazyModule("treering.verbs.lint.upkeep")

Data = Mapping[str, Any]
Place = str | Data
"""A scope: its path, or an object with it."""
Given = Data | str
"""An input: its fields, or a plain text if the mode takes one."""
_MOST_NAMED = 10


def open_space(
    address: str | Path | Address | None = None,
    *,
    actor: str | None = None,
    channel: Channel = "agent",
    anchor: AnchorPlace | None = None,
    policy: Path | str | None = None,
    create: bool = True,
    background: bool | None = None,
    whole: bool = True,
    embedder: Embedder | None = None,
    quick: bool | None = None,
    reranker: Reranker | str | None = None,
    files: FileAccess | Path | str | None = None,
) -> "Space":
    """Open a space; `treering.open` is this function.

    `address`: a path, `sqlite:PATH`, `postgresql://USER@HOST/DATABASE?space=NAME`, `:memory:` or the name of a
    space. The default is `TREERING_SPACE`, else the nearest `.treering/` folder. `actor` and `channel`: the author
    of writes and their channel; a program is an `agent` unless it acts for a person. `anchor`: a file, or a
    function called with each new head of the audit log. `background`: whether to embed, and to rebuild an index of
    an older version, in the background. If false, an outdated index is rebuilt first, or by other processes with
    `whole=False`. `embedder`: the embedding model; the default is the one in the settings. `quick`: whether written
    texts first get a vector of the quick model, until the embedder has run; true by default unless an `embedder` is
    given. `reranker`: the model that reranks the best hits on `options.rerank`, or its location as `onnx:FOLDER`.
    `files`: the folder from which `ingest` may read files and repositories; the default is any file. Set it if
    others decide what to ingest. Raises `UnknownBackend`, `NotFound` (with `create=False`), `Unavailable`,
    `Corrupt`.
    """
    settings = Settings.read()
    opening = Opening(
        address=file_address(address) if isinstance(address, Path) else settings.space_address(address),
        settings=settings,
        author=author(actor, channel, settings),
        anchor=anchor,
        policy=Path(policy) if policy else None,
        create=create,
        background=settings.background if background is None else background,
        whole=whole,
        embedder=embedder,
        quick=quick,
        reranker=reranker,
        files=_access(files),
    )
    opened = open_engine(opening)
    return Space(opening.address, opened.engine, opened.close, opened.back_up)


def open_ledger(address: str | Address, *, create: bool = True, anchor: AnchorPlace | None = None) -> Ledger:
    """Open only the ledger of a space: to copy it (`load` the `records` of another), to read it and to `verify` it.

    `treering.open_ledger` is this function. `address` is the same as for `treering.open`. Call `close` at the end.
    Written objects are found by search as usual. Raises `UnknownBackend`, `MissingExtra`, `NotFound` (with
    `create=False`), `Unavailable`, `Corrupt`.
    """
    settings = Settings.read()
    place, by = settings.space_address(address), author(None, "agent", settings)
    return wiring.open_ledger(Opening(place, settings, by, anchor=anchor, create=create, background=False))


@dataclass(frozen=True, slots=True, repr=False)
class Space(EverydayMethods):
    """An open space. A context manager; safe to use from many threads.

    The everyday methods (`add`, `search`, `ask`, `decide` …) have typed arguments. The four verbs take `mode`, `scope`,
    `input`, `options` and return typed reports. The default scope is `/`; a read there sees the content of `/`, and
    with `options={"descend": True}` of all scopes below. A scope may also be `{}` or `{"path": "/…"}`, and an input may
    be plain text if the mode has one main field.
    """

    address: Address
    """Printed without its password."""
    engine: Engine
    _close: Callable[[], None]
    _back_up: BackUp

    def __repr__(self) -> str:
        """Return a line with the address, or the file from the working folder, without a password."""
        return f"<Space {shown_address(self.address)}>"

    def ingest(
        self, mode: str = "", scope: Place = ROOT, input: Given | None = None, options: Data | None = None
    ) -> Report:
        """Bring outside input in: `source`, `path`, `repo`, `status`."""
        return TOOLS["ingest"].call(self.engine, _envelope(mode, scope, input, options), granted=EVERYTHING)

    @overload
    def query(
        self,
        mode: Literal["", "context"] = "",
        scope: Place = ROOT,
        input: Given | None = None,
        options: Data | None = None,
    ) -> "ContextReport": ...
    @overload
    def query(
        self, mode: Literal["brief"], scope: Place = ROOT, input: Given | None = None, options: Data | None = None
    ) -> "BriefReport": ...
    @overload
    def query(
        self, mode: Literal["search"], scope: Place = ROOT, input: Given | None = None, options: Data | None = None
    ) -> "SearchReport": ...
    @overload
    def query(
        self, mode: Literal["page"], scope: Place = ROOT, input: Given | None = None, options: Data | None = None
    ) -> "PageReport": ...
    @overload
    def query(
        self, mode: Literal["related"], scope: Place = ROOT, input: Given | None = None, options: Data | None = None
    ) -> "RelatedReport": ...
    @overload
    def query(
        self, mode: Literal["recent"], scope: Place = ROOT, input: Given | None = None, options: Data | None = None
    ) -> "RecentReport": ...
    @overload
    def query(
        self, mode: Literal["expand"], scope: Place = ROOT, input: Given | None = None, options: Data | None = None
    ) -> "ExpandReport": ...
    @overload
    def query(
        self, mode: str, scope: Place = ROOT, input: Given | None = None, options: Data | None = None
    ) -> "QueryReport": ...
    def query(
        self, mode: str = "", scope: Place = ROOT, input: Given | None = None, options: Data | None = None
    ) -> "QueryReport":
        """Ask: `context`, `brief`, `search`, `page`, `related`, `recent`, `expand`."""
        call = _envelope(mode, scope, input, options)
        return cast("QueryReport", TOOLS["query"].call(self.engine, call, granted=EVERYTHING))

    def crystallize(
        self, mode: str = "", scope: Place = ROOT, input: Given | None = None, options: Data | None = None
    ) -> "WriteReport":
        """Turn work into state: `activity`, `knowledge`, `work_item`, `promote`, `supersede`; or `feedback`."""
        call = _envelope(mode, scope, input, options)
        return cast("WriteReport", TOOLS["crystallize"].call(self.engine, call, granted=EVERYTHING))

    def lint(
        self, mode: str = "", scope: Place = ROOT, input: Given | None = None, options: Data | None = None
    ) -> Report:
        """Find drift: `all`, `structure`, `semantic`, `repair`, `reindex`, `audit`, `consolidate`."""
        return TOOLS["lint"].call(self.engine, _envelope(mode, scope, input, options), granted=EVERYTHING)

    def call(self, verb: str, envelope: Envelope) -> Report:
        """Run a verb by name."""
        check_type(envelope, Envelope, name="envelope", expected="an Envelope")
        return catalog.call(self.engine, verb, envelope, granted=EVERYTHING)

    @overload
    def perform(
        self,
        operation: Operation[Answer],
        scope: str = ROOT,
        input: Data | None = None,
        options: Data | None = None,
    ) -> Answer: ...
    @overload
    def perform(
        self, operation: str, scope: str = ROOT, input: Data | None = None, options: Data | None = None
    ) -> BaseModel: ...
    def perform(
        self,
        operation: Operation[Any] | str,
        scope: str = ROOT,
        input: Data | None = None,
        options: Data | None = None,
    ) -> BaseModel:
        """Run an operation by its name, such as `review list`. Raises `InvalidInput` for a wrong name or field."""
        return _named(operation).perform(self.engine, scope=scope, given=input, options=options, granted=EVERYTHING)

    def discussions(
        self, within: str = ROOT, *, settings: "DiscussionSettings | None" = None, generator: "Generator | None" = None
    ) -> "DiscussionMemory":
        """Return the memory of the discussions below a scope; by default rules make it, which need no model."""
        memory = load("treering.extensions.discussions.memory:DiscussionMemory")
        return cast("DiscussionMemory", memory(self.engine, within=within, settings=settings, generator=generator))

    def proposals(self) -> tuple[PatchRecord, ...]:
        """Return the patches that wait for review, newest first."""
        return self.perform(review.LIST).root

    def proposal_diff(self, patch_id: str) -> tuple[ObjectChange, ...]:
        """Return the changes of a waiting patch."""
        return self.perform(review.SHOW, input={"patch_id": patch_id}).root

    def approve(self, patch_id: str) -> Receipt:
        """Apply a waiting patch."""
        return self.perform(review.APPLY, input={"patch_id": patch_id})

    def reject(self, patch_id: str, reason: str = "") -> PatchRecord:
        """Turn a waiting patch down."""
        return self.perform(review.REJECT, input={"patch_id": patch_id}, options={"reason": reason})

    def revert(self, patch_id: str, reason: str = "") -> Receipt:
        """Revert an applied patch. Raises `Conflict` with the changes since if that is not possible."""
        return self.perform(review.REVERT, input={"patch_id": patch_id}, options={"reason": reason})

    def erase(self, ids: Sequence[str] = (), reason: str = "", *, scope: str | None = None) -> "ErasureReceipt":
        """Erase objects permanently; the receipt proves it and names copies out of reach.

        `scope`: instead of ids, everything in this scope and the scopes below it.
        """
        check_items(ids, str, name="ids", expected="a list of ids")
        return self.perform(erasure.ERASE, input={"ids": tuple(ids), "scope": scope}, options={"reason": reason})

    def merge(self, other: Address | str) -> "MergeReport":
        """Merge another space into this one; the other is only read."""
        return sharing.merge(self.engine, self.address, other)

    def sync(self, remote: str = "", wishes: "SyncWishes | None" = None, *, folder: Path | None = None) -> "SyncReport":
        """Pull others' changes from a git remote or a shared folder, merge them and push yours.

        `folder`: the repository of the remote; the default is the working folder.
        """
        return sharing.sync(self.engine, self.address, remote, wishes, folder=folder)

    def backup(self, file: Path | str, *, replace: bool = False) -> Anchor:
        """Copy the space into a new file while others use it; return the head of the copy's audit log.

        The copy is a space: to restore it, open it. It is verified before it gets its name.
        Raises `Conflict` if the file exists and `replace` is false, or if it is in use.
        """
        progress = self.engine.progress
        return self._back_up(
            Path(file), replace=replace, copied=lambda done, total: progress("Copying the space", done, total)
        )

    def export(self, folder: Path | str) -> dict[str, int]:
        """Write the space as plain files into a new folder."""
        return self.perform(transfer.EXPORT, input={"folder": Path(folder)}).counts

    def import_from(self, folder: Path | str) -> dict[str, int]:
        """Fill this empty space from an export, with the same ids and audit."""
        return self.perform(transfer.IMPORT, input={"folder": Path(folder)}).counts

    def embed_pending(self, progress: Progress | None = None) -> None:
        """Embed all pending passages now."""
        (self.with_progress(progress) if progress else self).perform(upkeep.VECTORS)

    def asked_from(self, folder: Path) -> "Space":
        """Return the same space for calls from a folder: in a work tree, answers reflect its current state."""
        return replace(self, engine=self.engine.asked_from(folder))

    def with_progress(self, progress: Progress) -> "Space":
        """Return the same space reporting the progress of long work."""
        return replace(self, engine=self.engine.with_progress(progress))

    def with_actor(self, actor: str, *, channel: Channel | None = None) -> "Space":
        """Return the same space writing in another name."""
        known = self.engine.author
        changed = known.model_copy(update={"actor": actor, "channel": channel or known.channel})
        return replace(self, engine=self.engine.with_author(changed))

    def close(self) -> None:
        """Close the space. Writes are saved; pending passages are embedded when it is opened again."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def note_for_hooks(engine: Engine, report: Report, asked: str | Mapping[str, Any], *, in_shell: bool = False) -> None:
    """Note which files an answer named, unless feedback is off: a file edited next counts as used.

    `in_shell`: whether a command made the call, not the server of a client.
    """
    # Imported here: a command that asks nothing needs neither.
    from treering.verbs.feedback import is_on
    from treering.verbs.read_reports import ReadReport

    if engine.note_answer is None or not isinstance(report, ReadReport) or not report.answer:
        return
    files: dict[str, str] = {}
    for origin, object_id, segment_id in report.named():
        if segment_id and len(files) < _MOST_NAMED:
            files.setdefault(origin.rpartition("#")[2], f"{object_id} {segment_id}")
    texts = [asked] if isinstance(asked, str) else [one for one in asked.values() if isinstance(one, str)]
    with suppress(OSError, TreeringError):  # it is only noted
        if files and is_on(engine, report.scope):
            engine.note_answer(report.answer, report.scope, files, texts, in_shell=in_shell)


def _access(files: FileAccess | Path | str | None) -> FileAccess:
    if files is None:
        return AnyFile()
    return files_below(Path(files)) if isinstance(files, Path | str) else files


def _envelope(mode: str, scope: Place, given: Given | None, options: Data | None) -> Envelope:
    data = {"mode": mode, "scope": scope, "input": plain(given), "options": plain(options)}
    return parse(Envelope, data, where="call")


def _named(operation: Operation[Any] | str) -> Operation[BaseModel]:
    if isinstance(operation, Operation):
        return operation
    check_type(
        operation, str, name="operation", expected="an operation or its name", hint="Give such as 'review list'."
    )
    # Imported here, because it imports everything about discussions, which no verb needs.
    from treering.surfaces.python import operations

    return operations.find(operation)
