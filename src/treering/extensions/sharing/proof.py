"""An answer with its proof: the cited objects as stored in the ledger, and the audit log from there to its head.

A proof can be checked without the space (`proof_checking`): each object by its hash in the log, each text by its
hash in the object, the log by its chain, and cited lines against a clone. The answer itself, which rules select and
order, is bound by the digest of the whole, and by a signature if there is one.
"""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from treering.core.audit import AuditEvent
from treering.core.canonical import canonical_json, render_time
from treering.core.errors import Denied, InvalidInput, Unavailable
from treering.core.objects import Object, Source, stored_form
from treering.core.scope import ROOT
from treering.extensions.sharing import proof_checking
from treering.extensions.sharing.proof_checking import FORMAT, VERSION, digest_of
from treering.ports.ledger import ObjectRequest
from treering.system import git_start
from treering.system.settings import login_name
from treering.verbs.envelope import READS, Call, Operation, Value
from treering.verbs.query.context import ContextInput, ContextReport, context
from treering.verbs.reading import SearchOptions
from treering.version import __version__

_MOST_EVENTS = 200_000
"""Of the log, in one proof: about 80 MB."""


class Proven(Value):
    """An answer, and the proof to write to a file."""

    context: ContextReport
    proof: str = Field(repr=False)


def prove(call: Call, given: ContextInput, options: SearchOptions) -> Proven:
    """Gather context for a task and prove its citations.

    Raises `Denied` at a scope below the root, because a proof contains the log of the whole space. Raises
    `InvalidInput` for a past answer, for an answer without citations, and if the log behind the oldest citation is too
    long.
    """
    if call.scope != ROOT:
        raise Denied("A proof contains the log of the whole space.", hint="Use the scope /.")
    if options.as_of is not None:
        raise InvalidInput("A proof covers only the current state.", hint="Omit as_of.")
    report = context(call, given, options)
    if not report.pack.citations:
        raise InvalidInput(
            "The answer cites nothing, so there is nothing to prove.", hint="Ask about something that the space knows."
        )
    sequence = call.engine.ledger.sequence()
    ids = tuple(dict.fromkeys((*(item.object_id for item in report.pack.items), *_cited(report))))
    objects = call.engine.ledger.read([ObjectRequest(objects=ids, as_of=sequence)])[0].objects
    proof = {
        "format": FORMAT,
        "version": VERSION,
        "treering": __version__,
        "made_at": render_time(call.engine.clock.now()),
        "scope": call.scope,
        "task": report.pack.task,
        "answer": report.text,
        "cited": [
            {"mark": one.mark, "object_id": one.object_id, "segment_id": one.segment_id, "place": one.place}
            for one in report.pack.citations
        ],
        "objects": {identity: _held(objects[identity], report) for identity in ids},
        **_log(call, objects, sequence),
    }
    return Proven(context=report, proof=canonical_json({**proof, "digest": digest_of(proof)}) + "\n")


def signed(proof: str, key: Path) -> str:
    """Sign a proof with a private ssh key. The comment of the public key next to it names the signer.

    Raises `InvalidInput` if the key cannot be used, and `Unavailable` without `ssh-keygen`.
    """
    fields: dict[str, Any] = json.loads(proof)
    command = ["ssh-keygen", "-Y", "sign", "-q", "-n", FORMAT, "-f", str(key)]
    try:
        public = key.with_name(f"{key.name}.pub").read_text(encoding="utf-8").split(maxsplit=2)
        done = subprocess.run(command, input=fields["digest"].encode(), capture_output=True)  # noqa: S603 - the words are ours, and a path
    except FileNotFoundError as error:
        if error.filename == command[0]:
            raise Unavailable("ssh-keygen is not installed.", hint="Install OpenSSH.") from error
        raise InvalidInput(f"The public key {error.filename} does not exist.", hint="Give an SSH key.") from error
    if done.returncode:
        said_why = done.stderr.decode().strip()
        raise InvalidInput(f"ssh-keygen cannot sign with {key}: {said_why}", hint="Give an SSH key.")
    signer = public[2].strip() if len(public) > 2 else login_name()
    return canonical_json({**fields, "signature": {"signer": signer, "ssh": done.stdout.decode()}}) + "\n"


def checker() -> str:
    """Return the checker of proofs as one program that needs no Treering, with the module that starts git in it."""
    needed = "from treering.system.git_start import objects_of\n"
    program = Path(proof_checking.__file__).read_text(encoding="utf-8")
    return program.replace(needed, Path(git_start.__file__).read_text(encoding="utf-8"))


def _cited(report: ContextReport) -> list[str]:
    return [citation.object_id for citation in report.pack.citations]


def _held(item: Object, report: ContextReport) -> Mapping[str, Any]:
    cited = {one.segment_id for one in report.pack.citations if one.object_id == item.id}
    segments = item.segments if isinstance(item, Source) else ()
    texts = {segment.segment_id: segment.excerpt for segment in segments if segment.segment_id in cited}
    return {"stored": stored_form(item), "segments": texts}


def _log(call: Call, objects: Mapping[str, Object], sequence: int) -> Mapping[str, Any]:
    """Return the events from the oldest one that determines an object's state, and the last of them as the head."""
    first = min(_newest(call.engine.ledger.events_of(identity), sequence) for identity in objects)
    if (count := sequence - first + 1) > _MOST_EVENTS:
        raise InvalidInput(
            f"The log has {count:,} events since the oldest cited object; a proof contains at most {_MOST_EVENTS:,}.",
            hint="Request less, with --limit or --max-tokens.",
        )
    events = [one.model_dump(mode="json") for one in call.engine.ledger.events(after=first - 1, limit=count)]
    return {"log": events, "head": {"seq": sequence, "hash": events[-1]["hash"]}}


def _newest(events: Sequence[AuditEvent], sequence: int) -> int:
    return max(event.seq for event in events if event.seq <= sequence and "hash" in (event.after or {}))


PROVE = Operation.of(
    "prove",
    "Gather context for a task, with a proof of its citations that can be checked without the space.",
    prove,
    rights=READS,
)
