"""The contents of a file on the branches of a repository, and the branch that an answer is about.

A source is one file. If the branches differ, the source stores the segments of all contents, each once: its
fingerprint names the contents with their branches, and each segment names the contents it is part of
(`core.evidence.Segment.places`). If the contents are the same on every branch, nothing of this is stored. So only
differences between branches cost anything.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from treering.core.canonical import canonical_json

if TYPE_CHECKING:
    from treering.core.evidence import Segment

SEVERAL = "versions:"
"""The prefix of the fingerprint of a source with several contents."""
GIT_BLOB = "git-blob:"
"""The prefix of the fingerprint of a file of a repository, before the id of its blob."""
DETACHED = "detached HEAD"
"""The name used instead of a branch if a commit is read that is on no known branch."""
OTHER_PATH = "The file has another path on a branch."
"""The reason of patches that add evidence in renamed files."""


@dataclass(frozen=True, slots=True)
class ContentsOnBranches:
    """The contents of a file, by their fingerprint, and their branches; `None` means every branch."""

    fingerprint: str
    branches: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class HeldContents:
    """The contents of one file. If they are not the same on all branches, each names its branches."""

    each: tuple[ContentsOnBranches, ...]

    @classmethod
    def parse(cls, fingerprint: str) -> "HeldContents":
        """Read the fingerprint of a source."""
        if not fingerprint.startswith(SEVERAL):
            return cls((ContentsOnBranches(fingerprint),))
        try:
            data = json.loads(fingerprint.removeprefix(SEVERAL))
            return cls(tuple(ContentsOnBranches(one, tuple(branches)) for one, branches in data))
        except (ValueError, TypeError):  # a changed row: readers of the source itself report it
            return cls((ContentsOnBranches(fingerprint),))

    @property
    def text(self) -> str:
        """The fingerprint of the source."""
        if len(self.each) == 1 and self.each[0].branches is None:
            return self.each[0].fingerprint
        return SEVERAL + canonical_json([[one.fingerprint, list(one.branches or ())] for one in self.each])

    @property
    def fingerprints(self) -> tuple[str, ...]:
        """All contents, starting with the contents that the source itself represents."""
        return tuple(one.fingerprint for one in self.each)

    @property
    def is_everywhere(self) -> bool:
        """Whether the file has the same contents on every branch."""
        return len(self.each) == 1 and self.each[0].branches is None

    def on(self, branch: str) -> str | None:
        """Return the contents on a branch; `None` if it has no such file."""
        return next((one.fingerprint for one in self.each if one.branches is None or branch in one.branches), None)

    def branches_of(self, fingerprints: Iterable[str]) -> tuple[str, ...] | None:
        """Return the branches of some of the contents; `None` for every branch."""
        wanted = set(fingerprints)
        branches = [one.branches for one in self.each if one.fingerprint in wanted]
        if None in branches:
            return None
        return tuple(dict.fromkeys(name for names in branches for name in names or ()))

    def moved(self, branch: str, fingerprint: str | None, *, known: Iterable[str]) -> "HeldContents":
        """Return the contents after a branch changed, or with `None` lost the file. `known`: all branches now."""
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
        """Return the remaining contents after branches were removed. `known`: the branches that remain."""
        lost = set(gone)
        left = ((one.fingerprint, tuple(b for b in one.branches or () if b not in lost)) for one in self.each)
        if self.is_everywhere:
            return self
        return HeldContents(tuple(ContentsOnBranches(one, branches) for one, branches in left if branches))._settled(
            tuple(known)
        )

    def leading(self, fingerprint: str | None) -> "HeldContents":
        """Return the contents with those first that the source itself should represent."""
        first = [one for one in self.each if one.fingerprint == fingerprint]
        return HeldContents((*first, *(one for one in self.each if one.fingerprint != fingerprint)))

    def _settled(self, known: tuple[str, ...]) -> "HeldContents":
        if len(self.each) == 1 and set(self.each[0].branches or ()) >= set(known):
            return HeldContents((ContentsOnBranches(self.each[0].fingerprint),))
        return HeldContents(
            tuple(ContentsOnBranches(one.fingerprint, tuple(sorted(one.branches or ()))) for one in self.each)
        )


def contents_with(fingerprint: str, segment: "Segment") -> tuple[str, ...]:
    """Return the contents of a source that have a segment, by the fingerprint of the source."""
    return tuple(one.contents for one in segment.places) or HeldContents.parse(fingerprint).fingerprints


def branches_with(cited: "Iterable[tuple[str, Segment]]") -> tuple[str, ...] | None:
    """Return the branches that have some of these segments, each given with the fingerprint of its source.

    `None` if all branches have some, and without segments.
    """
    names: dict[str, None] = {}
    for fingerprint, segment in cited:
        held = HeldContents.parse(fingerprint)
        branches = held.branches_of(contents_with(fingerprint, segment))
        if branches is None:
            return None
        names |= dict.fromkeys(branches)
    return tuple(names) or None


def detached_name(tree: str) -> str:
    """Return the name for a checked-out commit without a branch; `tree` names a linked work tree."""
    return f"{DETACHED} of {tree}" if tree else DETACHED


def known_branches(payload: Mapping[str, object]) -> dict[str, str]:
    """Return the branches of a repository that were read, with their commits, from the payload of its map."""
    branches = payload.get("branches")
    if isinstance(branches, Mapping):
        return {str(name): str(one.get("commit") or "") for name, one in branches.items() if isinstance(one, Mapping)}
    # Maps of older versions describe a single branch.
    return {str(payload.get("branch") or DETACHED): str(payload.get("commit") or "")} if payload else {}


def places_of_branches(payload: Mapping[str, object]) -> dict[str, str]:
    """Return the directories from which the branches of a repository were read, from the payload of its map."""
    branches = payload.get("branches")
    named = branches.items() if isinstance(branches, Mapping) else ()
    return {str(name): str(one["place"]) for name, one in named if isinstance(one, Mapping) and one.get("place")}


def payload_on(payload: Mapping[str, object], branch: str) -> dict[str, object]:
    """Return the payload of a repository's map with the facts of one of its branches that was read."""
    branches = payload.get("branches")
    own = branches.get(branch) if isinstance(branches, Mapping) else None
    return {**payload, **own} if isinstance(own, Mapping) else dict(payload)


@dataclass(frozen=True, slots=True)
class TreeView:
    """The tree that an answer is about: a branch of a repository as it was read, and the differences from it.

    `root` is the origin of the repository, `branch` a branch that was read. `changed` maps each differing path to the
    blob of the tree, or `None` if the tree does not have the file.
    """

    root: str
    branch: str
    name: str
    """The displayed name: a branch or a commit."""
    changed: Mapping[str, str | None] = field(default_factory=dict, hash=False)
    leading: str = ""
    """The branch of the repository that was read first, usually the default one."""
    is_later: bool = False
    """Whether the tree is another commit of the branch, such as a merge: unread contents count as unchanged."""
    own: Collection[str] = field(default=(), hash=False)
    """The differing paths that the tree itself changed since it left the branch; for these the same applies."""

    def has(self, origin: str) -> bool:
        """Return whether an origin belongs to the repository."""
        return origin == self.root or origin.startswith(f"{self.root}#")

    def stands(self, origin: str, fingerprint: str) -> bool:
        """Return whether a source is in the tree; sources outside the repository always are."""
        return not self.has(origin) or self.contents(origin, fingerprint) is not None

    def path(self, origin: str) -> str:
        """Return the path of a file of the repository."""
        return origin[len(self.root) + 1 :].partition("#")[0]

    def contents(self, origin: str, fingerprint: str) -> str | None:
        """Return which contents of a source are in the tree, or `None`."""
        held = HeldContents.parse(fingerprint)
        path = self.path(origin)
        if origin == self.root or path not in self.changed:
            return held.on(self.branch)
        wanted = self.changed[path]
        unread = held.on(self.branch) if self.is_later or path in self.own else None
        return next((one for one in held.fingerprints if wanted and is_blob(one, wanted)), unread)

    def lost(self, origin: str, fingerprint: str, lost_on: Collection[str]) -> bool:
        """Return whether the tree lost lines of a source: it did, or a branch with the same contents.

        `lost_on`: the branches that lost them.
        """
        if not lost_on:
            return False
        own = () if self.path(origin) in self.changed else (self.branch,)
        contents = self.contents(origin, fingerprint)
        same = HeldContents.parse(fingerprint).branches_of([contents]) if contents else ()
        return same is None or not {*own, *same}.isdisjoint(lost_on)


def is_blob(contents: str, blob: str) -> bool:
    """Return whether contents of a file come from a blob, with or without redacted secrets."""
    return contents.removeprefix(GIT_BLOB).partition("+")[0] == blob.removeprefix(GIT_BLOB)
