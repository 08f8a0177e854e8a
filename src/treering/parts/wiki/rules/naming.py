"""Which pages there are, where they lie, and what they are called."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from treering.parts.wiki.pages import PageKind, PagePlan
from treering.parts.wiki.repository.facts import RepositoryFacts, package_purpose
from treering.parts.wiki.repository.files import WikiFile
from treering.parts.wiki.repository.packages import CodePart, page_slugs, repository_title
from treering.parts.wiki.repository.prose import cut, words_of

OVERVIEW = "overview.md"
ARCHITECTURE = "architecture.md"
HOWTO = "howto.md"
REFERENCE = "reference.md"
DECISIONS = "decisions.md"
CHANGES = "changes.md"

_PURPOSE_CHARS = 160
_PASSED_OVER = re.compile(
    r"(?:^|/)(?:licen[cs]e|copying|code[_-]of[_-]conduct|authors|contributors|maintainers|pull_request_template"
    r"|issue_template|funding|requirements[^/]*|robots|404|search|genindex|_?navigation|_sidebar|management-tasks"
    r"|external-links|external_links|sponsors|newsletter|translations)(?:\.[a-z]+)?$|(?:^|/)(?:\.github|_templates|_static|overrides)/",
    re.IGNORECASE,
)
_ASIDE = re.compile(r"(?:bench[\w-]*|perf[\w-]*|[\w-]*tests?|scripts?|build|ci|hack)/", re.IGNORECASE)
_FIRST = re.compile(
    r"(?:^|/)(?:readme|index|quick-?start|getting[-_]?started|first[-_]steps|intro(?:duction)?)\.", re.IGNORECASE
)
_PROSE = re.compile(r"\.(?:md|markdown|mdx|rst|txt|adoc)$|(?:^|/)readme$", re.IGNORECASE)


@dataclass(frozen=True)
class PagePaths:
    """The paths of the pages of parts and documents."""

    facts: RepositoryFacts
    most_documents: int

    @cached_property
    def parts(self) -> Mapping[str, str]:
        """By key of a part, where its page lies."""
        slugs = page_slugs(self.facts.code.parts)
        title = repository_title(self.facts.files)
        names = {key: slugs[key] if _bare(key) else slug_of_top(key, title, slugs) for key in slugs}
        return {key: f"modules/{name}.md" for key, name in names.items()}

    @cached_property
    def documents(self) -> Mapping[str, str]:
        """By path of a document, where its page lies; in the order of importance."""
        chosen = [file.path for file in self.documents_by_rank[: self.most_documents]]
        slugs = page_slugs(chosen)
        return {path: f"documents/{slugs[path]}.md" for path in chosen}

    @cached_property
    def documents_by_rank(self) -> Sequence[WikiFile]:
        """The documents worth a page: those near the top and those to be read first come first."""
        found = [file for file in self.facts.files.of_role("documentation") if _is_document(file)]
        return sorted(found, key=lambda file: (not _FIRST.search(file.path), file.path.count("/"), file.path))

    def of_file(self, path: str) -> str:
        """Return the page that tells of a file; empty where none does."""
        part = self.facts.part_of(path)
        return self.parts[part.key] if part else self.documents.get(path, "")


def document_title(file: WikiFile) -> str:
    """Return what a document is called: by its first heading, else by its path; README where that says no more."""
    if file.name.lower().startswith("readme"):
        return f"README of {file.folder}" if file.folder else "README"
    words = cut(words_of(file.title), 100)
    return "".join(one.text for one in words).strip() or file.path


def slug_of_top(key: str, title: str, slugs: Mapping[str, str]) -> str:
    """Return the name of the page of what lies in the top folder of all code: what the repository is called."""
    (slug,) = page_slugs([title]).values()
    return slug if slug not in slugs.values() else f"{slug}-{slugs[key]}"


def part_plan(paths: PagePaths, part: CodePart) -> PagePlan:
    """Plan the page of a package or module."""
    what = "package" if part.is_package else "module"
    said = "".join(one.text for one in cut(package_purpose(part, paths.facts), _PURPOSE_CHARS)).strip()
    files = part.files[:200]
    alias = tuple(one for one in (part.key,) if one not in (part.title, "."))
    return PagePlan(
        path=paths.parts[part.key],
        title=part.title,
        kind=PageKind.MODULE,
        purpose=said or f"What the {what} {part.title} is for, what it defines, and who uses it.",
        relevant_files=files or part.modules[:200],
        importance=round(part.importance, 4),
        aliases=alias,
    )


def document_plan(paths: PagePaths, file: WikiFile) -> PagePlan:
    """Plan the page of a document."""
    return PagePlan(
        path=paths.documents[file.path],
        title=document_title(file),
        kind=PageKind.DOCUMENT,
        purpose=f"What {file.path} says, section by section.",
        relevant_files=(file.path,),
        aliases=(file.path,),
    )


def wiki_title(facts: RepositoryFacts) -> str:
    """Return what the wiki is called."""
    return repository_title(facts.files)


def _bare(key: str) -> bool:
    return key not in (".", "src", "lib", "python", "source")


def _is_document(file: WikiFile) -> bool:
    is_prose = _PROSE.search(file.path) is not None and file.code is None and file.head is not None
    return is_prose and not _ASIDE.match(file.path) and not _PASSED_OVER.search(file.path)
