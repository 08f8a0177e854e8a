"""Groups of code, the imports between them, and the layers that most imports follow."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from treering.extensions.wiki.repository.facts import RepositoryFacts
from treering.extensions.wiki.repository.packages import CodePart, part_title, repository_title
from treering.extensions.wiki.repository.symbol_graph import FileLink

MAX_GROUPS = 20
MIN_SHARE = 3
"""A folder with at most one part in this number of all files is not divided."""


@dataclass(frozen=True)
class GroupImports:
    """Groups of files by key, and the imports between them."""

    groups: Sequence[str]
    files: Mapping[str, Sequence[str]]
    links: Mapping[tuple[str, str], Sequence[FileLink]]

    @property
    def loaded(self) -> dict[tuple[str, str], int]:
        """The number of imports at load time, by pair of groups."""
        counts = {pair: sum(link.when_loaded for link in links) for pair, links in self.links.items()}
        return {pair: count for pair, count in counts.items() if count}

    @property
    def heaviest(self) -> list[tuple[str, str]]:
        """The pairs of groups, most imports first."""
        return sorted(self.links, key=lambda pair: (-len(self.links[pair]), pair))

    def layers(self) -> list[list[str]]:
        """Return the groups in layers, lowest first: each layer imports only from earlier ones.

        Imports against the order of most imports are ignored, as are those only for types or inside functions.
        """
        order = _order(self.groups, self.loaded)
        place = {group: at for at, group in enumerate(order)}
        depth: dict[str, int] = {}
        for group in reversed(order):
            below = [depth[end] for start, end in self.loaded if start == group and place[end] > place[group]]
            depth[group] = max(below, default=-1) + 1
        layers: dict[int, list[str]] = defaultdict(list)
        for group in self.groups:
            layers[depth[group]].append(group)
        return [layers[at] for at in sorted(layers)]

    def against(self) -> list[tuple[str, str]]:
        """Return the imports against the layers, fewest files first."""
        place = {group: at for at, layer in enumerate(self.layers()) for group in layer}
        pairs = [pair for pair in self.loaded if place[pair[0]] <= place[pair[1]]]
        return sorted(pairs, key=lambda pair: (len(self.links[pair]), pair))


def folder_groups(facts: RepositoryFacts) -> GroupImports:
    """Group the code by folder: folders with more than a third of the files are divided, up to `MAX_GROUPS`."""
    groups = dict.fromkeys(facts.code.of_file, ".")
    while divided := _divided(groups):
        groups |= divided
    return _grouped(facts, groups)


def _divided(groups: Mapping[str, str]) -> dict[str, str]:
    """Return the subfolder of each file in the largest folder that can be divided, or nothing."""
    sizes = Counter(groups.values())
    for group, size in sizes.most_common():
        start = "" if group == "." else f"{group}/"
        inside = {path: path.removeprefix(start).split("/") for path, one in groups.items() if one == group}
        below = {path: f"{start}{names[0]}" if len(names) > 1 else group for path, names in inside.items()}
        if size * MIN_SHARE <= len(groups):
            break
        if {*below.values()} != {group} and len(sizes) - 1 + len({*below.values()}) <= MAX_GROUPS:
            return below
    return {}


def ranked_groups(facts: RepositoryFacts, groups: GroupImports) -> list[str]:
    """Return the groups, most important first."""
    weights = {key: sum(facts.graph.importance.get(path, 0.0) for path in paths) for key, paths in groups.files.items()}
    return sorted(groups.groups, key=lambda group: (-round(weights[group], 6), group))


def group_title(facts: RepositoryFacts, groups: GroupImports, group: str) -> str:
    """Return the title of a group: of its folder, or of its only module if the folder is called like the repository."""
    title = part_title(facts.files, group, [facts.files.files[path] for path in groups.files[group]])
    keys = {facts.code.of_file[path] for path in groups.files[group]}
    is_module = len(keys) == 1 and title == repository_title(facts.files)
    return facts.code.parts[keys.pop()].title if is_module else title


def group_part(facts: RepositoryFacts, groups: GroupImports, group: str) -> CodePart | None:
    """Return the part that represents a group: its only one, or the package of the folder that contains the others."""
    keys = sorted(
        {facts.code.of_file[path] for path in groups.files[group]} | {group} & facts.code.parts.keys(), key=len
    )
    contains = len(keys) == 1 or keys[0] == group or all(key.startswith(f"{keys[0]}/") for key in keys[1:])
    return facts.code.parts[keys[0]] if contains else None


def file_groups(facts: RepositoryFacts, count: int) -> GroupImports:
    """Return the most important files of code, each as its own group."""
    return _grouped(facts, {path: path for path in sorted(facts.by_importance(facts.code.of_file)[:count])})


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

    Eades, Lin and Smyth, "A fast and effective heuristic for the feedback arc set problem", 1993: groups that import
    nothing go to the end, groups that nothing imports to the beginning, then those with the most imports on balance.
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
        if sinks := [one for one in left if not out[one]]:
            last = sinks + last
        elif sources := [one for one in left if not into[one]]:
            first += sources
        else:
            first.append(max(left, key=lambda one: (out[one] - into[one], one)))
        left = [one for one in left if one not in (*first, *last)]
    return first + last
