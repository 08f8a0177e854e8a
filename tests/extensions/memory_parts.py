"""Projects in a folder without a model, a ticket, and supervisors, workers and models that note what they are told."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

import treering
from treering.extensions.encoder.asking import Budget
from treering.extensions.encoder.language_model import Answer, Usage
from treering.extensions.projects.supervisor import Assessment, Briefing, Response
from treering.extensions.projects.ticket import Ticket
from treering.ports.ledger import Selection
from treering.testing.fakes import HashingEmbedder

CACHE = Ticket(id="T-1", title="Fix the cache", description="It serves stale pages after a deploy")
LESSON = "Keys now carry the version of the deploy"


def open_projects(folder, **options):
    return treering.open_projects(folder, **{"background": False, "embedder": HashingEmbedder(), **options})


def objects(memory, project, kind=()):
    """Return all objects of a project, or those of a type, oldest first."""
    with memory.engine(project) as engine:
        types = (kind,) if kind else ()
        return list(engine.ledger.select(Selection(scope="/", descend=True, types=types)))


def documents(memory, project):
    """Return the texts of all documents a project holds now."""
    active = [item for item in objects(memory, project, "source") if item.status == "active"]
    return [segment.excerpt for item in active for segment in item.segments]


def outcomes(report):
    return [result.outcome for result in report.results]


def go_on(prompt):
    return Assessment(complete=False, next_prompt=prompt)


def done(summary=LESSON):
    return Assessment(complete=True, summary=summary)


@dataclass
class NotingWorker:
    """Answers with its answers in turn, then with the last one; notes what it was told."""

    answers: Sequence[str | Response] = ("I looked.",)
    told: list[str] = field(default_factory=list)

    def work(self, prompt: str, *, seconds: float) -> Response:
        answer = self.answers[min(len(self.told), len(self.answers) - 1)]
        self.told.append(prompt)
        return answer if isinstance(answer, Response) else Response(answer)


@dataclass
class NotingAssessor:
    """Judges by a function of the briefing; notes every briefing."""

    judge: Callable[[Briefing], Assessment]
    briefings: list[Briefing] = field(default_factory=list)

    def assess(self, briefing: Briefing, *, budget: Budget) -> Assessment:
        self.briefings.append(briefing)
        return self.judge(briefing)


@dataclass
class NotingModel:
    """A language model that answers by a function of the prompt; notes every prompt. A request costs a cent."""

    reply: Callable[[str], str]
    prompts: list[str] = field(default_factory=list)
    model_id: str = "noting"

    def answer(self, prompt: str, *, system: str = "", max_output_tokens: int = 2_000) -> Answer:
        self.prompts.append(prompt)
        return Answer(self.reply(prompt), Usage(1, 10, 10, Decimal("0.01")))

    def price(self, *, input_tokens: int, output_tokens: int) -> Decimal | None:
        return Decimal("0.01")
