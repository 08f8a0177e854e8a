"""Call a verb on an open space and print its report."""

from pathlib import Path

from treering.core.errors import InvalidInput, Unavailable
from treering.surfaces.cli.flags import Access, WriteFlags
from treering.surfaces.cli.rendering import render
from treering.surfaces.cli.session import answer, embed_later, is_piped, rights_of_verbs
from treering.surfaces.python.space import Space
from treering.system.machine import write_new
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


def prove(space: Space, envelope: Envelope, file: Path, key: Path | None) -> Report:
    """Gather a context and write its proof to a new file, signed with the ssh key if there is one.

    Raises `InvalidInput` if the file exists, `Unavailable` if it cannot be written.
    """
    from treering.spaces.proof import PROVE, signed  # most queries have no proof

    given = {"task": envelope.input} if isinstance(envelope.input, str) else envelope.input
    answer_and_proof = space.perform(PROVE, envelope.scope, given, envelope.options)
    proof = answer_and_proof.proof
    try:
        write_new(file, (signed(proof, key) if key else proof).encode())
    except FileExistsError:
        raise InvalidInput(f"{file} already exists.", hint="Give the name of a new file.") from None
    except OSError as error:
        raise Unavailable(f"{file} cannot be written: {error.strerror}.", hint="Give another file name.") from error
    return answer_and_proof.context
