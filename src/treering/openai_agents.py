"""Treering for the OpenAI Agents SDK: sessions, and recall before the model is called.

from treering.client import MemorySystemClient
from treering.openai_agents import TreeringSession

result = await Runner.run(agent, "Hello", session=TreeringSession("user-1", MemorySystemClient()))
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treering.frameworks.openai_agents import TreeringSession, recall_before_model

__all__ = ["TreeringSession", "recall_before_model"]


def __getattr__(name: str) -> Any:
    # Imported on first use, as in `treering`; where the framework is not installed, the error names the extra.
    from treering.frameworks.extras import offered

    return offered("openai_agents", name, __all__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
