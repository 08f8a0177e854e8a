"""Random histories made with real git: at each commit the answer is that of a fresh space that was read there."""

import random
import subprocess
from contextlib import suppress

import pytest

import treering
from sources.git_scratch import Scratch
from treering.core.objects import Knowledge, Source
from treering.core.patch import Link, RemoveLink, Update
from treering.ports.ledger import Selection, head_of
from treering.verbs.crystallize.submission import new_patch
from treering.verbs.ingest import node_links
from treering.verbs.trees import notes_of_objects, tree_of

PATHS = ("a.md", "b.md", "docs/c.md", "docs/d.md")
WORDS = ("amber", "birch", "cedar", "dune", "ember", "fjord", "grove", "heath")
STEPS = 14


class History:
    """A repository that grows by random steps; `remote` is a bare repository that branches are pushed to."""

    def __init__(self, folder, seed, paths=PATHS):
        self.chance = random.Random(seed)
        self.paths = paths
        self.scratch = Scratch(folder / "work")
        self.git = self.scratch.git
        self.git("init", "-q", "--bare", str(folder / "remote.git"))
        self.git("remote", "add", "origin", str(folder / "remote.git"))
        self.scratch.commit({path: self.page(path) for path in paths[:3]})
        self.branches = ["main"]
        self.branch()
        self.edit()
        self.git("switch", "-q", "main")

    def page(self, path):
        """Write a page of some sections, each of which says one of three things, in words of its own."""
        return f"# {path}\n\n" + "\n".join(self.section(path, word) for word in sorted(self.chance.sample(WORDS, 4)))

    def section(self, path, word):
        value = self.chance.choice(("one", "two", "three"))
        told = " ".join(f"{word}{value}{path[-4]}{number}" for number in range(90))
        return f"## {word}\n\nThe {word} value of {path} is {value}: {told}.\n"

    def step(self):
        often = [self.edit, self.edit, self.edit, self.branch, self.branch, self.switch, self.switch]
        merging = [self.merge, self.rebase, self.squash, self.cherry_pick]
        others = [self.rename, self.revert, self.force_push, self.remove, self.delete_branch]
        others += [self.reset, self.rename_and_edit]
        made = self.chance.choice([*often, *merging, *others])
        try:
            made()
        except (subprocess.CalledProcessError, IndexError):  # a conflict, or nothing to do: as it was
            for undo in ("merge", "rebase", "cherry-pick", "revert"):
                with suppress(subprocess.CalledProcessError):
                    self.git(undo, "--abort")
            self.git("reset", "-q", "--hard")
        return made.__name__

    def files(self):
        return [one for one in self.git("ls-files").splitlines() if one]

    def committed(self, commit, path):
        try:
            return self.git("show", f"{commit}:{path}")
        except subprocess.CalledProcessError:
            return ""

    def other(self):
        here = self.git("branch", "--show-current")
        return self.chance.choice([one for one in self.branches if one != here] or [here])

    def edit(self):
        path = self.chance.choice(self.paths)
        self.scratch.commit({path: self.page(path)})

    def branch(self):
        name = f"feature/{len(self.branches)}-{self.chance.randint(0, 999)}"
        self.git("switch", "-q", "-c", name)
        self.branches.append(name)

    def switch(self):
        self.git("switch", "-q", self.other())

    def merge(self):
        self.git("merge", "-q", "-X", "theirs", "-m", "Merge", self.other())

    def rebase(self):
        self.git("rebase", "-q", "-X", "theirs", self.other())

    def squash(self):
        self.git("merge", "-q", "-X", "theirs", "--squash", self.other())
        self.scratch.commit()

    def cherry_pick(self):
        self.git("cherry-pick", "-X", "theirs", "--allow-empty", self.other())

    def rename(self):
        path = self.chance.choice(self.files())
        self.git("mv", path, f"moved/{self.chance.randint(0, 99)}.md" if "/" in path else f"docs/{path}")
        self.scratch.commit()

    def rename_and_edit(self):
        path = self.chance.choice(self.files())
        name = f"moved/{self.chance.randint(100, 199)}.md"
        text = (self.scratch.folder / path).read_text()
        self.git("rm", "-q", path)
        self.scratch.commit({name: f"{text}\n{self.section(path, 'zenith')}"})

    def reset(self):
        self.git("reset", "-q", "--hard", f"HEAD~{self.chance.randint(1, 2)}")

    def revert(self):
        self.git("revert", "--no-edit", "HEAD")

    def force_push(self):
        self.git("commit", "-q", "--amend", "--allow-empty", "-m", "again")
        self.git("push", "-q", "--force", "origin", "HEAD")

    def remove(self):
        if len(self.files()) > 1:
            self.git("rm", "-q", self.chance.choice(self.files()))
            self.scratch.commit()

    def delete_branch(self):
        name = self.other()
        if name != self.git("branch", "--show-current") and name != "main":
            self.git("branch", "-q", "-D", name)
            self.branches.remove(name)


def opened():
    return treering.open(":memory:", background=False)


def ingest(space, folder):
    return space.ingest("repo", "/", {"path": str(folder)})


def held(space, at):
    """Return what a search gives at a tree: path, lines and words of each passage, and the knowledge of files."""
    hits = space.query("search", "/", {"text": " ".join(WORDS)}, {"limit": 200, "semantic": False, "at": at}).hits
    return {(hit.place.partition(" @ ")[0], hit.text) for hit in hits if hit.type == "source" and hit.kind != "repo"}


def standing(space, at):
    """Return the knowledge that stands at a tree, by its id."""
    items = [
        item
        for item in space.engine.ledger.select(Selection(types=("knowledge",)))
        if isinstance(item, Knowledge) and item.status in ("active", "candidate", "contested")
    ]
    tree = tree_of(space.engine, "/", at=at, past=False)
    notes = notes_of_objects(tree, space.engine.ledger, map(head_of, items), read=items)
    return {item.id for item in items if item.id not in notes}


def remember(space, at, chance):
    """Record a decision on a passage of a tree; return its id, the path and the words it rests on."""
    hits = space.query("search", "/", {"text": " ".join(WORDS)}, {"limit": 50, "semantic": False, "at": at}).hits
    files = [hit for hit in hits if hit.type == "source" and hit.kind != "repo"]
    if not files:
        return None
    hit = chance.choice(files)
    title = f"Decision {chance.randint(0, 10**9)}"
    report = space.crystallize(
        "knowledge",
        "/",
        {
            "kind": "constraint",
            "title": title,
            "payload": {"rule": title},
            "evidence_refs": [{"source_id": hit.source_id, "segment_id": hit.segment_id}],
            "status": "active",
        },
    )
    return report.ids[0], hit.origin.partition("#")[2], hit.text


def stands_in(folder, path, words):
    file = folder / path
    return file.is_file() and words in file.read_text()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(16))
def test_at_each_commit_the_answer_is_that_of_a_fresh_space_and_knowledge_stands_where_its_lines_do(tmp_path, seed):
    history = History(tmp_path, seed)
    folder = history.scratch.folder
    known, read = [], {}
    with opened() as space:
        ingest(space, folder)
        for _ in range(STEPS):
            history.step()
            staled = ingest(space, folder).staled
            branch = history.git("branch", "--show-current")
            read[branch] = history.git("rev-parse", "HEAD")
            read = {name: commit for name, commit in read.items() if name in history.branches}
            for identity, path, words in known:
                if identity in staled:
                    assert words not in history.committed(read[branch], path)
            with opened() as fresh:
                ingest(fresh, folder)
                assert held(space, branch) == held(fresh, branch)
            here = standing(space, branch)
            for identity, path, words in known:
                status, stands = space.engine.ledger.get(identity).status, stands_in(folder, path, words)
                assert not (status == "stale" and stands)
                if status == "active" and stands:
                    assert identity in here
                elif identity in here:
                    # It stands under another path: its file was renamed.
                    assert any(stands_in(folder, one, words) for one in history.files())
            if new := remember(space, branch, history.chance):
                known.append(new)
        for branch in history.branches:
            history.git("switch", "-q", branch)
            ingest(space, folder)
        for branch in history.branches:
            history.git("switch", "-q", branch)
            with opened() as fresh:
                ingest(fresh, folder)
                assert held(space, branch) == held(fresh, branch)
        assert space.lint("audit").status == "ok"


def test_a_shallow_clone_is_answered_as_it_stands(tmp_path):
    history = History(tmp_path, 99)
    for _ in range(5):
        history.edit()
    clone = tmp_path / "clone"
    history.git("clone", "-q", "--depth", "1", f"file://{history.scratch.folder}", str(clone))
    with opened() as space, opened() as fresh:
        ingest(space, clone)
        ingest(fresh, history.scratch.folder)
        assert held(space, "main") == held(fresh, "main")


def test_segments_of_a_source_are_those_of_its_contents(tmp_path):
    history = History(tmp_path, 7)
    with opened() as space:
        for _ in range(STEPS):
            history.step()
            ingest(space, history.scratch.folder)
        for one in space.engine.ledger.select(Selection(types=("source",))):
            if isinstance(one, Source) and one.status == "active":
                several = one.fingerprint.startswith("versions:") and one.fingerprint.count('"],') > 0
                assert all(part.position == at for at, part in enumerate(one.segments)), several
                assert len({part.segment_id for part in one.segments}) == len(one.segments)


@pytest.mark.parametrize("seed", range(4))
def test_two_spaces_that_read_different_branches_are_merged_to_one_that_answers_as_if_it_had_read_each(tmp_path, seed):
    history = History(tmp_path, seed)
    folder, places = history.scratch.folder, [f"sqlite:{tmp_path / name}.db" for name in ("ours", "theirs")]
    ours, theirs = (treering.open(place, background=False) for place in places)
    with ours, theirs:

        def read():
            ingest(theirs if history.git("branch", "--show-current")[-1] in "13579" else ours, folder)

        for _ in range(STEPS):
            history.step()
            read()
            if history.chance.random() < 0.2:
                ours.merge(places[1])
        for branch in history.branches:
            history.git("switch", "-q", branch)
            read()
        ours.merge(places[1])
        theirs.merge(places[0])
        for branch in history.branches:
            history.git("switch", "-q", branch)
            with opened() as fresh:
                ingest(fresh, folder)
                assert held(ours, branch) == held(fresh, branch)
                assert held(theirs, branch) == held(fresh, branch)
        assert ours.lint("audit").status == "ok"


CODE = ("src/one/a.py", "src/two/b.py", "docs/guide.md", "src/two/c.py", "src/three/d.py", "tools/e.py", "README.md")


def linked(space):
    """Return the links between nodes and current sources: kind and name of the node, and the file."""
    ledger = space.engine.ledger
    nodes = [one for one in ledger.select(Selection(types=("node",))) if one.status == "active"]
    links = [(node, link.source) for node in nodes for link in ledger.links(node.id) if link.target == node.id]
    heads = ledger.heads({source for _, source in links})
    origins = [(node, heads[source]) for node, source in links if source in heads]
    return {(node.kind, node.slug, head.origin.partition("#")[2]) for node, head in origins if head.status == "active"}


@pytest.fixture
def saving(monkeypatch):
    """Save the links of small repositories, too."""
    monkeypatch.setattr(node_links, "_MIN_SAVED", 0)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.usefixtures("saving")
def test_saved_links_change_no_links(tmp_path, seed):
    history = History(tmp_path, seed, CODE)
    with treering.open(str(tmp_path / "space.db"), background=False) as space, opened() as listing:
        for _ in range(2 * STEPS):
            history.step()
            for one in (space, listing):
                ingest(one, history.scratch.folder)
            assert linked(space) == linked(listing) != set()
        assert space.lint("audit").status == "ok"


@pytest.mark.usefixtures("saving")
@pytest.mark.parametrize("change", ["link", "node"])
def test_reading_restores_links_that_others_changed(tmp_path, change):
    history = History(tmp_path, 1, CODE)
    with treering.open(str(tmp_path / "space.db"), background=False) as space:
        ingest(space, history.scratch.folder)
        engine, before = space.engine, linked(space)
        node = next(one for one in engine.ledger.select(Selection(types=("node",))) if one.slug.endswith("/src/one"))
        link = next(one for one in engine.ledger.links(node.id) if one.type == "about")
        if change == "link":
            operations = [RemoveLink(link=Link(type="about", source=link.source, target=link.target))]
        else:
            operations = [RemoveLink(link=Link(type="about", source=link.source, target=link.target))]
            operations.append(Update(id=node.id, expected_revision=node.revision, changes={"aliases": ("first",)}))
        engine.ledger.commit(new_patch(engine, operations, author=engine.author, reason="Test.").value)
        assert linked(space) < before
        history.scratch.commit({"README.md": history.page("README.md")})
        ingest(space, history.scratch.folder)
        assert linked(space) == {*before, ("document", f"{node.slug.partition('/')[0]}/README.md", "README.md")}


@pytest.mark.usefixtures("saving")
def test_new_space_at_the_same_place_does_not_use_saved_links(tmp_path):
    history = History(tmp_path, 1, CODE)
    links = []
    for _ in range(2):
        with treering.open(str(tmp_path / "space.db"), background=False) as space:
            ingest(space, history.scratch.folder)
            links.append(linked(space))
        (tmp_path / "space.db").unlink()
    assert links[0] == links[1] != set()
