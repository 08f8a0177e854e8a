"""The wiki of the repository that the space holds, page by page, as it would be written now."""

from treering.extensions.server.web.view import PageView, Preparing, Rendered, WebPage
from treering.extensions.wiki.reading import PAGE
from treering.extensions.wiki.showing import html_of

_BASE = "wiki/"


def write_wiki(view: PageView) -> Preparing:
    """Have the wiki written, so that its pages are at hand. Takes long in a space of many sources."""
    repository = view.text("repository")

    def work() -> None:
        if view.space.check():
            view.perform(PAGE, {"repository": repository})

    return Preparing(
        ("wiki", view.space.scope, repository), work, "treering.extensions.wiki:templates/wiki_under_way.html"
    )


def wiki(view: PageView) -> Rendered:
    """Show a page; without a path the index. Raises `NotFound` where the space holds no repository."""
    path = str(view.path.get("page", ""))
    given = {"path": path, "repository": view.text("repository")}
    told = view.perform(PAGE, given)
    body = html_of(told.text, told.path, headings=True, base=f"{view.base}/{_BASE}")
    return Rendered(
        "treering.extensions.wiki:templates/wiki.html",
        {
            "wiki": told,
            # Made from Markdown without raw HTML, with links that lead to pages here or to the web. A head without
            # words is not a head to somebody who listens.
            "body": body.replace("<th></th>", "<td></td>"),
            "command": ("treering", "wiki", "page", told.path),
        },
    )


PAGES = (
    WebPage("/wiki", wiki, "Wiki", prepare=write_wiki),
    WebPage("/wiki/{page:path}", wiki, prepare=write_wiki),
)
