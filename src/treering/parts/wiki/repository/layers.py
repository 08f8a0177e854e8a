"""Layers of packages: groups of code, who imports whom among them, and the order that most imports keep to."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from treering.parts.wiki.repository.facts import RepositoryFacts
from treering.parts.wiki.repository.symbol_graph import FileLink

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
