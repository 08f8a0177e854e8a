"""The workflow: plan the pages, write them, publish them."""

import operator
import re
from pathlib import Path
from typing import Annotated, TypedDict, cast
from uuid import UUID

from langgraph.graph import START, StateGraph

from examples.wiki_generator.agents import create_page_agent, create_structure_agent
from examples.wiki_generator.models import LLMWikiStructureSchema, WikiPage
from treering.wiki import WikiMemoryService

_LINK = re.compile(r"\[(?P<label>[^\]]+)\]\((?P<path>[^)#]+)(?:#L(?P<first>\d+)-L(?P<last>\d+))?\)")


class WikiWorkflowState(TypedDict, total=False):
    """The state of the workflow."""

    repository_id: UUID
    repository_url: str
    branch: str
    repo_dir: str
    force_regenerate: bool
    structure: LLMWikiStructureSchema
    pages: Annotated[list[WikiPage], operator.add]


async def extract_structure_node(state: WikiWorkflowState) -> WikiWorkflowState:
    """Plan the pages; with `force_regenerate`, without the memories of earlier runs."""
    if state.get("force_regenerate", False):
        await WikiMemoryService.purge_for_repository(state["repository_id"])
    agent = await create_structure_agent()
    root = Path(state["repo_dir"])
    files = [path for path in sorted(root.rglob("[!.]*.*")) if path.is_file() and "/." not in path.as_posix()]
    listing = "\n".join(f"{path.stat().st_size} {path.relative_to(root).as_posix()}" for path in files)
    task = f"Plan the wiki of these files:\n{listing}"
    return {"structure": await agent.ainvoke({"messages": [("human", task)]}, config={"state": state})}


async def generate_pages_node(state: WikiWorkflowState) -> WikiWorkflowState:
    """Write the planned pages."""
    agent, planned = await create_page_agent(), state["structure"].pages
    paths, pages = [page.path for page in planned], []
    for page in planned:
        task = f"Write the page {page.path} about {page.file}. All pages: {', '.join(paths)}"
        result = await agent.ainvoke({"messages": [("human", task)]}, config={"state": state})
        body = with_valid_links(result["messages"][-1].text, Path(state["repo_dir"]).resolve(), paths)
        pages.append(WikiPage(repository_id=str(state["repository_id"]), path=page.path, title=page.title, body=body))
    return {"pages": pages}


async def publish_node(state: WikiWorkflowState) -> WikiWorkflowState:
    """Replace the pages of the repository."""
    await WikiPage.find(WikiPage.repository_id == str(state["repository_id"])).delete()
    await WikiPage.insert_many(state["pages"])
    return {}


def with_valid_links(body: str, root: Path, pages: list[str]) -> str:
    """Replace a link by its label if its page is not planned, or its lines do not contain the label."""

    def checked(link: re.Match[str]) -> str:
        file = (root / link["path"]).resolve()
        if link["path"] in pages:
            return link[0]
        if not (link["first"] and file.is_relative_to(root) and file.is_file()):
            return link["label"]
        lines = file.read_text(encoding="utf-8", errors="replace").split("\n")
        cited = "\n".join(lines[int(link["first"]) - 1 : int(link["last"])])
        return link[0] if link["label"].strip("`") in cited else link["label"]

    return _LINK.sub(checked, body)


_graph = StateGraph(WikiWorkflowState)
_graph.add_sequence([extract_structure_node, generate_pages_node, publish_node])
_graph.add_edge(START, "extract_structure_node")
wiki_workflow = _graph.compile()


async def generate_wiki(repository_id: UUID, force_regenerate: bool = False, *, repo_dir: str) -> WikiWorkflowState:
    """Generate the wiki of a work tree and publish it in the database that `init_database` has opened."""
    initial_state = WikiWorkflowState(repository_id=repository_id, force_regenerate=force_regenerate, repo_dir=repo_dir)
    return cast("WikiWorkflowState", await wiki_workflow.ainvoke(initial_state))
