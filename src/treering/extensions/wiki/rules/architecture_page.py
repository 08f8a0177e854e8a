"""The page on architecture: packages, the layers that most imports keep to, and what comes from outside."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from treering.core.counting import counted_things
from treering.extensions.wiki.pages import PagePlan, WikiPage, WikiPlan
from treering.extensions.wiki.repository.facts import RepositoryFacts
from treering.extensions.wiki.repository.packages import part_title
from treering.extensions.wiki.repository.symbol_graph import FileLink
from treering.extensions.wiki.rules.page_body import PageBody, PagePaths, bullets, code, fenced, one_line, table

# Layers of packages: groups of code, who imports whom among them, and the order that most imports keep to.


MOST_GROUPS = 20


@dataclass(frozen=True)
class GroupImports:
    """Groups of files by key, and how often each imports another, with the links that say so."""

    groups: Sequence[str]
    files: Mapping[str, Sequence[str]]
    links: Mapping[tuple[str, str], Sequence[FileLink]]

    @property
    def loaded(self) -> dict[tuple[str, str], int]:
        """Return how many files of one import the other as soon as they are loaded, where any do."""
        counts = {pair: sum(link.when_loaded for link in links) for pair, links in self.links.items()}
        return {pair: count for pair, count in counts.items() if count}

    def count(self, start: str, end: str) -> int:
        """Return how many files of one import a file of the other."""
        return len(self.links.get((start, end), ()))

    def layers(self) -> list[list[str]]:
        """Return the groups in layers: the first imports none of the others, each later one only those before it.

        Imports against the order that most keep to do not count, nor those only for types or within functions.
        """
        order = _order(self.groups, self.loaded)
        place = {group: at for at, group in enumerate(order)}
        depth: dict[str, int] = {}
        for group in reversed(order):
            below = [depth[end] for start, end in self.loaded if start == group and place[end] > place[group]]
            depth[group] = max(below, default=-1) + 1
        found: dict[int, list[str]] = defaultdict(list)
        for group in self.groups:
            found[depth[group]].append(group)
        return [found[at] for at in sorted(found)]

    def against(self) -> list[tuple[str, str]]:
        """Return the imports that go against the layers, those of fewest files first."""
        place = {group: at for at, layer in enumerate(self.layers()) for group in layer}
        pairs = [pair for pair in self.loaded if place[pair[0]] <= place[pair[1]]]
        return sorted(pairs, key=lambda pair: (len(self.links[pair]), pair))


def folder_groups(facts: RepositoryFacts) -> GroupImports:
    """Group the code by folders, at most 20: the deepest ones are told of with the folder around them."""
    folders = {path: facts.files.files[path].folder or "." for path in facts.code.of_file}
    while len(set(folders.values())) > MOST_GROUPS:
        deepest = max(folder.count("/") for folder in folders.values())
        if not deepest:
            break
        folders = {
            path: folder.rpartition("/")[0] if folder.count("/") == deepest else folder
            for path, folder in folders.items()
        }
    return _grouped(facts, folders)


def file_groups(facts: RepositoryFacts, most: int) -> GroupImports:
    """Return the most important files of code, each as a group of its own."""
    ranked = sorted(facts.code.of_file, key=lambda path: (-round(facts.graph.importance.get(path, 0.0), 6), path))
    return _grouped(facts, {path: path for path in sorted(ranked[:most])})


def _grouped(facts: RepositoryFacts, groups: Mapping[str, str]) -> GroupImports:
    files: dict[str, list[str]] = defaultdict(list)
    for path, group in groups.items():
        files[group].append(path)
    links: dict[tuple[str, str], list[FileLink]] = defaultdict(list)
    for link in facts.graph.links:
        start, end = groups.get(link.start), groups.get(link.end)
        if link.imports and start and end and start != end:
            links[start, end].append(link)
    return GroupImports(sorted(files), files, links)


def _order(groups: Iterable[str], weights: Mapping[tuple[str, str], int]) -> list[str]:
    """Order groups so that few imports go from later to earlier ones.

    Eades, Lin and Smyth, "A fast and effective heuristic for the feedback arc set problem", 1993: what imports nothing
    goes to the end, what is imported by nothing to the beginning, else what imports most more than it is imported.
    """
    left = sorted(groups)
    first: list[str] = []
    last: list[str] = []
    while left:
        out, into = Counter[str](), Counter[str]()
        for (start, end), weight in weights.items():
            if start in left and end in left:
                out[start] += weight
                into[end] += weight
        sinks = [one for one in left if not out[one]]
        sources = [one for one in left if not into[one]]
        if sinks:
            last = sinks + last
            left = [one for one in left if one not in sinks]
        elif sources:
            first += sources
            left = [one for one in left if one not in sources]
        else:
            best = max(left, key=lambda one: (out[one] - into[one], one))
            first.append(best)
            left.remove(best)
    return first + last


_MOST_ARROWS = 40
_MOST_ROWS = 40
_MOST_AGAINST = 15
_FILES_DRAWN = 14
_FEW_GROUPS = 5
_MOST_OUTSIDE = 25


def write_architecture(facts: RepositoryFacts, paths: PagePaths, plan: WikiPlan, page: PagePlan) -> WikiPage:
    """Write the page on architecture."""
    body = PageBody(plan, page)
    groups = folder_groups(facts)
    if len(groups.groups) > 1:
        body.add(
            f"The code is in {counted_things(len(groups.groups), 'folder')}. An arrow leads from the importer to the "
            "imported folder, with the number of imports between their files. A dotted arrow means imports only for "
            "types or inside functions."
        )
        body.add(_drawn(facts, groups, numbers=True))
        body.section("Layers", *_layers(facts, paths, body, groups))
        body.section("Imports between folders", _pairs(facts, body, groups))
    if len(groups.groups) <= _FEW_GROUPS:
        files = file_groups(facts, _FILES_DRAWN)
        if len(files.groups) > 1 and (drawn := _drawn(facts, files, numbers=False)):
            body.section("Most central modules", "Imports between them:", drawn)
    body.section("External dependencies", _outside(facts, paths, body))
    if not body.parts:
        body.add("The space contains no imports between the files of this repository.")
    return body.finish()


def _drawn(facts: RepositoryFacts, groups: GroupImports, *, numbers: bool) -> str:
    order = [group for layer in reversed(groups.layers()) for group in layer]
    boxes = {group: _title(facts, groups, group) for group in order}
    heaviest = sorted(groups.links, key=lambda pair: (-groups.count(*pair), pair))[:_MOST_ARROWS]
    kept = [pair for pair in sorted(groups.links) if pair in set(heaviest)]
    loaded = groups.loaded
    counts = {pair: str(groups.count(*pair)) if numbers else "" for pair in kept}
    arrows = [Arrow(*pair, counts[pair], dotted=pair not in loaded) for pair in kept]
    drawn = flowchart(boxes, arrows, direction="TD")
    left = len(groups.links) - len(kept)
    return drawn + (f"\n\n{counted_things(left, 'lighter arrow')} not drawn." if drawn and left else "")


def _title(facts: RepositoryFacts, groups: GroupImports, group: str) -> str:
    return part_title(facts.files, group, [facts.files.files[path] for path in groups.files[group]])


def _page(facts: RepositoryFacts, paths: PagePaths, body: PageBody, groups: GroupImports, group: str) -> str:
    label = code(_title(facts, groups, group))
    inside = groups.files[group]
    key = group if group in paths.parts else facts.code.of_file[inside[0]] if len(inside) == 1 else ""
    return body.to_page(paths.parts[key], label) if key else label


def _layers(facts: RepositoryFacts, paths: PagePaths, body: PageBody, groups: GroupImports) -> Iterable[str]:
    layers = groups.layers()
    rows = []
    for at, layer in reversed(list(enumerate(layers))):
        said = ", ".join(_page(facts, paths, body, groups, group) for group in layer)
        rows.append((str(at + 1), said))
    yield "Each layer imports from the layers below it; the lowest imports no other layer."
    yield table(("Layer", "Folders"), rows)
    against = groups.against()
    if against:
        yield f"{counted_things(len(against), 'pair goes', 'pairs go')} against this order:"
        yield bullets([_against(facts, body, groups, pair) for pair in against[:_MOST_AGAINST]])


def _against(facts: RepositoryFacts, body: PageBody, groups: GroupImports, pair: tuple[str, str]) -> str:
    start, end = (code(_title(facts, groups, one)) for one in pair)
    return f"{start} imports {end} in {_places(facts, body, groups, pair)}"


def _places(facts: RepositoryFacts, body: PageBody, groups: GroupImports, pair: tuple[str, str]) -> str:
    links = sorted(groups.links[pair], key=lambda link: (-link.weight, link.start, link.end))
    first = links[0]
    file = facts.files.files[first.start]
    where = body.source(file, first.lines, code(file.path))
    more = len({link.start for link in links}) - 1
    return where + (f" and {counted_things(more, 'more file')}" if more else "")


def _pairs(facts: RepositoryFacts, body: PageBody, groups: GroupImports) -> str:
    heaviest = sorted(groups.links, key=lambda pair: (-groups.count(*pair), pair))
    rows = []
    for pair in heaviest[:_MOST_ROWS]:
        start, end = (code(_title(facts, groups, one)) for one in pair)
        rows.append((start, end, _places(facts, body, groups, pair)))
    left = len(heaviest) - len(rows)
    said = table(("Folder", "imports", "such as in"), rows) if rows else ""
    return said + (f"\n\n{counted_things(left, 'more pair')}." if left else "")


def _outside(facts: RepositoryFacts, paths: PagePaths, body: PageBody) -> str:
    users = facts.outside_packages
    rows = []
    for name in sorted(users, key=lambda one: (-len(users[one]), one))[:_MOST_OUTSIDE]:
        files = [facts.files.files[path] for path in users[name]]
        best = sorted(files, key=lambda file: (-round(facts.graph.importance.get(file.path, 0.0), 6), file.path))
        pages = [body.to_page(paths.of_file(file.path), code(file.path)) for file in best[:3]]
        rows.append((code(name), str(len(files)), ", ".join(pages)))
    return table(("Package", "Files that import it", "Such as"), rows) if rows else ""


# Diagrams in Mermaid whose labels may hold anything: what is not plain stands there as a number of its character.


_UNSAFE = re.compile(r"[^\w ./:,()@+-]")
_LABEL_CHARS = 60


@dataclass(frozen=True, slots=True)
class Arrow:
    """An arrow from one box to another, by their keys; `label` may be empty."""

    start: str
    end: str
    label: str = ""
    dotted: bool = False


def flowchart(boxes: Mapping[str, str], arrows: Sequence[Arrow], *, direction: str = "LR", marked: str = "") -> str:
    """Return a diagram of boxes (labels by key), in their order; empty without an arrow. `marked`: the key of one."""
    drawn = [arrow for arrow in arrows if arrow.start in boxes and arrow.end in boxes]
    if not drawn:
        return ""
    names = {key: f"n{at}" for at, key in enumerate(boxes)}
    lines = [f"flowchart {direction}"]
    lines += [f'    {names[key]}["{label_text(label)}"]' for key, label in boxes.items()]
    lines += [f"    {names[arrow.start]} {_line(arrow)} {names[arrow.end]}" for arrow in drawn]
    if marked in names:
        lines.append(f"    style {names[marked]} stroke-width:3px")
    return fenced("\n".join(lines), "mermaid")


def label_text(label: str) -> str:
    """Return what a box says, between its quotes."""
    line = one_line(label)
    short = line if len(line) <= _LABEL_CHARS else f"{line[: _LABEL_CHARS - 1]}…"
    return _UNSAFE.sub(lambda found: f"#{ord(found[0])};", short) or "#45;"


def _line(arrow: Arrow) -> str:
    stroke = "-.->" if arrow.dotted else "-->"
    return f'{stroke}|"{label_text(arrow.label)}"|' if arrow.label else stroke
