"""The page of a package or module: its purpose, public API, imports, users and tests."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import replace

from treering.core.counting import counted_things
from treering.extensions.wiki.repository.api_entries import ApiEntry
from treering.extensions.wiki.repository.facts import offered
from treering.extensions.wiki.repository.files import WikiFile
from treering.extensions.wiki.repository.packages import CodePart
from treering.extensions.wiki.repository.purposes import purpose_of, stated_purpose
from treering.extensions.wiki.repository.signatures import shortened, without_receiver
from treering.extensions.wiki.repository.symbol_graph import FileLink
from treering.extensions.wiki.rules.knowledge import knowledge_list
from treering.extensions.wiki.rules.markdown import bullets, code, paragraph, plain, remainder, shown, table
from treering.extensions.wiki.rules.mermaid import Arrow, flowchart
from treering.extensions.wiki.rules.page_body import PageBody

MAX_ROWS = 120
MAX_NEIGHBORS = 30
MAX_TESTS = 15
MAX_DRAWN = 6
MAX_SIGNATURE_CHARS = 90
MAX_NAMES = 5
_CONSTRUCTORS = frozenset({"__init__", "constructor", "__new__"})
_WITH_SIGNATURE = frozenset({"function", "macro", "method", "property"})
_TYPES = ("class", "interface", "trait", "struct", "enum")


def write_module(body: PageBody, part: CodePart) -> None:
    """Write the page of a part of the code."""
    files, stubs = body.facts.files_of(part), body.facts.stubs_of(part)
    body.add(paragraph(stated_purpose(part, body.facts)), _size(body, part, files, stubs), *_diagram(body, part))
    body.section("Modules", _modules(body, part))
    exports = _exports(body, part)
    body.section("Public API", exports)
    documented = {entry.name for file in files for entry in file.entries}
    if exports:
        links = offered(body.facts.files.files[part.entry], body.facts)
        documented |= {name for link in links for name in link.imported}
    only_typed = [file for file in (_without(stub, documented) for stub in stubs) if file.public]
    for file in (*files, *only_typed):
        _api(body, file, alone=len(files) == 1 and not (exports or only_typed))
    body.section("Imports", *_imports(body, part))
    body.section("Used by", *_users(body, part))
    body.section("Tests", *_tests(body, part))
    body.section("Knowledge", knowledge_list(body, body.facts.known_about(part)))


def entry_row(body: PageBody, entry: ApiEntry) -> tuple[str, str]:
    """Return a row of a table of definitions: the name with its signature, and the description."""
    name = body.source(entry.lines, code(entry.short))
    rest = shortened(without_receiver(entry.rest), MAX_SIGNATURE_CHARS) if entry.kind in _WITH_SIGNATURE else ""
    if entry.kind == "property":
        rest = rest.removeprefix("()").replace(" -> ", ": ", 1)
    return f"{name}{_behind_name(rest)}", shown(entry.doc)


def _without(file: WikiFile, names: Container[str]) -> WikiFile:
    """Return a file without definitions of some names."""
    return replace(file, entries=tuple(entry for entry in file.entries if entry.name not in names))


def _behind_name(rest: str) -> str:
    """Return a signature to append to a name: a word is separated by a space."""
    return f" {plain(rest)}" if rest.strip()[:1].isalpha() or rest.startswith("=") else plain(rest)


def _size(body: PageBody, part: CodePart, files: Sequence[WikiFile], stubs: Sequence[WikiFile]) -> str:
    folder = code(f"{part.key}/")
    if not files:
        return f"{counted_things(len(part.modules), 'module')} in {folder}."
    is_module = len(files) == 1 or not part.is_package
    place = " and ".join(map(body.file, files)) if is_module else f"{counted_things(len(files), 'file')} in {folder}"
    public = [entry for file in files for entry in file.public if not entry.owner]
    types = sum(entry.kind in _TYPES for entry in public)
    functions = sum(entry.kind == "function" for entry in public)
    sizes = [counted_things(sum(file.last_line for file in files), "line")]
    sizes += [counted_things(types, "public type")] if types else []
    sizes += [counted_things(functions, "public function")] if functions else []
    typed = f" Types: {', '.join(map(body.file, stubs))}." if stubs else ""
    return f"{place}: {', '.join(sizes)}.{typed}"


def _modules(body: PageBody, part: CodePart) -> str:
    rows = []
    for path in body.facts.by_importance(part.modules)[:MAX_ROWS]:
        file = body.facts.files.files[path]
        purpose = shown(purpose_of(file, body.facts))
        rows.append((body.to_page(body.paths.of_file(path), code(file.name)), purpose))
    return table(("Module", "Purpose"), rows)


def _exports(body: PageBody, part: CodePart) -> str:
    """List the names that the entry file of a package exports from its modules."""
    if not part.entry or not part.is_package:
        return ""
    rows = []
    entry = body.facts.files.files[part.entry]
    for link in offered(entry, body.facts):
        file = body.facts.files.files[link.end]
        page = body.to_page(body.paths.of_file(file.path), code(file.path.removeprefix(f"{entry.folder}/")))
        for name in link.imported:
            lines, one = body.facts.definition_of(file, name) or (body.facts.line_with(entry, name), None)
            rows.append((body.source(lines, code(name)), shown(one.doc) if one else "", page))
    for name, lines in body.facts.assigned_for_others(entry):
        rows.append((body.source(lines, code(name)), "", body.file(entry)))
    return table(("Name", "Description", "From"), rows[:MAX_ROWS])


def _api(body: PageBody, file: WikiFile, *, alone: bool) -> None:
    public = file.public
    if not public:
        return
    body.add(f"## {'Public API' if alone else body.source(file.head, code(file.name))}")
    if not alone and file.purpose:
        body.add(paragraph(purpose_of(file, body.facts)))
    top = [entry for entry in public if not entry.owner]
    with_members = {one.owner for one in file.entries if one.public or one.short in _CONSTRUCTORS}
    _definitions(body, file, [entry for entry in top if entry.name not in with_members], "Name")
    for owner in top:
        if owner.name in with_members:
            _members(body, file, owner)
    for name in sorted({entry.owner for entry in public if entry.owner} - {entry.name for entry in file.entries}):
        body.add(f"### Members of {code(name)}")
        _definitions(body, file, [entry for entry in public if entry.owner == name], "Member")


def _definitions(body: PageBody, file: WikiFile, entries: Sequence[ApiEntry], head: str) -> None:
    rows = [entry_row(body, entry) for entry in entries[:MAX_ROWS]]
    has_docs = any(entry.doc for entry in entries[:MAX_ROWS])
    body.add(table((head, "Description"), rows) if has_docs else bullets([name for name, _ in rows]))
    if len(entries) > len(rows):
        body.add(f"{counted_things(len(entries) - len(rows), 'more definition')} in {body.file(file)}.")


def _members(body: PageBody, file: WikiFile, owner: ApiEntry) -> None:
    bases = _behind_name(shortened(owner.rest, MAX_SIGNATURE_CHARS))
    body.add(f"### {owner.kind} {code(owner.short)}{bases}")
    doc, place = shown(owner.doc), body.source(owner.lines)
    body.add(f"{doc} ({place})" if doc else f"Defined in {place}.")
    members = [entry for entry in file.entries if entry.owner == owner.name]
    constructor = next((entry for entry in members if entry.short in _CONSTRUCTORS), None)
    if constructor:
        rest = plain(shortened(without_receiver(constructor.rest), MAX_SIGNATURE_CHARS))
        name = body.source(constructor.lines, code(owner.short))
        body.add(f"Made with {name}{rest.removesuffix(' -> None')}.")
    public = [entry for entry in members if entry.public and entry.short not in _CONSTRUCTORS]
    _definitions(body, file, public, "Member")


def _imports(body: PageBody, part: CodePart) -> Iterable[str]:
    facts = body.facts
    links = facts.graph.from_files(*part.files)
    others = [link for link in links if facts.code.of_file.get(link.end) != part.key]
    yield from _neighbors(body, others, ends=True)
    external = sorted(name for name, users in facts.outside_packages.items() if set(users) & set(part.files))
    if external:
        yield f"External: {', '.join(code(name) for name in external[:MAX_NEIGHBORS])}."


def _users(body: PageBody, part: CodePart) -> Iterable[str]:
    outside = [link for link in _incoming(body, part, "code") if body.facts.code.of_file.get(link.start) != part.key]
    yield from _neighbors(body, outside, ends=False)
    examples = sorted({link.start for link in _incoming(body, part, "example")})
    if examples:
        linked = [body.file(body.facts.files.files[path]) for path in examples[:MAX_NAMES]]
        yield f"Examples that use it: {', '.join(linked)}{_and_more(examples)}."


def _neighbors(body: PageBody, links: Sequence[FileLink], *, ends: bool) -> tuple[str, str]:
    links = [link for link in links if link.is_stated]
    rows = []
    for link in sorted(links, key=lambda link: (-link.weight, link.end, link.start))[:MAX_NEIGHBORS]:
        path = link.end if ends else link.start
        page = body.to_page(body.paths.of_file(path), code(path))
        names = f"{_names(link) or 'the module'}{_and_more(link.names)}"
        rows.append((page, names, body.source(link.lines)))
    return table(("Module", "Names used", "Where"), rows), remainder(len(links) - len(rows), "more module")


def _tests(body: PageBody, part: CodePart) -> Iterable[str]:
    tests = (link for link in _incoming(body, part, "test") if link.is_stated)
    best = sorted(tests, key=lambda link: (-link.weight, link.start, link.end))
    lines: dict[str, str] = {}
    for link in best:
        if link.start not in lines and len(lines) < MAX_TESTS:
            place = body.source(link.lines, code(link.start))
            names = _names(link)
            lines[link.start] = f"{place}: {names}" if names else place
    yield bullets(list(lines.values()))
    yield remainder(len({link.start for link in best}) - len(lines), "more test file")


def _incoming(body: PageBody, part: CodePart, role: str) -> list[FileLink]:
    links = body.facts.graph.to_files(*part.files)
    return [link for link in links if body.facts.files.files[link.start].role == role]


def _names(link: FileLink) -> str:
    return ", ".join(code(name) for name in link.names[:MAX_NAMES])


def _and_more(names: Sequence[str]) -> str:
    return f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""


def _diagram(body: PageBody, part: CodePart) -> tuple[str, str]:
    """Draw the most important importers of the part and the parts it imports, and count the others."""
    graph, parts = body.facts.graph, body.facts.code.parts
    own = part.files or part.modules
    outgoing = _others(body, part, {link.end for link in graph.from_files(*own) if link.is_stated})
    incoming = _others(body, part, {link.start for link in graph.to_files(*own) if link.is_stated})
    above, below = incoming[:MAX_DRAWN], outgoing[:MAX_DRAWN]
    boxes = {key: parts[key].title for key in (*above, part.key, *below)}
    arrows = [Arrow(key, part.key) for key in above] + [Arrow(part.key, key) for key in below]
    left = len({*incoming, *outgoing} - boxes.keys())
    hidden = f"{counted_things(left, 'less central neighbor')} not drawn." if left else ""
    return flowchart(boxes, arrows, marked=part.key), hidden


def _others(body: PageBody, part: CodePart, paths: Iterable[str]) -> list[str]:
    code_parts = body.facts.code
    keys = {code_parts.of_file[path] for path in paths if path in code_parts.of_file} - {part.key, *part.modules}
    return sorted(keys, key=lambda key: (-round(code_parts.parts[key].importance, 6), key))
