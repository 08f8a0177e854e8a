"""The page of a package or module: what it is for, what it defines, what it imports and who uses it, its tests."""

from collections.abc import Iterable, Sequence

from treering.core.counting import counted_things
from treering.extensions.wiki.pages import PagePlan, WikiPage, WikiPlan
from treering.extensions.wiki.repository.api_entries import ApiEntry
from treering.extensions.wiki.repository.facts import RepositoryFacts, offered, package_purpose, purpose_of
from treering.extensions.wiki.repository.files import WikiFile
from treering.extensions.wiki.repository.packages import CodePart
from treering.extensions.wiki.repository.signatures import shortened, without_receiver
from treering.extensions.wiki.repository.symbol_graph import FileLink, is_stated
from treering.extensions.wiki.rules.architecture_page import Arrow, flowchart
from treering.extensions.wiki.rules.page_body import (
    PageBody,
    PagePaths,
    bullets,
    code,
    known_lines,
    paragraph,
    plain,
    shown,
    table,
)

_MOST_ROWS = 120
_MOST_NEIGHBOURS = 30
_MOST_TESTS = 15
_DRAWN = 6
_SIGNATURE_CHARS = 90
_NAMES = 5
_MAKERS = frozenset({"__init__", "constructor", "__new__"})
_WITH_SIGNATURE = frozenset({"function", "method", "property"})
_TYPES = ("class", "interface", "struct", "enum")


def write_module(facts: RepositoryFacts, paths: PagePaths, plan: WikiPlan, page: PagePlan, part: CodePart) -> WikiPage:
    """Write the page of a part of the code."""
    body = PageBody(plan, page)
    told = facts.files_of(part)
    body.add(*_introduction(facts, body, part, told))
    body.add(_diagram(facts, part))
    body.section("Modules", _modules(facts, paths, body, part))
    body.section("Public API", _offers(facts, paths, body, part))
    for file in told:
        _api(facts, body, file, alone=len(told) == 1)
    body.section("Imports", *_imports(facts, paths, body, part))
    body.section("Used by", *_users(facts, paths, body, part))
    body.section("Tests", *_tests(facts, body, part))
    body.section("Knowledge", known_lines(facts, body, facts.known_about(part)))
    return body.finish()


def entry_row(body: PageBody, file: WikiFile, entry: ApiEntry) -> tuple[str, str]:
    """Return a row of a table of definitions: its name with its signature, and what it does."""
    name = body.source(file, entry.lines, code(entry.short))
    rest = shortened(without_receiver(entry.rest), _SIGNATURE_CHARS) if entry.kind in _WITH_SIGNATURE else ""
    if entry.kind == "property":
        rest = rest.removeprefix("()").replace(" -> ", ": ", 1)
    return f"{name}{plain(rest)}", shown(entry.doc)


def _introduction(facts: RepositoryFacts, body: PageBody, part: CodePart, told: Sequence[WikiFile]) -> Iterable[str]:
    yield paragraph(package_purpose(part, facts))
    if told:
        yield _in_numbers(body, part, told)
    else:
        yield f"{counted_things(len(part.modules), 'module')} in {code(f'{part.key}/')}."


def _in_numbers(body: PageBody, part: CodePart, told: Sequence[WikiFile]) -> str:
    where = body.file(told[0]) if len(told) == 1 else f"{counted_things(len(told), 'file')} in {code(f'{part.key}/')}"
    public = [entry for file in told for entry in file.public if not entry.owner]
    counts = [counted_things(sum(entry.kind in _TYPES for entry in public), "public type")]
    counts.append(counted_things(sum(entry.kind == "function" for entry in public), "public function"))
    lines = counted_things(sum(file.last_line for file in told), "line")
    return f"{where}: {lines}, {', '.join(one for one in counts if not one.startswith('0 '))}".removesuffix(", ") + "."


def _modules(facts: RepositoryFacts, paths: PagePaths, body: PageBody, part: CodePart) -> str:
    rows = []
    ranked = sorted(part.modules, key=lambda path: (-round(facts.graph.importance.get(path, 0.0), 6), path))
    for path in ranked[:_MOST_ROWS]:
        file = facts.files.files[path]
        rows.append((body.to_page(paths.of_file(path), code(file.name)), shown(purpose_of(file, facts)) or "–"))
    return table(("Module", "Purpose"), rows) if rows else ""


def _offers(facts: RepositoryFacts, paths: PagePaths, body: PageBody, part: CodePart) -> str:
    """Tell what the file that speaks for a package passes on from its modules."""
    if not part.entry or not part.is_package:
        return ""
    rows = []
    entry = facts.files.files[part.entry]
    for link in offered(entry, facts):
        file = facts.files.files[link.end]
        page = body.to_page(paths.of_file(file.path), code(file.path.removeprefix(f"{entry.folder}/")))
        for name in link.names:
            where, lines, one = facts.definition_of(file, name) or (entry, link.lines, None)
            rows.append((body.source(where, lines, code(name)), shown(one.doc) if one else "", page))
    return table(("Name", "Description", "From"), rows[:_MOST_ROWS]) if rows else ""


def _api(facts: RepositoryFacts, body: PageBody, file: WikiFile, *, alone: bool) -> None:
    public = file.public
    if not public:
        return
    heading = "Public API" if alone else body.source(file, file.head, code(file.name))
    body.add(f"## {heading}")
    if not alone and file.purpose:
        body.add(paragraph(purpose_of(file, facts)))
    top = [entry for entry in public if not entry.owner]
    with_members = {one.owner for one in file.entries if one.public or one.short in _MAKERS}
    owners = [entry for entry in top if entry.name in with_members]
    others = [entry for entry in top if entry.name not in with_members]
    _table_of(body, file, others, "Name")
    for owner in owners:
        _members(body, file, owner)
    here = {entry.name for entry in file.entries}
    for name in sorted({entry.owner for entry in public if entry.owner} - here):
        members = [entry for entry in public if entry.owner == name]
        body.add(f"### Members of {code(name)}")
        _table_of(body, file, members, "Member")


def _table_of(body: PageBody, file: WikiFile, entries: Sequence[ApiEntry], head: str) -> None:
    if not entries:
        return
    kept = entries[:_MOST_ROWS]
    if any(entry.doc for entry in kept):
        body.add(table((head, "Description"), [entry_row(body, file, entry) for entry in kept]))
    else:
        body.add(bullets([entry_row(body, file, entry)[0] for entry in kept]))
    if len(entries) > len(kept):
        body.add(f"{counted_things(len(entries) - len(kept), 'more definition')} in {body.file(file)}.")


def _members(body: PageBody, file: WikiFile, owner: ApiEntry) -> None:
    bases = plain(shortened(owner.rest, _SIGNATURE_CHARS))
    body.add(f"### {owner.kind} {code(owner.short)}{bases}")
    said = shown(owner.doc)
    body.add(f"{said} ({body.source(file, owner.lines)})" if said else f"Defined in {body.source(file, owner.lines)}.")
    members = [entry for entry in file.entries if entry.owner == owner.name]
    makers = [entry for entry in members if entry.short in _MAKERS]
    if makers:
        rest = plain(shortened(without_receiver(makers[0].rest), _SIGNATURE_CHARS))
        made = body.source(file, makers[0].lines, code(owner.short))
        body.add(f"Made with {made}{rest.removesuffix(' -> None')}.")
    _table_of(body, file, [entry for entry in members if entry.public and entry.short not in _MAKERS], "Member")


def _imports(facts: RepositoryFacts, paths: PagePaths, body: PageBody, part: CodePart) -> Iterable[str]:
    links = [link for path in part.files for link in facts.graph.outgoing.get(path, ())]
    passed_on = {link.end for path in part.files for link in offered(facts.files.files[path], facts)}
    others = [link for link in links if facts.code.of_file.get(link.end) != part.key and link.end not in passed_on]
    outside = [link for link in others if is_stated(link, facts.files.files[link.start])]
    yield _neighbours(facts, paths, body, outside, ends=True)
    foreign = sorted(name for name, users in facts.outside_packages.items() if set(users) & set(part.files))
    if foreign:
        yield f"External: {', '.join(code(name) for name in foreign[:_MOST_NEIGHBOURS])}."


def _users(facts: RepositoryFacts, paths: PagePaths, body: PageBody, part: CodePart) -> Iterable[str]:
    links = [link for path in part.files for link in facts.graph.incoming.get(path, ())]
    code_links = [link for link in links if facts.files.files[link.start].role == "code"]
    code_links = [link for link in code_links if is_stated(link, facts.files.files[link.start])]
    outside = [link for link in code_links if facts.code.of_file.get(link.start) != part.key]
    yield _neighbours(facts, paths, body, outside, ends=False)
    examples = sorted({link.start for link in links if facts.files.files[link.start].role == "example"})
    if examples:
        shown_examples = [body.file(facts.files.files[path]) for path in examples[:_NAMES]]
        more = f" and {len(examples) - _NAMES} more" if len(examples) > _NAMES else ""
        yield f"Examples that use it: {', '.join(shown_examples)}{more}."


def _neighbours(
    facts: RepositoryFacts, paths: PagePaths, body: PageBody, links: Sequence[FileLink], *, ends: bool
) -> str:
    rows = []
    ordered = sorted(links, key=lambda link: (-link.weight, link.end, link.start))
    for link in ordered[:_MOST_NEIGHBOURS]:
        other, start = facts.files.files[link.end if ends else link.start], facts.files.files[link.start]
        names = ", ".join(code(name) for name in link.names[:_NAMES]) or "the module"
        more = f" and {len(link.names) - _NAMES} more" if len(link.names) > _NAMES else ""
        page = body.to_page(paths.of_file(other.path), code(other.path))
        rows.append((page, f"{names}{more}", body.source(start, link.lines)))
    if not rows:
        return ""
    heads = ("Module", "Names used", "Where")
    left = len(ordered) - len(rows)
    return table(heads, rows) + (f"\n\n{counted_things(left, 'more module')}." if left > 0 else "")


def _tests(facts: RepositoryFacts, body: PageBody, part: CodePart) -> Iterable[str]:
    links = [link for path in part.files for link in facts.graph.incoming.get(path, ())]
    tests = [link for link in links if facts.files.files[link.start].role == "test"]
    stated = [link for link in tests if is_stated(link, facts.files.files[link.start])]
    best = sorted(stated or tests, key=lambda link: (-link.weight, link.start, link.end))
    seen: dict[str, str] = {}
    for link in best:
        file = facts.files.files[link.start]
        names = ", ".join(code(name) for name in link.names[:_NAMES])
        said = f"{body.source(file, link.lines, code(file.path))}" + (f": {names}" if names else "")
        if link.start not in seen and len(seen) < _MOST_TESTS:
            seen[link.start] = said
    if seen:
        yield bullets(list(seen.values()))
        left = len({link.start for link in best}) - len(seen)
        if left:
            yield f"{counted_things(left, 'more test file')}."


def _diagram(facts: RepositoryFacts, part: CodePart) -> str:
    """Draw who imports the part and what it imports: of both the most important ones."""
    own = set(part.files) or set(part.modules)
    outgoing = _others(facts, {link.end for path in own for link in facts.graph.outgoing.get(path, ())}, part)
    incoming = _others(facts, {link.start for path in own for link in facts.graph.incoming.get(path, ())}, part)
    boxes = {key: facts.code.parts[key].title for key in incoming[:_DRAWN]}
    boxes[part.key] = part.title
    boxes |= {key: facts.code.parts[key].title for key in outgoing[:_DRAWN]}
    arrows = [Arrow(key, part.key) for key in incoming[:_DRAWN]]
    arrows += [Arrow(part.key, key) for key in outgoing[:_DRAWN]]
    return flowchart(boxes, arrows, marked=part.key)


def _others(facts: RepositoryFacts, paths: Iterable[str], part: CodePart) -> list[str]:
    keys = {facts.code.of_file[path] for path in paths if path in facts.code.of_file} - {part.key, *part.modules}
    return sorted(keys, key=lambda key: (-round(facts.code.parts[key].importance, 6), key))
