"""The page of a document: what it says, section by section, in the words it begins each with."""

from collections.abc import Iterable

from treering.memories.wiki.pages import PagePlan, WikiPage, WikiPlan
from treering.memories.wiki.repository.facts import RepositoryFacts
from treering.memories.wiki.repository.files import WikiFile
from treering.memories.wiki.repository.prose import cut, words_of
from treering.memories.wiki.repository.sections import DocumentSection
from treering.memories.wiki.rules.markup import bullets, fenced, plain
from treering.memories.wiki.rules.overview_page import cut_code
from treering.memories.wiki.rules.page_body import PageBody, counted, paragraph, shown

_MOST_SECTIONS = 60
_PARAGRAPH_CHARS = 500
_ITEM_CHARS = 160
_MOST_ITEMS = 8
_CODE_LINES = 15


def write_document(facts: RepositoryFacts, plan: WikiPlan, page: PagePlan, file: WikiFile) -> WikiPage:
    """Write the page of a document."""
    body = PageBody(plan, page)
    sections = facts.sections(file)
    body.add(f"What {body.file(file)} says, in short. Each heading leads to the lines it tells of.")
    for at, section in enumerate(sections[:_MOST_SECTIONS]):
        said = list(_section(body, file, section))
        level = min(max(len(section.headings), 2), 5)
        is_title = at == 0 and section.title == page.title
        heading = body.source(file, section.lines, plain(section.title)) if section.title else ""
        if is_title or not heading:
            body.add(*said)
        elif said:
            body.add(f"{'#' * level} {heading}", *said)
    if len(sections) > _MOST_SECTIONS:
        body.add(f"{counted(len(sections) - _MOST_SECTIONS, 'more section')} in {body.file(file)}.")
    if len(body.parts) == 1:
        body.add("There is nothing in it but headings and what a site is built from, such as lists of documents.")
    return body.finish()


def _section(body: PageBody, file: WikiFile, section: DocumentSection) -> Iterable[str]:
    first = section.first_paragraph
    items = [block for block in section.blocks if block.kind == "item"]
    if first:
        words = cut(words_of(first.text), _PARAGRAPH_CHARS)
        said = paragraph(words)
        if said:
            yield f"{said} ({body.source(file, section.cite(first))})"
    if items:
        told = [shown(cut(words_of(block.text), _ITEM_CHARS)) for block in items[:_MOST_ITEMS]]
        yield bullets([one for one in told if one])
        if len(items) > _MOST_ITEMS:
            yield f"{counted(len(items) - _MOST_ITEMS, 'more item')} in {body.source(file, section.cite(items[0]))}."
    block = section.first_code
    if block:
        text, is_cut = cut_code(block.text, _CODE_LINES)
        yield fenced(text, block.language)
        if is_cut:
            yield f"The rest stands in {body.source(file, section.cite(block))}."
