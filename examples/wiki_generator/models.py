"""The documents in MongoDB, and the form of a plan."""

from typing import Any

from beanie import Document, init_beanie
from pydantic import BaseModel
from pymongo import AsyncMongoClient

from treering.wiki import WikiMemory as WikiMemory


class WikiPage(Document):
    """A page of a wiki in Markdown; `path` is its path in the wiki."""

    repository_id: str
    path: str
    title: str
    body: str

    class Settings:
        """Settings for Beanie."""

        name = "wiki_pages"


class PlannedPage(BaseModel):
    """A page to write, about one file."""

    path: str
    title: str
    file: str


class LLMWikiStructureSchema(BaseModel):
    """The plan of a wiki."""

    title: str
    pages: list[PlannedPage]


async def init_database(url: str) -> AsyncMongoClient[dict[str, Any]]:
    """Connect to the database in `url`, and register the documents."""
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(url)
    await init_beanie(database=client.get_default_database(), document_models=[WikiPage, WikiMemory])
    return client
