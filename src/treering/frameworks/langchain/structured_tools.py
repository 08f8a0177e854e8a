"""Tools of LangChain, made in any thread."""

from collections.abc import Callable
from threading import Lock
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool

_SIGNATURES = Lock()


def structured_tool(function: Callable[..., Any], **settings: Any) -> BaseTool:
    """Return a tool with the parameters of a function. `settings`: as in `StructuredTool.from_function`.

    While langchain-core reads a signature, it silences warnings of its own, which threads would undo for each other.
    """
    with _SIGNATURES:
        return StructuredTool.from_function(function, **settings)
