"""The everyday methods of a space, with types: find, ask, record, correct, undo."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from treering.core.arguments import check_type
from treering.core.errors import InvalidInput
from treering.core.scope import ROOT
from treering.registry import load
from treering.surfaces.python.results import Brief, Hits, Log, NewEntry, Pack, SearchHit
from treering.verbs import everyday
from treering.verbs.catalog import TOOLS
from treering.verbs.engine import Engine
from treering.verbs.envelope import EVERYTHING, Envelope, Report, Verb
from treering.verbs.naming import patch_named

if TYPE_CHECKING:
    from treering.core.patch import Receipt
    from treering.extensions.statements.people import Person
    from treering.verbs.crystallize.submission import WriteReport
    from treering.verbs.ingest.report import IngestReport
    from treering.verbs.query.brief import BriefReport
    from treering.verbs.query.browsing import ExpandReport, PageReport
    from treering.verbs.query.context import ContextReport
    from treering.verbs.query.recent import RecentReport
    from treering.verbs.query.search import SearchReport

Place = str | SearchHit
"""Evidence: `path:10-14`, `path::symbol`, a path, a quoted sentence, an origin, ids, or a hit."""
Places = Place | Iterable[Place]
Item = str | SearchHit | NewEntry
"""An object: its id or the start or end of one, its title or words of it, a hit, or the result of a method."""

_ADDRESSES = ("http://", "https://")


class EverydayMethods:
    """The methods that need no envelope. Each has the name of its command."""

    __slots__ = ()
    engine: Engine

    def add(
        self, what: Path | str = "", *, note: str | None = None, title: str = "", scope: str = ROOT
    ) -> "IngestReport":
        """Read a repository, folder, file or page into the space; or with `note` a text.

        Unchanged input changes nothing. Raises `InvalidInput` for something that cannot be read.
        """
        if bool(what) == (note is not None):
            raise InvalidInput("add takes a path, an address or a note.", hint='Write space.add(".").')
        if note is not None:
            item = {"text": everyday.a_note(note), **({"title": title} if title else {})}
            return cast("IngestReport", self._call("ingest", "source", scope, {"items": [item]}))
        target = str(what)
        if target.lower().startswith(_ADDRESSES):
            return cast("IngestReport", self._call("ingest", "url", scope, {"url": target}))
        mode = everyday.mode_of_path(self.engine, target)
        return cast("IngestReport", self._call("ingest", mode, scope, {"path": target}))

    def search(
        self,
        text: str,
        *,
        limit: int = 10,
        kind: str = "",
        path: str = "",
        since: date | datetime | str | None = None,
        scope: str = ROOT,
    ) -> Hits:
        """Return the passages and objects that match best.

        `kind`: such as decision, fact or markdown. `path`: a folder or file of the repository, such as `src/**`.
        `since`: only content written or changed from then on.
        """
        check_type(limit, int, name="limit", expected="a number")
        where = everyday.conditions(self.engine, kind=kind, path=path, since=_when(since), scope=scope)
        options = {"limit": limit, "filter": where, "descend": True}
        return Hits(
            cast(
                "SearchReport", self._call("query", "search", scope, {"text": _asked(text, "The search text")}, options)
            )
        )

    def ask(self, task: str, *, max_tokens: int | None = None, scope: str = ROOT) -> Pack:
        """Return the knowledge for a task or a question, within a token budget (2,000 by default)."""
        options: dict[str, Any] = {"descend": True, **({"max_tokens": max_tokens} if max_tokens else {})}
        return Pack(
            cast("ContextReport", self._call("query", "context", scope, {"task": _asked(task, "The task")}, options))
        )

    def brief(self, *, scope: str = ROOT) -> Brief:
        """Return a brief before starting: rules, decisions, open work, changes."""
        return Brief(cast("BriefReport", self._call("query", "brief", scope, {})))

    def show(self, what: Item, *, scope: str = ROOT) -> "PageReport":
        """Return one object with its history, a file by its path, or a part of one, such as `src/app.py:10-20`.

        Also a symbol (`src/app.py::main`), a quoted sentence, and the name of a node. Raises `NotFound`, and
        `InvalidInput` if several match, with the candidates.
        """
        return cast("PageReport", self._call("query", "page", scope, {"name": _id(what)}, {"descend": True}))

    def person(
        self, name: str, *, as_of: int | str | date | None = None, max_tokens: int | None = None, scope: str = ROOT
    ) -> "Person":
        """Return the statements by and about a person in conversations at or below a scope; `str()` is Markdown.

        `as_of`: from the messages recorded by an audit sequence number, a time, or the end of a day. Raises `NotFound`
        with similar names.
        """
        find = load("treering.extensions.statements.people:person")
        options = {"max_tokens": max_tokens} if max_tokens else {}
        return cast("Person", find(self.engine, everyday.a_text(name, "The name"), scope=scope, as_of=as_of, **options))

    def read(self, *places: Place, scope: str = ROOT) -> "ExpandReport":
        """Return the words at some places, such as `src/app.py:10-20`."""
        return cast("ExpandReport", self._call("query", "expand", scope, {"ids": _texts(places)}, {"descend": True}))

    def log(
        self,
        about: str = "",
        *,
        since: date | datetime | str | None = None,
        limit: int = 50,
        scope: str = ROOT,
    ) -> Log:
        """Return the changes, newest first; with `about`, only of that file or object and everything based on it."""
        check_type(limit, int, name="limit", expected="a number")
        given: dict[str, Any] = {"limit": limit, "about": about, **({"since": _when(since)} if since else {})}
        return Log(cast("RecentReport", self._call("query", "recent", scope, given, {"descend": True})))

    def decide(
        self,
        text: str,
        *,
        outcome: str = "",
        question: str = "",
        why: str = "",
        instead_of: Sequence[str] = (),
        because: Places = (),
        scope: str = ROOT,
    ) -> NewEntry:
        """Record a decision. `text` is its title and, unless one is given, its outcome."""
        based = _based(because, scope)
        call = everyday.decide(text, based, outcome=outcome, question=question, why=why, instead_of=instead_of)
        return self._record(call)

    def rule(
        self, text: str, *, applies_to: str = "", why: str = "", because: Places = (), scope: str = ROOT
    ) -> NewEntry:
        """Record a rule to follow; `applies_to` limits it to a path or an area."""
        return self._record(everyday.rule(text, _based(because, scope), applies_to=applies_to, why=why))

    def prefer(self, text: str, *, applies_to: str = "", because: Places = (), scope: str = ROOT) -> NewEntry:
        """Record a preference."""
        return self._record(everyday.prefer(text, _based(because, scope), applies_to=applies_to))

    def fact(self, text: str, *, of: str = "", because: Places = (), scope: str = ROOT) -> NewEntry:
        """Record a fact such as `port = 8080` of a subject."""
        return self._record(everyday.fact(text, _based(because, scope), subject=of))

    def task(self, text: str, *, priority: str = "normal", summary: str = "", scope: str = ROOT) -> NewEntry:
        """Open a task."""
        return self._record(everyday.task(text, priority=priority, summary=summary, scope=scope))

    def done(self, task: Item, resolution: str = "", *, scope: str = ROOT) -> NewEntry:
        """Resolve an open task. Raises `NotFound`, `InvalidInput`."""
        return self._record(everyday.done(self.engine, _id(task), resolution, scope=scope))

    def replace(self, old: Item, text: str, *, why: str = "", because: Places = ()) -> NewEntry:
        """Replace a statement with a new one; the old one stays in the history. Raises `NotFound`."""
        return self._record(everyday.replacement(self.engine, _id(old), text, _based(because, ROOT), why=why))

    def undo(self, patch_id: Item = "") -> "Receipt":
        """Undo a patch, or the last patch that recorded an entry; the default is this author's last record.

        Raises `NotFound`, `InvalidInput`, `Conflict`.
        """
        # Imported here: most programs take nothing back.
        from treering.verbs.crystallize import review

        named = patch_id.patch_id if isinstance(patch_id, NewEntry) else _id(patch_id)
        last = "" if named else everyday.last_patch(self.engine.ledger, self.engine.author.actor).id
        patch = last or patch_named(self.engine, named)
        given, options = {"patch_id": patch}, {"reason": "undo"}
        return review.REVERT.perform(self.engine, given=given, options=options, granted=EVERYTHING)

    def _record(self, call: Envelope) -> NewEntry:
        return NewEntry(cast("WriteReport", TOOLS["crystallize"].call(self.engine, call, granted=EVERYTHING)))

    def _call(
        self,
        verb: Verb,
        mode: str,
        scope: str,
        given: Mapping[str, Any] | str,
        options: Mapping[str, Any] | None = None,
    ) -> Report:
        what = given if isinstance(given, str) else dict(given)
        envelope = Envelope(mode=mode, scope=scope, input=what, options=dict(options or {}))
        return TOOLS[verb].call(self.engine, envelope, granted=EVERYTHING)


def _based(because: Places, scope: str) -> everyday.Because:
    places = because if isinstance(because, Iterable) and not isinstance(because, str) else [because]
    return everyday.Because(_texts(places), scope)


def _asked(text: str, name: str) -> str:
    if not everyday.a_text(text, name).strip():
        raise InvalidInput(f"{name} is empty.", hint="Write a question, or words to find.")
    return text


def _id(item: Item) -> str:
    return item.id if isinstance(item, SearchHit | NewEntry) else everyday.a_text(item, "The name")


def _texts(places: Iterable[Place]) -> tuple[str, ...]:
    return tuple(one.evidence if isinstance(one, SearchHit) else everyday.a_text(one, "A place") for one in places)


def _when(since: date | datetime | str | None) -> str:
    if since is None:
        return ""
    return since.isoformat() if isinstance(since, date) else everyday.a_text(since, "since")
