"""Mail (eml, mbox): a unit per message, with the messages of a thread in a row. Attachments are only named."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from email import message_from_bytes
from email.message import Message

from treering.extensions.documents.contents import DocumentContents, DocumentUnit, NotThatFormat, plain
from treering.extensions.documents.html_text import readable_header, text_of_html
from treering.sources.reading.encodings import decode

MOST_MESSAGES = 50_000
_MOST_PARTS = 500
_MESSAGE_CHARS = 500_000
_START = re.compile(rb"(?:^|(?<=\n))From [^\n]{5,200}\d{4}[^\n]{0,10}\r?\n(?=[A-Za-z-]+:)")
_REFERENCE = re.compile(r"<[^<>\s]{1,200}>")
_REPLY = re.compile(r"^(?:(?:re|aw|fwd?|wg)\s*(?:\[\d+\])?:\s*)+", re.IGNORECASE)
_QUOTED_FROM = re.compile(r"^>(>*From )", re.MULTILINE)


def read(data: bytes) -> DocumentContents:
    """Read a message or a mailbox. Raises `NotThatFormat`."""
    parts = _messages(data)
    messages = [_message(part) for part in parts[:MOST_MESSAGES]]
    if not any(message.subject or message.sender for message in messages):
        raise NotThatFormat
    more = (
        [f"only its first {MOST_MESSAGES:,} of {len(parts):,} messages are read"] if len(parts) > MOST_MESSAGES else []
    )
    units = [message.unit(thread) for thread, message in _by_thread(messages) if message.text]
    return DocumentContents(units, messages[0].subject if len(messages) == 1 else "", more)


@dataclass(frozen=True, slots=True)
class _Mail:
    name: str
    """Its Message-ID."""
    answers: tuple[str, ...]
    """The messages it refers to, starting with the first of the thread."""
    subject: str
    sender: str
    date: str
    text: str

    def unit(self, thread: str) -> DocumentUnit:
        of = ", ".join(part for part in (self.sender, self.date) if part)
        return DocumentUnit(self.text, " > ".join(part[:120] for part in (thread or "(no subject)", of) if part))


def _messages(data: bytes) -> list[bytes]:
    starts = [match.span() for match in _START.finditer(data)] if data.startswith(b"From ") else []
    if not starts:
        return [data]
    ends = [*(start for start, _ in starts[1:]), len(data)]
    return [data[body:end] for (_, body), end in zip(starts, ends, strict=True)]


def _message(data: bytes) -> _Mail:
    message = message_from_bytes(data)
    subject, sender = readable_header(message, "Subject"), readable_header(message, "From")
    date, to = readable_header(message, "Date"), readable_header(message, "To")
    lines = [f"{name}: {value}" for name, value in (("From", sender), ("To", to), ("Date", date)) if value]
    referring = " ".join(readable_header(message, header) for header in ("References", "In-Reply-To"))
    answers = tuple(_REFERENCE.findall(referring))
    name = _REFERENCE.search(readable_header(message, "Message-ID"))
    head = "\n".join([*lines, *([f"Subject: {subject}"] if subject else [])])
    text = plain(f"{head}\n\n{_body(message)}").strip()[:_MESSAGE_CHARS]
    return _Mail(name[0] if name else "", answers, subject, sender, date, text)


def _body(message: Message) -> str:
    texts, pages, files = list[str](), list[str](), list[str]()
    for part in _leaves(message):
        kind, file = part.get_content_type(), part.get_filename()
        if file or part.get_content_disposition() == "attachment":
            files.append(" ".join(plain(str(file or kind)).split())[:120])
        elif kind == "text/plain":
            texts.append(_decoded(part))
        elif kind == "text/html":
            pages.append(_decoded(part))
    bodies = texts if any(text.strip() for text in texts) else [text_of_html(page) for page in pages]
    attached = [f"Attachments: {', '.join(files)}"] if files else []
    return "\n\n".join([*(_QUOTED_FROM.sub(r"\1", text) for text in bodies), *attached])


def _leaves(message: Message) -> Iterator[Message]:
    for at, part in enumerate(message.walk()):
        if at >= _MOST_PARTS:
            return
        if not part.is_multipart():
            yield part


def _decoded(part: Message) -> str:
    data = part.get_payload(decode=True)
    if not isinstance(data, bytes):
        return ""
    decoded = decode(data, declared=part.get_content_charset(""))
    return decoded.text if decoded else data.decode("utf-8", "replace")


def _by_thread(messages: Sequence[_Mail]) -> list[tuple[str, _Mail]]:
    """Return each message with the subject of its thread; threads in the order of their first messages."""
    thread_of, threads = dict[str, str](), dict[str, list[_Mail]]()
    for at, message in enumerate(messages):
        own = message.name or f"#{at}"
        known = next((thread_of[one] for one in message.answers if one in thread_of), None)
        thread = known or (message.answers[0] if message.answers else own)
        thread_of |= dict.fromkeys((own, *message.answers), thread)
        threads.setdefault(thread, []).append(message)
    return [(_REPLY.sub("", mails[0].subject), mail) for mails in threads.values() for mail in mails]
