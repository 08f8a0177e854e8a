"""The page of a document: the beginning of each section."""

from collections.abc import Iterable

from treering.core.counting import counted_things
from treering.extensions.wiki.repository.files import WikiFile
from treering.extensions.wiki.repository.prose import cut, words_of
from treering.extensions.wiki.repository.sections import DocumentBlock, DocumentSection
from treering.extensions.wiki.rules.howto_page import cut_code
from treering.extensions.wiki.rules.markdown import fenced, paragraph, plain, shown
from treering.extensions.wiki.rules.page_body import PageBody

MAX_SECTIONS = 60
MAX_PARAGRAPH_CHARS = 500
MAX_ITEMS = 8
MAX_ITEM_CHARS = 160
MAX_CODE_LINES = 15


def write_document(body: PageBody, file: WikiFile) -> None:
    """Write the page of a document."""
    sections = body.facts.sections(file)
    body.add(f"A summary of {body.file(file)}. Each heading links to its lines.")
    for at, section in enumerate(sections[:MAX_SECTIONS]):
        blocks = list(_section(body, section))
        is_title = at == 0 and section.title == body.page.title
        heading = body.source(section.lines, plain(section.title)) if section.title else ""
        if is_title or not heading:
            body.add(*blocks)
        else:
            body.section(heading, *blocks, level=min(max(len(section.headings), 2), 5))
    if len(sections) > MAX_SECTIONS:
        body.add(f"{counted_things(len(sections) - MAX_SECTIONS, 'more section')} in {body.file(file)}.")
    if len(body.parts) == 1:
        body.add("It contains only headings and site structure, such as lists of documents.")


def _section(body: PageBody, section: DocumentSection) -> Iterable[str]:
    first = section.first_paragraph
    if first and (text := paragraph(cut(words_of(first.text), MAX_PARAGRAPH_CHARS))):
        yield f"{text} ({body.source(section.cite(first))})"
    items = [block for block in section.blocks if block.kind == "item"]
    if items:
        yield _list(items[:MAX_ITEMS])
        if len(items) > MAX_ITEMS:
            more = counted_things(len(items) - MAX_ITEMS, "more item")
            yield f"{more} in {body.source(section.cite(items[0]))}."
    block = section.first_code
    if block:
        text, is_cut = cut_code(block.text, MAX_CODE_LINES)
        yield fenced(text, block.language)
        if is_cut:
            yield f"The rest is in {body.source(section.cite(block))}."


def _list(items: Iterable[DocumentBlock]) -> str:
    """Return list items with their numbers and nesting."""
    lines, indents = list[str](), list[int]()
    for item in items:
        marker = item.marker.lstrip()
        indent = len(item.marker) - len(marker)
        indents = [*(one for one in indents if one < indent), indent]
        sign = marker if marker[:1].isdigit() else "1." if marker == "#." else "-"
        if text := shown(cut(words_of(item.text), MAX_ITEM_CHARS)):
            lines.append(f"{'    ' * (len(indents) - 1)}{sign} {text}")
    return "\n".join(lines)
