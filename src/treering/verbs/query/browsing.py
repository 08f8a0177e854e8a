"""`query` in modes `page` and `expand`: one whole object, and the texts behind ids."""

from collections.abc import Sequence
from typing import Any

from pydantic import Field, model_validator

from treering.core.audit import AuditEvent
from treering.core.canonical import is_object, render_time
from treering.core.characters import label
from treering.core.counting import listed_up_to
from treering.core.errors import InvalidInput, NotFound
from treering.core.evidence import Segment, place_in
from treering.core.filters import Compare
from treering.core.objects import Knowledge, Node, Object, Source, title_of
from treering.core.writing.draft import rests_on
from treering.core.writing.integrity import fields_by_reference
from treering.ports.ledger import AsOf, Head, head_of
from treering.ports.passages import Reach
from treering.retrieval.text.analysis import cut_to_tokens, estimate_tokens
from treering.verbs.current_objects import CurrentObjects, current_objects, over_warning
from treering.verbs.envelope import READS, AskingInput, Call, Mode, Report, Value, either
from treering.verbs.evidence.cited import cited_words, lost_places
from treering.verbs.evidence.notation import NOTATIONS, SourceCalled, read_notation
from treering.verbs.evidence.resolving import ResolvedEvidence, definition_called, resolve_evidence, source_at
from treering.verbs.file_names import files_called
from treering.verbs.named_views import NamedView, view_named
from treering.verbs.naming import titled
from treering.verbs.numbered_places import place_numbered
from treering.verbs.query.flagged import flagged
from treering.verbs.query.referring import read_referring
from treering.verbs.read_reports import altered_warnings
from treering.verbs.reading import ReadOptions, moment_of, selection_of
from treering.verbs.scoped_ledger import on_all_branches, whole
from treering.verbs.short_ids import full_id, is_id, is_short_id
from treering.verbs.trees import maps_of


class HistoryEntry(Value):
    """One line of an object's history."""

    seq: int
    time: str
    event: str
    actor: str
    channel: str = ""
    status: str = ""
    revision: int | None = None
    reason: str = ""
    patch_id: str = ""


def change_of(event: AuditEvent) -> HistoryEntry:
    """Show an audit event."""
    after = event.after or {}
    return HistoryEntry(
        seq=event.seq,
        time=render_time(event.timestamp),
        event=event.event_type,
        actor=event.actor,
        channel=event.channel,
        status=str(after.get("status", "")),
        revision=after.get("revision"),
        reason=event.reason,
        patch_id=event.patch_id,
    )


_VIEW = "view"
"""The type of a page about no object."""
_MOST_SEGMENTS = 200
_MOST_REFERRERS = 200
_ORDER = ("knowledge", "work_item", "activity", "node", "source")
_MOST_NAMED = 5
_MAX_BELOW = 20
"""Files and folders in a folder that an error names."""
_MAX_NAME_CHARS = 200
_DEFAULT_TOKENS = 8_000
_QUOTE_CHARS = 600
"""Characters of a quote on a page; `expand` shows the rest."""


class PageInput(AskingInput):
    """Which object, as people name it: an id, a title, a path with or without lines, a symbol, a name, a number."""

    id: str = Field(default="", description="An id such as know:01k…, also shortened, or a number of the last answer.")
    name: str = Field(
        default="",
        description="A path, path:10-14, path::symbol, a title or words of it, a quote, a person, a node or its alias.",
    )

    @classmethod
    def of_text(cls, text: str) -> dict[str, Any]:
        """Return a plain text as a name."""
        return {"name": text}

    _names_one = model_validator(mode="after")(either("id", "name"))


class Referrer(Value):
    """An object that refers to another one or is referred to by it, and the fields that do."""

    id: str
    type: str
    kind: str
    status: str
    title: str
    fields: tuple[str, ...]
    current: bool = True
    """Whether it is current."""
    note: str = ""
    """Why it is not current in the requested tree."""


class PageReport(Report):
    """One object with its history, links and dependents."""

    object: dict[str, Any]
    title: str
    history: tuple[HistoryEntry, ...]
    links: tuple[dict[str, str], ...]
    link_titles: dict[str, str] = Field(
        default={}, exclude_if=lambda titles: not titles, description="Titles of linked objects by id; data."
    )
    dependents: tuple[str, ...]
    """Ids of knowledge that rests on it."""
    referrers: tuple[Referrer, ...] = ()
    """Objects that refer to it: knowledge about it, work and activities on it, and so on."""
    referrers_left_out: int = 0
    """How many more there are; mode `related` lists them."""
    references: tuple[Referrer, ...] = ()
    """Objects it refers to: nodes that knowledge is about, work and sources of an activity, and so on."""
    current: bool = True
    """Whether it is current: by its status, its validity and the archive."""
    note: str = ""
    """Why it is not current in the requested tree, such as `not on this branch (feature/x)`.

    Or of a file as of which commit its text is, if the file has changed in the work tree since.
    """
    place: str = ""
    """The citation of the requested part of a source, such as `src/retry.py:10-14`."""
    text: str = ""
    """The text of that part; `object` has only the segments that contain it."""
    evidence: tuple[str, ...] = ()
    """The places that knowledge is based on, such as `README.md:5-11`."""
    quotes: tuple[str, ...] = Field(
        default=(),
        exclude_if=lambda quotes: not quotes,
        description="The beginning of the cited words, in the order of `evidence`; data.",
    )
    lost: tuple[str, ...] = Field(
        default=(),
        exclude_if=lambda lost: not lost,
        description="Places of `evidence` that changed or were removed, such as `README.md:5-11 changed`.",
    )

    @property
    def is_view(self) -> bool:
        """Whether it is about no object, but what an extension knows by a name: `text` is all of it."""
        return bool(self.object["type"] == _VIEW)


def page(call: Call, given: PageInput, options: ReadOptions) -> PageReport:
    """Return one whole object."""
    ledger, moment = call.engine.ledger, moment_of(call, options)
    name = given.id or given.name
    subject = _spelled_out(call, name, options)
    view = view_named(call, name, options) if subject is None and given.name and _is_name(name) else ()
    if isinstance(view, NamedView):
        return _view_page(call, view)
    item, part = subject or _in_words(call, name, options, alike=view)
    if isinstance(item, Node) and item.merged_into:
        item = ledger.get(item.merged_into, as_of=moment)
    # The object may have moved out of sight since that moment; its page shows the events until then.
    events = whole(ledger).events_of(item.id)
    until = ledger.sequence(moment)
    budget = options.max_tokens or _DEFAULT_TOKENS
    shown = shown_object(_only(item, part.segment_ids) if part else item, max_tokens=budget)
    history = tuple(change_of(event) for event in events if event.seq <= until)
    naming = read_referring(ledger, [item.id], as_of=moment)
    named = _named_by(call, item, moment)
    current = current_objects(
        call, [*map(head_of, [item, *naming.items[item.id]]), *(head for head, _ in named)], moment
    )
    referrers = [_referrer(head_of(one), naming.fields(one, item.id), current) for one in naming.items[item.id]]
    listed = tuple(sorted(referrers, key=lambda one: (_ORDER.index(one.type), one.id))[:_MOST_REFERRERS])
    links = ledger.links(item.id, as_of=moment)
    ends = list({end: None for link in links[:_MOST_REFERRERS] for end in (link.source, link.target) if end != item.id})
    linked = ledger.heads(ends, as_of=moment) if ends else {}
    tree = call.tree.view if call.tree else None
    cited = cited_words(ledger, item, tree)
    path_now = call.tree.path_now if call.tree else None
    lost = lost_places(on_all_branches(ledger), item, tree, path_now) if moment is None else ()
    quotes = tuple(words[:_QUOTE_CHARS] for words in cited.values())
    return PageReport(
        verb="query",
        mode="page",
        scope=call.scope,
        warnings=(
            *over_warning(call, item, moment),
            *flagged([(item.id, (shown, [change.reason for change in history], quotes))]),
            *flagged((one.id, one.title) for one in listed),
            *flagged((head.id, head.title) for head in (*linked.values(), *(head for head, _ in named))),
            *altered_warnings(naming.altered),
        ),
        ids=(item.id,),
        object=shown,
        title=title_of(item),
        history=history,
        links=tuple(link.model_dump() for link in links),
        link_titles={head.id: head.title for head in linked.values()},
        dependents=tuple(
            one.id for one in naming.items[item.id] if isinstance(one, Knowledge) and rests_on(one, item.id)
        ),
        referrers=listed,
        references=tuple(_referrer(head, fields, current) for head, fields in named),
        referrers_left_out=len(referrers) - len(listed),
        current=item.id in current,
        note=current.note(item.id) or _note_of_text(call, item),
        place=part.place if part else "",
        text=cut_to_tokens(part.quote, budget) if part else "",
        evidence=tuple(cited),
        quotes=quotes,
        lost=lost,
    )


def _view_page(call: Call, view: NamedView) -> PageReport:
    """Return the page of something that is no object. Its `object` has only a kind and a name."""
    return PageReport(
        verb="query",
        mode="page",
        scope=call.scope,
        warnings=(*view.warnings, *flagged([(view.title, view.text)])),
        ids=view.ids,
        object={"id": view.title, "type": _VIEW, "kind": view.kind},
        title=view.title,
        history=(),
        links=(),
        dependents=(),
        text=view.text,
    )


class ExpandInput(AskingInput):
    """Ids from an earlier answer: object ids, or `source_id segment_id` for one place; or places such as path:10-14."""

    ids: tuple[str, ...] = Field(min_length=1, max_length=100)
    around: int = Field(default=1, ge=0, le=20, description="Number of segments to show before and after a place.")

    @classmethod
    def of_text(cls, text: str) -> dict[str, Any]:
        """Return the one id that a plain text is."""
        return {"ids": (text,)}


class Expanded(Value):
    """The content of one id."""

    id: str
    title: str
    status: str
    versions: int
    text: str
    places: tuple[str, ...] = ()
    object: dict[str, Any] | None = None
    cut: bool = False
    current: bool = True
    """Whether it is current."""
    note: str = ""
    """Why it is not current in the requested tree."""
    vanished: bool = False
    """For a place: whether its source no longer contains it; the text is its last version."""
    withheld: bool = False
    """For a place: whether its author does not share its text."""


class ExpandReport(Report):
    """The exact text behind the ids, and the ids that were not found."""

    items: tuple[Expanded, ...]
    missing: tuple[str, ...] = ()


def expand(call: Call, given: ExpandInput, options: ReadOptions) -> ExpandReport:
    """Open ids: exact source lines with their neighbours, whole objects, number of versions."""
    budget = max(1, (options.max_tokens or _DEFAULT_TOKENS) // len(given.ids))
    items, missing = [], []
    for reference in given.ids:
        try:
            items.append(_expanded(call, reference, given.around, options, budget))
        except NotFound:
            missing.append(reference)
    return ExpandReport(
        verb="query",
        mode="expand",
        scope=call.scope,
        status="ok" if not missing else "partial" if items else "empty",
        warnings=flagged((item.id, (item.title, item.text, item.object)) for item in items),
        ids=tuple(item.id for item in items),
        items=tuple(items),
        missing=tuple(missing),
    )


def shown_object(item: Object, *, max_tokens: int) -> dict[str, Any]:
    """Return an object as JSON data without its salt, long sources cut to whole segments."""
    data = item.model_dump(mode="json", exclude={"salt"})
    if isinstance(item, Source):
        shown, used = list[dict[str, Any]](), 0
        for segment in data["segments"][:_MOST_SEGMENTS]:
            used += estimate_tokens(segment["excerpt"])
            if used > max_tokens and shown:
                break
            shown.append(segment)
        data["segments"], data["segments_left_out"] = shown, len(item.segments) - len(shown)
    return data


def _referrer(item: Head, fields: tuple[str, ...], current: CurrentObjects) -> Referrer:
    return Referrer(
        id=item.id,
        type=item.type,
        kind=item.kind,
        status=item.status,
        title=item.title,
        fields=fields,
        current=item.id in current,
        note=current.note(item.id),
    )


def _named_by(call: Call, item: Object, moment: AsOf) -> list[tuple[Head, tuple[str, ...]]]:
    """Return the heads of objects in sight that an object names, with the fields that name them."""
    fields = fields_by_reference(item)
    heads = call.engine.ledger.heads(list(fields)[:_MOST_REFERRERS], as_of=moment) if fields else {}
    return [(heads[target], names) for target, names in fields.items() if target in heads]


Subject = tuple[Object, ResolvedEvidence | None]
"""An object, and the part of it that a text names."""


def subject_of(call: Call, text: str, options: ReadOptions) -> Subject:
    """Return the object that a text names, and the part of it if the text names one.

    A path or name that is spelled out goes before a title, and a title before words of a source.
    """
    return _spelled_out(call, text, options) or _in_words(call, text, options)


def _spelled_out(call: Call, text: str, options: ReadOptions) -> Subject | None:
    """Return the object with an id, a path or a name."""
    given = place_numbered(text, call.engine.places_of).strip()
    if not given:
        raise InvalidInput("Nothing is named.", hint="Give an id, a title, or a place such as src/retry.py:10-14.")
    if is_id(given):
        return _object(call, full_id(whole(call.engine.ledger), given), options), None
    item = _named(call, given, options) if _is_name(given) else None
    return (item, None) if item else None


def _object(call: Call, identity: str, options: ReadOptions) -> Object:
    """Return an object as of the moment of a read."""
    return call.engine.ledger.get(identity, as_of=moment_of(call, options))


def _is_name(given: str) -> bool:
    notation = read_notation(given)
    return isinstance(notation, SourceCalled) and notation.turn is None


def _in_words(call: Call, text: str, options: ReadOptions, *, alike: Sequence[str] = ()) -> Subject:
    """Return the object whose title has some words, or the only source that contains them.

    `alike`: names of no objects, for the error if there is none.
    """
    given = place_numbered(text, call.engine.places_of).strip()
    is_name = _is_name(given)
    hint = f"Names like it: {', '.join(map(label, alike))}." if alike else ""
    if is_name:
        try:
            return _object(call, titled(call.engine.ledger, given).id, options), None
        except NotFound as error:
            hint = hint or (error.hint if "Titles" in error.hint else "")
    definition = definition_called(call, given) if is_name else ""
    try:
        (resolved,) = resolve_evidence(call, [definition or given]).resolved
    except NotFound as error:
        if below := _directly_below(call, given.rstrip("/")):
            raise NotFound(
                f"The folder {given[:_MAX_NAME_CHARS]!r} has no page.",
                hint=f"Give one of its files or folders: {listed_up_to(_MAX_BELOW, below)}.",
            ) from error
        hint = hint or error.hint.replace(NOTATIONS, "path:10-14, path::symbol, a title or an id")
        raise NotFound(f"Nothing here is called {given[:_MAX_NAME_CHARS]!r}.", hint=hint) from error
    is_whole = is_name and " " not in given and not definition
    return _object(call, resolved.source_id, options), None if is_whole else resolved


def _directly_below(call: Call, folder: str) -> list[str]:
    """Return the paths of the files and folders directly in a folder of a repository."""
    paths = dict[str, None]()
    for one in maps_of(call.engine, call.scope):
        below = call.engine.ledger.sources(scope=one.scope, root=f"{one.origin}#{folder}")
        for origin in sorted(origin for origin, state in below.items() if state.status == "active"):
            name = origin.removeprefix(f"{one.origin}#{folder}/").partition("/")[0]
            paths[f"{folder}/{name}"] = None
    return list(paths)


def _named(call: Call, name: str, options: ReadOptions) -> Object | None:
    """Return the source at a path or an origin, else the node or file with a name; `None` if there is none.

    Raises `InvalidInput` for several files.
    """
    if source := source_at(call, name):
        return _object(call, source.id, options)  # files are found by their current names
    wanted = name.casefold()
    selection = selection_of(call, options, "node", Compare("status", "eq", "active"))
    for item in call.engine.ledger.select(selection):
        if isinstance(item, Node) and wanted in {text.casefold() for text in (item.name, item.slug, *item.aliases)}:
            return item
    files = files_called(call, name, Reach(call.scope, descend=options.descend, now=call.engine.clock.now()))
    if len(files) > 1:
        paths = ", ".join(one.title for one in files[:_MOST_NAMED])
        raise InvalidInput(
            f"{len(files)} files are named {name!r}.",
            hint=f"Give the id or the full path of one of them: {paths}.",
            details={"known": [{"id": one.id, "origin": one.origin} for one in files]},
        )
    return _object(call, files[0].id, options) if files else None


def _expanded(call: Call, reference: str, around: int, options: ReadOptions, budget: int) -> Expanded:
    identity, _, segment_id = place_numbered(reference, call.engine.places_of).strip().partition(" ")
    if is_short_id(identity):
        identity = full_id(whole(call.engine.ledger), identity)
    if not is_object(identity):
        return _resolved(call, reference, options, budget)
    item = _object(call, identity, options)
    if not isinstance(item, Source):
        if segment_id:
            raise InvalidInput(f"{identity} has no segments.", hint="Give only the id.")
        data = shown_object(item, max_tokens=budget)
        return Expanded(id=reference, text=title_of(item), object=data, **_state_of(call, item, options))
    if item.withholds(segment_id) and all(part.segment_id != segment_id for part in item.segments):
        place = (item.place_of_withheld,)
        return Expanded(id=reference, text="", places=place, withheld=True, **_state_of(call, item, options))
    parts = _around(call, item, segment_id, around) if segment_id else item.segments
    text = "\n\n".join(part.excerpt for part in parts)
    fitted = cut_to_tokens(text, budget)
    return Expanded(
        id=reference,
        text=fitted,
        places=tuple(place_in(part.locator, item.origin) for part in parts),
        cut=len(fitted) < len(text),
        vanished=bool(segment_id) and all(part.segment_id != segment_id for part in item.segments),
        **_state_of(call, item, options),
    )


def _resolved(call: Call, reference: str, options: ReadOptions, budget: int) -> Expanded:
    """Expand a place in the notation of evidence: exactly its lines, or the words of its passage."""
    (resolved,) = resolve_evidence(call, [reference]).resolved
    source = _object(call, resolved.source_id, options)
    # A whole file is read to its end, though evidence cites only its first passages.
    words = resolved.quote
    if isinstance(source, Source) and isinstance(read_notation(reference), SourceCalled):
        words = "\n\n".join(one.excerpt for one in source.segments)
    fitted = cut_to_tokens(words, budget)
    return Expanded(
        id=reference,
        text=fitted,
        places=(resolved.place,),
        cut=len(fitted) < len(words),
        **_state_of(call, source, options),
    )


def _state_of(call: Call, item: Object, options: ReadOptions) -> dict[str, Any]:
    """Return the fields of `Expanded` for the state of an object."""
    current = current_objects(call, [head_of(item)], moment_of(call, options))
    return {
        "title": title_of(item),
        "status": item.status,
        "versions": item.revision,
        "current": item.id in current,
        "note": current.note(item.id) or _note_of_text(call, item),
    }


def _note_of_text(call: Call, item: Object) -> str:
    return call.tree.note_of_text(item) if call.tree and isinstance(item, Source) else ""


def _only(item: Object, segment_ids: Sequence[str]) -> Object:
    """Return a source with some of its segments."""
    if not isinstance(item, Source):
        return item
    return item.model_copy(update={"segments": tuple(one for one in item.segments if one.segment_id in segment_ids)})


def _around(call: Call, item: Source, segment_id: str, around: int) -> Sequence[Segment]:
    ordered = sorted(item.segments, key=lambda part: part.position)
    for index, part in enumerate(ordered):
        if part.segment_id == segment_id:
            return ordered[max(0, index - around) : index + around + 1]
    return [call.engine.ledger.segment(item.id, segment_id)]


PAGE = Mode.of("page", "One object with its history, links and dependents.", page, rights=READS)
EXPAND = Mode.of("expand", "Source lines, neighbours, versions behind ids.", expand, rights=READS)
