"""The page "How do I …": tasks with code from the documents, and the examples of the repository."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from treering.core.counting import counted_things
from treering.extensions.wiki.repository.facts import RepositoryFacts
from treering.extensions.wiki.repository.files import WikiFile
from treering.extensions.wiki.repository.prose import cut, words_of
from treering.extensions.wiki.repository.purposes import purpose_of
from treering.extensions.wiki.repository.sections import DocumentSection
from treering.extensions.wiki.rules.markdown import code, fenced, paragraph, plain, remainder, shown, table
from treering.extensions.wiki.rules.page_body import PageBody
from treering.extensions.wiki.rules.page_paths import MAX_DOCUMENT_PAGES, PagePaths, document_title

MAX_DOCUMENTS = 12
MAX_TASKS = 6
MAX_EXAMPLES = 30
MAX_CODE_LINES = 16
MAX_SENTENCE_CHARS = 220
_NO_TASK = frozenset(
    {"changelog", "license", "licence", "contributing", "index", "api", "references", "reference", "table of contents"}
)


def cut_code(text: str, count: int) -> tuple[str, bool]:
    """Return the first lines of code, and whether there are more."""
    lines = text.split("\n")
    return "\n".join(lines[:count]), len(lines) > count


def howto_documents(facts: RepositoryFacts, paths: PagePaths) -> list[tuple[WikiFile, list[DocumentSection]]]:
    """Return the documents that show code for tasks, with those sections."""
    documents: list[tuple[WikiFile, list[DocumentSection]]] = []
    seen: set[str] = set()
    for file in paths.documents_by_rank[: 3 * MAX_DOCUMENT_PAGES]:
        if tasks := [section for section in facts.sections(file) if _is_task(section, seen)]:
            documents.append((file, tasks))
        if len(documents) == MAX_DOCUMENTS:
            break
    return documents


def write_howto(body: PageBody) -> None:
    """Write the page of tasks."""
    for file, tasks in howto_documents(body.facts, body.paths):
        body.add(f"## {body.to_page(body.paths.documents.get(file.path, ''), plain(document_title(file)))}")
        for section in tasks[:MAX_TASKS]:
            body.add(*_task(body, file, section))
        if len(tasks) > MAX_TASKS:
            body.add(f"{counted_things(len(tasks) - MAX_TASKS, 'more task')} with code in {body.file(file)}.")
    body.section("Examples", *_examples(body))
    if not body.parts:
        body.add("The documents of this repository contain no code for tasks, and there are no examples.")


def _is_task(section: DocumentSection, seen: set[str]) -> bool:
    """Return whether a section has a title and code that was not seen before, and mark the code as seen."""
    block = section.first_code
    title = section.title.lower().strip()
    if block is None or not title or title in _NO_TASK or block.text in seen:
        return False
    seen.add(block.text)
    return True


def _task(body: PageBody, file: WikiFile, section: DocumentSection) -> Iterable[str]:
    block = section.first_code
    if block is None:
        return
    around = " – ".join(plain(one) for one in section.headings[1:-1])
    yield f"### {plain(section.title)}" + (f" ({around})" if around else "")
    first = section.first_paragraph
    words = cut(words_of(first.text), MAX_SENTENCE_CHARS) if first and first.first < block.first else []
    place = body.source(section.cite(block))
    yield f"{paragraph(words)} ({place})" if words else f"From {place} of {body.file(file)}:"
    text, is_cut = cut_code(block.text, MAX_CODE_LINES)
    yield fenced(text, block.language)
    if is_cut:
        yield f"The rest is in {place}."


def _examples(body: PageBody) -> tuple[str, str]:
    folders: dict[str, list[WikiFile]] = defaultdict(list)
    for file in body.facts.files.of_role("example"):
        if file.head:
            folders["/".join(file.path.split("/")[:-1][:2]) or file.path].append(file)
    rows = []
    for folder in sorted(folders)[:MAX_EXAMPLES]:
        first = _entry_file(folders[folder])
        purpose = shown(purpose_of(first, body.facts)) if first.code else ""
        rows.append((code(f"{folder}/"), body.file(first), purpose))
    left = remainder(len(folders) - len(rows), "more folder with examples", "more folders with examples")
    return table(("Example", "Read first", "Description"), rows), left


def _entry_file(files: Sequence[WikiFile]) -> WikiFile:
    def rank(file: WikiFile) -> tuple[bool, bool, int, str]:
        stem = file.name.rpartition(".")[0].lower()
        is_main = stem in ("main", "app", "index", "server", "example") or stem.startswith("tutorial001")
        return (file.code is None, not is_main, file.path.count("/"), file.path)

    return min(files, key=rank)
