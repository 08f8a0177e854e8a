"""What each kind of knowledge says, as one model per kind."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from treering.core.canonical import Json, normalise_text


class _Payload(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Fact(_Payload):
    """`subject predicate object` for a relation, `subject predicate value` for an attribute.

    An attribute has one value at a time; a relation may have many unless the space's rules say otherwise.
    """

    subject: str = Field(min_length=1)
    predicate: str = Field(min_length=1)
    object: str | None = None
    value: Json = None

    @property
    def relation(self) -> str:
        """The predicate as it is compared: `lives in` and `Lives_in` are one relation."""
        return normalise_text(self.predicate).replace(" ", "_")

    @model_validator(mode="after")
    def _has_one_end(self) -> "Fact":
        if (self.object is None) == (self.value is None):
            raise ValueError("a fact has exactly one of 'object' and 'value'")
        return self


class Procedure(_Payload):
    """Steps that lead somewhere."""

    steps: tuple[str, ...] = Field(min_length=1)
    preconditions: tuple[str, ...] = ()
    expected_outcome: str = ""


class Decision(_Payload):
    """A question that was settled, and why."""

    question: str = Field(min_length=1)
    outcome: str = ""
    rationale: str = ""
    alternatives: tuple[str, ...] = ()

    @property
    def asked(self) -> str:
        """The question as it is compared: `Which store?` and `which  store` are one question."""
        return normalise_text(self.question).rstrip("?!. ")


class Constraint(_Payload):
    """A rule to keep, where it holds, and what breaking it costs."""

    rule: str = Field(min_length=1)
    scope: str = ""
    violation_impact: str = ""


class Preference(_Payload):
    """How somebody likes things."""

    statement: str = Field(min_length=1)
    scope: str = ""


SummaryForm = Literal["memory", "condensation", "rolling_summary", "state_document", "digest"]


class Summary(_Payload):
    """A shorter account of everything it rests on; its text is the `summary` of the knowledge.

    It holds only while all of that holds: what was withdrawn must not live on in a summary. `key` tells it from
    others of its scope. `first` and `last` are the positions of the messages it tells of, where it tells of any.
    `by_hand` and `struck_by_hand` are lines that a person wrote into it or struck out. `made_by` names what wrote
    it: a model with the version of its prompt, or a built-in rule.
    """

    form: SummaryForm
    key: str = Field(min_length=1)
    entities: tuple[str, ...] = ()
    key_phrases: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    sentiment: str = ""
    first: int | None = Field(default=None, ge=0)
    last: int | None = Field(default=None, ge=-1)
    by_hand: tuple[str, ...] = ()
    struck_by_hand: tuple[str, ...] = ()
    made_by: str = ""


Payload = Fact | Procedure | Decision | Constraint | Preference | Summary

PAYLOADS: dict[str, type[Payload]] = {
    "fact": Fact,
    "procedure": Procedure,
    "decision": Decision,
    "constraint": Constraint,
    "preference": Preference,
    "summary": Summary,
}
