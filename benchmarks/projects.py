"""The memory of a project: documents with given triples in, questions, one document more and less."""

from benchmarks.costs import milliseconds
from benchmarks.data import MissingData, place_of
from benchmarks.figures import Figure, Missing, Row, at_most
from benchmarks.plan import Plan, workplace
from benchmarks.processes import probe

_PASSAGES = 1_889  # so many others were measured on
_QUICK_PASSAGES = 200


def measure(plan: Plan) -> list[Row]:
    """Index passages with given triples in a process of its own, and use them there."""
    size = _QUICK_PASSAGES if plan.quick else _PASSAGES
    try:
        place_of("musique-triples")
    except MissingData as missing:
        return [Missing("project memory", str(missing))]
    with workplace() as folder:
        answer = probe("index_project", folder=str(folder / "projects"), passages=size)
    stated = f"{answer['triples']:,} triples"
    name = f"project memory: index {size:,} documents with given triples, besides encoding"
    return [
        Figure(name, answer["cpu"], "s CPU", at_most(2), stated),
        Figure(
            "— peak memory beyond the imports", answer["memory"], "MiB", at_most(300), f"{answer['peak']:.0f} in all"
        ),
        *(
            Figure(f"— {name}", milliseconds(answer[key]["cpu"]), "ms CPU", target, _wall(answer[key]["wall"]))
            for key, name, target in (
                ("retrieve", "retrieve besides encoding, per query", None),
                ("add", "index one document more, its vector later", at_most(10)),
                ("delete", "delete one document", at_most(10)),
            )
        ),
    ]


def _wall(seconds: float) -> str:
    return f"wall {milliseconds(seconds):,.3g} ms"
