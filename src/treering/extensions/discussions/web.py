"""Web pages: the list of discussions, and one discussion with its memories and latest messages."""

from typing import Any

from treering.extensions.discussions import operations as discussion
from treering.extensions.discussions.operations import DiscussionsFound
from treering.extensions.server.web.pages.ask import marked
from treering.extensions.server.web.view import PageView, Rendered, WebPage

_MESSAGES = 30
_MEMORIES = 30
_FOUND = 20


def list_discussions(view: PageView) -> Rendered:
    """Show the stored discussions, and the results of a search in all of them."""
    report = view.perform(discussion.LIST, {})
    question = view.text("q")
    is_searched = question and report.discussions
    found = view.perform(discussion.SEARCH, {"query": question}, limit=_FOUND) if is_searched else None
    return Rendered(
        "treering.extensions.discussions:templates/discussions.html",
        {"report": report, **_search_data(found, question), "command": ("treering", "discussion", "list")},
    )


def show_discussion(view: PageView) -> Rendered:
    """Show the memories of one discussion, and its latest messages or the results of a search."""
    identity = view.path["identity"]
    shown = view.perform(discussion.SHOW, {"id": identity}, memories=_MEMORIES, messages=_MESSAGES)
    question = view.text("q")
    found = view.perform(discussion.SEARCH, {"query": question, "id": identity}, limit=_FOUND) if question else None
    return Rendered(
        "treering.extensions.discussions:templates/discussion.html",
        {"shown": shown, **_search_data(found, question), "command": ("treering", "discussion", "show", identity)},
    )


def _search_data(found: DiscussionsFound | None, question: str) -> dict[str, Any]:
    hits = [(one.discussion, one.found, marked(one.found.text, question)) for one in found.found] if found else []
    return {"question": question, "found": found, "hits": hits}


PAGES = (
    WebPage("/discussions", list_discussions, "Discussions"),
    WebPage("/discussions/{identity}", show_discussion),
)
