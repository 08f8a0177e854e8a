"""Small wikis for tests: pages made by hand, as a writer would make them."""

from treering.extensions.wiki.pages import LineCitation, PageKind, PagePlan, WikiPage, WikiPlan

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def cite(path="src/app.py", first=1, last=9, commit=COMMIT):
    return LineCitation(path, first, last, commit, "hash", "source:1", "segment:1")


def page(path, title, body="", *, kind=PageKind.MODULE, cited=(), purpose="What it is for.", aliases=()):
    plan = PagePlan(path, title, kind, purpose, tuple(one.path for one in cited), aliases=aliases)
    return WikiPage(plan, f"# {title}\n\n{body}", tuple(cited))


def wiki(*pages, title="Acme", description="A shop."):
    return WikiPlan(title, description, tuple(one.plan for one in pages)), list(pages)


def small_wiki(rules="Rules match paths."):
    return wiki(
        page("overview.md", "Overview", "See [routing](page:modules/routing.md#rules).", kind=PageKind.OVERVIEW),
        page(
            "modules/routing.md",
            "Routing",
            f"It is [here](source:src/app.py#L1-L9).\n\n## Rules\n\n{rules}\n\n"
            "## Errors\n\nBack to [all](page:overview.md).",
            cited=[cite()],
        ),
    )
