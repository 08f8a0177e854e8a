"""The branch that a brief is for: its name, the files it changes, and which knowledge and work belong to it."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from treering.core.objects import Constraint, Knowledge, Preference, Source, WorkItem
from treering.core.versions import DETACHED, known_branches
from treering.verbs.envelope import Call

EVERYWHERE = frozenset({"", "repository"})
"""Scopes of a rule that applies to all files."""


@dataclass(frozen=True, slots=True)
class BranchWork:
    """A branch other than the default one; without a name there is none, and nothing belongs to it."""

    name: str = ""
    paths: frozenset[str] = frozenset()
    """The files that it changes, by its commits."""
    resting: frozenset[str] = frozenset()
    """Ids of the knowledge that rests on these files."""

    def is_about(self, item: Knowledge | WorkItem) -> bool:
        """Return whether something is about a file changed on the branch, or work recorded on it."""
        if isinstance(item, WorkItem):
            return bool(self.name) and item.branch == self.name
        return item.id in self.resting or any(applies_to(scope_of(item), path) for path in self.paths)

    def shows(self, item: WorkItem) -> bool:
        """Return whether work belongs here: not if it was recorded on another branch that is not the default one."""
        return not self.name or item.branch in ("", self.name)


def branch_work(call: Call, repository: Source | None, knowledge: Sequence[Knowledge]) -> BranchWork:
    """Return the work of the branch asked from, or about; of the default branch none.

    Its files are looked up in git if there is knowledge that may be about them.
    """
    tree = call.tree
    if tree is None or repository is None:
        return BranchWork()
    known, leading = known_branches(repository.payload), repository.payload.get("leading")
    name = tree.here.branch if tree.here else tree.view.name
    if name == leading or name.startswith(DETACHED):
        return BranchWork()
    since = known.get(str(leading), "")
    if not (knowledge and tree.lookup and tree.here):
        return BranchWork(name)
    paths = frozenset(tree.lookup.changed(tree.here.place, tree.here.commit, since=since))
    items = list(knowledge) if paths else []
    sources = {ref.source_id for item in items for ref in item.evidence_refs}
    heads = call.engine.ledger.heads(sources)
    touched = {
        one for one, head in heads.items() if tree.view.has(head.origin) and tree.view.path(head.origin) in paths
    }
    resting = {item.id for item in items if any(ref.source_id in touched for ref in item.evidence_refs)}
    return BranchWork(name, paths, frozenset(resting))


def scope_of(item: Knowledge) -> str:
    """Return the files that a rule is for, as its author wrote them; empty for all, and for other knowledge."""
    scope = item.payload.scope if isinstance(item.payload, Constraint | Preference) else ""
    return "" if scope in EVERYWHERE else scope


def applies_to(scope: str, path: str) -> bool:
    """Return whether a rule for a file, a folder or globs such as `src/**` applies to a file or folder.

    Globs are separated by commas, and the last one that matches decides; `!` excludes.
    """
    applies = False
    for glob in (one.strip() for one in scope.split(",")):
        if _matches(glob.removeprefix("!").strip("/"), path):
            applies = not glob.startswith("!")
    return applies


def _matches(glob: str, path: str) -> bool:
    if "*" not in glob:
        return bool(glob) and f"{path}/".startswith(f"{glob}/")
    places = [path, *(path[:at] for at, sign in enumerate(path) if sign == "/")]
    if "/" in glob and "**" not in glob:  # one star stays within a folder
        places = [one for one in places if one.count("/") == glob.count("/")]
    return any(fnmatchcase(place, glob.replace("**/", "*")) for place in places)
