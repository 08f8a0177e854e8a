"""The agents: their tools, their middleware, and the form of their answers."""

import os
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain.agents import middleware as layers
from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, tool
from pydantic import BaseModel

from examples.wiki_generator.models import LLMWikiStructureSchema
from examples.wiki_generator.scripted import ScriptedWriter
from treering.langchain import WikiMemoryMiddleware


def get_llm() -> BaseChatModel:
    """Return the model in `WIKI_MODEL`, such as `openai:gpt-5-mini`, else a scripted one."""
    name = os.environ.get("WIKI_MODEL")
    return init_chat_model(name) if name else ScriptedWriter()


@tool
def read_text_file(path: str, config: RunnableConfig) -> str:
    """Read a file of the repository."""
    root = Path(config["configurable"]["state"]["repo_dir"]).resolve()
    file = (root / path).resolve()
    if not (file.is_relative_to(root) and file.is_file()):
        return f"There is no file {path} in the repository."
    return file.read_text(encoding="utf-8", errors="replace")


async def get_mcp_tools(names: list[str]) -> list[BaseTool]:
    """Return tools by name: one of our own, in place of those of a file-system server for MCP."""
    return [one for one in (read_text_file,) if one.name in names]


class StructuredAgentWrapper:
    """An agent whose last messages are put in the form of a schema."""

    def __init__(self, agent: Any, llm: BaseChatModel, schema: type[BaseModel]) -> None:
        self.agent, self.llm, self.schema = agent, llm, schema

    async def ainvoke(self, given: dict[str, Any], config: Any = None) -> Any:
        """Run the agent, and return the answer in the form of the schema."""
        result = await self.agent.ainvoke(given, config=config)
        return await self.llm.with_structured_output(self.schema).ainvoke(result["messages"])


async def create_structure_agent() -> StructuredAgentWrapper:
    """Create the agent that plans the pages."""
    llm = get_llm()
    tools = await get_mcp_tools(["read_text_file", "read_multiple_files"])
    prompt = "Plan a wiki: a page for each of the files that matter most."
    agent = create_agent(llm, tools, system_prompt=prompt, middleware=_middleware("structure_agent", llm))
    return StructuredAgentWrapper(agent=agent, llm=llm, schema=LLMWikiStructureSchema)


async def create_page_agent() -> Any:
    """Create the agent that writes a page."""
    llm = get_llm()
    tools = await get_mcp_tools(["list_directory_with_sizes", "read_text_file", "read_multiple_files"])
    prompt = "Write a page in Markdown. Link to lines as [`name`](src/app.py#L1-L5), and to pages by their paths."
    return create_agent(llm, tools, system_prompt=prompt, middleware=_middleware("page_agent", llm))


def _middleware(source_agent: str, llm: BaseChatModel) -> list[layers.AgentMiddleware[Any, Any, Any]]:
    return [
        WikiMemoryMiddleware(source_agent),
        layers.TodoListMiddleware(),
        layers.SummarizationMiddleware(model=llm, trigger=("tokens", 100_000)),
        # "error": by default, a page would consist of the message of the last failure.
        layers.ModelRetryMiddleware(max_retries=3, backoff_factor=2.0, initial_delay=1.0, on_failure="error"),
        layers.ToolRetryMiddleware(max_retries=3, backoff_factor=2.0, initial_delay=1.0),
    ]
