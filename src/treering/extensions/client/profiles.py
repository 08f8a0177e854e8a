"""Profiles of agents, as data: memories each prefers, their number, and the switches of the ranking."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from treering.core.errors import nearest


class ConfigSection(BaseModel):
    """A frozen part of a configuration."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, given: Any) -> Any:
        if isinstance(given, Mapping):
            for key in given:
                if str(key) not in cls.model_fields:
                    raise ValueError(f"unknown key {str(key)!r}. {nearest(str(key), sorted(cls.model_fields))}")
        return given


def plain_data(given: Any) -> Any:
    """Return nested mappings and lists of any kind, such as Hydra's, as dictionaries and lists."""
    if isinstance(given, Mapping):
        return {str(key): plain_data(given[key]) for key in given}
    if isinstance(given, Sequence) and not isinstance(given, str | bytes):
        return [plain_data(one) for one in given]
    return given


class Switches(ConfigSection):
    """Options of the ranking, all off by default. `None` in a profile: the client's value."""

    enable_reranking: bool | None = None
    """Rerank the best with a cross-encoder, if there is one; otherwise the trace reports it."""
    enable_mmr: bool | None = None
    """Prefer memories that differ from those ranked above (maximal marginal relevance)."""
    enable_temporal_weighting: bool | None = None
    """Weight by age: half after a week."""
    enable_success_weighting: bool | None = None
    """Prefer successes to failures."""
    enable_failure_pattern_matching: bool | None = None
    """Prefer failures, in particular of a tool or kind of error named in the query."""
    enable_deduplication: bool | None = None
    """Show one of several with the same URL, or the same or nearly the same text."""
    enable_recency_bias: bool | None = None
    """Prefer the newest results."""
    enable_cross_reference_expansion: bool | None = None
    """Also return memories referenced by the best ones, even if they do not match."""

    def over(self, base: "Switches") -> "Switches":
        """Return these switches, with the values of `base` for unset ones."""
        own = {name: value for name in Switches.model_fields if (value := getattr(self, name)) is not None}
        return Switches(**{**{name: getattr(base, name) for name in Switches.model_fields}, **own})

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the enabled switches."""
        return tuple(name for name in Switches.model_fields if getattr(self, name))


class ProfileConfig(Switches):
    """A profile in a configuration: the keys `enable_…` are its switches."""

    priorities: tuple[str, ...] = ()
    max_items: int | None = Field(default=None, ge=1, le=200)
    relevance_threshold: float | None = Field(default=None, ge=0, le=1)


class AgentProfile(ConfigSection):
    """The memory profile of one kind of agent.

    `priorities` are memory types, tags or metadata keys; earlier ones weigh more. `max_items` limits the number of
    retrieved memories and is its default; `relevance_threshold` replaces `min_similarity`.
    """

    agent_type: str
    name: str = ""
    priorities: tuple[str, ...] = ()
    max_items: int | None = Field(default=None, ge=1, le=200)
    relevance_threshold: float | None = Field(default=None, ge=0, le=1)
    switches: Switches = Switches()

    @classmethod
    def of(cls, agent_type: str, config: ProfileConfig) -> "AgentProfile":
        """Return the profile of a configuration."""
        own = {name: value for name, value in config if name not in Switches.model_fields}
        switches = Switches(**{name: getattr(config, name) for name in Switches.model_fields})
        return cls(agent_type=agent_type, name=agent_type, switches=switches, **own)


BUILT_IN: Mapping[str, dict[str, Any]] = {
    "bioinformatics": {
        "priorities": ("papers", "genes", "blast_results", "protein_sequences"),
        "max_items": 15,
        "relevance_threshold": 0.7,
        "enable_cross_reference_expansion": True,
    },
    "prime": {
        "priorities": ("tool_history", "molecular_constraints", "design_iterations"),
        "max_items": 10,
        "relevance_threshold": 0.8,
        "enable_temporal_weighting": True,
    },
    "planner": {
        "priorities": ("previous_plans", "execution_outcomes", "failure_patterns"),
        "max_items": 5,
        "relevance_threshold": 0.75,
        "enable_success_weighting": True,
    },
    "executor": {
        "priorities": ("tool_failures", "adaptive_replans", "parameter_tunings"),
        "max_items": 8,
        "relevance_threshold": 0.65,
        "enable_failure_pattern_matching": True,
    },
    "deepsearch": {
        "priorities": ("visited_urls", "search_queries", "extracted_snippets"),
        "max_items": 12,
        "relevance_threshold": 0.7,
        "enable_deduplication": True,
    },
}
"""The built-in profiles; a configuration can change their keys and add others."""


MIN_SIMILARITY = 0.7
"""The threshold if neither a configuration nor a profile sets one."""
