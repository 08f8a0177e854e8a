"""Tickets as Jira writes them in XML: the RSS of its issue navigator."""

from collections.abc import Iterator
from datetime import datetime
from email.utils import parsedate_to_datetime
from xml.etree.ElementTree import Element, ParseError, TreeBuilder, XMLParser

from pydantic import JsonValue

from treering.edges.sources.documents.html_text import text_of_html
from treering.edges.sources.tickets.ticket import ExportedTicket, TicketResult, UnreadTicket
from treering.tools.turns import Message

_KEPT = ("type", "priority", "resolution", "assignee", "resolved", "due", "fixVersion", "link")


def read_rss(data: bytes) -> Iterator[TicketResult] | None:
    """Return the tickets of a document; `None`: it holds none, is damaged, or has a DOCTYPE, as none of these has."""
    parser = XMLParser(target=_WithoutDoctype())  # noqa: S314 - without a document type nothing expands
    try:
        parser.feed(data)
        root = parser.close()
    except (ParseError, ValueError, LookupError):
        return None
    items = root.findall("./channel/item")
    return map(_ticket, items, range(len(items))) if any(one.find("key") is not None for one in items) else None


class _WithoutDoctype(TreeBuilder):
    def doctype(self, name: str, public: str | None, system: str | None) -> None:
        """Refuse: none of these documents has one, attacks by entities do."""
        del name, public, system
        raise ValueError("a document type")


def _ticket(item: Element, place: int) -> TicketResult:
    key, title = _text(item, "key"), _text(item, "summary") or _text(item, "title")
    if not (key and title):
        return UnreadTicket(f"item {place + 1}", "it has no key, or no summary")
    labels: list[JsonValue] = [text for one in item.findall("./labels/label") if (text := (one.text or "").strip())]
    metadata: dict[str, JsonValue] = {name: text for name in _KEPT if (text := _text(item, name))}
    return ExportedTicket(
        "jira",
        key,
        title,
        _text(item, "status"),
        description=text_of_html(_text(item, "description")),
        author=_text(item, "reporter"),
        opened=_time(_text(item, "created")),
        updated=_time(_text(item, "updated") or _text(item, "created")),
        comments=tuple(filter(None, map(_comment, item.findall("./comments/comment")))),
        metadata={**metadata, **({"labels": labels} if labels else {})},
    )


def _comment(found: Element) -> Message | None:
    text = text_of_html(found.text or "")
    if not text.strip():
        return None
    return Message(
        content=text, name=found.get("author", ""), at=_time(found.get("created", "")), id=found.get("id", "")
    )


def _text(item: Element, name: str) -> str:
    return (item.findtext(name) or "").strip()


def _time(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return None
    return found if found.tzinfo else None
