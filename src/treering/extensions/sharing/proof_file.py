"""The option `--proof` of `treering query`: an answer, and its proof in a new file."""

from pathlib import Path

from treering.core.errors import InvalidInput, Unavailable
from treering.extensions.sharing.proof import PROVE, signed
from treering.surfaces.python.space import Space
from treering.system.machine import write_new
from treering.verbs.envelope import Envelope, Report


def prove(space: Space, envelope: Envelope, file: Path, key: Path | None) -> Report:
    """Gather a context and write its proof to a new file, signed with the ssh key if there is one.

    Raises `InvalidInput` if the file exists, `Unavailable` if it cannot be written.
    """
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
