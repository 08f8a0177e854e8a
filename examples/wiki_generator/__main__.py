"""Generate wikis of work trees: `python -m examples.wiki_generator [--force] FOLDER …`."""

import asyncio
import os
import sys
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from examples.wiki_generator.models import WikiMemory, init_database
from examples.wiki_generator.workflow import generate_wiki


async def main(folders: list[str], *, force: bool) -> None:
    """Generate a wiki of each folder, and print a line about it."""
    url = os.environ.get("TREERING_WIKI_MEMORY", "")
    if not folders or not url.startswith("mongodb"):
        sys.exit("Set TREERING_WIKI_MEMORY=mongodb://HOST/DATABASE, and give the folders of repositories.")
    async with await init_database(url):
        for folder in map(Path, folders):
            repository_id = uuid5(NAMESPACE_URL, folder.resolve().as_uri())
            wiki = await generate_wiki(repository_id, force, repo_dir=str(folder))
            memories = await WikiMemory.find({"repository_id": str(repository_id), "status": "active"}).count()
            print(f"{folder.name}: {wiki['structure'].title}, {len(wiki['pages'])} pages, {memories} memories")


if __name__ == "__main__":
    asyncio.run(main([one for one in sys.argv[1:] if one != "--force"], force="--force" in sys.argv))
