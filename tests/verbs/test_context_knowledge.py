"""Which knowledge enters a context pack: what has to do with the task, at least as much as the passages beside it."""

import pytest

from space_parts import decide, note

PYPROJECT = """\
[project]
name = "acme"
version = "1.2"
license = "MIT"
requires-python = ">=3.11"
dependencies = ["click>=8", "rich>=13", "httpx>=0.28"]
"""
SECURITY = """\
# Security

Flaws in acme must be reported to the maintainers by mail, and no error report may name them in public.
"""
CONTRIBUTING = """\
# Contributing

Every change of acme must come with a test. Please never push to the main branch of acme.
"""
FLAGS = '''\
"""Flags of the acme command line."""


def parse_flag(text):
    """Parse a flag of acme. Errors of flags are reported on standard error, with the flag and its nearest name."""
    raise FlagError(f"acme: unknown flag {text}")


class FlagError(ValueError):
    """An error in a flag that acme reports, with exit code 2."""


def report(error):
    """Report how a flag error of acme came to be, on standard error."""
'''
ASKED = "How are flag errors of acme reported on standard error?"


@pytest.fixture
def acme(space, tmp_path):
    """A space that has read a small project."""
    files = {"pyproject.toml": PYPROJECT, "SECURITY.md": SECURITY, "CONTRIBUTING.md": CONTRIBUTING, "flags.py": FLAGS}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    for number in range(12):
        text = f'"""Part {number} of acme reports an error of module {number}."""\n'
        (tmp_path / f"part_{number}.py").write_text(text)
    space.ingest("path", input={"path": str(tmp_path)})
    return space


def context(space, what, **options):
    return space.query("context", input={"task": what}, options=options).pack


def sections(pack):
    return [item.section for item in pack.items]


@pytest.mark.parametrize("vectors", [False, True])
def test_facts_and_rules_that_were_read_off_files_do_not_lead_packs_about_something_else(acme, vectors):
    if vectors:
        acme.embed_pending()
    pack = context(acme, ASKED)
    assert set(sections(pack)) == {"sources"}
    assert "flag" in pack.items[0].text


@pytest.mark.parametrize(
    ("task", "title"),
    [
        ("Which Python does acme require?", "acme: requires python >=3.11"),
        ("Under which license is acme?", "acme: license MIT"),
        ("May I push a change to the main branch?", "Please never push to the main branch of acme"),
    ],
)
def test_facts_and_rules_that_were_read_off_files_enter_packs_that_ask_for_them(acme, task, title):
    assert title in [item.title.rstrip(".") for item in context(acme, task).items]


@pytest.fixture
def workshop(acme, tmp_path):
    """The project with small packages beside it, each read as a project of its own, all of which name it."""
    for name in ("bell", "lamp", "clock"):
        (tmp_path / name).mkdir()
        text = f'[project]\nname = "acme-example-{name}"\nversion = "9.9"\ndependencies = ["acme>=1", "bolt>=2"]\n'
        (tmp_path / name / "pyproject.toml").write_text(text)
        acme.ingest("path", input={"path": str(tmp_path / name)})
    acme.embed_pending()
    return acme


def facts_for(space, task):
    return sorted(item.title for item in context(space, task).items if item.section == "facts")


def test_what_packages_need_stays_out_of_packs_that_only_share_their_name(workshop):
    assert facts_for(workshop, "How does acme report flags?") == []
    assert facts_for(workshop, "Where is the lamp painted red?") == []


def test_a_package_that_is_named_keeps_the_others_out(workshop):
    assert facts_for(workshop, "What version is acme?") == ["acme: version 1.2"]
    told = facts_for(workshop, "What does acme-example-lamp depend on?")
    assert {"acme-example-lamp: depends on acme >=1", "acme-example-lamp: depends on bolt >=2"} <= set(told)
    assert not any(one.startswith(("acme-example-bell", "acme-example-clock")) for one in told)


def test_fact_about_several_packages_is_shown_for_each(workshop):
    told = facts_for(workshop, "Who depends on bolt?")
    assert {f"acme-example-{name}: depends on bolt >=2" for name in ("bell", "clock", "lamp")} <= set(told)
    assert not any("version" in one for one in told)


def test_a_fact_read_off_a_file_does_not_come_along_with_a_passage_of_that_file(space, tmp_path):
    text = PYPROJECT + "\n[tool.acme]\nzygote_scheduler = 3  # zygote workers that the scheduler starts\n"
    (tmp_path / "pyproject.toml").write_text(text)
    space.ingest("path", input={"path": str(tmp_path)})
    assert sections(context(space, "How many zygote workers starts the scheduler?")) == ["sources"]


def test_what_people_decided_enters_though_passages_repeat_more_of_the_task(acme):
    known = decide(acme, "Flags are written in kebab case", note(acme, "Kebab case it is.", origin="talk"))
    pack = context(acme, "Add a flag that turns the error reports of acme off")
    assert known in [item.object_id for item in pack.items]


def test_knowledge_comes_along_only_with_the_best_evidence(space):
    best = note(space, "The flux compensator needs 1.21 gigawatts.", origin="best.md")
    other = note(space, "A flux tube.", origin="tube.md")
    known, beside = decide(space, "Buy a bigger battery", best), decide(space, "Order two at once", other)
    shown = [item.object_id for item in context(space, "flux compensator gigawatts").items]
    assert {best["source_id"], known} <= set(shown)
    assert beside not in shown


FILES = {
    "uploads.py": "def upload(file):\n    return file  # Send a file to the bucket in chunks of eight megabytes.\n",
    "buckets.py": "def bucket(name):\n    return name  # Open a bucket by its name; an upload of a file goes there.\n",
    "login.py": "def login(user):\n    return user  # Check the password of a user, then open a session.\n",
}


@pytest.fixture
def bucket_files(space, tmp_path):
    """The evidence that each file of a small project makes, by its name."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    space.ingest("path", input={"path": str(tmp_path)})
    sources = {name: space.query("search", input={"text": name}).hits[0] for name in FILES}
    return {name: {"source_id": hit.object_id, "segment_id": hit.segment_id} for name, hit in sources.items()}


def test_decision_about_other_file_needs_more_words(space, bucket_files):
    first = decide(space, "Eight megabytes it is", bucket_files["uploads.py"])
    second = decide(space, "Names of a bucket are lower case", bucket_files["buckets.py"])
    far = decide(space, "Sessions end when a file is signed", bucket_files["login.py"])
    near = decide(space, "Signed files go in chunks to a bucket", bucket_files["login.py"])
    task = "Send an upload of a file to its bucket in chunks"
    shown = {item.object_id for item in context(space, task).items if item.section == "decisions"}
    assert {first, second, near} <= shown
    assert far not in shown


def test_kind_of_change_is_no_word_of_the_task(space, bucket_files):
    known = decide(space, "feat: sessions of a user end", bucket_files["login.py"])
    task = "feat(uploads): send a file in chunks to the bucket"
    assert known not in {item.object_id for item in context(space, task).items}


TITLES = (
    "Retries of an upload are capped at five",
    "Passwords are hashed with bcrypt",
    "Dashboards are drawn in Grafana",
    "Invoices are numbered without gaps",
    "Logs are kept for two weeks",
    "Feature toggles live in Unleash",
)


@pytest.mark.parametrize("count", [3, 6])
@pytest.mark.parametrize("vectors", [False, True])
def test_only_knowledge_about_the_task_enters_a_small_space(space, count, vectors):
    decided = [decide(space, title, note(space, title + ".", origin=title)) for title in TITLES[:count]]
    if vectors:
        space.embed_pending()
    asked = "How often may an upload be tried, and how are its retries capped?"
    items = context(space, asked).items
    assert [item.object_id for item in items if item.section == "decisions"] == decided[:1]
    assert context(space, "API versioning strategy for v2 migration").items == ()


def test_a_pack_does_not_tell_the_beginning_of_an_outcome_a_second_time(space, tmp_path):
    (tmp_path / "decisions").mkdir()
    outcome = (
        "Messages wait in the lavender queue for a week. " + "A worker reads them in order of their arrival. " * 12
    )
    record = f"# Messages wait in a queue\n\n## Context\n\nThe mail server is slow.\n\n## Decision\n\n{outcome}\n"
    (tmp_path / "decisions" / "0001-queue.md").write_text(record)
    space.ingest("path", input={"path": str(tmp_path)})

    pack = context(space, "How long do messages wait in the lavender queue?")

    (decision,) = (item for item in pack.items if item.kind == "decision")
    assert decision.text.count("lavender queue for a week") == 1
    assert "Outcome: Messages wait in the lavender queue" in decision.text


def test_rules_for_every_task_are_listed_in_a_line_each(space):
    evidence = note(space, "Ask before adding a package.", origin="rules")
    ids = [
        decide(space, f"Dependencies {at}", evidence, kind="constraint", payload={"rule": f"Rule {at}."})
        for at in range(6)
    ]
    decide(space, "Only in src", evidence, kind="constraint", payload={"rule": "Only here.", "scope": "src"})
    note(space, "Uploads are retried three times.", origin="uploads")
    pack = space.query("context", input={"task": "how are uploads retried"}).pack
    assert pack.rules == tuple(f'"Rule {at}." (`{ids[at]}`)' for at in range(5, 0, -1))
    assert not {item.object_id for item in pack.items} & set(ids)


def test_passage_that_knowledge_repeats_takes_no_place(space):
    repeated = note(space, "Uploads are retried three times.", origin="a")
    decide(space, "Uploads are retried three times", repeated)
    more = note(space, "Uploads are retried three times, the last one after 40 seconds.", origin="b")
    decide(space, "Uploads are retried three times, the last one late", more)
    pack = space.query("context", input={"task": "how often are uploads retried"}).pack
    shown = {item.object_id for item in pack.items}
    assert repeated["source_id"] not in shown
    assert repeated["source_id"] in {citation.object_id for citation in pack.citations}
    assert more["source_id"] in shown, "it has a number that the decision lacks"
