"""Plans and pages of a wiki as JSON data, as they are kept between the steps of a generation."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from treering.core.errors import InvalidInput
from treering.memories.wiki.files.page_paths import check_page_paths
from treering.memories.wiki.pages import LineCitation, PageKind, PagePlan, WikiPage, WikiPlan

MOST_PAGES = 2_000


def plan_data(plan: WikiPlan) -> dict[str, Any]:
    """Return a plan as JSON data."""
    return {"title": plan.title, "description": plan.description, "pages": [*map(_planned, plan.pages)]}


def plan_of(data: Mapping[str, Any]) -> WikiPlan:
    """Read what `plan_data` returned."""
    return WikiPlan(str(data["title"]), str(data["description"]), tuple(map(_page_plan, data["pages"])))


def page_data(page: WikiPage) -> dict[str, Any]:
    """Return a page as JSON data."""
    return {"plan": _planned(page.plan), "body": page.body, "citations": [asdict(one) for one in page.citations]}


def page_of(data: Mapping[str, Any]) -> WikiPage:
    """Read what `page_data` returned."""
    citations = tuple(LineCitation(**one) for one in data["citations"])
    return WikiPage(_page_plan(data["plan"]), str(data["body"]), citations)


def check_plan(plan: WikiPlan) -> None:
    """Raise `InvalidInput` for a plan without pages, with too many, or with a path that cannot be a page's."""
    if not 1 <= len(plan.pages) <= MOST_PAGES:
        raise InvalidInput(f"The plan has {len(plan.pages)} pages.", hint=f"Plan from 1 to {MOST_PAGES} pages.")
    check_page_paths(page.path for page in plan.pages)


def _planned(page: PagePlan) -> dict[str, Any]:
    told = asdict(page)
    return {**told, "kind": page.kind.value, "relevant_files": [*page.relevant_files], "aliases": [*page.aliases]}


def _page_plan(data: Mapping[str, Any]) -> PagePlan:
    return PagePlan(
        path=str(data["path"]),
        title=str(data["title"]),
        kind=PageKind(data["kind"]),
        purpose=str(data["purpose"]),
        relevant_files=tuple(data["relevant_files"]),
        importance=float(data["importance"]),
        aliases=tuple(data["aliases"]),
    )
