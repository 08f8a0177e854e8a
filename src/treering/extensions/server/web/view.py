"""The data of a page, and its rendering to HTML: everything is escaped, and nothing is loaded from other sites."""

import re
import shlex
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from hmac import compare_digest
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import parse_qs, quote, urlencode

from jinja2 import ChoiceLoader, Environment, FileSystemLoader, FunctionLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from treering.core.canonical import is_object
from treering.core.characters import one_line, visible
from treering.core.errors import Denied, InvalidInput, TreeringError
from treering.core.scope import ROOT
from treering.extensions.server.failures import content_type, for_caller, status_of
from treering.extensions.server.web.overview import OVERVIEW, Overview
from treering.ports.format import PROSE_SUFFIX
from treering.verbs.envelope import Answer, Envelope, Operation, Report, parse

_Report = TypeVar("_Report", bound=Report)
_EVENTS: Mapping[str, str] = {
    "staled": "made stale",
    "evidence_lost": "lost evidence on a branch",
    "transitioned": "changed in status",
    "settled": "no longer contested",
    "moved": "moved to another scope",
}
_LARGEST = 2**63 - 1
_LINE_CHARS = 300
_MOST_DIGITS = 18
STATIC = Path(__file__).with_name("static")
_TEMPLATES = Path(__file__).with_name("templates")
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    # With no-referrer a browser would send forms with `Origin: null`.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_PASSAGE_LINK = re.compile(r"https?://[!-~]{1,2000}#:~:text=[!-~]{1,4000}")
"""A web address for a link. Nothing else that is stored becomes a link."""
_LINES = re.compile(r"(?P<path>.+)#L\d+(?:-L\d+)?(?: @ .*)?")
_PROSE_FILE = re.compile(rf"(?:{PROSE_SUFFIX}|\.(?:org|tex|x?html?))$", re.IGNORECASE)
_BOX_CHARS = 250
_BOX_LINES = 8
_LONG_LINE = re.compile(r".{30}")
TOKEN = "token"  # noqa: S105 - the name of a field
_MOST_BYTES = 64_000
_MOST_FIELDS = 20


class ReadSpace(Protocol):
    """A space as the pages use it: through the four verbs and the operations, and nothing else."""

    @property
    def scope(self) -> str:
        """The scope of the caller; the root: the whole space."""
        ...

    def call(self, verb: str, envelope: Envelope, *, as_person: bool = False) -> Report:
        """Call a verb. Raises `NotFound` if the space does not exist, `Denied` if the call exceeds the caller's rights.

        `as_person`: write with the rights of a person, which the caller must have.
        """
        ...

    def perform(self, operation: Operation[Answer], *, given: Mapping[str, Any], options: Mapping[str, Any]) -> Answer:
        """Run an operation that is not a mode of a verb."""
        ...

    def check(self) -> bool:
        """Return whether the space exists."""
        ...

    def grants(self, operation: Operation[Any]) -> bool:
        """Return whether the caller has all rights of an operation."""
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
    """The project of the space; empty: the server's own space."""
    section: str = ""
    """Which page it is, such as `health`; empty: the start page."""
    holder: str = ""
    """The name of the signed-in key; empty if no sign-in is needed."""
    menu: Sequence[tuple[str, str]] = ()
    """The paths and names of the pages for callers who see the whole space."""

    @property
    def home(self) -> str:
        """The path of the start page of this space."""
        return self.base if self.project else "/"

    def text(self, name: str) -> str:
        """Return a parameter without surrounding white space; empty if it is missing."""
        return self.params.get(name, "").strip()

    def number(self, name: str, *, default: int, most: int) -> int:
        """Return a parameter that is a whole number from 0 to `most`. Raises `InvalidInput` for any other text."""
        given = self.text(name)
        if not given:
            return default
        if not (given.isascii() and given.isdigit() and len(given) <= _MOST_DIGITS):
            raise InvalidInput(f"{name} is not a whole number: {given[:40]!r}.", hint="Use digits only.")
        return min(int(given), most)

    @property
    def as_of(self) -> int | None:
        """The audit sequence number of the shown state; `None`: now."""
        return self.number("as_of", default=0, most=_LARGEST) or None

    @property
    def moment(self) -> dict[str, Any]:
        """The shown state as an option of operations; empty: now."""
        return {"as_of": self.as_of} if self.as_of else {}

    @property
    def scope(self) -> str:
        """The shown scope, including the scopes below it."""
        return self.text("scope") or self.space.scope

    @property
    def is_whole_space(self) -> bool:
        """Whether the caller sees the whole space."""
        return self.space.scope == ROOT

    def query(
        self, report: type[_Report], mode: str, given: Mapping[str, Any], *, as_of: int | None = None, **options: Any
    ) -> _Report:
        """Run a mode of `query` on the scope and below, at the moment of the page or at another one."""
        moment = as_of or self.as_of
        about = {"as_of": moment} if moment else {"at": self.text("at")}
        options_given = {"descend": True, **about, **options}
        answer = self.space.call("query", _envelope(mode, self.scope, given, options_given))
        if not isinstance(answer, report):
            raise TypeError(f"query {mode} gave {type(answer).__name__}")
        return answer

    def perform(self, operation: Operation[Answer], given: Mapping[str, Any], **options: Any) -> Answer:
        """Run an operation on everything the caller may see."""
        about = {"at": self.text("at")} if "at" in operation.options.model_fields and "as_of" not in options else {}
        return self.space.perform(operation, given=given, options={**about, **options})

    def overview(self) -> Overview:
        """Return an overview of the space: its contents and pending work."""
        return self.perform(OVERVIEW, {}, **self.moment)

    def link(self, path: str = "", /, **params: Any) -> str:
        """Return the address of a page of this space, at the same moment or of the same tree.

        Parameters without a value are left out.
        """
        about = self.moment or {"at": self.text("at")}
        query = {name: value for name, value in {**about, **params}.items() if value}
        where = f"{self.base}/{quote(path, safe='/:')}" if path else self.home
        return f"{where}?{urlencode(query, safe=':/')}" if query else where


def told_event(event: str) -> str:
    """Return an event of the audit log in words."""
    return _EVENTS.get(event, event.replace("_", " "))


def _envelope(mode: str, scope: str, given: Mapping[str, Any], options: Mapping[str, Any]) -> Envelope:
    data = {"mode": mode, "scope": scope, "input": dict(given), "options": dict(options)}
    return parse(Envelope, data, where="page")


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
    """The template shown until it is done; it gets `what`, `done` and `total`."""


@dataclass(frozen=True, slots=True)
class WebPage:
    """A page of a part, for callers who see the whole space."""

    path: str
    show: PageFunction
    title: str = ""
    """Its name in the menu; empty: not in the menu."""
    prepare: Callable[[PageView], Preparing] | None = None


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=ChoiceLoader([FileSystemLoader(_TEMPLATES), FunctionLoader(_template_of_package)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    environment.tests["object_id"] = lambda value: isinstance(value, str) and is_object(value)
    environment.tests["passage_link"] = lambda value: _PASSAGE_LINK.fullmatch(value) is not None
    environment.tests["code_place"] = is_code_place
    environment.tests["longer_than_its_box"] = _is_longer_than_its_box
    environment.filters["shell"] = shlex.join
    environment.filters["told_event"] = told_event
    environment.filters["one_line"] = lambda text: visible(one_line(" · ".join(text.splitlines()), most=_LINE_CHARS))
    environment.filters["moment"] = _moment
    return environment


def _template_of_package(name: str) -> str | None:
    """Return a template in a package of a part, such as `my_part:page.html`."""
    package, colon, file = name.partition(":")
    return files(package).joinpath(file).read_text(encoding="utf-8") if colon else None


def is_code_place(place: str) -> bool:
    """Return whether a place, such as `src/app.py#L10-L20 @ 1f3c`, is in a file with meaningful lines."""
    match = _LINES.fullmatch(place)
    return match is not None and _PROSE_FILE.search(match["path"]) is None


def _is_longer_than_its_box(text: str, code: bool = False) -> bool:
    """Return whether a text may exceed its box on the narrowest screen, so that it scrolls."""
    return len(text) > _BOX_CHARS or text.count("\n") >= _BOX_LINES or (code and _LONG_LINE.search(text) is not None)


def _moment(value: datetime | str) -> str:
    """Write a time to the minute, in UTC."""
    return f"{value:%Y-%m-%d %H:%M}" if isinstance(value, datetime) else value[:16].replace("T", " ")


def _shown(value: Any) -> Any:
    """Make control characters visible, such as marks that change the direction of text."""
    return visible(value) if type(value) is str else value


def respond(rendered: Rendered, view: PageView) -> Response:
    """Render a page, with headers that isolate it from other sites."""
    if rendered.redirect:
        return RedirectResponse(rendered.redirect, status_code=303, headers=dict(HEADERS))
    html = _environment().get_template(rendered.template).render(**rendered.values, view=view)
    return HTMLResponse(html, status_code=rendered.status, headers=dict(HEADERS))


def error_page(error: TreeringError, view: PageView) -> Response:
    """Show an error and its hint."""
    rendered = Rendered("error.html", {"error": for_caller(error)}, status=status_of(error))
    # Without the parameters, which may be the cause of the error.
    return respond(rendered, replace(view, params={}))


def respond_alone(template: str, *, status: int = 200, **values: Any) -> Response:
    """Render a page without access to a space, such as the sign-in page."""
    return HTMLResponse(
        _environment().get_template(template).render(**values), status_code=status, headers=dict(HEADERS)
    )


async def read_form(request: Request, *, token: str) -> dict[str, str]:
    """Read a form. Raises `Denied` if it comes from another site, `InvalidInput` if it is malformed or too large.

    Browsers send the page's site in `Origin`; requests without it are refused too. `token` is in each page of this
    server, which pages of other sites cannot read.
    """
    host, origin = request.headers.get("host", ""), request.headers.get("origin", "")
    if origin.casefold() not in {f"http://{host}".casefold(), f"https://{host}".casefold()}:
        raise Denied("This form was not sent by a page of this server.", hint="Open the page here and send it again.")
    fields = _fields(await _body(request))
    if not compare_digest(fields.pop(TOKEN, "").encode(), token.encode()):
        raise Denied(
            "The form was created before this server started.", hint="Reload its page and send it again.", details={}
        )
    return fields


async def _body(request: Request) -> bytes:
    if (label := content_type(request)) != "application/x-www-form-urlencoded":
        raise InvalidInput(f"A form was expected, not {label!r}.", hint="Send it from the page.")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MOST_BYTES:
            raise InvalidInput(f"The form is larger than {_MOST_BYTES} bytes.", hint="Give a shorter reason.")
    return bytes(body)


def _fields(body: bytes) -> dict[str, str]:
    try:
        read = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict")
    except ValueError as error:
        raise InvalidInput(f"The form cannot be read: {error}.", hint="Send it from the page.") from error
    return {name: values[-1] for name, values in read.items()}
