"""The pages of parts and documents: their paths, titles and plans."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from treering.extensions.wiki.pages import PageKind, PagePlan
from treering.extensions.wiki.repository.facts import RepositoryFacts
from treering.extensions.wiki.repository.files import WikiFile
from treering.extensions.wiki.repository.packages import CodePart, page_slugs, repository_title
from treering.extensions.wiki.repository.prose import Words, cut, words_of
from treering.extensions.wiki.repository.purposes import introduction_of, part_purpose
from treering.ports.format import PROSE_SUFFIX

OVERVIEW = "overview.md"
ARCHITECTURE = "architecture.md"
HOWTO = "howto.md"
REFERENCE = "reference.md"
DECISIONS = "decisions.md"
CHANGES = "changes.md"

MAX_DOCUMENT_PAGES = 60
"""The maximum number of documents with a page."""
_PURPOSE_CHARS = 160
_MAX_RELEVANT_FILES = 200
_TOP_FOLDERS = frozenset({".", "src", "lib", "python", "source"})
_NO_PAGE = re.compile(
    r"(?:^|/)(?:licen[cs]e|copying|code[_-]of[_-]conduct|authors|contributors|maintainers|pull_request_template"
    r"|issue_template|funding|requirements[^/]*|robots|404|search|genindex|_?navigation|_sidebar|management-tasks"
    r"|external-links|external_links|sponsors|newsletter|translations|template)(?:\.[a-z]+)?$|(?:^|/)(?:\.github|_templates|_static|overrides|versioned_docs)/",
    re.IGNORECASE,
)
_SUPPORTING = re.compile(r"(?:bench[\w-]*|perf[\w-]*|[\w-]*tests?|scripts?|build|ci|hack)/", re.IGNORECASE)
_FIRST = re.compile(
    r"(?:^|/)(?:readme|index|quick-?start|getting[-_]?started|first[-_]steps|intro(?:duction)?)\.", re.IGNORECASE
)
_POST = re.compile(r"(?:^|/)_?(?:blog|posts?)/", re.IGNORECASE)
_MIN_DOCUMENT_LINES = 3
_PROSE = re.compile(rf"(?:{PROSE_SUFFIX}|(?:^|/)readme)$", re.IGNORECASE)


@dataclass(frozen=True)
class PagePaths:
    """The paths of the pages of parts and documents."""

    facts: RepositoryFacts

    @cached_property
    def parts(self) -> Mapping[str, str]:
        """The path of the page by key of the part."""
        slugs = page_slugs(self.facts.code.parts)
        (title,) = page_slugs([repository_title(self.facts.files)]).values()
        tops = [key for key in slugs if key in _TOP_FOLDERS]
        is_free = len(tops) == 1 and title not in slugs.values()
        names = slugs | {key: title if is_free else f"{title}-{slugs[key]}" for key in tops}
        return {key: f"modules/{name}.md" for key, name in names.items()}

    @cached_property
    def documents(self) -> Mapping[str, str]:
        """The path of the page by path of the document, most important first."""
        chosen = [file.path for file in self.documents_by_rank[:MAX_DOCUMENT_PAGES]]
        slugs = page_slugs(chosen)
        return {path: f"documents/{slugs[path]}.md" for path in chosen}

    @cached_property
    def documents_by_rank(self) -> Sequence[WikiFile]:
        """The documents worth a page: introductions first, then by depth of the folder, posts last."""
        documents = {
            (file.name, file.title, file.last_line): file  # copies, such as the documents of the latest release
            for file in reversed([*self.facts.files.of_role("documentation")])
            if _is_document(file)
        }
        return sorted(documents.values(), key=_document_rank)

    @cached_property
    def folder_sizes(self) -> Mapping[str, int]:
        """The number of documents with a page, by folder."""
        return Counter(path.rpartition("/")[0] for path in self.documents)

    def of_file(self, path: str) -> str:
        """Return the path of the page about a file, or "" if there is none."""
        part = self.facts.part_of(path)
        return self.parts[part.key] if part else self.documents.get(path, "")


def document_title(file: WikiFile) -> str:
    """Return the title of a document: its first heading, else its path; for a README also the folder."""
    if file.name.lower().startswith("readme"):
        return f"README of {file.folder}" if file.folder else "README"
    words = cut(words_of(file.title), 100)
    return "".join(one.text for one in words).strip() or file.path


def part_plan(paths: PagePaths, part: CodePart, group: str) -> PagePlan:
    """Plan the page of a package or module."""
    return PagePlan(
        path=paths.parts[part.key],
        title=part.title,
        kind=PageKind.MODULE,
        purpose=_text(part_purpose(part, paths.facts)),
        relevant_files=(part.files or part.modules)[:_MAX_RELEVANT_FILES],
        importance=round(part.importance, 4),
        aliases=() if part.key in (part.title, ".") else (part.key,),
        group=group,
    )


def document_plan(paths: PagePaths, file: WikiFile) -> PagePlan:
    """Plan the page of a document."""
    described = paths.facts.known.described.get(("documents", document_title(file)), "")
    return PagePlan(
        path=paths.documents[file.path],
        title=document_title(file),
        kind=PageKind.DOCUMENT,
        purpose=_text(words_of(described) or introduction_of(file, paths.facts)),
        relevant_files=(file.path,),
        aliases=(file.path,),
        group=file.folder if paths.folder_sizes[file.folder] > 1 else "",
    )


def _text(words: Sequence[Words]) -> str:
    return "".join(one.text for one in cut(words, _PURPOSE_CHARS)).strip()


def _document_rank(file: WikiFile) -> tuple[bool, bool, int, str]:
    return bool(_POST.search(file.path)), not _FIRST.search(file.path), file.path.count("/"), file.path


def _is_document(file: WikiFile) -> bool:
    if file.name.startswith("."):
        return False
    is_prose = _PROSE.search(file.path) is not None and file.code is None and file.last_line >= _MIN_DOCUMENT_LINES
    return is_prose and file.head is not None and not _SUPPORTING.match(file.path) and not _NO_PAGE.search(file.path)
