"""Recording: from the input of a host to the operations that write it, one source for each memory, with links."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from pydantic import ValidationError

from treering.core.canonical import canonical_json, digest, make_id, parse_time, render_time
from treering.core.characters import well_formed
from treering.core.errors import InvalidInput
from treering.core.evidence import Section
from treering.core.objects import Source, invalid_fields
from treering.core.patch import AddLink, Create, Link, Operation, check_object, shortened
from treering.core.scope import parse_scope
from treering.core.screening import instruction_flags
from treering.extensions.client.items.documents import (
    AGENT,
    CONTEXT,
    HAPPENED,
    KEY,
    PREFIX,
    RELATIONS,
    SESSION,
    USER,
    is_nested,
    normalised,
    related_ids,
    scope_of,
    session_text,
)
from treering.extensions.client.items.recalling import Who, read_sources
from treering.extensions.client.items.replacing import Reader, current_under, key_root
from treering.extensions.client.named_secrets import without_secrets
from treering.ports.adapter import SegmentDraft
from treering.ports.ledger import Ledger
from treering.ports.runtime import Clock, fresh_id, fresh_salt, fresh_segment_id
from treering.retrieval.index.passages import MAX_GIST_CHARS
from treering.verbs.engine import Engine
from treering.verbs.ingest.segments import first_segments
from treering.verbs.ingest.turns import cleaned, lossless

_TITLE = 80
_KEYED = datetime(2026, 1, 1, tzinfo=UTC)
"""The time in ids derived from keys, which need one."""


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    """One memory to be written; it already has its id."""

    id: str
    content: str
    metadata: Mapping[str, Any]
    stored_at: datetime
    writer: str | None = None
    """The user of the client that stored it, who may differ from the users that it is for."""

    @property
    def session_id(self) -> str | None:
        """The session or nested context it belongs to."""
        return session_text(self.metadata.get(SESSION))

    @property
    def happened(self) -> tuple[datetime, str]:
        """The time of the remembered event and the id: the order of memories under one key."""
        return parse_time(self.metadata[HAPPENED]), self.id

    @property
    def key_origin(self) -> str:
        """How the origins of its user's memories under its key begin; empty if it has no key."""
        key = self.metadata.get(KEY)
        return key_root(self.metadata.get(USER), key) if isinstance(key, str) else ""

    @property
    def data(self) -> dict[str, Any]:
        """The entry as JSON data, for a journal."""
        return {
            "id": self.id,
            "content": self.content,
            "metadata": dict(self.metadata),
            "stored_at": render_time(self.stored_at),
            **({} if self.writer is None else {"writer": self.writer}),
        }

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> "MemoryEntry":
        """Read an entry from the data of a journal."""
        return cls(data["id"], data["content"], data["metadata"], parse_time(data["stored_at"]), data.get("writer"))


@dataclass(frozen=True, slots=True)
class KeyedMemory:
    """A memory that is stored only once. `key` identifies it, such as the id of a message."""

    key: str
    content: str
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The id of the stored memory, if it has no user; earlier versions stored it under this id for all users."""
        return _keyed_id(f"{PREFIX}{self.key}")

    def id_of(self, user: object) -> str:
        """Return the id of the memory for its user, which is the same in every process."""
        return self.id if user is None else _keyed_id(f"{PREFIX}{canonical_json([user, self.key])}")


def _keyed_id(name: str) -> str:
    return make_id("source", at=_KEYED, entropy=bytes.fromhex(digest(name)))


def keyed_ids(engine: Engine, memories: Sequence[KeyedMemory], who: Who) -> dict[str, str]:
    """Return by `id` of each memory the id of the stored one: another for each user, unless it has an earlier one."""
    users = {one.id: one.metadata.get(USER, who.user_id) for one in memories}
    stored = read_sources(engine, [identity for identity, user in users.items() if user is not None])

    def is_earlier(identity: str) -> bool:
        if identity in stored:
            return who.sees(stored[identity])
        return bool(engine.ledger.events_of(identity))  # erased: the user is unknown, and it stays erased

    own = {one.id: one.id_of(users[one.id]) for one in memories}
    new = set(own.values()) - set(engine.ledger.heads(own.values()))
    return {one: one if new_id in new and new_id != one and is_earlier(one) else new_id for one, new_id in own.items()}


def with_related(metadata: Mapping[str, Any], ids: Mapping[str, str]) -> dict[str, Any]:
    """Return metadata with the ids of stored memories in its relations."""

    def stored(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [stored(one) for one in value]
        return ids.get(value, value) if isinstance(value, str) else value

    return {name: stored(value) if name in RELATIONS else value for name, value in metadata.items()}


def entry_of(
    engine: Engine, content: object, metadata: Mapping[str, Any] | None, who: Who, *, identity: str | None = None
) -> MemoryEntry:
    """Return the entry of a text, without recalled passages and secrets.

    `identity`: its id; by default a new one. Raises `InvalidInput` if it is not text, too long, or becomes empty, and
    for a key of other users.
    """
    if not isinstance(content, str) or not content.strip():
        raise InvalidInput(
            f"content: {type(content).__name__} is not text."
            if not isinstance(content, str)
            else "The content is empty.",
            hint="Store a text that is not empty.",
        )
    if len(content) > engine.limits.max_file_bytes:
        raise InvalidInput(
            f"The content has {len(content):,} characters; the maximum is {engine.limits.max_file_bytes:,}.",
            hint="Store it in parts, or store only the important part.",
        )
    text = without_secrets(cleaned(well_formed(content), redact_secrets=True).text)
    if not text.strip():
        raise InvalidInput("The content contains only text recalled from this memory.", hint="Store only new text.")
    now = engine.clock.now()
    fields = without_secrets(normalised(_with_author(metadata or {}, who), now=now))
    if KEY in fields and not who.owns(fields):
        raise InvalidInput(
            f"key: a client of the user {who.user_id!r} replaces no memories of other users.",
            hint="Omit the key or `user_id`, or use a client of that user.",
        )
    session_id = session_text(fields.get(SESSION))
    if session_id is not None:
        fields[SESSION] = session_id
    fields.pop(CONTEXT, None)
    if is_nested(session_id):
        fields[CONTEXT] = session_id
    return MemoryEntry(identity or _ordered_id(engine.clock), text, fields, now, who.user_id)


def check_writable(engine: Engine, entry: MemoryEntry) -> None:
    """Raise `InvalidInput` for an entry that no ledger accepts, because of its metadata, session or length."""
    try:
        parse_scope(scope_of(entry.session_id))
    except InvalidInput as error:
        raise InvalidInput(
            f"session_id: {str(entry.session_id)[:80]!r} nests too many contexts.",
            hint="Merge nested contexts; about 60 levels are possible.",
        ) from error
    try:
        check_object(source_of(engine, entry, scope=scope_of(entry.session_id), prefix=PREFIX))
    except ValidationError as error:
        problem = invalid_fields(error).message
        raise InvalidInput(problem, hint="Correct the metadata, and store it again.") from error


def operations_of(engine: Engine, entries: Sequence[MemoryEntry], known: Iterable[str]) -> list[Operation]:
    """Return the operations that write entries.

    Relations to objects that are not `known`, or memories of other users, stay in the metadata only.
    """
    existing = {*known, *(entry.id for entry in entries)}
    creating: list[Operation] = [
        Create(object=source_of(engine, entry, scope=scope_of(entry.session_id), prefix=PREFIX)) for entry in entries
    ]
    others = {one.id: one.metadata for one in read_sources(engine, named_ids(entries)).values()}
    owners = {**others, **{entry.id: entry.metadata for entry in entries}}
    linking = [
        AddLink(link=Link(type=link, source=entry.id, target=target))
        for entry in entries
        for link, target in related_ids(entry.metadata)
        if target in existing and target != entry.id and _may_link(entry, owners.get(target, {}))
    ]
    return [*creating, *linking, *_replacing(engine.ledger, entries)]


def _may_link(entry: MemoryEntry, other: Mapping[str, Any]) -> bool:
    """Return whether the writer of an entry, or else a user of it, sees the object with the metadata `other`."""
    users = entry.metadata.get(USER) if entry.writer is None else entry.writer
    return any(Who(user_id=user).owns(other) for user in (users if isinstance(users, list) else [users]))


def _ordered_id(clock: Clock) -> str:
    """Make an id that also orders memories stored within a millisecond."""
    now = clock.now()
    return make_id("source", at=now, entropy=(now.microsecond % 1_000).to_bytes(2, "big") + clock.random_bytes(8))


def _replacing(ledger: Ledger, entries: Sequence[MemoryEntry]) -> Iterator[Operation]:
    """Link each entry with a key and the current memory under that key: the later event replaces the earlier one."""
    current: dict[str, tuple[datetime, str]] = {}
    for entry in entries:
        if root := entry.key_origin:
            before = current.get(root)
            if before is None:
                reader = Reader(context=str(entry.metadata.get(CONTEXT, "")))
                stored = current_under(ledger, root, reader)
                before = (stored.captured_at, stored.id) if stored else entry.happened
            old, new = sorted([before, entry.happened])
            if old[1] != new[1]:
                yield AddLink(link=Link(type="supersedes", source=new[1], target=old[1]))
            current[root] = new


def named_ids(entries: Iterable[MemoryEntry]) -> list[str]:
    """Return the ids of the objects that entries refer to."""
    return list(dict.fromkeys(target for entry in entries for _, target in related_ids(entry.metadata)))


def _with_author(metadata: Mapping[str, Any], who: Who) -> dict[str, Any]:
    known = {AGENT: who.agent_type, USER: who.user_id}
    return {**{key: value for key, value in known.items() if value is not None}, **metadata}


def source_of(engine: Engine, entry: MemoryEntry, *, scope: str, prefix: str) -> Source:
    """Return the source of a memory. `prefix`: the prefix of the origins of such memories."""
    flags = instruction_flags(entry.content)
    return new_note(
        engine,
        entry.content,
        identity=entry.id,
        scope=scope,
        now=entry.stored_at,
        origin=f"{entry.key_origin or prefix}{entry.id.partition(':')[2]}",
        title=first_line(entry.content),
        fingerprint=f"text:{digest(entry.content)}",
        metadata={**entry.metadata, **({"flags": list(flags)} if flags else {})},
        captured_at=parse_time(entry.metadata[HAPPENED]),
    )


def new_note(
    engine: Engine, text: str, *, scope: str, now: datetime, identity: str | None = None, **fields: Any
) -> Source:
    """Return a new note with a text. `fields`: its other fields."""
    salt = fresh_salt(engine.clock)
    new_id = partial(fresh_segment_id, engine.clock)
    return Source(
        id=identity or fresh_id("source", engine.clock),
        kind="note",
        scope=scope,
        created_at=now,
        updated_at=now,
        origin_channel=engine.author.channel,
        salt=salt,
        segments=first_segments(text_drafts(engine, text), salt=salt, new_id=new_id),
        **fields,
    )


def text_drafts(engine: Engine, text: str) -> list[SegmentDraft]:
    """Return the segments of a text, whose concatenation is the text."""
    if not text:
        return []
    most = engine.limits.max_segment_chars
    if len(text) <= most:
        return [SegmentDraft(Section(), text, gist=text[:MAX_GIST_CHARS])]
    return [*lossless(engine.segmenters["text"])(text, max_chars=most)]


def first_line(text: str) -> str:
    """Return the first line of a text that is not blank, shortened, as a title; empty if there is none."""
    return shortened(next((line.strip() for line in text.splitlines() if line.strip()), ""), _TITLE)
