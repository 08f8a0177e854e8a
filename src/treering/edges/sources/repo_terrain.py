"""Which node of a repository each of its files belongs to."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from treering.edges.sources.git import TreeEntry
from treering.edges.sources.repo_map import api_entries, document_entries, folders_of, module_paths


@dataclass(frozen=True)
class RepoTerrain:
    """The nodes of a repository's map, and the paths they stand for. `entries` are its files, as the map has them."""

    slug: str
    entries: Sequence[TreeEntry]

    def subject(self, path: str) -> str:
        """Return the node that what a file states is about: its module, else the whole, as `kind:slug`."""
        return next(
            (self.key("module", folder) for folder in _folders_above(path) if folder in self._modules),
            f"repo:{self.slug}",
        )

    def ties(self) -> Mapping[str, Sequence[str]]:
        """Return the paths of each node's files, by `kind:slug`."""
        tied: dict[str, list[str]] = {}
        for entry in self.entries:
            for key in self._keys(entry.path):
                tied.setdefault(key, []).append(entry.path)
        return tied

    def present(self) -> Mapping[str, frozenset[str]]:
        """Return the slugs that nodes of what is there may have, by their kind."""
        files = frozenset(f"{self.slug}/{entry.path}" for entry in self.entries)
        folders = frozenset(f"{self.slug}/{path}" for path in folders_of(self.entries))
        return {"module": folders, "document": files, "api": files}

    def key(self, kind: str, path: str) -> str:
        """Return the name by which drafts refer to the node of a path."""
        return f"{kind}:{self.slug}/{path}"

    def _keys(self, path: str) -> Iterator[str]:
        if path in self._documents:
            yield self.key("document", path)
        if path in self._apis:
            yield self.key("api", path)
        if (subject := self.subject(path)) != f"repo:{self.slug}":
            yield subject

    @cached_property
    def _modules(self) -> frozenset[str]:
        return frozenset(module_paths(self.entries))

    @cached_property
    def _documents(self) -> frozenset[str]:
        return frozenset(entry.path for entry in document_entries(self.entries))

    @cached_property
    def _apis(self) -> frozenset[str]:
        return frozenset(entry.path for entry in api_entries(self.entries))


def _folders_above(path: str) -> Iterator[str]:
    """Yield the folders a path lies in, the nearest first."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path
