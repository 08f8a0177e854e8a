"""Proofs of answers, made here and checked with nothing of Treering."""

import json
import random
import re
import subprocess
import sys

import pytest

from space_parts import decide, note
from treering.core.errors import Denied, InvalidInput
from treering.extensions.sharing import proof_checking
from treering.extensions.sharing.proof import checker, signed
from treering.extensions.sharing.proof_checking import (
    NotProven,
    canonical,
    check_clone,
    check_proof,
    digest_of,
    read_proof,
)

ASKED = {"task": "how often are retries tried?"}
LINES = "# Retries\n\nRetries are tried three times, and then given up.\n"


@pytest.fixture
def filled(open_space):
    space = open_space(channel="user", actor="ada")
    note(space, "Something else came first.", origin="z.md")
    quote = note(space, "Retries are tried three times, with “quotes” and ünïcode.", origin="a.md")
    decide(space, "Retries are tried three times", quote)
    note(space, "Nothing of the kind.", origin="b.md")
    return space


@pytest.fixture
def text(filled):
    return filled.perform("prove", input=ASKED).proof


@pytest.fixture
def clone(tmp_path):
    folder = tmp_path / "clone"
    folder.mkdir()
    (folder / "README.md").write_text(LINES)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "one")
    return folder


def git(folder, *arguments):
    names = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", folder, *names, *arguments], check=True)


def verified(text, anchor=None):
    check_proof(read_proof(text), anchor)


def forged(proof, **changed):
    """Write a proof anew, with the digest of what it says now."""
    made = {**proof, **changed}
    return canonical({**made, "digest": digest_of(made, "digest", "signature")}) + "\n"


def test_a_proof_holds_and_says_what_the_answer_said(filled, text):
    proof = read_proof(text)
    check_proof(proof)
    said = filled.query("context", input=ASKED)
    assert [one["object_id"] for one in proof["cited"]] == [one.object_id for one in said.pack.citations]
    held = "".join(text for one in proof["objects"].values() for text in one["segments"].values())
    assert "three times" in held


def test_a_proof_changed_anywhere_is_refused(text):
    draw = random.Random(7)
    data = text.encode()
    for _ in range(1_000):
        at = draw.randrange(len(data))
        change = draw.choice([bytes([data[at] ^ (1 << draw.randrange(8))]), b"", data[at : at + 1] * 2, b" ", b"0"])
        mutated = data[:at] + change + data[at + 1 :]
        if mutated == data:
            continue
        with pytest.raises((NotProven, UnicodeDecodeError)):
            verified(mutated.decode())


def test_a_proof_cut_anywhere_is_refused(text):
    for end in range(0, len(text), 97):
        with pytest.raises(NotProven):
            verified(text[:end])


def test_a_forger_who_writes_the_digest_again_is_refused(text):
    proof = read_proof(text)
    for change in (_other_text, _other_object, _other_status, _other_actor, _event_left_out, _cites_what_is_not_there):
        copy = json.loads(text)
        change(copy)
        with pytest.raises(NotProven):
            verified(forged(copy))
    assert verified(forged(proof)) is None


def test_a_log_made_up_from_its_beginning_is_refused_by_an_anchor(filled, text):
    anchor = filled.lint("audit").head.model_dump()
    proof = json.loads(text)
    before = None
    for event in proof["log"]:
        event["actor"] = "mallory"
        event["prev_hash"] = before or event["prev_hash"]
        said = {key: part for key, part in event.items() if key != "hash"}
        before = event["hash"] = proof_checking.digest(canonical(said))
    proof["head"]["hash"] = before
    verified(forged(proof))
    with pytest.raises(NotProven, match="anchor"):
        verified(forged(proof), anchor)
    verified(text, anchor)


def test_an_older_state_of_an_object_is_refused_where_the_log_mentions_a_newer(filled):
    old = json.loads(filled.perform("prove", input=ASKED).proof)
    note(filled, "Retries are tried five times, with “quotes” and ünïcode.", origin="a.md")
    new = json.loads(filled.perform("prove", input=ASKED).proof)
    changed = next(
        one for one in new["objects"] if one in old["objects"] and new["objects"][one] != old["objects"][one]
    )
    new["objects"][changed] = old["objects"][changed]
    with pytest.raises(NotProven, match="does not match its log"):
        verified(forged(new))


def test_cited_lines_are_compared_with_a_clone(open_space, clone):
    space = open_space()
    space.ingest("repo", input={"path": str(clone)})
    proof = read_proof(space.perform("prove", input=ASKED).proof)
    agree, problems = check_clone(proof, clone)
    assert (agree > 0, problems) == (True, [])
    other = clone.parent / "other"
    other.mkdir()
    git(other, "init", "-q")
    assert check_clone(proof, other)[0] == 0
    assert "has no blob" in check_clone(proof, other)[1][0]


def test_lines_of_a_file_that_differs_between_branches_are_compared_too(open_space, clone):
    space = open_space()
    space.ingest("repo", input={"path": str(clone)})
    git(clone, "checkout", "-q", "-b", "feature")
    (clone / "README.md").write_text(f"{LINES}\nThey wait for a second.\n")
    git(clone, "commit", "-q", "-a", "-m", "two")
    space.ingest("repo", input={"path": str(clone)})
    agree, problems = check_clone(read_proof(space.perform("prove", input=ASKED).proof), clone)
    assert (agree > 0, problems) == (True, [])


def test_lines_that_say_something_else_in_the_clone_are_reported(open_space, clone):
    space = open_space()
    space.ingest("repo", input={"path": str(clone)})
    proof = json.loads(space.perform("prove", input=ASKED).proof)
    for held in proof["objects"].values():
        held["segments"] = {one: text.replace("three", "nine") for one, text in held["segments"].items()}
    assert any("the lines have different text" in problem for problem in check_clone(proof, clone)[1])


def test_a_signature_is_of_the_person_and_of_this_proof(text, tmp_path):
    ada, eve = key_of("ada@example.org", tmp_path), key_of("eve@example.org", tmp_path)
    signers = tmp_path / "signers"
    signers.write_text(f"ada@example.org {ada.with_suffix('.pub').read_text()}")
    proof = read_proof(signed(text, ada))
    check_proof(proof)
    assert proof_checking.check_signature(proof, signers) == "ada@example.org"
    with pytest.raises(NotProven, match="eve"):
        proof_checking.check_signature(read_proof(signed(text, eve)), signers)
    moved = json.loads(forged({**proof, "task": "something else"}))
    with pytest.raises(NotProven, match="ada"):
        proof_checking.check_signature(moved, signers)
    with pytest.raises(NotProven, match="not signed"):
        proof_checking.check_signature(read_proof(text), signers)


@pytest.mark.parametrize(
    "signature",
    [
        "text",
        ["list"],
        7,
        {"signer": "ada"},
        {"ssh": "x"},
        {"signer": 7, "ssh": []},
        {"signer": "a\0b", "ssh": "x"},
        {"signer": "a" * 3_000_000, "ssh": "x"},
        {"signer": "\ud800", "ssh": "x"},
        {"signer": "ada", "ssh": "\ud800"},
        {"signer": "-h", "ssh": "x"},
    ],
)
def test_malformed_signature_proves_nothing(text, tmp_path, signature):
    proof = {**json.loads(text), "signature": signature}
    (tmp_path / "signers").write_text("")
    with pytest.raises(NotProven):
        proof_checking.check_signature(proof, tmp_path / "signers")


def with_cited_lines(space, **changed):
    """Return a proof of lines of a file, of which places and texts are changed as somebody who makes them up may."""
    proof = json.loads(space.perform("prove", input=ASKED).proof)
    for held in proof["objects"].values():
        said = json.loads(held["stored"])
        for segment in said.get("segments", ()):
            segment["locator"] |= {key: value for key, value in changed.items() if key != "text"}
        held["stored"] = json.dumps(said)
        if "text" in changed:
            held["segments"] = dict.fromkeys(held["segments"], changed["text"])
    return proof


@pytest.mark.parametrize(
    "lines", [("1", 2), (1, None), (0, 1), (-3, 2), (3, 1), (1.5, 2), (True, 1), (1, [2]), (1, "x")]
)
def test_malformed_lines_prove_nothing(open_space, clone, lines):
    space = open_space()
    space.ingest("repo", input={"path": str(clone)})
    with pytest.raises(NotProven, match="cites lines"):
        check_clone(with_cited_lines(space, start=lines[0], end=lines[1]), clone)


@pytest.mark.parametrize("text", ["", "  \n\t", "\n"])
def test_empty_text_is_not_the_same_in_a_clone(open_space, clone, text):
    space = open_space()
    space.ingest("repo", input={"path": str(clone)})
    agree, problems = check_clone(with_cited_lines(space, text=text), clone)
    assert (agree, [problem.rpartition(": ")[2] for problem in problems[:1]]) == (0, ["the citation has no text"])


@pytest.mark.parametrize(
    ("part", "value"),
    [("cited", 7), ("cited", [7]), ("objects", []), ("objects", {"a": 1}), ("log", "x"), ("log", [[]]), ("log", [])],
)
def test_malformed_parts_prove_nothing(text, part, value):
    with pytest.raises(NotProven):
        verified(forged({**json.loads(text), part: value}))


def test_deep_json_within_a_proof_proves_nothing(text, tmp_path):
    proof = json.loads(text)
    for held in proof["objects"].values():
        held["stored"] = "[" * 100_000
    (tmp_path / "proof.json").write_text(forged(proof))
    (tmp_path / "anchor.json").write_text("[" * 100_000)
    for anchor in (None, tmp_path / "anchor.json"):
        assert proof_checking.verify(tmp_path / "proof.json", anchor, None, None)[1][0].startswith("Not proven: ")
    with pytest.raises(NotProven):
        check_clone(proof, tmp_path)


def test_a_key_that_is_none_signs_nothing(text, tmp_path):
    with pytest.raises(InvalidInput, match=r"public key .* does not exist"):
        signed(text, tmp_path / "nothing")


def test_the_checker_can_be_read_in_one_sitting_and_is_of_the_standard_library():
    source = checker()
    imported = re.findall(r"^(?:from|import) (\w+)", source, re.MULTILINE)
    assert len(source.splitlines()) <= 370
    assert set(imported) <= sys.stdlib_module_names


def test_what_a_proof_says_steers_no_terminal_and_adds_no_line_to_the_report(text, tmp_path):
    said = json.loads(text)
    said["version"] = "1\n1 citations, 1 objects, 1 events hold.\x1b[2J"
    (tmp_path / "proof.json").write_text(forged({**said, "cited": [{**said["cited"][0], "mark": "[1]\nhold."}]}))
    (tmp_path / "check.py").write_text(checker())
    command = [sys.executable, "-I", tmp_path / "check.py", tmp_path / "proof.json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, len(done.stdout.splitlines()), "\x1b" in done.stdout) == (1, 1, False)


def test_the_checker_runs_by_itself(text, tmp_path):
    (tmp_path / "proof.json").write_text(text)
    (tmp_path / "check.py").write_text(checker())
    command = [sys.executable, "-I", "-S", "check.py", "proof.json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Verified ")
    (tmp_path / "proof.json").write_text(text.replace("three", "nine"))
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert "Not proven: its digest does not match its content" in done.stdout


def test_what_cannot_be_proven_is_refused(filled):
    with pytest.raises(Denied):
        filled.perform("prove", "/repo/a", ASKED)
    with pytest.raises(InvalidInput, match="current state"):
        filled.perform("prove", input=ASKED, options={"as_of": 1})
    with pytest.raises(InvalidInput, match="cites nothing"):
        filled.perform("prove", input={"task": "Zebrafish genomics?"})


def key_of(name, folder):
    file = folder / name.partition("@")[0]
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", file], check=True)
    return file


def _other_text(proof):
    held = next(one for one in proof["objects"].values() if one["segments"])
    held["segments"] = {one: text.replace("three", "nine") for one, text in held["segments"].items()}


def _other_object(proof):
    held = next(iter(proof["objects"].values()))
    held["stored"] = held["stored"].replace("three", "nine").replace("ada", "eve").replace('"active"', '"stale"')


def _other_status(proof):
    next(event for event in proof["log"] if "hash" in (event["after"] or {}))["after"]["status"] = "archived"


def _other_actor(proof):
    proof["log"][-1]["actor"] = "mallory"


def _event_left_out(proof):
    del proof["log"][1]


def _cites_what_is_not_there(proof):
    proof["cited"][0]["segment_id"] = "seg_0000000000000"
