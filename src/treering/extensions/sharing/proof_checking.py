"""Check a proof: that its answer cites texts of a space whose log was not changed since.

`python proof_checking.py PROOF [--anchor FILE] [--clone FOLDER] [--signers FILE]` runs without Treering, with git for
a clone and ssh-keygen for signers. The anchor is a head of the log from another source: JSON with `seq` and `hash`.
"""

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from treering.system.git_start import objects_of

FORMAT, VERSION = "treering-proof", 1
KEYS = frozenset("answer cited digest format head log made_at objects scope signature task treering version".split())
MALFORMED = (AttributeError, LookupError, OverflowError, RecursionError, TypeError, ValueError)
"""Errors raised by reading a malformed proof."""

MAX_SIGNER_CHARS, MAX_SIGNATURE_CHARS = 1_000, 100_000
_ID = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


class NotProven(Exception):
    """The proof is not valid; the message gives the reason."""


def canonical(value: Any) -> str:
    """Write a JSON value in the one form that is hashed: sorted keys, no spare space, no escapes but JSON's own."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(text: str, *, salt: str = "") -> str:
    """Hash a text: BLAKE2b, 160 bits, keyed with the salt if there is one."""
    return hashlib.blake2b(text.encode(), digest_size=20, key=salt.encode()).hexdigest()


def digest_of(fields: Mapping[str, Any], *but: str) -> str:
    """Hash the fields of a proof or an event, except `but`: its own hash, and its signature."""
    return digest(canonical({key: value for key, value in fields.items() if key not in but}))


def read_proof(text: str) -> dict[str, Any]:
    """Read a proof. Raises `NotProven` if it is malformed, was changed, or has another version."""
    try:
        proof: dict[str, Any] = json.loads(text)
        written = canonical(proof) + "\n"
    except (ValueError, RecursionError) as error:
        raise NotProven(f"it is not JSON: {error}") from error
    _need(isinstance(proof, dict) and proof.get("format") == FORMAT, "it is not a Treering proof")
    _need(proof.get("version") == VERSION, f"its version is {proof.get('version')!r} instead of {VERSION}")
    _need(set(proof) | {"signature"} == KEYS and written == text, "it is incomplete, or not in the canonical format")
    _need(proof["digest"] == digest_of(proof, "digest", "signature"), "its digest does not match its content")
    return proof


def check_proof(proof: Mapping[str, Any], anchor: Mapping[str, Any] | None = None) -> None:
    """Check the log, the objects against the log, their texts, and the cited passages. Raises `NotProven`."""
    try:
        log, objects = proof["log"], proof["objects"]
        for before, event in pairwise([None, *log]):
            _need(event["hash"] == digest_of(event, "hash"), f"event {event['seq']} of its log was changed")
            follows = not before or (event["seq"], event["prev_hash"]) == (before["seq"] + 1, before["hash"])
            _need(follows, f"event {event['seq']} of its log does not follow the previous event")
        _need({key: log[-1][key] for key in ("seq", "hash")} == proof["head"], "its log does not end at its head")
        heads = {(e["seq"], e["hash"]) for e in log} | {(e["seq"] - 1, e["prev_hash"]) for e in log}
        _need(anchor is None or (int(anchor["seq"]), str(anchor["hash"])) in heads, "its log does not match the anchor")
        states = ((event, event["after"] or {}) for event in log)
        newest = {e["target"]: state for e, state in states if "hash" in state or e["event_type"] == "erased"}
        for identity, held in objects.items():
            stored = json.loads(held["stored"])
            is_stored = newest.get(identity, {}).get("hash") == digest(held["stored"], salt=stored["salt"])
            _need(is_stored and stored["id"] == identity, f"{identity} does not match its log")
            hashes = {segment["segment_id"]: segment["hash"] for segment in stored.get("segments", ())}
            for name, text in held["segments"].items():
                _need(
                    hashes.get(name) == digest(text, salt=stored["salt"]),
                    f"{identity} {name} does not match the stored text",
                )
        for mark, identity, name in ((one["mark"], one["object_id"], one["segment_id"]) for one in proof["cited"]):
            is_held = identity in objects and (not name or name in objects[identity]["segments"])
            _need(
                is_held and mark in proof["answer"],
                f"{mark} cites an object that is not in the proof, or is not in the answer",
            )
    except MALFORMED as error:
        raise NotProven(f"it is malformed: {error!r}") from error


def check_clone(proof: Mapping[str, Any], clone: Path) -> tuple[int, list[str]]:
    """Compare the cited lines of files with a clone of their repository: return the number of equal ones, and problems.

    Raises `NotProven` if the citations are malformed.
    """
    try:
        compared = [[*_differences(mark, clone, blob, lines, text)] for mark, blob, lines, text in _cited_lines(proof)]
    except MALFORMED as error:
        raise NotProven(f"it is malformed: {error!r}") from error
    return compared.count([]), [problem for problems in compared for problem in problems]


def _cited_lines(proof: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any], str]]:
    """Yield the mark, the blob, the lines and the text of each cited passage of a file in a repository."""
    for cited, held in ((one, proof["objects"][one["object_id"]]) for one in proof["cited"]):
        stored, name = json.loads(held["stored"]), cited["segment_id"]
        for segment in (one for one in stored.get("segments", ()) if one["segment_id"] == name):
            # A passage that occurs in several contents of a file, on several branches, lists them: the first is enough.
            place = next(iter(segment.get("places", ())), {"contents": stored["fingerprint"], **segment})
            kind, blob, *_ = f"{place['contents']}:".split(":")
            if (kind, (lines := place["locator"])["type"]) == ("git-blob", "lines"):
                start, end = lines["start"], lines["end"]
                is_range = type(start) is type(end) is int and 0 < start <= end
                _need(is_range, f"{cited['mark']} cites lines {start!r:.20} to {end!r:.20}")
                yield cited["mark"], blob, lines, held["segments"][name]


def check_signature(proof: Mapping[str, Any], signers: Path) -> str:
    """Check the signature, and return who signed. Raises `NotProven`."""
    _need(bool(signature := proof.get("signature")), "it is not signed")
    signer, ssh = _signature(signature)
    command = ["ssh-keygen", "-Y", "verify", "-n", FORMAT, "-f", str(signers), "-I", signer]
    with tempfile.TemporaryDirectory() as folder:
        (file := Path(folder, "signature")).write_text(ssh, encoding="utf-8")
        command += ["-s", str(file)]
        done = subprocess.run(command, input=proof["digest"].encode(), capture_output=True)  # noqa: S603 - no shell
    _need(
        not done.returncode, f"its signature is not one of {signer}'s: {done.stderr.decode(errors='replace').strip()}"
    )
    return signer


def _signature(signature: Any) -> tuple[str, str]:
    """Return the signer and the signature. Raises `NotProven` if they are malformed."""
    signer, ssh = (signature.get("signer"), signature.get("ssh")) if isinstance(signature, Mapping) else (None, None)
    is_signer = isinstance(signer, str) and signer.isprintable() and 0 < len(signer) <= MAX_SIGNER_CHARS
    is_signature = isinstance(ssh, str) and ssh.isascii() and len(ssh) <= MAX_SIGNATURE_CHARS
    _need(is_signer and is_signature, "its signature is malformed")
    return str(signer), str(ssh)


def verify(proof: Path, anchor: Path | None, clone: Path | None, signers: Path | None) -> tuple[list[str], list[str]]:
    """Check a file in every requested way; return the valid statements and the problems."""
    confirmed, problems = list[str](), list[str]()
    try:
        read = read_proof(proof.read_bytes().decode())
        check_proof(read, json.loads(anchor.read_bytes()) if anchor else None)
        confirmed.append(
            f"Verified {len(read['cited'])} citations, {len(read['objects'])} objects and {len(read['log'])} events."
        )
        confirmed.append("The log matches the anchor." if anchor else "No anchor: the log may be truncated or forged.")
        confirmed += [f"Signed by {check_signature(read, signers)}."] if signers else []
        agree, problems = check_clone(read, clone) if clone else (0, problems)
        confirmed += [f"{agree} of {agree + len(problems)} cited places are identical in the clone."] if clone else []
    except (NotProven, OSError, RecursionError, ValueError) as error:
        problems.append(f"Not proven: {error}.")
    return confirmed, problems


def _need(holds: bool, problem: str) -> None:
    if not holds:
        raise NotProven(problem)


def _differences(mark: str, clone: Path, blob: str, lines: Mapping[str, Any], text: str) -> Iterator[str]:
    spot, at = f"{mark} {lines['path']}#L{lines['start']}-L{lines['end']}", f"{lines.get('commit')}:{lines['path']}"
    with objects_of(clone, sha256=len(blob) == 64) as git:
        missing, content = git("cat-file", "blob", blob) if _ID.fullmatch(blob) else (1, b"")
        unknown, named = git("rev-parse", "--verify", "--quiet", at) if _ID.match(at) else (1, b"")
    there = "\n".join(content.decode("utf-8", "replace").splitlines()[lines["start"] - 1 : lines["end"]])
    plain, plain_there = ("\n".join(filter(None, map(str.strip, one.splitlines()))) for one in (text, there))
    if missing:
        yield f"{spot}: the clone has no blob {blob[:12]}"
    elif not unknown and named.decode().strip() != blob:
        yield f"{spot}: at commit {at[:12]} the file has different content"
    elif not plain:
        yield f"{spot}: the citation has no text"
    elif plain not in plain_there:
        yield f"{spot}: the lines have different text{(' (a secret was redacted)' if '[redacted:' in text else '')}"


def main() -> None:
    """Check the proof in the command line, and print valid statements and problems."""
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("proof", "--anchor", "--clone", "--signers"):
        reader.add_argument(name, type=Path)
    holds, fails = verify(**vars(reader.parse_args()))
    for line in (*holds, *fails):  # a proof may contain anything, also control sequences of a terminal
        sys.stdout.write("".join(char if char.isprintable() else "?" for char in line) + "\n")
    sys.exit(1 if fails else 0)


if __name__ == "__main__":
    main()
