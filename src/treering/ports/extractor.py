"""The port for finding what a text speaks of: entities, and triples that say how they are related."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from treering.core.evidence import Triple

Form = Literal["prose", "dialogue", "code", "data"]
EntityKind = Literal["name", "title", "date", "number", "phrase", "speaker", "symbol", "module", "heading"]


@dataclass(frozen=True, slots=True)
class Excerpt:
    """One passage to read.

    `title` is what its source is called, `heading` what the stretch itself is called (a heading path, a symbol),
    `speaker` who says it where it is a turn of a conversation.
    """

    text: str
    title: str = ""
    heading: str = ""
    form: Form = "prose"
    speaker: str = ""


@dataclass(frozen=True, slots=True)
class Entity:
    """Something a text speaks of, as it is written there.

    `start` and `end` are character offsets in the excerpt's text, end exclusive; both are 0 where the entity
    comes from the title, the heading or the speaker.
    """

    name: str
    kind: EntityKind
    start: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True)
class Extraction:
    """What was found in one excerpt, in order of appearance; an entity may occur more than once."""

    entities: tuple[Entity, ...] = ()
    triples: tuple[Triple, ...] = ()


class Extractor(Protocol):
    """Finds entities and triples."""

    @property
    def extractor_id(self) -> str:
        """What made the extraction: name and version; of a model, also its name and the version of the prompt."""
        ...

    def extract(self, excerpts: Sequence[Excerpt]) -> Sequence[Extraction]:
        """Read excerpts, each by itself; return one extraction for each, in the order given."""
        ...
