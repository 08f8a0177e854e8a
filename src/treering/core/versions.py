"""Which contents of a file stand on which branches of a repository, and which of them an answer is about.

A source is one file. Where the branches that were read hold different contents of it, the source keeps the segments of
all of them, each once: its fingerprint names the contents with the branches they stand on, and each segment the
contents it is part of (`core.evidence.Segment.places`). A source whose contents are the same on every branch says none
of this. So what differs between branches is all that costs anything.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from treering.core.canonical import canonical_json

SEVERAL = "versions:"
"""How the fingerprint of a source begins that holds several contents."""
GIT_BLOB = "git-blob:"
"""How the fingerprint of a file of a repository begins, before the id of its blob."""
DETACHED = "detached HEAD"
"""What stands in the place of a branch where a commit is read that is on none of those that are known."""


@dataclass(frozen=True, slots=True)
class ContentsOnBranches:
    """The contents of a file, by their fingerprint, and the branches they stand on; `None`: on every one."""

    fingerprint: str
    branches: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class HeldContents:
    """The contents of one file. Where there is more than one, or a branch without the file, each names its branches."""

    each: tuple[ContentsOnBranches, ...]

    @classmethod
    def parse(cls, fingerprint: str) -> "HeldContents":
        """Read the fingerprint of a source."""
        if not fingerprint.startswith(SEVERAL):
            return cls((ContentsOnBranches(fingerprint),))
        try:
            told = json.loads(fingerprint.removeprefix(SEVERAL))
            return cls(tuple(ContentsOnBranches(one, tuple(branches)) for one, branches in told))
        except (ValueError, TypeError):  # a row that somebody changed: whoever reads the source itself says so
            return cls((ContentsOnBranches(fingerprint),))

    @property
    def text(self) -> str:
        """The fingerprint of the source."""
        if len(self.each) == 1 and self.each[0].branches is None:
            return self.each[0].fingerprint
        return SEVERAL + canonical_json([[one.fingerprint, list(one.branches or ())] for one in self.each])

    @property
    def fingerprints(self) -> tuple[str, ...]:
        """All contents, the first of them those that the source itself tells of."""
        return tuple(one.fingerprint for one in self.each)

    @property
    def is_everywhere(self) -> bool:
        """Whether the file has the same contents on every branch."""
        return len(self.each) == 1 and self.each[0].branches is None

    def on(self, branch: str) -> str | None:
        """Return the contents on a branch; `None` where it has no such file."""
        return next((one.fingerprint for one in self.each if one.branches is None or branch in one.branches), None)

    def branches_of(self, fingerprints: Iterable[str]) -> tuple[str, ...] | None:
        """Return the branches that some of the contents stand on; `None` for every one."""
        asked = set(fingerprints)
        found = [one.branches for one in self.each if one.fingerprint in asked]
        if any(branches is None for branches in found):
            return None
        return tuple(dict.fromkeys(name for branches in found for name in branches or ()))

    def moved(self, branch: str, fingerprint: str | None, *, known: Iterable[str]) -> "HeldContents":
        """Return the contents after a branch got others, or with `None` lost the file. `known`: all branches now."""
        everywhere = tuple(known)
        each: list[ContentsOnBranches] = []
        for one in self.each:
            left = tuple(name for name in (everywhere if one.branches is None else one.branches) if name != branch)
            if one.fingerprint == fingerprint:
                each.append(ContentsOnBranches(one.fingerprint, (*left, branch)))
            elif left:
                each.append(ContentsOnBranches(one.fingerprint, left))
        if fingerprint is not None and all(one.fingerprint != fingerprint for one in each):
            each.append(ContentsOnBranches(fingerprint, (branch,)))
        return HeldContents(tuple(each))._settled(everywhere)

    def without(self, gone: Iterable[str], *, known: Iterable[str]) -> "HeldContents":
        """Return the contents that are left where branches are gone. `known`: the branches that remain."""
        lost = set(gone)
        left = ((one.fingerprint, tuple(b for b in one.branches or () if b not in lost)) for one in self.each)
        if self.is_everywhere:
            return self
        return HeldContents(tuple(ContentsOnBranches(one, branches) for one, branches in left if branches))._settled(
            tuple(known)
        )

    def leading(self, fingerprint: str | None) -> "HeldContents":
        """Return them with those contents first that the source itself is to tell of."""
        first = [one for one in self.each if one.fingerprint == fingerprint]
        return HeldContents((*first, *(one for one in self.each if one.fingerprint != fingerprint)))

    def _settled(self, known: tuple[str, ...]) -> "HeldContents":
        if len(self.each) == 1 and set(self.each[0].branches or ()) >= set(known):
            return HeldContents((ContentsOnBranches(self.each[0].fingerprint),))
        return HeldContents(
            tuple(ContentsOnBranches(one.fingerprint, tuple(sorted(one.branches or ()))) for one in self.each)
        )


def detached_name(tree: str) -> str:
    """Return what stands in the place of a branch where none is checked out; `tree` names a linked work tree."""
    return f"{DETACHED} of {tree}" if tree else DETACHED


def known_branches(payload: Mapping[str, object]) -> dict[str, str]:
    """Return the branches that were read of a repository, each with its commit, from the payload of its map."""
    told = payload.get("branches")
    if isinstance(told, Mapping):
        return {str(name): str(one.get("commit") or "") for name, one in told.items() if isinstance(one, Mapping)}
    # A map from before branches were told apart: it was of one.
    return {str(payload.get("branch") or DETACHED): str(payload.get("commit") or "")} if payload else {}


def places_of_branches(payload: Mapping[str, object]) -> dict[str, str]:
    """Return where the branches of a repository were read, by their names, from the payload of its map."""
    told = payload.get("branches")
    named = told.items() if isinstance(told, Mapping) else ()
    return {str(name): str(one["place"]) for name, one in named if isinstance(one, Mapping) and one.get("place")}


@dataclass(frozen=True, slots=True)
class TreeView:
    """The tree that an answer is about: a branch of a repository as it was read, and what differs from that.

    `root` is the origin of the repository, `branch` one that was read. `changed` gives by path the blob that the tree
    has in the place of that of the branch, `None` where it has no such file.
    """

    root: str
    branch: str
    name: str
    """What people call the tree: a branch, or a commit."""
    changed: Mapping[str, str | None] = field(default_factory=dict, hash=False)

    def has(self, origin: str) -> bool:
        """Tell whether an origin is one of the repository's."""
        return origin == self.root or origin.startswith(f"{self.root}#")

    def stands(self, origin: str, fingerprint: str) -> bool:
        """Tell whether something stands in the tree: all does that is not of the repository."""
        return not self.has(origin) or self.contents(origin, fingerprint) is not None

    def path(self, origin: str) -> str:
        """Return the path of a file of the repository."""
        return origin[len(self.root) + 1 :].partition("#")[0]

    def contents(self, origin: str, fingerprint: str) -> str | None:
        """Return which of the contents of a source stand in the tree; `None` where none of them does."""
        held = HeldContents.parse(fingerprint)
        if origin == self.root or self.path(origin) not in self.changed:
            return held.on(self.branch)
        wanted = self.changed[self.path(origin)]
        return next((one for one in held.fingerprints if wanted and is_blob(one, wanted)), None)


def is_blob(contents: str, blob: str) -> bool:
    """Tell whether contents of a file are those of a blob, whether or not secrets were taken out of them."""
    return contents.removeprefix(GIT_BLOB).partition("+")[0] == blob.removeprefix(GIT_BLOB)
