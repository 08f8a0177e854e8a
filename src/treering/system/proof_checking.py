"""Check a proof: that its answer rests on texts that a space held, in a log that nobody changed since.

This file needs Python's standard library and, for a clone or a signature, git or ssh-keygen. It can be taken out of
Treering and read in one sitting: `python proof_checking.py PROOF [--anchor FILE] [--clone FOLDER] [--signers FILE]`.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

FORMAT, VERSION = "treering-proof", 1
KEYS = frozenset("answer cited digest format head log made_at objects scope signature task treering version".split())
_BLOB, _REDACTED = "git-blob:", "[redacted:"


class NotProven(Exception):
    """The proof does not hold; the message says what is wrong with it."""


def canonical(value: Any) -> str:
    """Write a JSON value in the one form that is hashed: sorted keys, no spare space, no escapes but JSON's own."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(text: str, *, salt: str = "") -> str:
    """Hash a text: BLAKE2b, 160 bits, keyed with a salt where there is one."""
    return hashlib.blake2b(text.encode(), digest_size=20, key=salt.encode()).hexdigest()


def digest_of(proof: Mapping[str, Any]) -> str:
    """Hash all that a proof says, but for its own digest and signature."""
    return digest(canonical({key: said for key, said in proof.items() if key not in ("digest", "signature")}))


def read_proof(text: str) -> dict[str, Any]:
    """Read a proof. Raises `NotProven` where it is none, was changed, or is of another version."""
    try:
        proof = json.loads(text)
        written = canonical(proof) + "\n"
    except (ValueError, RecursionError) as error:
        raise NotProven(f"it is not JSON: {error}") from error
    if not isinstance(proof, dict) or proof.get("format") != FORMAT:
        raise NotProven("it is no proof of Treering")
    if proof.get("version") != VERSION:
        raise NotProven(f"it is of version {proof.get('version')!r}; this checker knows version {VERSION}")
    if set(proof) - {"signature"} != KEYS - {"signature"} or written != text:
        raise NotProven("it is not written as proofs are: it was changed, or is not whole")
    if proof["digest"] != digest_of(proof):
        raise NotProven("its digest is not that of what it says: it was changed")
    return proof


def check_proof(proof: Mapping[str, Any], anchor: Mapping[str, Any] | None = None) -> None:
    """Check the log, every object against the log, every text against its object, every citation against the texts.

    `anchor`: `seq` and `hash` of a log's head, kept by somebody else; the log has to pass through it. Raises
    `NotProven`.
    """
    try:
        newest = _newest_states(proof)
        if anchor is not None and str(anchor["hash"]) not in _hashes_at(proof, int(anchor["seq"])):
            raise NotProven(f"its log does not pass through the anchor at event {anchor['seq']}")
        for identity, held in proof["objects"].items():
            _check_object(identity, held, newest.get(identity))
        for cited in proof["cited"]:
            held = proof["objects"].get(cited["object_id"])
            if held is None or (cited["segment_id"] and cited["segment_id"] not in held["segments"]):
                raise NotProven(f"{cited['mark']} cites what it does not hold")
            if cited["mark"] not in proof["answer"]:
                raise NotProven(f"{cited['mark']} is not in its answer")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise NotProven(f"it is malformed: {error!r}") from error


def check_clone(proof: Mapping[str, Any], clone: Path) -> tuple[int, list[str]]:
    """Compare the cited lines of files with a clone of their repository; return how many agree, and what does not.

    Lines from which a secret was taken out do not agree, and are told as such.
    """
    agree, problems = 0, list[str]()
    for place, blob, lines, text in _cited_lines(proof):
        spot = f"{lines['path']}#L{lines['start']}-L{lines['end']}"
        content = _git(clone, "cat-file", "blob", blob)
        if content is None:
            problems.append(f"{place} {spot}: the clone has no blob {blob[:12]}")
        elif lines.get("commit") and _named(clone, lines) not in (blob, None):
            problems.append(f"{place} {spot}: at commit {lines['commit'][:12]} the file has another content")
        elif _plain(text) not in _plain("\n".join(content.splitlines()[lines["start"] - 1 : lines["end"]])):
            redacted = " (a secret was taken out of it)" if _REDACTED in text else ""
            problems.append(f"{place} {spot}: the lines say something else{redacted}")
        else:
            agree += 1
    return agree, problems


def check_signature(proof: Mapping[str, Any], signers: Path) -> str:
    """Check the signature with an `allowed_signers` file of ssh; return who signed. Raises `NotProven`."""
    if not (signature := proof.get("signature")):
        raise NotProven("it is not signed")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "signature")
        file.write_text(str(signature["ssh"]), encoding="utf-8")
        command = ["ssh-keygen", "-Y", "verify", "-n", FORMAT, "-f", str(signers), "-I", str(signature["signer"])]
        done = subprocess.run([*command, "-s", str(file)], input=proof["digest"].encode(), capture_output=True)  # noqa: S603 - no shell
    if done.returncode:
        raise NotProven(f"its signature is not one of {signature['signer']}'s: {done.stderr.decode().strip()}")
    return str(signature["signer"])


def _newest_states(proof: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """Check that each event follows the one before; return for each object what the last one says of it."""
    newest: dict[str, Mapping[str, Any]] = {}
    log, head = proof["log"], proof["head"]
    before = None
    for event in log:
        said = {key: part for key, part in event.items() if key != "hash"}
        if event["hash"] != digest(canonical(said)):
            raise NotProven(f"event {event['seq']} of its log was changed")
        if before and (event["seq"], event["prev_hash"]) != (before["seq"] + 1, before["hash"]):
            raise NotProven(f"event {event['seq']} of its log does not follow the one before")
        before = event
        state = event["after"] or {}
        if "hash" in state or event["event_type"] == "erased":
            newest[event["target"]] = state
    if before is None or {"seq": before["seq"], "hash": before["hash"]} != head:
        raise NotProven("its log does not end at its head")
    return newest


def _hashes_at(proof: Mapping[str, Any], seq: int) -> set[str]:
    return {event["hash"] for event in proof["log"] if event["seq"] == seq} | {
        event["prev_hash"] for event in proof["log"] if event["seq"] == seq + 1
    }


def _check_object(identity: str, held: Mapping[str, Any], state: Mapping[str, Any] | None) -> None:
    said = json.loads(held["stored"])
    if state is None or said["id"] != identity or state.get("hash") != digest(held["stored"], salt=said["salt"]):
        raise NotProven(f"{identity} is not what its log says of it")
    hashes = {segment["segment_id"]: segment["hash"] for segment in said.get("segments", ())}
    for segment_id, text in held["segments"].items():
        if hashes.get(segment_id) != digest(text, salt=said["salt"]):
            raise NotProven(f"{identity} {segment_id} is not the text that the space held")


def _cited_lines(proof: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any], str]]:
    """Yield the mark, the blob, the place and the text of each citation of lines of a file under git.

    A segment that stands in several contents of its file, on several branches, names them: the first is enough.
    """
    for cited in proof["cited"]:
        held = proof["objects"][cited["object_id"]]
        said = json.loads(held["stored"])
        for segment in said.get("segments", ()):
            if segment["segment_id"] != cited["segment_id"]:
                continue
            first = next(
                iter(segment.get("places", ())), {"contents": said["fingerprint"], "locator": segment["locator"]}
            )
            blob, lines = str(first["contents"]), first["locator"]
            if blob.startswith(_BLOB) and lines["type"] == "lines":
                blob = blob.removeprefix(_BLOB).partition(":")[0]
                yield cited["mark"], blob, lines, held["segments"][cited["segment_id"]]


def _named(clone: Path, lines: Mapping[str, Any]) -> str | None:
    found = _git(clone, "rev-parse", "--verify", "--quiet", f"{lines['commit']}:{lines['path']}")
    return found.strip() if found else None


def _git(clone: Path, *arguments: str) -> str | None:
    done = subprocess.run(["git", "-C", str(clone), *arguments], capture_output=True)  # noqa: S603, S607 - no shell
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


def _plain(text: str) -> str:
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())


def main(arguments: list[str] | None = None) -> int:
    """Check a file and say what holds; return 0 where all of it does, else 1."""
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("proof", type=Path)
    reader.add_argument("--anchor", type=Path, help="the head of the log, as somebody else kept it: JSON, seq and hash")
    reader.add_argument("--clone", type=Path, help="a clone of the repository that is cited")
    reader.add_argument("--signers", type=Path, help="who may have signed it: an allowed_signers file of ssh")
    given = reader.parse_args(arguments)
    told, problems = verify(given.proof, given.anchor, given.clone, given.signers)
    # A proof is somebody else's: what it says may not steer a terminal.
    plain = ("".join(char if char.isprintable() else "?" for char in line) for line in (*told, *problems))
    sys.stdout.write("".join(f"{line}\n" for line in plain))
    return 1 if problems else 0


def verify(
    file: Path, anchor: Path | None = None, clone: Path | None = None, signers: Path | None = None
) -> tuple[list[str], list[str]]:
    """Check a file in every way that is asked for; return what holds, and what does not."""
    told, problems = list[str](), list[str]()
    try:
        proof = read_proof(file.read_bytes().decode())
        check_proof(proof, json.loads(anchor.read_text(encoding="utf-8")) if anchor else None)
        told.append(
            f"{len(proof['cited'])} citations, {len(proof['objects'])} objects, {len(proof['log'])} events hold."
        )
        told.append(
            "The log passes through the anchor." if anchor else "No anchor was given: the log may be cut or made up."
        )
        if signers:
            told.append(f"Signed by {check_signature(proof, signers)}.")
        if clone:
            agree, problems = check_clone(proof, clone)
            told.append(f"{agree} of {agree + len(problems)} cited places in files say the same in the clone.")
    except (NotProven, OSError, ValueError) as error:
        problems.append(f"Not proven: {error}.")
    return told, problems


if __name__ == "__main__":
    sys.exit(main())
