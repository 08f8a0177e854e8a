"""What pages by rules are made of: where each lies and what it is called, and its body with the links it cites by."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from treering.core.characters import visible, without_invisible
from treering.core.evidence import EvidenceRef
from treering.core.objects import Constraint, Decision, Knowledge, Preference, Procedure
from treering.extensions.wiki.pages import LineCitation, PageKind, PagePlan, WikiPage, WikiPlan
from treering.extensions.wiki.repository.api_entries import CitedSpan
from treering.extensions.wiki.repository.facts import RepositoryFacts, package_purpose
from treering.extensions.wiki.repository.files import WikiFile
from treering.extensions.wiki.repository.packages import CodePart, page_slugs, repository_title
from treering.extensions.wiki.repository.prose import Words, cut, words_of

# Which pages there are, where they lie, and what they are called.


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
        purpose=said or f"The purpose, definitions and users of the {what} {part.title}.",
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
        purpose=f"A summary of {file.path}, section by section.",
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


@dataclass
class PageBody:
    """Collects the blocks of one page. What is added is Markdown; the methods that make links escape what they show."""

    plan: WikiPlan
    page: PagePlan
    parts: list[str] = field(default_factory=list)
    cited: dict[LineCitation, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._paths = {page.path: page for page in self.plan.pages}

    def add(self, *parts: str) -> None:
        """Add blocks; empty ones are left out."""
        self.parts += [part for part in parts if part]

    def section(self, heading: str, *parts: str, level: int = 2) -> None:
        """Add blocks under a heading, which is Markdown; nothing at all where all of them are empty."""
        said = [part for part in parts if part]
        if said:
            self.parts += [f"{'#' * level} {heading}", *said]

    def source(self, file: WikiFile, lines: CitedSpan | None, label: str = "") -> str:
        """Return a link to lines of a file, and cite them; only the label where no lines are known.

        `label` is Markdown; without it the link says which lines these are.
        """
        if lines is None:
            return label
        self.cited[
            LineCitation(
                path=file.path,
                first_line=lines.first,
                last_line=lines.last,
                commit=file.commit,
                content_hash=lines.content_hash,
                source_id=file.source_id,
                segment_id=lines.segment_id,
            )
        ] = None
        return link(label or _told_lines(lines), source_target(file.path, lines.first, lines.last))

    def file(self, file: WikiFile) -> str:
        """Return the path of a file as a link to where it begins."""
        return self.source(file, file.head, code(file.path))

    def to_page(self, path: str, label: str, *, anchor: str = "") -> str:
        """Return a link to another page where the plan has it, else only the label."""
        return link(label, page_target(path, anchor)) if path in self._paths and path != self.page.path else label

    def has_page(self, path: str) -> bool:
        """Tell whether the plan has a page."""
        return path in self._paths

    def finish(self) -> WikiPage:
        """Return the page."""
        body = blocks(f"# {plain(self.page.title)}", *self.parts) + "\n"
        return WikiPage(self.page, body, tuple(self.cited))


def shown(words: Sequence[Words]) -> str:
    """Return words as Markdown inside of a line."""
    said = []
    for one in words:
        marked = code(one.text) if one.code else plain(one.text)
        before = " " if one.text[:1].isspace() and marked else ""
        after = " " if one.text[-1:].isspace() and marked.strip() and len(one.text) > 1 else ""
        said.append(f"{before}{marked}{after}" if marked else " " * bool(one.text))
    return "".join(said).strip()


def paragraph(words: Sequence[Words]) -> str:
    """Return words as a paragraph of their own."""
    return paragraph_start(shown(words))


def _told_lines(lines: CitedSpan) -> str:
    return f"line {lines.first}" if lines.first == lines.last else f"lines {lines.first}–{lines.last}"


# Markdown made of stored text that may hold anything: what is written here is shown, and never obeyed.


_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")
_SPACES = re.compile(r"\s+")
_SPECIAL = re.compile(r"[\\`*\[\]<&|{}$~^#]|={2,}|(?<![^\W_])_|_(?![^\W_])|!(?=\[)")
_ENTITIES = {"<": "&lt;", "&": "&amp;", "$": "&#36;", "~": "&#126;", "^": "&#94;"}
_BLOCK_START = re.compile(r"(>|[-+](?=\s|$)|-{2,}|\d{1,9}(?=[.)])|[:=?!]{2,}|:(?=\s)|\t)")
_UNSAFE_IN_PATH = re.compile(r"[^A-Za-z0-9/._~-]")
_BACKTICKS = re.compile(r"`+")
_LANGUAGE = re.compile(r"[A-Za-z0-9+#.-]{1,20}")


def one_line(text: str) -> str:
    """Return a text as one line, without controls and invisible characters."""
    return _SPACES.sub(" ", _CONTROLS.sub(" ", without_invisible(text))).strip()


def plain(text: str) -> str:
    """Return a text as words inside of a line: nothing in it is markup."""
    return _SPECIAL.sub(_escaped, one_line(text))


def paragraph_start(markdown: str) -> str:
    """Return inline Markdown as the beginning of a paragraph: nothing in it begins a list, a rule or the like."""
    found = _BLOCK_START.match(markdown)
    if not found:
        return markdown
    sign = found[1]
    if sign.isdigit():
        return f"{sign}\\{markdown[len(sign) :]}"
    return "".join(f"&#{ord(one)};" for one in sign) + markdown[len(sign) :]


def code(text: str) -> str:
    """Return a text as code inside of a line, also of a table; as plain words where no table could hold that code."""
    line = one_line(text)
    if not line:
        return ""
    if "|" in line or "`" in line:
        return plain(line)
    return f"`{line}`"


def link(label: str, target: str) -> str:
    """Return a link; `label` is Markdown, `target` an address that was escaped before."""
    return f"[{label}]({target})" if label else ""


def fenced(text: str, language: str = "") -> str:
    """Return a text as a block of code."""
    shown = visible(text.replace("\r\n", "\n")).rstrip("\n")
    longest = max((len(run) for run in _BACKTICKS.findall(shown)), default=0)
    fence = "`" * max(3, longest + 1)
    named = language if _LANGUAGE.fullmatch(language) else ""
    return f"{fence}{named}\n{shown}\n{fence}"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table. Cells are Markdown of one line, in which every pipe was escaped before."""
    lines = [_row(heads), _row(["---"] * len(heads)), *map(_row, rows)]
    return "\n".join(lines)


def bullets(items: Sequence[str]) -> str:
    """Return a list. Items are Markdown of one line."""
    return "\n".join(f"- {item}" for item in items)


def page_target(path: str, anchor: str = "") -> str:
    """Return the address of another page of the wiki."""
    return f"page:{_quoted(path)}" + (f"#{anchor}" if anchor else "")


def source_target(path: str, first: int, last: int) -> str:
    """Return the address of lines of a file, whose path is percent-encoded."""
    return f"source:{_quoted(path)}#L{first}-L{last}"


def blocks(*parts: str) -> str:
    """Join blocks of Markdown with an empty line between; empty ones are left out."""
    return "\n\n".join(part for part in parts if part)


def _escaped(found: re.Match[str]) -> str:
    sign = found[0]
    return "&#61;" * len(sign) if sign[0] == "=" else _ENTITIES.get(sign) or f"\\{sign}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _quoted(path: str) -> str:
    return _UNSAFE_IN_PATH.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), path)


# Lines about what a space knows: decisions, rules, procedures, each with what it rests on.


_CHARS = 400
_MOST_CITED = 3
_MOST_STEPS = 12
_MOST_SUBJECTS = 8


def known_lines(facts: RepositoryFacts, body: PageBody, known: Sequence[Knowledge]) -> str:
    """Return a list of what is known, in one line each, that leads to the page with all of it."""
    return bullets([_line(facts, body, one) for one in known]) if known else ""


def knowledge_blocks(facts: RepositoryFacts, paths: PagePaths, body: PageBody, item: Knowledge) -> list[str]:
    """Return the blocks that tell all of one piece of knowledge."""
    payload = item.payload
    said: list[tuple[str, str]] = []
    match payload:
        case Decision():
            said = [("Question", payload.question), ("Decided", payload.outcome), ("Because", payload.rationale)]
            said += [("Instead of", ", ".join(payload.alternatives))]
        case Constraint():
            said = [("Rule", payload.rule), ("Where", payload.scope), ("If violated", payload.violation_impact)]
        case Preference():
            said = [("Preferred", payload.statement), ("Where", payload.scope)]
        case Procedure():
            said = [("Before", ", ".join(payload.preconditions)), ("Leads to", payload.expected_outcome)]
        case _:
            pass
    told = {item.title, item.summary, ""}
    lines = [f"**{label}:** {short_text(text)}" for label, text in said if text not in told]
    if about := _subjects(facts, paths, body, item):
        lines.append(f"**About:** {about}")
    steps = [f"{at}. {short_text(step)}" for at, step in enumerate(_steps(item), 1)]
    rests = evidence(facts, body, item)
    status = "It is contested." if item.status == "contested" else ""
    summary = short_text(item.summary) if item.summary else ""
    return [summary, bullets(lines) if lines else "", "\n".join(steps), f"Based on {rests}." if rests else "", status]


def evidence(facts: RepositoryFacts, body: PageBody, item: Knowledge) -> str:
    """Return links to the lines that something rests on."""
    return ", ".join(one for ref in item.evidence_refs[:_MOST_CITED] if (one := _cited(facts, body, ref)))


def short_text(text: str) -> str:
    """Return stored text as one line of Markdown, cut where it is long."""
    return shown(cut(words_of(text), _CHARS))


def _subjects(facts: RepositoryFacts, paths: PagePaths, body: PageBody, item: Knowledge) -> str:
    """Return the names of the nodes that something is about, each as a link where the wiki has a page of it."""
    told, whole = [], facts.files.payload.get("slug")
    for subject in [one for one in facts.known.subjects_of(item) if one.slug != whole][:_MOST_SUBJECTS]:
        parts, name = facts.parts_of(subject), code(subject.name)
        told.append(body.to_page(paths.parts[parts[0].key], name) if len(parts) == 1 else name)
    return ", ".join(told)


def _line(facts: RepositoryFacts, body: PageBody, item: Knowledge) -> str:
    rests = evidence(facts, body, item)
    said = f"{body.to_page(DECISIONS, plain(item.title))}: {_said(item)}"
    return f"{said} ({rests})" if rests else said


def _steps(item: Knowledge) -> Sequence[str]:
    return item.payload.steps[:_MOST_STEPS] if isinstance(item.payload, Procedure) else ()


def _said(item: Knowledge) -> str:
    payload = item.payload
    match payload:
        case Decision():
            return short_text(payload.outcome or payload.question)
        case Constraint():
            return short_text(payload.rule)
        case Preference():
            return short_text(payload.statement)
        case Procedure():
            return short_text("; ".join(payload.steps[:_MOST_STEPS]))
        case _:
            return short_text(item.summary)


def _cited(facts: RepositoryFacts, body: PageBody, ref: EvidenceRef) -> str:
    file = facts.files.by_id.get(ref.source_id)
    if file is None:
        return ""
    found = facts.segment_lines(file).get(ref.segment_id)
    return body.source(file, found, plain(f"{file.path}, line {found.first}")) if found else ""
