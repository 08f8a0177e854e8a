"""Packages from outside of a repository that its code imports."""

from collections import defaultdict

from treering.memories.wiki.repository.facts import RepositoryFacts


def outside_packages(facts: RepositoryFacts) -> dict[str, list[str]]:
    """Return, by name of a package that is not in the repository, the files of code that import it."""
    own = _own_names(facts)
    found: dict[str, list[str]] = defaultdict(list)
    for path in facts.code.of_file:
        for name in sorted({outside_name(one) for one in facts.files.files[path].imports} - own - {""}):
            found[name].append(path)
    return found


def outside_name(name: str) -> str:
    """Return the package that an import names; empty for what is named by its place in the repository."""
    if name.startswith((".", "/", "#", "~", "@/", "crate", "self", "super")):
        return ""
    if name.startswith("@"):
        return "/".join(name.split("/")[:2])
    if "/" in name and "." in name.split("/")[0]:
        return "/".join(name.split("/")[:3])
    return name.split("/")[0].split("::")[0].split(".")[0] if ":" not in name.split("/")[0] or "::" in name else name


def _own_names(facts: RepositoryFacts) -> set[str]:
    names = {file.package for file in facts.files.files.values() if file.package}
    for path in facts.code.of_file:
        parts = path.split("/")
        names |= {part.rpartition(".")[0] if at == len(parts) - 1 else part for at, part in enumerate(parts)}
    return {one for name in names for one in (name, name.replace("-", "_"), outside_name(name))}
