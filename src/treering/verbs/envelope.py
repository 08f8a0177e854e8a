"""The envelope and the reports of all four verbs, and the rights that operations need."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from datetime import date
from functools import partial, reduce
from math import ceil
from operator import or_
from typing import Annotated, Any, ClassVar, Generic, Literal, Self, TypeVar, get_type_hints

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationError,
    model_validator,
)

from treering.core.canonical import digest
from treering.core.characters import label, replaced_halves, well_formed_value
from treering.core.errors import Denied, InvalidInput, nearest
from treering.core.objects import CallerModel, invalid_fields
from treering.core.scope import ROOT, Scope, ScopeGiven, parse_scope
from treering.core.screening import screened
from treering.ports.adapter import Adapter, FileAccess, FileLookup, NoFiles
from treering.ports.index import one_moment
from treering.ports.runtime import Staleness, late_reads
from treering.verbs.engine import Engine, no_trees
from treering.verbs.evidence_files import EvidenceFiles
from treering.verbs.placed_paths import placed
from treering.verbs.scoped_ledger import ReadingLedger, ScopedLedger
from treering.verbs.trees import AskedTree, several_branches, tree_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """The rights that an operation needs, or that a surface grants. No field has a default."""

    writes: bool
    """Changes the space."""
    reads_files: bool
    """Reads files or folders that the caller names."""
    writes_files: bool
    """Writes files or folders that the caller names."""
    fetches: bool
    """Reads from a network."""
    destroys: bool
    """Removes content permanently."""
    needs_person: bool
    """Is a decision for a person."""

    def __or__(self, other: "Rights") -> "Rights":
        """Return the rights in either of two."""
        return Rights(**{name: getattr(self, name) or getattr(other, name) for name in self.__slots__})

    def __and__(self, other: "Rights") -> "Rights":
        """Return the rights in both of two."""
        return Rights(**{name: getattr(self, name) and getattr(other, name) for name in self.__slots__})

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the rights, in the order of the fields."""
        return tuple(name for name in self.__slots__ if getattr(self, name))

    def beyond(self, granted: "Rights") -> tuple[str, ...]:
        """Return the names of these rights that are not granted."""
        return tuple(name for name in self.names if not getattr(granted, name))


READS = Rights(writes=False, reads_files=False, writes_files=False, fetches=False, destroys=False, needs_person=False)
"""Only reads the space."""
WRITES = replace(READS, writes=True)
"""Writes reversible changes."""
DECIDES = replace(WRITES, needs_person=True)
"""Writes decisions of a person."""
EVERYTHING = Rights(writes=True, reads_files=True, writes_files=True, fetches=True, destroys=True, needs_person=True)
"""The rights of a person's own program."""


def require(what: str, needed: Rights, *, granted: Rights) -> None:
    """Raise `Denied` if an operation needs rights that are not granted; `what` names it in the error."""
    missing = needed.beyond(granted)
    if missing:
        does = " and ".join(_DOES[name] for name in missing)
        hinted = [name for name in missing if name != "needs_person" or _IMPLY_PERSON.isdisjoint(missing)]
        raise Denied(
            f"{what} {does}, which is not allowed here.",
            hint=" ".join(_HINTS[name] for name in hinted),
            details={"operation": what, "not_granted": list(missing)},
        )


_DOES: Mapping[str, str] = {
    "writes": "changes the space",
    "reads_files": "reads files",
    "writes_files": "writes files",
    "fetches": "reads from the network",
    "destroys": "removes content for good",
    "needs_person": "is for a person to decide",
}
_HINTS: Mapping[str, str] = {
    "writes": "Use an access that may write.",
    "reads_files": "Start the server with --files FOLDER, or give the text itself with mode 'source'.",
    "writes_files": "Use the command line on the machine that holds the space.",
    "fetches": "Start the server with --allow-urls, or fetch it yourself and give the text with mode 'source'.",
    "destroys": "Use the command line or a key with the right admin, or start `treering serve` with --allow erase.",
    "needs_person": "Use a terminal or a key with the right review, or start `treering serve` with --allow review.",
}

_IMPLY_PERSON = frozenset({"destroys", "writes_files"})
"""Rights whose hint makes the hint for a person superfluous."""


Verb = Literal["ingest", "query", "crystallize", "lint"]
_Model = TypeVar("_Model", bound=BaseModel)


class Value(BaseModel):
    """A frozen value that refuses unknown fields."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    SHORT_NAMES: ClassVar[frozenset[str]] = frozenset()
    """Names that its short forms accept besides its fields."""


class Nothing(Value):
    """Nothing."""


class TextInput(Value):
    """An input that may be given as plain text, which is its field `TEXT`."""

    TEXT: ClassVar[str] = ""

    @classmethod
    def of_text(cls, text: str) -> dict[str, Any]:
        """Return the fields that a plain text means."""
        return {cls.TEXT: text}

    @model_validator(mode="before")
    @classmethod
    def _takes_text(cls, given: Any) -> Any:
        if given == "":
            raise ValueError("the text is empty")
        return cls.of_text(given) if isinstance(given, str) else given


def either(first: str, second: str) -> Callable[[_Model], _Model]:
    """Return a validator of inputs that refuses both fields and neither."""

    def checked(given: _Model) -> _Model:
        if bool(getattr(given, first)) == bool(getattr(given, second)):
            raise ValueError(f"give either '{first}' or '{second}'")
        return given

    return checked


class AskingInput(TextInput):
    """An input with a question or task: its text may also be called `query`."""

    SHORT_NAMES = frozenset({"query"})

    @model_validator(mode="before")
    @classmethod
    def _takes_query(cls, given: Any) -> Any:
        if not isinstance(given, Mapping) or not isinstance(given.get("query"), str):
            return given
        fields = cls.of_text(given["query"])
        rest = {name: value for name, value in given.items() if name != "query"}
        # If both names are given, `query` is refused as an unknown field.
        return given if fields.keys() & rest.keys() else {**rest, **fields}


def _fields_or_text(given: Any) -> Any:
    if isinstance(given, Mapping | str):
        return given
    raise ValueError("the input must be an object with fields, or a text if the mode accepts one")


Given = Annotated[dict[str, Any] | str, BeforeValidator(_fields_or_text)]
"""The input of a mode: fields, or the text of its `TEXT` field."""


class Envelope(CallerModel, Value):
    """A call of a verb."""

    mode: str = Field(default="", description="The mode of the verb; empty: the default.")
    scope: ScopeGiven = Field(default=ROOT, description="/ or a path such as /repo/acme-web.")
    input: Given = Field(default={}, description="The input of the mode.")
    options: dict[str, Any] = Field(default={}, description="The options of the mode.")
    _replaced: int = PrivateAttr(default=0)

    @model_validator(mode="wrap")
    @classmethod
    def _takes_any_text(cls, given: Any, read: ModelWrapValidatorHandler[Self]) -> Self:
        whole, replaced = well_formed_value(given)
        envelope = read(whole)
        envelope._replaced = replaced
        return envelope

    def add_replaced(self, texts: int) -> None:
        """Record that halves of characters were replaced in some texts before the envelope was read."""
        self._replaced += texts

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about how the call was read."""
        return (replaced_halves(self._replaced),) if self._replaced else ()


class ReplicaAnswer(Value):
    """The maximum age of an answer from a replica of the database.

    The replica has the audit log up to the event `sequence`, and so everything committed at least `seconds` ago.
    `behind` is the number of known later events.
    """

    sequence: int
    seconds: float
    behind: int


class UnderstoodDays(Value):
    """The days that words of a question refer to, first and last, in a time zone."""

    text: str
    first: date
    last: date
    time_zone: str

    @property
    def sentence(self) -> str:
        """A sentence such as `"yesterday" is 2026-11-27 (Europe/Berlin).`."""
        days = f"{self.first}" if self.first == self.last else f"{self.first} to {self.last}"
        return f"{label(self.text)} is {days} ({self.time_zone})."


class Report(Value):
    """The fields that every answer of a verb has."""

    verb: Verb
    mode: str
    scope: Scope
    status: Literal["ok", "partial", "proposed", "unchanged", "empty", "failed"] = "ok"
    warnings: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    """The objects, patches and jobs that it changed or mentions."""
    replica: ReplicaAnswer | None = Field(default=None, exclude_if=lambda answer: answer is None)
    """The possible age of an answer from a replica; omitted for a current answer."""
    understood: tuple[UnderstoodDays, ...] = Field(default=(), exclude_if=lambda days: not days)
    """The dates that words such as "yesterday" were resolved to; omitted without such words."""

    @property
    def further_warnings(self) -> tuple[str, ...]:
        """The warnings that the text of the answer does not contain."""
        return self.warnings

    def text_lines(self) -> Iterable[str]:
        """Return the text of the answer of an extension's mode, with stored words as labels; empty: only its fields."""
        return ()

    def numbered_places(self) -> Mapping[int, str]:
        """Return by number the ids of the object and segment at each numbered place."""
        return {}


def bounded(warnings: Sequence[str], limit: int) -> tuple[str, ...]:
    """Return the first `limit` different warnings, and the number of others."""
    different = list(dict.fromkeys(warnings))
    more = len(different) - limit
    return (*different[:limit], *([f"and {more} more warnings; see the job"] if more > 0 else []))


@dataclass(frozen=True, slots=True)
class Call:
    """A checked call, the argument of a mode's function."""

    engine: Engine
    """In a call of a verb, its ledger is the view from the scope (`verbs.scoped_ledger`)."""
    scope: str
    request: str = ""
    """A digest of the request, for idempotency keys."""
    tree: AskedTree | None = None
    """The tree of a repository that a read is about. In a call of a verb, the ledger is limited to it."""

    @property
    def files(self) -> FileAccess:
        """The files that it may read; none if its operation is not declared to read files.

        The paths in its input and options were checked before the operation runs.
        """
        return self.engine.files


_SHOWN_CHARS = 200

Answer = TypeVar("Answer", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Operation(Generic[Answer]):
    """An operation on a space, declared as data: `run(call, input, options) -> report`.

    A surface runs it only if it grants all its rights.
    """

    name: str
    summary: str
    input: type[Value]
    options: type[Value]
    report: type[Answer]
    run: Callable[[Call, Any, Any], Answer]
    _: KW_ONLY
    rights: Rights
    """The rights that it needs."""
    repeatable: bool = False
    """Whether repeating the call changes nothing more."""
    makes_space: bool = False
    """Whether a new space is created for it."""
    whole_space: bool = False
    """Whether it reads the whole space, whatever its scope, which takes minutes if the space is large."""

    @classmethod
    def of(
        cls,
        name: str,
        summary: str,
        run: Callable[[Call, Any, Any], Answer],
        *,
        rights: Rights,
        repeatable: bool = False,
        makes_space: bool = False,
        whole_space: bool = False,
    ) -> Self:
        """Declare the operation of a function, whose annotations name the input, the options and the report."""
        _, given, options, *_, report = get_type_hints(run).values()
        return cls(
            *(name, summary, given, options, report, run),
            rights=rights,
            repeatable=repeatable,
            makes_space=makes_space,
            whole_space=whole_space,
        )

    def perform(
        self,
        engine: Engine,
        *,
        scope: str = ROOT,
        given: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        granted: Rights,
    ) -> Answer:
        """Check the arguments and run it.

        Raises `Denied` if it needs more rights than granted, `InvalidInput` with each wrong field.
        """
        require(self.name, self.rights, granted=granted)
        whole, replaced = well_formed_value([plain(given), plain(options)])
        checked = parse(self.input, whole[0], where="input")
        chosen = parse(self.options, whole[1], where="options")
        reaching = lent(engine, self.rights, granted=granted)
        place = parse_scope(scope)
        answer = self.answer(Call(reaching, place, tree=_asked_tree(reaching, place, chosen)), checked, chosen)
        return _warned(answer, (replaced_halves(replaced),) if replaced else ())

    def answer(self, call: Call, given: Value, options: Value) -> Answer:
        """Run it on checked values. Raises `Denied` for a path that the call may not read.

        Paths are not checked for an operation that writes files and reads none.
        """
        if self.rights.reads_files or not self.rights.writes_files:
            given, options = placed(given, call.files), placed(options, call.files)
        return self.run(call, given, options)


@dataclass(frozen=True, slots=True)
class Mode(Operation[Report]):
    """One ability of a verb."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A verb: its modes, the default one first."""

    name: Verb
    summary: str
    modes: Mapping[str, Mode]

    @property
    def default(self) -> str:
        """The name of the default mode."""
        return next(iter(self.modes))

    @property
    def rights(self) -> Rights:
        """The rights of all its modes together."""
        return reduce(or_, (mode.rights for mode in self.modes.values()))

    def find(self, name: str) -> Mode:
        """Return a mode by name, the default for an empty name. Raises `InvalidInput` with the nearest known name."""
        mode = self.modes.get(name or self.default)
        if mode is None:
            raise InvalidInput(
                f"{self.name} has no mode {name!r}.",
                hint=nearest(name, self.modes),
                details={"given": name[:_SHOWN_CHARS], "known": list(self.modes)},
            )
        return mode

    def call(self, engine: Engine, envelope: Envelope, *, granted: Rights) -> Report:
        """Check an envelope and run its mode.

        Raises `Denied` if the mode needs more rights than granted, `InvalidInput` with each wrong field.
        """
        mode = self.find(envelope.mode)
        with one_moment(engine.index):
            call, given, options = self.prepare(engine, mode, envelope, granted=granted)
            is_whole = not (mode.rights.writes or call.tree)
            branches = _of_all_branches(engine, envelope.scope, options) if is_whole else ()
        if mode.rights.writes:
            return _warned(mode.answer(call, given, options), envelope.warnings)
        with late_reads(at_least=getattr(options, "at_least", 0)) as late:
            report = mode.answer(call, given, options)
        replica: dict[str, Any] = {"replica": _replica(late.told)} if late.told else {}
        warnings = call.tree.warnings if call.tree else branches
        report = _warned(report, (*envelope.warnings, *warnings))
        return report.model_copy(update=replica) if replica else report

    def prepare(self, engine: Engine, mode: Mode, envelope: Envelope, *, granted: Rights) -> tuple[Call, Value, Value]:
        """Check an envelope for a mode; return the call, its input and its options. Raises as `call`."""
        self.require(mode, granted=granted)
        given = parse(mode.input, envelope.input, where="input")
        options = parse(mode.options, envelope.options, where="options")
        reaching = lent(engine, mode.rights, granted=granted)
        return _call(reaching, envelope, self.name, mode, options), given, options

    def require(self, mode: Mode, *, granted: Rights) -> None:
        """Raise `Denied` if a mode needs more rights than granted."""
        require(f"{self.name} in mode {mode.name!r}", mode.rights, granted=granted)


def _warned(answer: Answer, warnings: Sequence[str]) -> Answer:
    """Return an answer with more warnings, if answers of its kind have any."""
    known: Sequence[str] | None = getattr(answer, "warnings", None)
    return answer if not warnings or known is None else answer.model_copy(update={"warnings": (*known, *warnings)})


def _replica(age: Staleness) -> ReplicaAnswer:
    return ReplicaAnswer(sequence=age.sequence, seconds=ceil(age.seconds * 1_000) / 1_000, behind=age.behind)


def lent(engine: Engine, rights: Rights, *, granted: Rights) -> Engine:
    """Return an engine limited to some rights: without files, and with adapters only for network reads.

    If the surface grants reading files, an operation that reads none may still check whether known files exist.
    """
    if rights.reads_files:
        return engine
    lookups = partial(_file_lookups, engine.adapters) if granted.reads_files else tuple
    adapters = engine.adapters if rights.fetches else {}
    trees = engine.trees if granted.reads_files else no_trees
    named = EvidenceFiles(engine) if rights.writes and granted.reads_files else None
    return replace(engine, files=NoFiles(), adapters=adapters, file_lookups=lookups, trees=trees, evidence_files=named)


def _file_lookups(adapters: Mapping[str, Adapter]) -> Sequence[FileLookup]:
    return [adapter for adapter in adapters.values() if isinstance(adapter, FileLookup)]


def _call(engine: Engine, envelope: Envelope, verb: str, mode: Mode, options: Value) -> Call:
    # Reads see scopes below theirs only if they ask for it; writes and lint always do.
    descend = getattr(options, "descend", True)
    view = ScopedLedger if mode.rights.writes else ReadingLedger
    tree = _asked_tree(engine, envelope.scope, options)
    ledger = view(engine.ledger, scope=envelope.scope, descend=descend, tree=tree.view if tree else None)
    has_key = getattr(options, "idempotency_key", None) is not None
    request = _request(f"{verb} {mode.name}", envelope) if has_key else ""
    return Call(replace(engine, ledger=ledger), envelope.scope, request, tree)


def _asked_tree(engine: Engine, scope: str, options: Value) -> AskedTree | None:
    """Return the tree of an operation whose options have `at`. Raises as `tree_of`."""
    at = getattr(options, "at", None)
    return None if at is None else tree_of(engine, scope, at=at, past=getattr(options, "as_of", None) is not None)


def _of_all_branches(engine: Engine, scope: str, options: Value) -> tuple[str, ...]:
    """Return a note that an answer covers all branches, if `at` could select one."""
    is_selectable = hasattr(options, "at") and getattr(options, "as_of", None) is None
    return several_branches(engine, scope) if is_selectable else ()


def _request(ability: str, envelope: Envelope) -> str:
    # Without secrets: a short one could be guessed from the digest.
    data = screened(envelope.model_dump(mode="json", include={"input"}, fallback=str)).value
    return digest(json.dumps([ability, data], sort_keys=True))


def plain(given: object) -> Any:
    """Return the fields that a caller gave, none for nothing; anything but a mapping is left for `parse` to refuse."""
    return dict(given) if isinstance(given, Mapping) else given or {}


def parse(model: type[_Model], data: Mapping[str, Any] | str, *, where: str) -> _Model:
    """Read outside data into a model. Raises `InvalidInput` with the nearest known name for an unknown field."""
    if isinstance(data, str) and not issubclass(model, TextInput):
        raise InvalidInput(
            f"{where} is a plain text, and this takes an object.",
            hint=f"Give an object with any of: {', '.join(model.model_fields) or 'nothing'}.",
        )
    try:
        return model.model_validate(data)
    except ValidationError as error:
        problem = invalid_fields(error, model=model)
        raise InvalidInput(f"{where}.{problem.message}", hint=problem.hint, details=problem.details) from error
