"""Memories and projects of a Claude.ai export; `json_document` reads its conversations."""

from collections.abc import Iterator
from datetime import datetime

from pydantic import JsonValue

from treering.extensions.conversations.foreign_memories import ForeignMemory, LeftOut, Told, written
from treering.extensions.conversations.loose_json import Record, listed, record, words


def claims_memories(found: Record) -> bool:
    """Return whether an object contains the memories of an account."""
    return "account_uuid" in found and bool(found.keys() & {"conversations_memory", "project_memories", "memory_files"})


def read_memories(found: Record) -> Iterator[Told]:
    """Read the memory of conversations, the memory of each project, and the memory files."""
    account = words(found.get("account_uuid"))
    if "conversations_memory" in found:
        yield _text(f"{account}/conversations", found["conversations_memory"], "Memory of conversations")
    for project, text in record(found.get("project_memories")).items():
        yield _text(f"{account}/projects/{project}", text, "Memory of a project", project=project)
    for one in map(record, listed(found.get("memory_files"))):
        path = words(one.get("path"))
        yield _text(f"{account}/files/{path.lstrip('/')}", one.get("content"), path, at=written(one))


def claims_project(found: Record) -> bool:
    """Return whether an object is a project."""
    return isinstance(found.get("docs"), list) and {"uuid", "name", "prompt_template"} <= found.keys()


def read_project(found: Record) -> Iterator[Told]:
    """Read the description, the instructions and the documents of a project."""
    id_, name = words(found.get("uuid")), words(found.get("name")).strip()
    if found.get("is_starter_project") is True:
        yield LeftOut(id_, "it is the example project of Claude")
        return
    for part, title in (("description", f"Project {name}"), ("prompt_template", f"Instructions of project {name}")):
        if words(found.get(part)).strip():
            yield _text(f"{id_}/{part}", found[part], title, at=written(found), project=name)
    for place, one in enumerate(map(record, listed(found.get("docs")))):
        document = words(one.get("uuid")) or str(place)
        yield _text(f"{id_}/{document}", one.get("content"), words(one.get("filename")), at=written(one), project=name)


def _text(name: str, text: object, title: str, *, at: datetime | None = None, **metadata: JsonValue) -> Told:
    """Return a text. It contains many statements or none, so it states nothing as a whole."""
    if not words(text).strip():
        return LeftOut(name, "it is empty")
    return ForeignMemory("claude", name, words(text), title=title, at=at, metadata=metadata)
