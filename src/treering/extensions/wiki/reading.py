"""One page of a wiki as it would be written now, with the pages that link to it and changes of its files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from pydantic import Field

from treering.core.canonical import PREFIXES, Instant
from treering.core.errors import NotFound, nearest
from treering.extensions.wiki.files.addresses import forge_of, no_address
from treering.extensions.wiki.files.front_matter import without_matter
from treering.extensions.wiki.files.links import body_links
from treering.extensions.wiki.files.page_path import INDEX, LOG
from treering.extensions.wiki.files.rendering import render_pages
from treering.extensions.wiki.kept_wikis import KeptWikis
from treering.extensions.wiki.memories.space_memories import SpaceWikiMemories
from treering.extensions.wiki.memories.wiki_memory import WikiRepository
from treering.extensions.wiki.pages import WikiPage, WikiPlan, WikiWriter
from treering.extensions.wiki.rules.writer import RuleWriter
from treering.extensions.wiki.subject import WikiSubject, cited_texts, file_states, known_subject
from treering.verbs.engine import Engine, Progress
from treering.verbs.envelope import READS, Call, Operation, Value
from treering.verbs.trees import in_tree

_MOST_CHANGES = 10


class WikiPageInput(Value):
    """Which page."""

    path: str = Field(default="", description="Such as `modules/flask-app.md`; empty: the index.")
    repository: str = Field(default="", description="Name or origin of the repository, if there are several.")
    generated: str = Field(
        default="", description="repository_id of a wiki that `generate_wiki` stored: show this one."
    )
    branch: str = Field(default="", description="Branch of `generated`; default: the wiki without a branch.")


class WikiPageOptions(Value):
    """The state to show."""

    at: str = Field(
        default="",
        max_length=300,
        description="State on this branch or commit; default: the current work tree.",
    )


class ListedWikiPage(Value):
    """A page of the wiki."""

    path: str
    title: str
    kind: str


class WikiPageChange(Value):
    """A change of a file that the page is about."""

    at: Instant
    path: str
    what: str
    actor: str


class WikiPageReport(Value):
    """A page, as Markdown."""

    title: str
    """Of the wiki."""
    path: str
    text: str
    pages: tuple[ListedWikiPage, ...]
    """All pages, in reading order."""
    linked_from: tuple[ListedWikiPage, ...]
    """The pages that link to it."""
    changes: tuple[WikiPageChange, ...]
    """The last changes of its files, newest first."""


@dataclass(frozen=True, slots=True)
class _Wiki:
    """A wiki as it would be written now.

    `key`: the parameters it was written for. `sequence`: the last event of the audit log that it covers.
    """

    key: object
    sequence: int
    plan: WikiPlan
    pages: Sequence[WikiPage]
    texts: Mapping[str, str]
    linked_from: Mapping[str, Sequence[str]]
    """By the path of a page, the paths of the pages that link to it."""


_CACHE: WeakKeyDictionary[Any, _Wiki] = WeakKeyDictionary()
"""The last wiki of each open space, by its index: writing one takes seconds, and readers request several pages."""
_LOCK = Lock()
_MOST_EVENTS = 2_000
"""The maximum number of later audit events to check before the cached wiki is treated as outdated."""


def wiki_page(call: Call, given: WikiPageInput, options: WikiPageOptions) -> WikiPageReport:
    """Return a page of the wiki of a repository in the space. Raises `NotFound` with the most similar name."""
    subject = known_subject(call.engine, call.scope, given.repository)
    call = replace(call, engine=in_tree(call.engine, call.scope, at=options.at))
    wiki = _wiki(call, given, subject)
    path = given.path.strip().lstrip("/") or INDEX
    if path not in wiki.texts:
        raise NotFound(f"The wiki has no page {path!r}.", hint=nearest(path, wiki.texts))
    listed = {
        page.plan.path: ListedWikiPage(path=page.plan.path, title=page.plan.title, kind=page.plan.kind)
        for page in wiki.pages
    }
    shown = next((page for page in wiki.pages if page.plan.path == path), None)
    return WikiPageReport(
        title=wiki.plan.title,
        path=path,
        text=_without_log(without_matter(wiki.texts[path])),
        pages=tuple(listed.values()),
        linked_from=tuple(listed[one] for one in wiki.linked_from.get(path, ())),
        changes=tuple(_changes(call.engine, call.scope, subject, shown.plan.relevant_files)) if shown else (),
    )


def _without_log(text: str) -> str:
    """Remove the link to the log: no files are written here."""
    return "\n".join(one for one in text.split("\n") if f"]({LOG})" not in one)


def _linked_from(pages: Sequence[WikiPage]) -> dict[str, list[str]]:
    linked: dict[str, list[str]] = {}
    for page in pages:
        own = page.plan.path
        for path in {link.path for link in body_links(page.body) if link.scheme == "page"} - {own}:
            linked.setdefault(path, []).append(own)
    return linked


def _wiki(call: Call, given: WikiPageInput, subject: WikiSubject) -> _Wiki:
    engine = call.engine
    key = (call.scope, subject.root, given.generated, given.branch, call.tree.view if call.tree else None)
    sequence = engine.ledger.sequence()
    with _LOCK:
        cached = _CACHE.get(engine.index)
    if cached and cached.key == key and _is_current(engine, cached, "" if given.generated else subject.root):
        with _LOCK:
            _CACHE[engine.index] = replace(cached, sequence=sequence)
        return cached
    if given.generated:
        plan, pages = kept_wiki(engine, given.generated, given.branch)
    else:
        plan, pages = written_pages(RuleWriter(engine, call.scope, root=subject.root), engine.progress)
    addresses = forge_of(subject.remote) or no_address
    rendered = render_pages(plan, pages, addresses=addresses, cited_text=cited_texts(engine, pages))
    texts = {one.path: one.text for one in rendered}
    wiki = _Wiki(key, sequence, plan, pages, texts, _linked_from(pages))
    with _LOCK:
        _CACHE[engine.index] = wiki
    return wiki


def _is_current(engine: Engine, cached: _Wiki, root: str) -> bool:
    """Return whether nothing was written since, or only sources outside of `root`. No root: any write counts."""
    written = [event.target for event in engine.ledger.events(after=cached.sequence, limit=_MOST_EVENTS + 1)]
    if not written or not root:
        return not written
    sources = dict.fromkeys(target for target in written if target.startswith(f"{PREFIXES['source']}:"))
    if len(written) > _MOST_EVENTS or len(sources) < len(dict.fromkeys(written)):
        return False
    heads = engine.ledger.heads(list(sources)) if sources else {}
    # A missing source was erased, and may have been one of the root.
    return len(heads) == len(sources) and not any(_is_of(head.origin, root) for head in heads.values())


def _is_of(origin: str, root: str) -> bool:
    return origin == root or origin.startswith((f"{root}#", f"{root}/"))


def written_pages(writer: WikiWriter, progress: Progress) -> tuple[WikiPlan, list[WikiPage]]:
    """Plan and write all pages with a writer."""
    plan, pages = writer.plan(), list[WikiPage]()
    for number, page in enumerate(plan.pages):
        progress("Writing the wiki", number, len(plan.pages))
        pages.append(writer.write(plan, page))
    progress("Writing the wiki", len(plan.pages), len(plan.pages))
    return plan, pages


def kept_wiki(engine: Engine, repository_id: str, branch: str) -> tuple[WikiPlan, list[WikiPage]]:
    """Return the current generation of a wiki that agents wrote. Raises `NotFound` if the space has none."""
    kept = KeptWikis(engine, WikiRepository.of(repository_id, branch=branch), SpaceWikiMemories(engine))
    wiki = kept.current()
    if wiki is None:
        raise NotFound(
            f"The space has no wiki of {repository_id!r}" + (f" on {branch!r}." if branch else "."),
            hint="Generate it first: generate_wiki(…); or omit `generated` for a wiki made by rules.",
        )
    return wiki.plan, list(kept.pages(wiki).values())


def _changes(engine: Engine, scope: str, subject: WikiSubject, files: Sequence[str]) -> list[WikiPageChange]:
    states = file_states(engine, scope, subject.root, files)
    events = [(event, path) for path, state in states.items() for event in engine.ledger.events_of(state.id)]
    newest = sorted(events, key=lambda one: -one[0].seq)[:_MOST_CHANGES]
    return [
        WikiPageChange(at=event.timestamp, path=path, what=event.event_type, actor=event.actor)
        for event, path in newest
    ]


PAGE = Operation(
    "wiki page",
    "Show a page of the wiki as it would be written now, with the pages that link to it and the history of its files.",
    WikiPageInput,
    WikiPageOptions,
    WikiPageReport,
    wiki_page,
    rights=READS,
)
