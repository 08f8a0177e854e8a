"""One file is one source, whatever path was given, and wherever its folder or repository lies now."""

import os
import shutil
import subprocess
import sys

import pytest

import treering
from treering.core.objects import Source
from treering.core.patch import Author, Create, Update
from treering.ports.ledger import Selection
from treering.verbs.crystallize.submission import new_patch

OLD, NEW = "# Port\n\nThe gateway listens on port 8080.\n", "# Port\n\nThe gateway listens on port 9090.\n"


@pytest.fixture
def wiki():
    with treering.open(":memory:", background=False) as space:
        yield space


@pytest.fixture
def project(tmp_path):
    return project_in(tmp_path / "project")


def project_in(folder):
    write(folder, {"docs/port.md": OLD, "docs/start.md": "# Start\n\nRun the gateway.\n", "README.md": "# Gateway\n"})
    return folder


def write(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def git(folder, *arguments):
    fixed = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "init.defaultBranch=main")
    environment = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(["git", *fixed, *arguments], cwd=folder, env=environment, check=True, capture_output=True)
    return done.stdout.decode().strip()


def committed(folder):
    if not (folder / ".git").exists():
        git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "change", "--allow-empty")
    return folder


def ingest(wiki, path, scope="/", mode="", **options):
    """Read as the command line does: as a repository where git knows the folder, else as files."""
    chosen = mode or ("repo" if _is_in_git(path) else "path")
    return wiki.ingest(chosen, scope, {"path": str(path)}, options)


def _is_in_git(path):
    return path.is_dir() and any((folder / ".git").exists() for folder in (path, *path.parents))


def sources(wiki, scope="/"):
    """Return the sources that stand, by the name of their file."""
    found = wiki.engine.ledger.select(Selection(scope=scope, types=("source",)))
    standing = [one for one in found if isinstance(one, Source) and one.status == "active" and one.scope == scope]
    names = [one.origin.rpartition("/")[2].rpartition("#")[2] for one in standing if one.kind != "repo"]
    assert len(names) == len(set(names)), f"twice: {sorted(one.origin for one in standing)}"
    return dict(zip(names, [one for one in standing if one.kind != "repo"], strict=True))


def said(wiki, scope="/"):
    """Return what stands of ports in the whole space."""
    hits = wiki.query("search", scope, {"text": "gateway listens port"}).hits
    return {word for hit in hits for word in ("8080", "9090") if word in hit.text}


@pytest.mark.parametrize("in_git", [False, True])
def test_a_file_is_one_source_whatever_path_was_given(wiki, project, in_git, monkeypatch):
    if in_git:
        committed(project)
    (project.parent / "link").symlink_to(project / "docs")
    ingest(wiki, project)
    first = sources(wiki)["port.md"].id
    ways = [
        project / "docs",
        project / "docs" / "port.md",
        project.parent / "link",
        project.parent / "link" / "port.md",
    ]
    for number, way in enumerate(ways):
        write(project, {"docs/port.md": OLD.replace("8080", str(9000 + number))})
        if in_git:
            committed(project)
        ingest(wiki, way)
        assert sources(wiki)["port.md"].id == first
        assert str(9000 + number) in sources(wiki)["port.md"].segments[0].excerpt
        assert set(sources(wiki)) == {"port.md", "start.md", "README.md"}
    monkeypatch.chdir(project / "docs")
    for way in (".", "port.md", "../docs/port.md"):
        wiki.ingest("path", input={"path": way})
        assert sources(wiki)["port.md"].id == first


@pytest.mark.parametrize("in_git", [False, True])
def test_the_smaller_path_may_come_first(wiki, project, in_git):
    if in_git:
        committed(project)
    ingest(wiki, project / "docs" / "port.md")
    first = sources(wiki)["port.md"].id
    ingest(wiki, project / "docs")
    write(project, {"docs/port.md": NEW})
    if in_git:
        committed(project)
    ingest(wiki, project)
    assert sources(wiki)["port.md"].id == first
    assert said(wiki) == {"9090"}


def test_the_same_file_again_by_another_path_changes_nothing(wiki, project):
    committed(project)
    ingest(wiki, project)
    for way in (project / "docs", project / "docs" / "port.md"):
        assert ingest(wiki, way).status == "unchanged"
    assert ingest(wiki, project, mode="path").status == "unchanged"


def test_a_folder_read_by_path_mode_says_what_a_repository_says_of_its_files(wiki, project):
    committed(project)
    ingest(wiki, project, mode="path")
    first = sources(wiki)["port.md"].id
    ingest(wiki, project)
    assert sources(wiki)["port.md"].id == first


def test_files_in_a_folder_of_repositories_are_those_of_their_repositories(wiki, tmp_path):
    folder = tmp_path / "all"
    committed(project_in(folder / "gateway"))
    ingest(wiki, folder / "gateway")
    first = sources(wiki)["port.md"].id
    ingest(wiki, folder, mode="path")
    assert sources(wiki)["port.md"].id == first


def test_a_file_read_by_itself_that_git_ignores_is_not_withdrawn_by_its_repository(wiki, project):
    write(project, {".gitignore": "private.md\n", "private.md": "# Mine\n"})
    committed(project)
    ingest(wiki, project / "private.md")
    ingest(wiki, project)
    assert "private.md" in sources(wiki)
    (project / "private.md").unlink()
    ingest(wiki, project)
    assert "private.md" not in sources(wiki)


def test_a_file_that_git_forgot_is_withdrawn_though_it_is_there(wiki, project):
    committed(project)
    ingest(wiki, project)
    git(project, "rm", "-q", "--cached", "docs/port.md")
    git(project, "commit", "-qm", "forget")
    ingest(wiki, project)
    assert "port.md" not in sources(wiki)


def test_a_folder_that_becomes_a_repository_keeps_its_sources(wiki, project):
    ingest(wiki, project)
    first = {name: source.id for name, source in sources(wiki).items()}
    report = ingest(wiki, committed(project))
    assert {name: source.id for name, source in sources(wiki).items()} == first
    assert report.counts["moved"] == 3


def test_a_moved_repository_without_a_remote_keeps_its_history(wiki, project):
    ingest(wiki, committed(project))
    before = sources(wiki)["port.md"]
    decided = decide(wiki, before)
    moved = project.rename(project.with_name("renamed"))
    write(moved, {"docs/port.md": NEW})
    ingest(wiki, committed(moved))
    after = sources(wiki)["port.md"]
    assert after.id == before.id
    assert str(moved) in after.origin
    assert said(wiki) == {"9090"}
    assert wiki.engine.ledger.get(decided).status == "active"
    assert len([one for one in wiki.engine.ledger.select(Selection(types=("source",))) if one.kind == "repo"]) == 1


def decide(wiki, source, words="Run the gateway"):
    """Make a decision that rests on the start page."""
    start = sources(wiki)["start.md"]
    part = next(part for part in start.segments if words in part.excerpt)
    item = {
        "kind": "decision",
        "status": "active",
        "title": "We run it",
        "payload": {"question": "What is run?", "outcome": "The gateway"},
        "evidence_refs": [{"source_id": start.id, "segment_id": part.segment_id}],
    }
    return wiki.crystallize("knowledge", input=item).ids[0]


def test_a_moved_repository_that_did_not_change_is_only_renamed(wiki, project):
    ingest(wiki, committed(project))
    moved = project.rename(project.with_name("renamed"))
    report = ingest(wiki, moved)
    assert (report.counts["moved"], report.counts.get("created", 0)) == (4, 0)
    assert ingest(wiki, moved).status == "unchanged"


def test_a_repository_that_gets_a_remote_keeps_its_sources(wiki, project):
    ingest(wiki, committed(project))
    first = {name: source.id for name, source in sources(wiki).items()}
    git(project, "remote", "add", "origin", "https://example.org/acme/gateway.git")
    ingest(wiki, project)
    assert {name: source.id for name, source in sources(wiki).items()} == first
    git(project, "remote", "set-url", "origin", "git@example.org:acme/gateway.git")
    ingest(wiki, project)
    assert {name: source.id for name, source in sources(wiki).items()} == first


@pytest.mark.parametrize("how", ["clone", "worktree", "copy"])
def test_a_clone_a_work_tree_and_a_copy_hold_versions_of_the_same_files(wiki, project, how):
    ingest(wiki, committed(project))
    first = sources(wiki)["port.md"]
    other = project.with_name("other")
    match how:
        case "clone":
            git(project.parent, "clone", "-q", str(project), str(other))
        case "worktree":
            git(project, "worktree", "add", "-q", "-b", "side", str(other))
        case _:
            shutil.copytree(project, other)
    write(other, {"docs/port.md": NEW})
    ingest(wiki, committed(other))
    assert sources(wiki)["port.md"].id == first.id
    assert sources(wiki)["port.md"].origin == first.origin
    # A work tree has a branch of its own, beside which the other one stands; a clone has a later commit of the same,
    # and the one that is behind does not set it back.
    beside = how == "worktree"
    assert said(wiki) == ({"8080", "9090"} if beside else {"9090"})
    ingest(wiki, project)
    assert said(wiki) == ({"8080", "9090"} if beside else {"9090"})


def test_forks_are_different_repositories(wiki, tmp_path):
    first = committed(project_in(tmp_path / "first"))
    shutil.copytree(first, tmp_path / "second")
    for name in ("first", "second"):
        git(tmp_path / name, "remote", "add", "origin", f"https://example.org/{name}/gateway.git")
        ingest(wiki, tmp_path / name)
    found = [one for one in wiki.engine.ledger.select(Selection(types=("source",))) if one.status == "active"]
    assert len({one.origin for one in found}) == len(found) == 8


def test_unrelated_repositories_of_one_name_are_different(wiki, tmp_path):
    for name in ("a", "b"):
        folder = project_in(tmp_path / name / "gateway")
        write(folder, {"which.md": name})
        ingest(wiki, committed(folder))
    found = [one for one in wiki.engine.ledger.select(Selection(types=("source",))) if one.status == "active"]
    assert len(found) == 10


def test_a_moved_folder_keeps_its_history_also_of_files_that_changed(wiki, project):
    ingest(wiki, project)
    first = {name: source.id for name, source in sources(wiki).items()}
    decided = decide(wiki, None)
    moved = project.rename(project.with_name("renamed"))
    write(moved, {"docs/port.md": NEW})
    ingest(wiki, moved)
    assert {name: source.id for name, source in sources(wiki).items()} == first
    assert said(wiki) == {"9090"}
    assert wiki.engine.ledger.get(decided).status == "active"


def test_a_moved_file_read_by_itself_keeps_its_history(wiki, project):
    ingest(wiki, project / "docs" / "port.md")
    first = sources(wiki)["port.md"].id
    (project / "docs" / "port.md").rename(project / "port.md")
    ingest(wiki, project / "port.md")
    assert sources(wiki)["port.md"].id == first


def test_a_copied_folder_is_another_one(wiki, project):
    ingest(wiki, project)
    shutil.copytree(project, project.with_name("copy"))
    report = ingest(wiki, project.with_name("copy"))
    assert report.counts == {"created": 3}


def test_identity_ends_at_a_scope(wiki, project):
    ingest(wiki, committed(project), scope="/one")
    ingest(wiki, project, scope="/two")
    one, two = sources(wiki, "/one")["port.md"].id, sources(wiki, "/two")["port.md"].id
    assert one != two
    moved = project.rename(project.with_name("renamed"))
    ingest(wiki, moved, scope="/two")
    assert str(project) + "#" in sources(wiki, "/one")["port.md"].origin
    assert sources(wiki, "/two")["port.md"].id == two


def keep(wiki, origin, text, scope="/"):
    """Keep a file as earlier versions did: by an origin made of the folder that was named."""
    return wiki.ingest("source", scope, {"text": text, "origin": origin, "title": origin.rpartition("/")[2]}).items[0]


def lint(wiki, scope="/"):
    return [one for one in wiki.lint("structure", scope).findings if one.rule == "same-file"]


def earlier_names(project):
    return [f"file:{project}#docs/port.md", f"file:{project}/docs#port.md", f"file:{project}/docs/port.md"]


@pytest.mark.parametrize("number", range(3))
def test_a_space_of_before_gets_todays_names_and_loses_no_history(wiki, project, number):
    old = keep(wiki, earlier_names(project)[number], OLD)
    write(project, {"docs/port.md": NEW})
    ingest(wiki, project)
    assert sources(wiki)["port.md"].id == old.source_id
    assert wiki.engine.ledger.history(old.source_id)[0].segments[0].excerpt in OLD
    assert said(wiki) == {"9090"}
    assert ingest(wiki, project).status == "unchanged"


def test_a_file_that_stood_three_times_appears_once_after_the_next_ingest(wiki, project):
    for name, text in zip(earlier_names(project), (OLD, OLD, NEW), strict=True):
        keep(wiki, name, text)
    assert said(wiki) == {"8080", "9090"}
    write(project, {"docs/port.md": NEW})
    ingest(wiki, project)
    assert said(wiki) == {"9090"}
    assert set(sources(wiki)) == {"port.md", "start.md", "README.md"}


def test_knowledge_of_a_source_that_is_folded_goes_on_where_its_words_stand(wiki, project):
    keep(wiki, f"file:{project}/docs/start.md", "# Start\n\nRun the gateway.\n")
    decided = decide(wiki, None)
    keep(wiki, f"file:{project}#docs/start.md", "# Start\n\nRun the gateway.\n")
    ingest(wiki, project)
    assert sources(wiki)["start.md"].status == "active"
    assert wiki.engine.ledger.get(decided).status == "active"


def test_lint_reports_two_sources_of_one_file_and_repair_shows_and_folds_them(wiki, project):
    first, second, third = (
        keep(wiki, name, OLD + word) for name, word in zip(earlier_names(project), "abc", strict=True)
    )
    (finding,) = lint(wiki)
    assert finding.severity == "error"
    assert set(finding.ids) == {first.source_id, second.source_id, third.source_id}
    shown = wiki.lint("repair", input={"rules": ["same-file"]})
    assert [one.outcome for one in shown.repairs] == ["planned"]
    assert len(lint(wiki)) == 1
    done = wiki.lint("repair", input={"rules": ["same-file"]}, options={"apply": True})
    assert [one.outcome for one in done.repairs] == ["applied"]
    assert lint(wiki) == []
    assert sources(wiki)["port.md"].id == third.source_id
    assert {wiki.engine.ledger.get(one.source_id).status for one in (first, second)} == {"archived"}
    assert wiki.lint("audit").verified


def test_repair_moves_evidence_to_the_source_that_is_kept(wiki, project):
    keep(wiki, f"file:{project}#docs/start.md", "# Start\n\nRun the gateway.\n")
    decided = decide(wiki, None)
    kept = keep(wiki, f"file:{project}/docs/start.md", "# Start\n\nRun the gateway.\n\n# More\n\nThen wait.\n")
    wiki.lint("repair", input={"rules": ["same-file"]}, options={"apply": True})
    item = wiki.engine.ledger.get(decided)
    assert item.status == "active"
    assert {ref.source_id for ref in item.evidence_refs} == {kept.source_id}


def test_a_file_read_by_itself_and_in_its_repository_is_reported_and_repaired(wiki, project):
    git_remote = "https://example.org/acme/gateway.git"
    committed(project)
    git(project, "remote", "add", "origin", git_remote)
    ingest(wiki, project)
    keep(wiki, f"file:{project}/docs/port.md", NEW)
    assert said(wiki) == {"8080", "9090"}
    assert len(lint(wiki)) == 1
    wiki.lint("repair", input={"rules": ["same-file"]}, options={"apply": True})
    assert said(wiki) == {"9090"}
    assert sources(wiki)["port.md"].origin == f"repo:{git_remote}#docs/port.md"


@pytest.mark.parametrize("in_git", [False, True])
def test_what_was_read_before_and_after_a_move_is_reported_and_repaired(wiki, project, in_git):
    if in_git:
        committed(project)
    ingest(wiki, project)
    first = {one.id for one in sources(wiki).values()}
    moved = project.rename(project.with_name("renamed"))
    write(moved, {"docs/port.md": NEW})
    with treering.open(":memory:", background=False) as later:
        ingest(later, committed(moved) if in_git else moved)
        bring(wiki, later)
    assert said(wiki) == {"8080", "9090"}
    assert len(lint(wiki)) == (4 if in_git else 3)
    wiki.lint("repair", input={"rules": ["same-file"]}, options={"apply": True})
    assert lint(wiki) == []
    assert said(wiki) == {"9090"}
    assert not first & {one.id for one in sources(wiki).values()}
    ingest(wiki, moved)
    assert said(wiki) == {"9090"}


def bring(wiki, later):
    """Bring what another space read into this one, as earlier versions wrote it: under an origin of its own."""
    found = list(later.engine.ledger.select(Selection(types=("source",))))
    author = Author(actor="adapter", channel="adapter", tool="ingest")
    operations = tuple(Create(object=one) for one in found)
    wiki.engine.ledger.commit(new_patch(wiki.engine, operations, author=author, reason="Ingest").value)


def test_the_next_ingest_joins_what_was_read_before_and_after_a_move(wiki, project):
    ingest(wiki, committed(project))
    moved = project.rename(project.with_name("renamed"))
    write(moved, {"docs/port.md": NEW})
    with treering.open(":memory:", background=False) as later:
        ingest(later, committed(moved))
        bring(wiki, later)
    ingest(wiki, moved)
    assert set(sources(wiki)) == {"port.md", "start.md", "README.md"}
    assert said(wiki) == {"9090"}
    assert lint(wiki) == []


def test_copies_that_both_are_there_are_no_finding(wiki, project):
    ingest(wiki, project)
    shutil.copytree(project, project.with_name("copy"))
    ingest(wiki, project.with_name("copy"))
    assert lint(wiki) == []


def test_the_same_file_in_two_scopes_is_no_finding(wiki, project):
    for scope in ("/one", "/two"):
        keep(wiki, f"file:{project}/docs/port.md", OLD, scope)
    assert lint(wiki) == []


def test_a_map_of_before_that_names_no_first_commit_is_recognised_by_the_commit_it_was_read_at(wiki, project):
    ingest(wiki, committed(project))
    before = sources(wiki)["port.md"]
    forget_first_commit(wiki)
    moved = project.rename(project.with_name("renamed"))
    write(moved, {"docs/port.md": NEW})
    ingest(wiki, committed(moved))
    assert sources(wiki)["port.md"].id == before.id
    assert said(wiki) == {"9090"}


def forget_first_commit(wiki):
    """Leave a map as earlier versions wrote it."""
    (known,) = [one for one in wiki.engine.ledger.select(Selection(types=("source",))) if one.kind == "repo"]
    payload = {name: value for name, value in known.payload.items() if name not in ("root_commit", "slug")}
    changes = {"payload": payload, "fingerprint": "repo-map:before"}
    operations = (Update(id=known.id, expected_revision=known.revision, changes=changes),)
    author = Author(actor="adapter", channel="adapter", tool="ingest")
    wiki.engine.ledger.commit(new_patch(wiki.engine, operations, author=author, reason="Ingest").value)


def test_nodes_of_a_repository_keep_their_names_when_its_folder_is_renamed(wiki, project):
    write(project, {"src/gateway/__init__.py": '"""Listens."""\n', "src/gateway/app.py": "def run():\n    return 1\n"})
    ingest(wiki, committed(project))
    before = {(one.kind, one.slug) for one in wiki.engine.ledger.select(Selection(types=("node",)))}
    moved = project.rename(project.with_name("renamed"))
    ingest(wiki, committed(moved))
    assert {(one.kind, one.slug) for one in wiki.engine.ledger.select(Selection(types=("node",)))} == before


def test_a_conversation_goes_with_the_file_it_is_in(wiki, project):
    talk = '[{"role": "user", "content": "Which port?"}, {"role": "assistant", "content": "It is 8080."}]'
    write(project, {"talk.json": talk})
    ingest(wiki, project / "talk.json")
    first = sources(wiki)["talk.json"]
    ingest(wiki, project)
    assert (sources(wiki)["talk.json"].id, first.kind) == (first.id, "conversation")
    moved = project.rename(project.with_name("renamed"))
    ingest(wiki, moved)
    assert set(sources(wiki)) == {"talk.json", "port.md", "start.md", "README.md"}


def test_a_server_that_may_read_below_one_folder_names_its_files_alike(project):
    for files in (None, project):
        with treering.open(":memory:", background=False, files=files) as space:
            ingest(space, project)
            assert sources(space)["port.md"].origin == f"file:{project}/docs/port.md"


def test_a_name_with_a_number_sign_is_not_mistaken_for_something_inside_of_a_file(wiki, project):
    write(project, {"docs/port.md#old": OLD, "docs/50%23.md": "# Half\n"})
    report = ingest(wiki, project)
    assert report.counts == {"created": 5}
    assert ingest(wiki, project / "docs").status == "unchanged"
    (project / "docs" / "port.md#old").unlink()
    assert ingest(wiki, project).counts == {"unchanged": 4, "removed": 1}


def test_renames_wait_for_review_where_the_space_asks_for_it(project, tmp_path):
    (tmp_path / "policy.toml").write_text('direct_channels = ["user", "agent", "import", "system"]\n')
    with treering.open(":memory:", background=False, policy=tmp_path / "policy.toml") as space:
        old = keep(space, f"file:{project}/docs#port.md", OLD)
        first, again = (ingest(space, project / "docs" / "port.md") for _ in range(2))
        assert {first.status, again.status} == {"proposed"}
        assert space.engine.ledger.get(old.source_id).origin.endswith("#port.md")
        assert len(space.engine.ledger.patches(status="proposed")) == 1


@pytest.mark.nightly
def test_the_command_line_names_what_moved(project, tmp_path):
    committed(project)
    space = tmp_path / "space.db"
    run(space, "ingest", str(project))
    moved = project.rename(project.with_name("renamed"))
    assert "4 moved" in run(space, "ingest", str(moved))
    assert "same-file" not in run(space, "lint", "structure")


def run(space, *arguments):
    command = [sys.executable, "-m", "treering", *arguments, "--space", f"sqlite:{space}"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(space.parent), "TREERING_BACKGROUND": "false"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
