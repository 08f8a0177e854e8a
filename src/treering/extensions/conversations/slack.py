"""A Slack export: a zip file with people, channels, and a file per channel and day."""

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from treering.core.canonical import render_time
from treering.extensions.conversations.conversation import ConversationDraft, Parsed, Unread
from treering.extensions.conversations.loose_json import (
    Malformed,
    Record,
    first_moment,
    first_words,
    listed,
    parse,
    record,
    words,
)
from treering.sources.reading.binary import Archive, Refused
from treering.verbs.ingest.known import SINCE
from treering.verbs.ingest.turns import Message


def claims(names: Sequence[str]) -> bool:
    """Return whether a zip file with these members is a Slack export."""
    listing = any(name.rpartition("/")[2] in _LISTINGS for name in names)
    return listing and any(_DAY.fullmatch(name) for name in names)


def read(archive: Archive) -> Iterator[Parsed]:
    """Read a conversation per channel, in the order of time, with replies at their own time."""
    export = _Export(archive)
    for folder, days in export.channels():
        yield from export.channel(folder, days)


_LISTINGS = ("channels.json", "groups.json", "dms.json", "mpims.json")
_DAY = re.compile(r"(?P<folder>(?:[^/]+/){1,3})\d{4}-\d\d-\d\d\.json")
_SPOKEN = frozenset({"", "bot_message", "me_message", "thread_broadcast", "file_share", "file_comment"})
_EVENTS = "message(s) about joining and leaving were skipped"
_MENTION = re.compile(r"<(?P<sign>[@#!]?)(?P<what>[^<>|\s]{1,2000})(?:\|(?P<label>[^<>]{0,500}))?>")
_TEAM = re.compile(r"[TE][A-Z0-9]{6,20}")
_CHANNEL = re.compile(r"[CDG][A-Z0-9]{6,20}")


class _Export:
    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._root = min(
            (name.rpartition("/")[0] for name in archive.names if name.rpartition("/")[2] in _LISTINGS), key=len
        )
        users = [record(one) for one in self._listing("users.json")]
        self._people = _People({words(user.get("id")): _name(user) for user in users if words(user.get("id"))})
        teams = {first_words(user, "team_id") for user in users}
        self._team = next(iter(teams)) if len(teams) == 1 and all(map(_TEAM.fullmatch, teams)) else ""
        self._channels = {
            first_words(one, "name", "id"): one for listing in _LISTINGS for one in map(record, self._listing(listing))
        }

    def channels(self) -> Iterator[tuple[str, list[str]]]:
        """Yield the folder of each channel with the files of its days."""
        days: dict[str, list[str]] = {}
        for name in self._archive.names:
            if match := _DAY.fullmatch(name):
                days.setdefault(match["folder"].rstrip("/"), []).append(name)
        yield from days.items()

    def channel(self, folder: str, days: Sequence[str]) -> Iterator[Parsed]:
        name = folder.rpartition("/")[2]
        about = self._channels.get(name, {})
        draft = ConversationDraft("slack", id=first_words(about, "id") or name, title=self._title(name, about))
        draft.created = first_moment(about, "created")
        pairs: list[tuple[float, Message]] = []
        for day in days:
            messages = self._day(day)
            if isinstance(messages, Unread):
                yield messages
                continue
            pairs += [message for one in messages if (message := self._message(record(one), draft))]
        draft.messages = [message for _, message in sorted(pairs, key=lambda one: one[0])]
        if since := next((message.at for message in draft.messages if message.at), None):
            draft.metadata[SINCE] = render_time(since)
        yield self._named(draft)

    def _named(self, draft: ConversationDraft) -> Parsed:
        conversation = draft.finished()
        if self._team and _CHANNEL.fullmatch(draft.id):
            return replace(conversation, known_as=f"slack:{self._team}/{draft.id}")
        return conversation

    def _day(self, name: str) -> Sequence[object] | Unread:
        data = self._archive.read(name)
        if isinstance(data, Refused):
            return Unread(name, data.why)
        value = parse(data)
        if isinstance(value, Malformed):
            return Unread(name, value.why)
        return listed(value) if isinstance(value, list) else Unread(name, "it is not a list of messages")

    def _listing(self, name: str) -> Sequence[object]:
        """Read a list of people or channels; without it, ids are shown instead of names."""
        path = f"{self._root}/{name}" if self._root else name
        data = self._archive.read(path) if path in self._archive.names else b"[]"
        return () if isinstance(data, Refused) else listed(parse(data))

    def _title(self, name: str, about: Record) -> str:
        members = [self._people.name(words(one)) for one in listed(about.get("members"))]
        return f"#{name}" if "name" in about or not members else ", ".join(members[:_NAMES_SHOWN])

    def _message(self, found: Record, draft: ConversationDraft) -> tuple[float, Message] | None:
        if words(found.get("subtype")) not in _SPOKEN or words(found.get("type")) not in {"", "message"}:
            draft.counts[_EVENTS] += 1
            return None
        files = [record(one) for one in (*listed(found.get("files")), found.get("file")) if isinstance(one, dict)]
        draft.count_other(len(files))
        named = (first_words(one, "title", "name", "id") or "unnamed" for one in files)
        content = "\n".join(filter(None, [self._text(found), *(f"[file: {name}]" for name in named)]))
        at = first_moment(found, "ts")
        message = Message(content=content, name=self._speaker(found), id=words(found.get("ts")), at=at)
        return (at.timestamp() if at else 0.0, message) if content else None

    def _text(self, found: Record) -> str:
        text = words(found.get("text")) or words(record(found.get("comment")).get("comment"))
        texts = [text] if text.strip() else [_attached(record(one)) for one in listed(found.get("attachments"))]
        return "\n".join(self._people.plain(text) for text in texts if text.strip()).strip()

    def _speaker(self, found: Record) -> str:
        user = words(found.get("user")) or words(record(found.get("comment")).get("user"))
        bot = first_words(record(found.get("bot_profile")), "name") or first_words(found, "username")
        if not user:
            return bot or "bot"
        return self._people.name(user, otherwise=_name({"profile": found.get("user_profile")}))


@dataclass(frozen=True, slots=True)
class _People:
    names: Mapping[str, str]

    def name(self, identity: str, otherwise: str = "") -> str:
        return self.names.get(identity) or otherwise or identity

    def plain(self, text: str) -> str:
        """Replace mentions, channels and links by readable text."""
        return html.unescape(_MENTION.sub(self._shown, text))

    def _shown(self, found: re.Match[str]) -> str:
        what, label = found["what"], (found["label"] or "").strip()
        match found["sign"]:
            case "@":
                return f"@{self.name(what, otherwise=label)}"
            case "#":
                return f"#{label or what}"
            case "!":
                return label or f"@{what.partition('^')[0]}"
            case _ if not label or label == what or what == f"mailto:{label}":
                return label or what
            case _:
                return f"{label} ({what})"


_NAMES_SHOWN = 5


def _name(user: Record) -> str:
    """Return the name of a person: the real name is preferred to the display and login names."""
    profile = record(user.get("profile"))
    return (
        first_words(user, "real_name")
        or first_words(profile, "real_name", "display_name")
        or first_words(user, "name", "id")
    )


def _attached(found: Record) -> str:
    parts = [first_words(found, name) for name in ("pretext", "title", "text")]
    return "\n".join(filter(None, parts)) or first_words(found, "fallback")
