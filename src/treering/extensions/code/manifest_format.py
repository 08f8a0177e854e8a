"""The format of package manifests: their text, and the facts that they state about a project."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from treering.extensions.code.manifests import read_manifest
from treering.ports.adapter import KnowledgeDraft, SegmentDraft
from treering.ports.format import posix_path
from treering.sources.formats import CleanText, Cut, TextFormat
from treering.sources.reading.lines import segment_at
from treering.sources.reading.text import segment_text

_FACT_MANIFESTS = frozenset({"pyproject.toml", "package.json", "Cargo.toml", "go.mod"})
_MAX_VALUE_CHARS = 200
_MAX_DEPENDENCIES = 60
_ANY = "any version"


@dataclass(frozen=True, slots=True)
class ManifestFact:
    """An attribute in a manifest. The line that states it contains all words of `spelled`."""

    subject: str
    predicate: str
    value: str
    spelled: tuple[str, ...]


def is_manifest(path: str) -> bool:
    """Return whether `manifest_facts` reads a file, by its name."""
    return posix_path(path).name in _FACT_MANIFESTS


def manifest_facts(path: str, text: str) -> Iterator[ManifestFact]:
    """Yield the facts of a `pyproject.toml`, `package.json`, `Cargo.toml` or `go.mod`; none if it is broken.

    Direct dependencies (at most 60) are one fact each: `depends on NAME` with the versions allowed.
    """
    package = read_manifest(path, text)
    if not package.name:
        return
    needs = {f"requires {name}": versions for name, versions in package.requires.items()}
    yield ManifestFact(path, "package name", package.name, (package.name,))
    for predicate, value in {"version": package.version, "license": package.licence, **needs}.items():
        if value:
            yield ManifestFact(package.name, predicate, value[:_MAX_VALUE_CHARS], (predicate.split()[-1], value))
    for name, versions in islice(package.dependencies.items(), _MAX_DEPENDENCIES):
        yield ManifestFact(package.name, f"depends on {name}", versions[:_MAX_VALUE_CHARS] or _ANY, (name,))


def project_facts(path: str, text: str, segments: Sequence[SegmentDraft]) -> Iterator[KnowledgeDraft]:
    """Yield the facts of the project itself. Manifests below the root belong to members, examples or tests."""
    facts = list(manifest_facts(path, text)) if len(posix_path(path).parts) == 1 else []
    if path == "package.json" and all(fact.predicate != "version" for fact in facts):
        return  # the root of a workspace, which lists development tools
    lines = text.split("\n")
    for fact in facts:
        line = next((at for at, line in enumerate(lines) if all(word in line for word in fact.spelled)), 0)
        payload = {"subject": fact.subject, "predicate": fact.predicate, "value": fact.value}
        title = f"{fact.subject}: {fact.predicate} {fact.value}"
        yield KnowledgeDraft("fact", title, payload, segment_at(segments, line), confidence=0.9)


def _claims(path: str, _head: bytes) -> bool:
    return is_manifest(path)


def _cut(clean: CleanText) -> Cut:
    segments = segment_text(clean.path, clean.text, commit=clean.commit, max_chars=clean.max_chars)
    name = read_manifest(clean.path, clean.text).name[:_MAX_VALUE_CHARS]
    knowledge = tuple(project_facts(clean.path, clean.text, segments))
    return Cut(segments, metadata={"package": name}, knowledge=knowledge)


MANIFEST = TextFormat("manifest", _claims, _cut)
