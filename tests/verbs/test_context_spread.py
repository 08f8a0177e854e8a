"""Which passages share the budget of a context pack."""

from collections import Counter

import pytest

from sources.git_scratch import Scratch
from space_parts import decide, note
from treering.core.evidence import place_in_words
from treering.extensions.mcp.answers import text_of
from treering.retrieval.text.analysis import estimate_tokens
from treering.retrieval.tuning import TUNING


def context(space, what, **options):
    return space.query("context", input={"task": what}, options=options).pack


def sources(pack):
    return Counter(item.object_id for item in pack.items)


def test_one_page_does_not_fill_a_pack_where_others_speak_of_the_task_too(space):
    page = "\n\n".join(
        f"# Uploads, part {at}\n\n" + f"The uploader retries uploads with backoff {at}. " + f"chapter{at} " * 30
        for at in range(12)
    )
    whole = note(space, page, origin="page.md", kind="markdown")["source_id"]
    others = {
        note(space, f"Uploads in module {at} are retried by the uploader. " + f"module{at} " * 30, origin=f"{at}.md")[
            "source_id"
        ]
        for at in range(6)
    }
    found = sources(context(space, "How does the uploader retry uploads with backoff?", max_tokens=1600))
    assert found[whole] <= 4
    assert len(found.keys() & others) >= 3


def test_where_only_one_page_speaks_of_the_task_it_fills_the_pack(space):
    page = "\n\n".join(f"# Uploads, part {at}\n\nThe uploader retries uploads with backoff {at}." for at in range(12))
    whole = note(space, page, origin="page.md", kind="markdown")["source_id"]
    segments = space.engine.ledger.get(whole).segments
    assert sources(context(space, "How does the uploader retry uploads with backoff?"))[whole] == len(segments) > 4


def test_turns_of_one_conversation_share_a_pack_without_a_cap(space):
    talk = [{"name": "Ann", "content": f"The uploader retries uploads with backoff {at}."} for at in range(30)]
    space.ingest("source", input={"items": [{"kind": "conversation", "origin": "talk", "messages": talk}]})
    for at in range(30):
        note(space, f"Retries of module {at}.", origin=f"{at}.md")
    found = sources(context(space, "How does the uploader retry uploads with backoff?", max_tokens=2000))
    assert max(found.values()) >= 20


@pytest.fixture
def project(space, tmp_path):
    """One long file that says the words of the task in every function, files that say them once, and tests."""
    long = "\n\n".join(f"def retry_{at}(upload):\n    return upload.retry(backoff={at})" for at in range(60))
    (tmp_path / "uploader.py").write_text(f"{long}\n", encoding="utf-8")
    for name in ("queue", "client", "server", "test_queue"):
        text = f"def {name}_of(upload):\n" + f"    {name} = {name}.open()\n" * 20 + "    return upload.retry()\n"
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    (tmp_path / "notes.md").write_text("# Uploads\n\nEvery upload is retried.\n", encoding="utf-8")
    space.ingest("path", input={"path": str(tmp_path)})
    return space


RETRY = "Where does an upload retry with backoff?"


def test_files_of_code_of_which_nothing_is_shown_are_named_with_their_lines(project):
    pack = context(project, RETRY, max_tokens=300, semantic=False)
    shown = {item.title.partition(" ")[0] for item in pack.items}
    named = {read.strip('"').partition("#")[0] for read in pack.recommended_next_reads if "#L" in read}
    assert shown
    assert named == {"uploader.py", "queue.py", "client.py", "server.py"} - shown
    assert all("test_" not in read and "notes" not in read for read in pack.recommended_next_reads if "#L" in read)


def test_each_further_file_is_named_once_and_where_all_are_shown_none_is(project):
    reads = context(project, RETRY, max_tokens=300, semantic=False).recommended_next_reads
    files = [read.partition("#")[0] for read in reads if "#L" in read]
    assert len(files) == len(set(files))
    assert not any("#L" in read for read in context(project, RETRY, max_tokens=20_000).recommended_next_reads)


def test_a_file_that_does_not_fit_an_answer_over_mcp_is_named_in_it(project):
    report = project.query("context", input={"task": RETRY}, options={"max_tokens": 1200, "semantic": False})
    text = text_of(report, max_tokens=900)
    assert all(item.title.partition(" ")[0] in text for item in report.pack.items)
    assert report.text.count("treering:cited") > text.count("treering:cited")


def test_long_comments_of_code_are_shortened_where_a_pack_has_no_room_for_all(space, tmp_path):
    told = "\n".join(f"    Of retries of an upload, matter {at}." for at in range(16))
    names = ("queue", "client", "server", "spool", "stream")
    for name in names:
        text = f'def retry_{name}(upload):\n    """Retry an upload.\n{told}\n    """\n    return {name}_of(upload)\n'
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    space.ingest("path", input={"path": str(tmp_path)})
    first, *others = context(space, RETRY, max_tokens=1_000, semantic=False).items
    assert "matter 15" in first.text
    assert len(others) == len(names) - 1
    assert all("… 16 more lines" in item.text and "_of(upload)" in item.text for item in others)
    assert not any("matter 15" in item.text for item in others)
    short_of_room = context(space, RETRY, max_tokens=700, semantic=False).items[0]
    assert "… 16 more lines" in short_of_room.text
    assert "_of(upload)" in short_of_room.text
    roomy = context(space, RETRY, max_tokens=20_000, semantic=False).items
    assert all("matter 15" in item.text for item in roomy)


@pytest.mark.parametrize("budget", [50, 120, 300, 1000, 2000, 8192])
def test_a_pack_keeps_to_its_budget_with_all_that_surrounds_its_items(project, budget):
    for at in range(12):
        told = note(project, f"Uploads of region {at} are retried with backoff {at}.", origin=f"region/{at}.md")
        decide(project, f"Retry an upload of region {at} with backoff", told)
    task = f"{RETRY} Nobody knows of flux compensators. " * 3
    report = project.query("context", input={"task": task}, options={"max_tokens": budget, "semantic": False})
    assert estimate_tokens(report.text) <= budget
    assert report.pack.budget["used_tokens"] == estimate_tokens(report.text)
    assert report.pack.budget["left_out"] == len(report.left_out)
    assert report.text.count("<<treering:cited") == len(report.pack.items)
    places = [place_in_words(citation.place).partition(" @ ")[0] for citation in report.pack.citations]
    assert all(place in report.text for place in places)


def test_best_files_have_a_passage_before_any_has_two(project):
    items = context(project, RETRY, max_tokens=2_000, semantic=False).items
    hits = project.query("search", input={"text": RETRY}, options={"group": "source", "semantic": False}).hits
    assert [item.object_id for item in items[:5]] == [hit.object_id for hit in hits[:5]]
    assert len({item.object_id for item in items}) < len(items)


def test_next_reads_are_at_most_five_with_reasons(space, tmp_path):
    for at in range(16):
        lines = "\n".join(f"    step_{at}_{number}(upload)" for number in range(40))
        (tmp_path / f"part{at}.py").write_text(f"def retry_part{at}(upload):\n    upload.retry()\n{lines}\n")
    space.ingest("path", input={"path": str(tmp_path)})
    reads = context(space, "retry an upload", max_tokens=600, semantic=False).recommended_next_reads
    assert len(reads) == 5
    assert all(read.endswith(': mentions "retry", "upload"') for read in reads)


def test_unknown_words_are_no_reason_to_read_on(space, tmp_path):
    (tmp_path / "graph.py").write_text("def build_graph(role):\n    role.links()\n")
    space.ingest("path", input={"path": str(tmp_path)})
    reads = context(space, "add a GraphQL endpoint", semantic=False).recommended_next_reads
    assert not [read for read in reads if "GraphQL" in read]


def test_name_of_the_project_is_no_reason_to_read_on(space, tmp_path):
    files = {f"part{at}.py": f"def part{at}():\n    acme.retry()\n" + "    acme.step()\n" * 60 for at in range(16)}
    repository = Scratch(tmp_path / "acme")
    repository.commit({"pyproject.toml": '[project]\nname = "acme"\n', **files})
    space.ingest("repo", input={"path": str(repository.folder)})
    reads = context(space, "where does acme retry", max_tokens=600, semantic=False).recommended_next_reads
    assert reads
    assert all(read.endswith(': mentions "retry"') for read in reads)


def test_too_long_passage_is_cut_around_lines_that_answer(space, tmp_path):
    lines = [f"    step{number}(upload)" for number in range(80)]
    lines[60] = "    backoff(upload)"
    (tmp_path / "send.py").write_text("\n".join(["def send(upload):", '    """Send it."""', *lines, ""]))
    space.ingest("path", input={"path": str(tmp_path)})
    (item,) = context(space, "which backoff", max_tokens=800, semantic=False).items
    shown = item.text.split("\n")
    assert shown[0] == "def send(upload):"
    assert "    backoff(upload)" in shown
    assert "    step3(upload)" not in shown
    assert "… lines 3-56" in shown


def test_questions_about_code_omit_files_that_share_only_words(space, tmp_path):
    files = {f"src/part{at}.py": f"def run_{at}(jobs):\n    return jobs.run({at})\n" for at in range(8)}
    files |= {"src/retry.py": '"""Retry."""\n\n\ndef retry_upload(upload):\n    """Run a failed upload again."""\n'}
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    space.ingest("path", input={"path": str(tmp_path)})

    def paths(task):
        return {one.place.partition("#")[0] for one in context(space, task).citations}

    asked, task = paths("where do we run a failed upload again"), paths("run a failed upload again")
    assert "src/retry.py" in asked
    assert len(asked) == TUNING.context.best_files < len(task)


def test_pack_contains_a_copied_file_once(project, tmp_path):
    guide = "# Retries\n\nThe uploader retries uploads with backoff, three times, before an error is raised.\n"
    for version in ("latest", "next"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "guide.md").write_text(guide, encoding="utf-8")
    project.ingest("path", input={"path": str(tmp_path)})
    pack = context(project, "How does the uploader retry uploads with backoff?", max_tokens=6000)
    assert [item.text for item in pack.items].count(guide.strip()) == 1


def imports_of(pack):
    return [item for item in pack.items if "import (" in item.text]


@pytest.mark.parametrize(
    ("task", "has_others", "shown"),
    [
        ("Add jitter to the backoff of a client", True, 0),
        ("Add jitter to the backoff of a client", False, 1),
        ("Sort the import lines about the backoff of a client", True, 1),
    ],
)
def test_imports_are_shown_only_if_nothing_else_of_a_file_is_relevant(space, tmp_path, task, has_others, shown):
    names = "".join(f"    backoff_{number},\n" for number in range(30))
    steps = "".join(f"    wait.step_{number}()\n" for number in range(30))
    made = Scratch(tmp_path / "acme")
    header = f"from waiting import (\n    Backoff,\n    jitter,\n    client,\n{names})\n"
    function = f'\n\ndef connect(wait):\n    """Do the backoff of a client."""\n{steps}'
    made.commit({"acme/net.py": header + (function if has_others else "")})
    space.ingest("repo", input={"path": str(made.folder)})
    assert len(imports_of(context(space, task))) == shown


def test_next_reads_mention_a_name_only_if_the_file_contains_it(space, tmp_path):
    near = {f"part{at}.py": f"def set_active_{at}():\n    return 'set of an active basket'\n" for at in range(6)}
    calling = "from cart import setActiveBasket\n\n\ndef use():\n    setActiveBasket(1)\n"
    scratch = Scratch(tmp_path / "shop")
    scratch.commit({**near, "use.py": calling, "cart.py": "def setActiveBasket(basket):\n    return basket\n"})
    space.ingest("repo", input={"path": str(scratch.folder)})
    reads = context(space, "rename setActiveBasket", max_tokens=100).recommended_next_reads
    assert not [one for one in reads if "part" in one and "mentions" in one]


def test_passage_is_cited_with_its_own_lines_next_to_a_decision_about_one_of_them(space, tmp_path):
    scratch = Scratch(tmp_path / "shop")
    scratch.commit({"cart.py": "def total(rows):\n    # rounded for the tax office\n    return round(sum(rows))\n"})
    space.ingest("repo", input={"path": str(scratch.folder)})
    space.asked_from(scratch.folder).decide("The total is rounded for the tax office", because=["cart.py:3"])
    pack = context(space, "is the total rounded for the tax office")
    places = {one.mark: one.place.partition("#")[2].partition(" @ ")[0] for one in pack.citations}
    cited = [(item.section, [places[mark] for mark in item.citations]) for item in pack.items]
    assert cited == [("decisions", ["L3-L3"]), ("sources", ["L1-L3"])]
