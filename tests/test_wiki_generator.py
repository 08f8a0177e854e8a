"""The example of a wiki generator: agents of LangGraph with a memory in MongoDB, on repositories in three languages."""

import asyncio
from uuid import uuid4

import pytest

pytest.importorskip("beanie", reason="pip install 'treering[beanie]'")
pytest.importorskip("langchain", reason="pip install 'treering[langchain]'")
pytest.importorskip("langgraph", reason="pip install 'treering[langgraph]'")

from examples.wiki_generator.models import WikiMemory, WikiPage, init_database
from examples.wiki_generator.workflow import generate_wiki, with_valid_links

import mongo_server

REPOSITORIES = {
    "python": {"src/shop/till.py": "class Till:\n    pass\n", "tests/test_till.py": "def test_till():\n    pass\n" * 9},
    "go": {"till.go": "package till\n\nfunc Open() {}\n", "coin.go": "package till\n\ntype Coin struct {\n}\n"},
    "java": {"src/main/java/Till.java": "package shop;\n\npublic final class Till {\n}\n"},
}
DECISION = "Pages are organized by file: one for each of the largest files."


@pytest.fixture(scope="module")
def address():
    with mongo_server.running() as server:
        yield server.url


@pytest.fixture
def run(address, monkeypatch):
    """Run a coroutine with an open database."""
    monkeypatch.setenv("TREERING_WIKI_MEMORY", address)
    monkeypatch.setenv("TREERING_EMBEDDER", "static")

    async def in_database(work):
        async with await init_database(address):
            return await work

    return lambda work: asyncio.run(in_database(work))


@pytest.fixture(params=REPOSITORIES)
def folder(request, tmp_path):
    for path, text in REPOSITORIES[request.param].items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return tmp_path


async def memories(repository_id):
    active = {"repository_id": str(repository_id), "status": "active"}
    return sorted([one.content async for one in WikiMemory.find(active)])


@pytest.mark.sampled(1)
def test_second_run_recalls_and_force_forgets(run, folder):
    repository_id = uuid4()

    async def work():
        runs = [(False, "A plan"), (False, "Planned as before"), (True, "A plan")]
        for force, title in runs:
            wiki = await generate_wiki(repository_id, force, repo_dir=str(folder))
            assert wiki["structure"].title == title
            stored = await memories(repository_id)
            assert DECISION in stored
            assert len(stored) == 1 + len(wiki["pages"])
        return await WikiPage.find(WikiPage.repository_id == str(repository_id)).to_list()

    pages = run(work())
    files = (path.relative_to(folder).as_posix() for path in folder.rglob("*.*") if path.is_file())
    assert {page.title for page in pages} == {path for path in files if "test" not in path}
    for page in pages:
        assert f"]({page.title}#L" in page.body
        assert with_valid_links(page.body, folder, [one.path for one in pages]) == page.body


@pytest.mark.parametrize("folder", ["python"], indirect=True)
def test_a_failed_run_leaves_the_published_pages(run, folder, monkeypatch):
    repository_id = uuid4()

    async def work():
        await generate_wiki(repository_id, repo_dir=str(folder))
        before = await WikiPage.find(WikiPage.repository_id == str(repository_id)).to_list()
        monkeypatch.setenv("WIKI_MODEL", "no model")
        with pytest.raises(ValueError, match="no model"):
            await generate_wiki(repository_id, repo_dir=str(folder))
        return before, await WikiPage.find(WikiPage.repository_id == str(repository_id)).to_list()

    before, after = run(work())
    assert before == after


@pytest.mark.parametrize(
    ("link", "is_valid"),
    [
        ("[`Till`](till.py#L1-L1)", True),
        ("[`Till`](till.py#L2-L2)", False),
        ("[`Till`](till.py#L9-L9)", False),
        ("[`Till`](../till.py#L1-L1)", False),
        ("[`Till`](missing.py#L1-L1)", False),
        ("[till](till.md)", True),
        ("[other](other.md)", False),
    ],
)
def test_links_that_lead_nowhere_become_text(tmp_path, link, is_valid):
    (tmp_path / "till.py").write_text("class Till:\n    pass\n", encoding="utf-8")
    assert (with_valid_links(link, tmp_path, ["till.md"]) == link) is is_valid
