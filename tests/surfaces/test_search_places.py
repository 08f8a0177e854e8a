"""A search shows the lines of a file that a decision is based on."""

import subprocess

import treering
from treering.surfaces.search_text import fenced_hits
from treering.system.settings import Settings


def test_decision_is_shown_with_the_lines_it_cites(stage):
    stage.write({"limits.py": "A = 1\n\nMEMORY = 32 << 20\n"})
    stage.done("add", "limits.py")
    stage.done("decide", "Uploads use 32 MB of memory", "--because", "limits.py:3")
    with treering.open(Settings.read().space_address(), background=False) as space:
        (hit,) = (one for one in space.query("search", "/", {"text": "memory of uploads"}).hits if one.cites)
        assert (hit.kind, hit.cites) == ("decision", "limits.py:3")
        assert 'decision — based on "limits.py:3"' in fenced_hits([hit], ())


def test_refused_answer_names_the_branch_that_has_the_words(stage):
    def git(*arguments):
        subprocess.run(["git", *arguments], cwd=stage.folder, check=True, capture_output=True)

    stage.commit({"a.ts": "export const retries = 3\n"})
    git("branch", "-M", "main")
    stage.done("init")
    stage.done("add", ".")
    git("checkout", "-q", "-b", "feat")
    stage.commit({"a.ts": "export const retries = 3\n\nexport function zeta48() {}\n"})
    stage.done("add", ".")
    assert "zeta48() {}" in stage.run("search", "zeta48").out
    git("checkout", "-q", "main")
    for command in ("search", "ask"):
        answer = stage.run(command, "zeta48")
        assert 'Known only on other branches (feat): "zeta48".' in answer.out + answer.err
        assert "Known here" not in answer.out + answer.err
