"""The page on architecture: folders, the layers of their imports, and external dependencies."""

from collections.abc import Iterable

from treering.core.counting import counted_things
from treering.extensions.wiki.rules.layers import GroupImports, file_groups, folder_groups, group_part, group_title
from treering.extensions.wiki.rules.markdown import bullets, code, remainder, table
from treering.extensions.wiki.rules.mermaid import Arrow, flowchart
from treering.extensions.wiki.rules.page_body import PageBody

MAX_ARROWS = 40
MAX_ROWS = 40
MAX_AGAINST = 15
MAX_DRAWN_FILES = 14
MAX_GROUPS_WITH_FILES = 5
"""With more groups, the diagram of the most central files is omitted."""
MAX_EXTERNAL = 25

_Pair = tuple[str, str]


def write_architecture(body: PageBody) -> None:
    """Write the page on architecture."""
    groups = folder_groups(body.facts)
    if len(groups.groups) > 1:
        body.add(
            f"The code is in {counted_things(len(groups.groups), 'folder')}. An arrow leads from the importer to the "
            "imported folder, with the number of imports between their files. A dotted arrow means imports only for "
            "types or inside functions.",
            *_diagram(body, groups, numbers=True),
        )
        body.section("Layers", *_layers(body, groups))
        body.section("Imports between folders", *_pairs(body, groups))
    if len(groups.groups) <= MAX_GROUPS_WITH_FILES:
        files = file_groups(body.facts, MAX_DRAWN_FILES)
        drawing = _diagram(body, files, numbers=False)
        if len(files.groups) > 1 and drawing[0]:
            body.section("Most central modules", "Imports between them:", *drawing)
    body.section("External dependencies", _external(body))
    if not body.parts:
        body.add("The space contains no imports between the files of this repository.")


def _diagram(body: PageBody, groups: GroupImports, *, numbers: bool) -> tuple[str, str]:
    """Return the diagram, or "" without imports, and the number of arrows that are not drawn."""
    boxes = {group: group_title(body.facts, groups, group) for layer in reversed(groups.layers()) for group in layer}
    loaded = groups.loaded
    arrows = [
        Arrow(*pair, str(len(groups.links[pair])) if numbers else "", dotted=pair not in loaded)
        for pair in sorted(groups.heaviest[:MAX_ARROWS])
    ]
    left = len(groups.links) - len(arrows)
    return (
        flowchart(boxes, arrows, direction="TD"),
        f"{counted_things(left, 'lighter arrow')} not drawn." if left else "",
    )


def _titles(body: PageBody, groups: GroupImports, pair: _Pair) -> tuple[str, str]:
    start, end = pair
    return code(group_title(body.facts, groups, start)), code(group_title(body.facts, groups, end))


def _page(body: PageBody, groups: GroupImports, group: str) -> str:
    label = code(group_title(body.facts, groups, group))
    part = group_part(body.facts, groups, group)
    return body.to_page(body.paths.parts[part.key], label) if part else label


def _layers(body: PageBody, groups: GroupImports) -> Iterable[str]:
    layers = [", ".join(_page(body, groups, group) for group in layer) for layer in groups.layers()]
    yield "Each layer imports from the layers below it; the lowest imports no other layer."
    yield table(("Layer", "Folders"), [(str(at), layers[at - 1]) for at in range(len(layers), 0, -1)])
    if against := groups.against():
        yield f"{counted_things(len(against), 'pair goes', 'pairs go')} against this order:"
        yield bullets([_against(body, groups, pair) for pair in against[:MAX_AGAINST]])


def _against(body: PageBody, groups: GroupImports, pair: _Pair) -> str:
    start, end = _titles(body, groups, pair)
    return f"{start} imports {end} in {_places(body, groups, pair)}"


def _places(body: PageBody, groups: GroupImports, pair: _Pair) -> str:
    links = sorted(groups.links[pair], key=lambda link: (-link.weight, link.start, link.end))
    more = len({link.start for link in links}) - 1
    place = body.source(links[0].lines, code(links[0].start))
    return place + (f" and {counted_things(more, 'more file')}" if more else "")


def _pairs(body: PageBody, groups: GroupImports) -> tuple[str, str]:
    pairs = groups.heaviest
    rows = [(*_titles(body, groups, pair), _places(body, groups, pair)) for pair in pairs[:MAX_ROWS]]
    return table(("Folder", "imports", "such as in"), rows), remainder(len(pairs) - len(rows), "more pair")


def _external(body: PageBody) -> str:
    users = body.facts.outside_packages
    rows = []
    for name in sorted(users, key=lambda one: (-len(users[one]), one))[:MAX_EXTERNAL]:
        files = body.facts.by_importance(users[name])[:3]
        pages = [body.to_page(body.paths.of_file(path), code(path)) for path in files]
        rows.append((code(name), str(len(users[name])), ", ".join(pages)))
    return table(("Package", "Files that import it", "Such as"), rows)
