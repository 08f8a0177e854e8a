"""The page "How do I …": tasks that the documents show code for, and the examples of the repository."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from treering.memories.wiki.pages import PagePlan, WikiPage, WikiPlan
from treering.memories.wiki.repository.facts import RepositoryFacts, purpose_of
from treering.memories.wiki.repository.files import WikiFile
from treering.memories.wiki.repository.prose import cut, words_of
from treering.memories.wiki.repository.sections import DocumentSection
from treering.memories.wiki.rules.markup import code, fenced, plain, table
from treering.memories.wiki.rules.naming import PagePaths, document_title
from treering.memories.wiki.rules.overview_page import cut_code
from treering.memories.wiki.rules.page_body import PageBody, counted, paragraph, shown

_MOST_DOCUMENTS = 12
_MOST_TASKS = 6
_MOST_EXAMPLES = 30
_CODE_LINES = 16
_SENTENCE_CHARS = 220
_NO_TASK = frozenset(
    {"changelog", "license", "licence", "contributing", "index", "api", "references", "reference", "table of contents"}
)


def howto_documents(facts: RepositoryFacts, paths: PagePaths) -> list[tuple[WikiFile, list[DocumentSection]]]:
    """Return the documents that show code for tasks, with the sections that do."""
    found: list[tuple[WikiFile, list[DocumentSection]]] = []
    seen: set[str] = set()
    for file in paths.documents_by_rank[: 3 * paths.most_documents]:
        tasks = [section for section in facts.sections(file) if _is_task(section, seen)]
        if tasks:
            found.append((file, tasks))
        if len(found) == _MOST_DOCUMENTS:
            break
    return found


def write_howto(facts: RepositoryFacts, paths: PagePaths, plan: WikiPlan, page: PagePlan) -> WikiPage:
    """Write the page."""
    body = PageBody(plan, page)
    for file, tasks in howto_documents(facts, paths):
        heading = body.to_page(paths.documents.get(file.path, ""), plain(document_title(file)))
        body.add(f"## {heading}")
        for section in tasks[:_MOST_TASKS]:
            body.add(*_task(body, file, section))
        left = len(tasks) - _MOST_TASKS
        if left > 0:
            body.add(f"{counted(left, 'more task')} with code in {body.file(file)}.")
    body.section("Examples", *_examples(facts, body))
    if not body.parts:
        body.add("The documents of this repository show no code for tasks, and it holds no examples.")
    return body.finish()


def _is_task(section: DocumentSection, seen: set[str]) -> bool:
    """Tell whether a section shows code for a task that no section before it showed."""
    block = section.first_code
    said = section.title.lower().strip()
    if block is None or not said or said in _NO_TASK or block.text in seen:
        return False
    seen.add(block.text)
    return True


def _task(body: PageBody, file: WikiFile, section: DocumentSection) -> Iterable[str]:
    block = section.first_code
    if block is None:
        return
    around = " – ".join(plain(one) for one in section.headings[1:-1])
    title = plain(section.title)
    yield f"### {title}" + (f" ({around})" if around else "")
    first = section.first_paragraph
    said = cut(words_of(first.text), _SENTENCE_CHARS) if first and first.first < block.first else []
    where = body.source(file, section.cite(block))
    yield f"{paragraph(said)} ({where})" if said else f"From {where} of {body.file(file)}:"
    text, is_cut = cut_code(block.text, _CODE_LINES)
    yield fenced(text, block.language)
    if is_cut:
        yield f"The rest stands in {where}."


def _examples(facts: RepositoryFacts, body: PageBody) -> Iterable[str]:
    """Tell of the examples by folder, each with what it says of itself and the file to read first."""
    folders: dict[str, list[WikiFile]] = defaultdict(list)
    for file in facts.files.of_role("example"):
        if file.head:
            folders[example_folder(file.path)].append(file)
    rows = []
    for folder in sorted(folders)[:_MOST_EXAMPLES]:
        first = _to_read_first(folders[folder])
        said = shown(purpose_of(first, facts)) if first.code else ""
        rows.append((code(f"{folder}/"), body.file(first), said or "–"))
    if rows:
        yield table(("Example", "Read first", "What it shows"), rows)
        left = len(folders) - len(rows)
        if left:
            yield f"{counted(left, 'more folder')} with examples."


def example_folder(path: str) -> str:
    """Return the folder that holds one example: right below the folder of examples."""
    parts = path.split("/")
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


def _to_read_first(files: Sequence[WikiFile]) -> WikiFile:
    def rank(file: WikiFile) -> tuple[bool, bool, int, str]:
        stem = file.name.rpartition(".")[0].lower()
        is_main = stem in ("main", "app", "index", "server", "example") or stem.startswith("tutorial001")
        return (file.code is None, not is_main, file.path.count("/"), file.path)

    return min(files, key=rank)
