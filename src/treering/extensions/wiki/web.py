"""The wiki of the space's repository, page by page, as it would be written now."""

from treering.extensions.server.web.view import PageView, Preparing, Rendered, WebPage
from treering.extensions.wiki.reading import PAGE
from treering.extensions.wiki.showing import html_of

_BASE = "wiki/"


def write_wiki(view: PageView) -> Preparing:
    """Write the wiki in the background; slow in a large space."""
    repository = view.text("repository")

    def work() -> None:
        if view.space.check():
            view.perform(PAGE, {"repository": repository})

    return Preparing(
        ("wiki", view.space.scope, repository), work, "treering.extensions.wiki:templates/wiki_under_way.html"
    )


def wiki(view: PageView) -> Rendered:
    """Show a page, by default the index. Raises `NotFound` if the space has no repository."""
    path = str(view.path.get("page", ""))
    given = {"path": path, "repository": view.text("repository")}
    report = view.perform(PAGE, given)
    body = html_of(report.text, report.path, headings=True, base=f"{view.base}/{_BASE}")
    return Rendered(
        "treering.extensions.wiki:templates/wiki.html",
        {
            "wiki": report,
            # Safe: made from Markdown without raw HTML, with links only to pages here or to the web. Screen readers
            # expect a header cell to have text.
            "body": body.replace("<th></th>", "<td></td>"),
            "command": ("treering", "wiki", "page", report.path),
        },
    )


PAGES = (
    WebPage("/wiki", wiki, "Wiki", prepare=write_wiki),
    WebPage("/wiki/{page:path}", wiki, prepare=write_wiki),
)
