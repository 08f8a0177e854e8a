"""Discussion memory: what is found again of long conversations, and what a long one costs."""

from benchmarks.conversations import recalls
from benchmarks.figures import Row
from benchmarks.long_discussion import growth
from benchmarks.plan import Plan


def measure(plan: Plan) -> list[Row]:
    """Measure recall of evidence on labelled conversations, and the costs of a discussion that grows."""
    return [*growth(plan), *recalls(plan)]
