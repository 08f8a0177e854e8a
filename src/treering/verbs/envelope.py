"""The envelope of all four verbs, the rights it is checked against, and what every report carries."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, replace
from datetime import date
from functools import cache, partial, reduce
from math import ceil
from operator import or_
from pathlib import PurePath
from typing import Annotated, Any, ClassVar, Generic, Literal, Self, TypeVar, cast, get_args

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
from treering.core.objects import invalid_fields
from treering.core.scope import ROOT, Scope, ScopeGiven, parse_scope
from treering.core.screening import screened
from treering.ports.adapter import Adapter, FileAccess, FileLookup, NoFiles
from treering.ports.runtime import Staleness, late_reads
from treering.verbs.engine import Engine, no_trees
from treering.verbs.evidence_files import EvidenceFiles
from treering.verbs.scoped_ledger import ReadingLedger, ScopedLedger
from treering.verbs.trees import AskedTree, several_branches, tree_of

# What operations do beyond reading a space, and what surfaces let their callers do. One value says both.


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """What an operation needs, or what a surface grants. No field has a default: each is said."""

    writes: bool
    """Changes the space."""
    reads_files: bool
    """Reads files or folders that the caller names."""
    writes_files: bool
    """Writes files or folders that the caller names."""
    fetches: bool
    """Reads from a network."""
    destroys: bool
    """Removes content for good. It cannot be taken back."""
    needs_person: bool
    """Is a decision for a person."""

    def __or__(self, other: "Rights") -> "Rights":
        """Return what either of two says."""
        return Rights(**{name: value or getattr(other, name) for name, value in asdict(self).items()})

    def __and__(self, other: "Rights") -> "Rights":
        """Return what both of two say."""
        return Rights(**{name: value and getattr(other, name) for name, value in asdict(self).items()})

    @property
    def names(self) -> tuple[str, ...]:
        """The names of what it says, in the order of the fields."""
        return tuple(name for name, value in asdict(self).items() if value)

    def beyond(self, granted: "Rights") -> tuple[str, ...]:
        """Name what is needed here and not granted there."""
        return tuple(name for name in self.names if not getattr(granted, name))


READS = Rights(writes=False, reads_files=False, writes_files=False, fetches=False, destroys=False, needs_person=False)
"""Reads the space, and does nothing else."""
WRITES = replace(READS, writes=True)
"""Writes what can be taken back."""
DECIDES = replace(WRITES, needs_person=True)
"""Writes what a person has to decide."""
EVERYTHING = Rights(writes=True, reads_files=True, writes_files=True, fetches=True, destroys=True, needs_person=True)
"""What a person's own program may do."""


def require(what: str, needed: Rights, *, granted: Rights) -> None:
    """Raise `Denied` where an operation, called `what`, needs more than is granted."""
    missing = needed.beyond(granted)
    if missing:
        does = " and ".join(_DOES[name] for name in missing)
        raise Denied(
            f"{what} {does}, which is not allowed here.",
            hint=" ".join(_HINTS[name] for name in missing),
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
    "destroys": "Use the command line, or start `treering serve` with --allow erase.",
    "needs_person": "Use the command line at a terminal, or start `treering serve` with --allow review.",
}


# The paths among the values of a call.


_Model = TypeVar("_Model", bound=BaseModel)


def placed(model: _Model, files: FileAccess) -> _Model:
    """Return a model with every path in it absolute, its links resolved. Raises `Denied` for one not to be read."""
    return cast("_Model", _placed(model, files)) if _may_hold_paths(type(model)) else model


def _placed(value: Any, files: FileAccess) -> Any:
    match value:
        case PurePath():
            return files.place(str(value))
        case BaseModel():
            return value.model_copy(update={name: _placed(inner, files) for name, inner in value})
        case tuple() | list() | set() | frozenset():
            return type(value)(_placed(inner, files) for inner in value)
        case Mapping():
            return {_placed(key, files): _placed(inner, files) for key, inner in value.items()}
        case _:
            return value


@cache
def _may_hold_paths(model: type[BaseModel]) -> bool:
    """Tell whether a model can hold a path; of most inputs that is known without a look at their values."""
    seen, waiting = set[Any](), list[Any]([model])
    while waiting:
        kind = waiting.pop()
        if isinstance(kind, type) and issubclass(kind, PurePath):
            return True
        if id(kind) not in seen:
            seen.add(id(kind))
            waiting += get_args(kind)
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                waiting += [field.annotation for field in kind.model_fields.values()]
    return False


Verb = Literal["ingest", "query", "crystallize", "lint"]


class Value(BaseModel):
    """A frozen value that refuses unknown fields."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    SHORT_NAMES: ClassVar[frozenset[str]] = frozenset()
    """Names that its short forms take besides its fields."""


class Nothing(Value):
    """Nothing."""


class TextInput(Value):
    """An input that a plain text may stand for: `"…"` is its field `TEXT`."""

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


class AskingInput(TextInput):
    """An input that asks something: its text may also be called `query`."""

    SHORT_NAMES = frozenset({"query"})

    @model_validator(mode="before")
    @classmethod
    def _takes_query(cls, given: Any) -> Any:
        if not isinstance(given, Mapping) or not isinstance(given.get("query"), str):
            return given
        meant = cls.of_text(given["query"])
        rest = {name: value for name, value in given.items() if name != "query"}
        # Said twice, it is not known which is meant: `query` is refused as any unknown field.
        return given if meant.keys() & rest.keys() else {**rest, **meant}


def _fields_or_text(given: Any) -> Any:
    if isinstance(given, Mapping | str):
        return given
    raise ValueError("the input must be an object with fields, or a text if the mode accepts one")


Given = Annotated[dict[str, Any] | str, BeforeValidator(_fields_or_text)]
"""What a call gives a mode to work on: fields, or a text that stands for the one that is meant."""


class Envelope(Value):
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
        """Note that halves of characters were replaced in some texts before the envelope was read."""
        self._replaced += texts

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a caller should know of how the call was read."""
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
        """What people read, such as `"yesterday" is 2026-11-27 (Europe/Berlin).`."""
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

    def numbered_places(self) -> Mapping[int, str]:
        """Return the places that it shows with numbers: by number, the ids of an object and of its segment."""
        return {}


def bounded(warnings: Sequence[str], limit: int) -> tuple[str, ...]:
    """Return the first `limit` different warnings, and how many more there are."""
    different = list(dict.fromkeys(warnings))
    more = len(different) - limit
    return (*different[:limit], *([f"and {more} more warnings; see the job"] if more > 0 else []))


@dataclass(frozen=True, slots=True)
class Call:
    """A checked call, as a mode's function receives it."""

    engine: Engine
    """Its ledger is seen from the scope, where a verb was called (`verbs.scoped_ledger`)."""
    scope: str
    request: str = ""
    """A digest of what is asked for, for idempotency keys."""
    tree: AskedTree | None = None
    """The tree of a repository that a read is about. The ledger is held to it, where a verb was called."""

    @property
    def files(self) -> FileAccess:
        """Which files it may read: none where its operation does not say that it reads files.

        The paths of its input and options were decided on by it before the operation saw them.
        """
        return self.engine.files


_SHOWN_CHARS = 200

Answer = TypeVar("Answer", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Operation(Generic[Answer]):
    """One thing a space can be asked, declared as data: `run(call, input, options) -> report`.

    A surface runs it only where it grants all its rights.
    """

    name: str
    summary: str
    input: type[Value]
    options: type[Value]
    report: type[Answer]
    run: Callable[[Call, Any, Any], Answer]
    _: KW_ONLY
    rights: Rights
    """What it does. There is no default: an operation that does not say it cannot be made."""
    repeatable: bool = False
    """Whether the same call again changes nothing more."""
    makes_space: bool = False
    """Whether it may be the first thing a space hears of: a new space is made for it."""

    def perform(
        self,
        engine: Engine,
        *,
        scope: str = ROOT,
        given: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        granted: Rights,
    ) -> Answer:
        """Check what is asked and run it.

        Raises `Denied` where it does more than is granted, `InvalidInput` naming each wrong field.
        """
        require(self.name, self.rights, granted=granted)
        whole, replaced = well_formed_value([dict(given or {}), dict(options or {})])
        asked = parse(self.input, whole[0], where="input")
        chosen = parse(self.options, whole[1], where="options")
        reaching = lent(engine, self.rights, granted=granted)
        place = parse_scope(scope)
        answer = self.answer(Call(reaching, place, tree=_asked_tree(reaching, place, chosen)), asked, chosen)
        return _warned(answer, (replaced_halves(replaced),) if replaced else ())

    def answer(self, call: Call, given: Value, options: Value) -> Answer:
        """Run it on checked values. Raises `Denied` for a path among them that the call may not read.

        Only what writes files and reads none is handed paths as they are.
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
        """Name the mode an empty `mode` stands for."""
        return next(iter(self.modes))

    @property
    def rights(self) -> Rights:
        """What any of its modes does."""
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

        Raises `Denied` for a mode that does more than is granted, `InvalidInput` naming each wrong field.
        """
        mode = self.find(envelope.mode)
        self.require(mode, granted=granted)
        given = parse(mode.input, envelope.input, where="input")
        options = parse(mode.options, envelope.options, where="options")
        reaching = lent(engine, mode.rights, granted=granted)
        call = _call(reaching, envelope, self.name, mode, options)
        if mode.rights.writes:
            return _warned(mode.answer(call, given, options), envelope.warnings)
        with late_reads(at_least=getattr(options, "at_least", 0)) as late:
            report = mode.answer(call, given, options)
        told: dict[str, Any] = {"replica": _replica(late.told)} if late.told else {}
        warnings = call.tree.warnings if call.tree else _of_all_branches(engine, envelope.scope, options)
        report = _warned(report, (*envelope.warnings, *warnings))
        return report.model_copy(update=told) if told else report

    def require(self, mode: Mode, *, granted: Rights) -> None:
        """Raise `Denied` for a mode that does more than is granted."""
        require(f"{self.name} in mode {mode.name!r}", mode.rights, granted=granted)


def _warned(answer: Answer, warnings: Sequence[str]) -> Answer:
    """Return an answer with more warnings, if answers of its kind have any."""
    known: Sequence[str] | None = getattr(answer, "warnings", None)
    return answer if not warnings or known is None else answer.model_copy(update={"warnings": (*known, *warnings)})


def _replica(told: Staleness) -> ReplicaAnswer:
    return ReplicaAnswer(sequence=told.sequence, seconds=ceil(told.seconds * 1_000) / 1_000, behind=told.behind)


def lent(engine: Engine, rights: Rights, *, granted: Rights) -> Engine:
    """Return an engine that reaches no further than rights say: adapters only for what reads outside the space.

    Where files might be read, an operation that reads none may still look whether those read before lie there.
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
    # Reads see below their scope only where they ask for it; writes and lint work on what lies there.
    descend = getattr(options, "descend", True)
    seen = ScopedLedger if mode.rights.writes else ReadingLedger
    tree = _asked_tree(engine, envelope.scope, options)
    ledger = seen(engine.ledger, scope=envelope.scope, descend=descend, tree=tree.view if tree else None)
    keyed = getattr(options, "idempotency_key", None) is not None
    request = _request(f"{verb} {mode.name}", envelope) if keyed else ""
    return Call(replace(engine, ledger=ledger), envelope.scope, request, tree)


def _asked_tree(engine: Engine, scope: str, options: Value) -> AskedTree | None:
    """Return the tree that an operation is held to: all are whose options have `at`. Raises as `tree_of`."""
    at = getattr(options, "at", None)
    return None if at is None else tree_of(engine, scope, at=at, past=getattr(options, "as_of", None) is not None)


def _of_all_branches(engine: Engine, scope: str, options: Value) -> tuple[str, ...]:
    """Say where an answer is of all branches that might have been held to one."""
    asked = hasattr(options, "at") and getattr(options, "as_of", None) is None
    return several_branches(engine, scope) if asked else ()


def _request(ability: str, envelope: Envelope) -> str:
    # Of what is kept: a digest of a short secret could be guessed.
    data = screened(envelope.model_dump(mode="json", include={"input"}, fallback=str)).value
    return digest(json.dumps([ability, data], sort_keys=True))


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
