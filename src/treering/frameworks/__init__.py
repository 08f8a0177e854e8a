"""Adapters to agent frameworks: one module each, imported by no other module. This module lists their packages."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from treering.core.errors import MissingExtra


@dataclass(frozen=True, slots=True)
class Framework:
    """A framework: its name for people, the extra that installs it, and a package to check for."""

    title: str
    extra: str
    package: str
    further: tuple[str, ...] = ()
    """Packages that some names of the adapter need besides; the extra installs them, too."""

    @property
    def needs(self) -> frozenset[str]:
        """Return the first import of each of its packages."""
        return frozenset(name.partition(".")[0] for name in (self.package, *self.further))


FRAMEWORKS: Mapping[str, Framework] = {
    "agent_framework": Framework("Microsoft Agent Framework", "agent-framework", "agent_framework"),
    "anthropic": Framework("The Anthropic memory tool", "anthropic", "anthropic"),
    "claude_agent_sdk": Framework("The Claude Agent SDK", "claude-agent-sdk", "claude_agent_sdk"),
    "crewai": Framework("CrewAI", "crewai", "crewai"),
    "google_adk": Framework("Google ADK", "google-adk", "google.adk"),
    "haystack": Framework("Haystack", "haystack", "haystack"),
    "langchain": Framework("LangChain", "langchain", "langchain_core", ("langchain", "langgraph")),
    "langgraph": Framework("LangGraph", "langgraph", "langgraph"),
    "llama_index": Framework("LlamaIndex", "llama-index", "llama_index"),
    "openai_agents": Framework("The OpenAI Agents SDK", "openai-agents", "agents"),
    "pydantic_ai": Framework("Pydantic AI", "pydantic-ai", "pydantic_ai"),
    "pydantic_ai_harness": Framework("Pydantic AI Harness", "pydantic-ai-harness", "pydantic_ai_harness"),
    "strands": Framework("Strands Agents", "strands", "strands"),
}
"""By adapter module; `treering.MODULE` exports its public names."""


def imported(adapter: str, name: str, framework: Framework) -> Any:
    """Return a name from the module `adapter`. Raises `MissingExtra` if its framework is not installed."""
    try:
        return getattr(import_module(adapter), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in framework.needs:
            raise
        raise MissingExtra(framework.extra, needed_for=framework.title) from error


def missing_extra(
    error: ModuleNotFoundError, extras: Mapping[str, str], framework: str, *, needed_for: str
) -> Exception:
    """Return the error for a missing package: `MissingExtra` if an extra installs it, else the original error."""
    package = (error.name or "").partition(".")[0]
    if framework and package in FRAMEWORKS[framework].needs:
        return MissingExtra(FRAMEWORKS[framework].extra, needed_for=FRAMEWORKS[framework].title)
    return MissingExtra(extras[package], needed_for=needed_for) if package in extras else error
