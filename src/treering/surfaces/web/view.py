"""What a page is made of: the space it reads, what was asked for, and the template that shows the answer."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar
from urllib.parse import quote, urlencode

from treering.core.errors import InvalidInput
from treering.core.scope import ROOT
from treering.verbs.envelope import Answer, Envelope, Operation, Report, parse
from treering.verbs.query.overview import OVERVIEW, Overview

_Report = TypeVar("_Report", bound=Report)


class ReadSpace(Protocol):
    """A space as the pages use it: through the four verbs and the operations, and nothing else."""

    @property
    def scope(self) -> str:
        """The scope whoever asks is let into; the root: the whole space."""
        ...

    def call(self, verb: str, envelope: Envelope) -> Report:
        """Run a verb. Raises `NotFound` where there is no space yet."""
        ...

    def perform(self, operation: Operation[Answer], *, given: Mapping[str, Any], options: Mapping[str, Any]) -> Answer:
        """Run an operation that is not a mode of a verb."""
        ...

    def check(self) -> bool:
        """Tell whether there is a space yet."""
        ...

    def grants(self, operation: Operation[Any]) -> bool:
        """Tell whether whoever asks may do all that an operation does."""
        ...


@dataclass(frozen=True, slots=True)
class PageView:
    """One request for a page: which space, at which moment, with which parameters."""

    space: ReadSpace
    base: str
    """The path of this space's pages, without a slash at its end."""
    params: Mapping[str, str] = field(default_factory=dict)
    path: Mapping[str, str] = field(default_factory=dict)
    token: str = ""
    """Goes with every form that changes something."""
    project: str = ""
    """The project whose space it is; empty: the server's own space."""
    section: str = ""
    """Which page it is, such as `health`; empty: the start page."""
    holder: str = ""
    """The name of the key of whoever signed in; empty where nobody has to."""
    menu: Sequence[tuple[str, str]] = ()
    """The paths and names of the pages that only whoever sees the whole space may see."""

    @property
    def home(self) -> str:
        """The path of the start page of this space."""
        return self.base if self.project else "/"

    def text(self, name: str) -> str:
        """Return a parameter without white space around it; empty where it was not given."""
        return self.params.get(name, "").strip()

    def number(self, name: str, *, default: int, most: int) -> int:
        """Return a parameter that is a whole number from 0 to `most`. Raises `InvalidInput` for any other text."""
        given = self.text(name)
        if not given:
            return default
        if not (given.isascii() and given.isdigit() and len(given) <= _MOST_DIGITS):
            raise InvalidInput(f"{name} is not a whole number: {given[:40]!r}.", hint="Give digits only.")
        return min(int(given), most)

    @property
    def as_of(self) -> int | None:
        """The audit sequence number whose state is shown; `None`: now."""
        return self.number("as_of", default=0, most=_LARGEST) or None

    @property
    def scope(self) -> str:
        """The scope that is looked at, with all that lies below it."""
        return self.text("scope") or self.space.scope

    @property
    def is_whole_space(self) -> bool:
        """Whether whoever asks sees the whole space."""
        return self.space.scope == ROOT

    def query(
        self, report: type[_Report], mode: str, given: Mapping[str, Any], *, as_of: int | None = None, **options: Any
    ) -> _Report:
        """Run a mode of `query` on the scope and below, at the moment of the page or at another one."""
        moment = as_of or self.as_of
        options_given = {"descend": True, **({"as_of": moment} if moment else {}), **options}
        answer = self.space.call("query", _envelope(mode, self.scope, given, options_given))
        if not isinstance(answer, report):
            raise TypeError(f"query {mode} gave {type(answer).__name__}")
        return answer

    def perform(self, operation: Operation[Answer], given: Mapping[str, Any], **options: Any) -> Answer:
        """Run an operation on all that whoever asks may see."""
        return self.space.perform(operation, given=given, options=options)

    def overview(self) -> Overview:
        """Return what the space holds and what waits in it."""
        return self.perform(OVERVIEW, {}, **({"as_of": self.as_of} if self.as_of else {}))

    def link(self, path: str = "", /, **params: Any) -> str:
        """Return the address of a page of this space, at the same moment. Parameters without a value are left out."""
        moment = {"as_of": self.as_of} if self.as_of else {}
        told = {name: value for name, value in {**moment, **params}.items() if value}
        where = f"{self.base}/{quote(path, safe='/:')}" if path else self.home
        return f"{where}?{urlencode(told, safe=':/')}" if told else where


def told_event(event: str) -> str:
    """Say what an event of the audit log did to its object, as a person would."""
    return _EVENTS.get(event, event.replace("_", " "))


_EVENTS: Mapping[str, str] = {
    "staled": "made stale",
    "transitioned": "given another status",
    "settled": "no longer contested",
    "moved": "moved to another scope",
}


def _envelope(mode: str, scope: str, given: Mapping[str, Any], options: Mapping[str, Any]) -> Envelope:
    data = {"mode": mode, "scope": scope, "input": dict(given), "options": dict(options)}
    return parse(Envelope, data, where="page")


_LARGEST = 2**63 - 1
_MOST_DIGITS = 18


@dataclass(frozen=True, slots=True)
class Rendered:
    """A template, and the values it shows."""

    template: str
    values: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200
    redirect: str = ""
    """Where to look next, in place of a template."""


PageFunction = Callable[[PageView], Rendered]


@dataclass(frozen=True, slots=True)
class Preparing:
    """Long work before a page can be shown; work of the same key is done once."""

    key: Hashable
    work: Callable[[], object]
    template: str
    """What is shown until it is done; it is given `what`, `done` and `total`."""


@dataclass(frozen=True, slots=True)
class WebPage:
    """A page that a part brings, for whoever may see the whole space."""

    path: str
    show: PageFunction
    title: str = ""
    """Its name in the menu; empty: it does not stand there."""
    prepare: Callable[[PageView], Preparing] | None = None
