"""Call a verb on an open space and print its report."""

from treering.surfaces.cli.flags import Access, WriteFlags
from treering.surfaces.cli.rendering import render
from treering.surfaces.cli.session import answer, embed_later, is_piped, rights_of_verbs
from treering.surfaces.python.space import Space
from treering.verbs import catalog
from treering.verbs.envelope import Envelope, Report, Verb


def call(space: Space, verb: Verb, envelope: Envelope) -> Report:
    """Call a verb with the rights of a command."""
    return catalog.call(space.engine, verb, envelope, granted=rights_of_verbs())


def write(space: Space, envelope: Envelope, access: Access, writing: WriteFlags) -> None:
    """Call `crystallize`, print the receipt and embed the new texts in the background."""
    answer_report(space, call(space, "crystallize", envelope), access)
    embed_later(space, writing)


def answer_report(space: Space, report: Report, access: Access) -> None:
    """Print the report of a call."""
    answer(access, report, render(report, fenced=is_piped(), verbose=access.verbose, ledger=space.engine.ledger))
