"""The file that defines the options of a command line, for a prompt with the name of a new one: `--fail-fast`."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from treering.core.evidence import Lines, Segment
from treering.core.scope import ROOT
from treering.extensions.code.manifests import is_of_helper
from treering.extensions.coding_agents.named_places import NamedPlace, place_at_line, whole_file
from treering.ports.passages import PassageHead, PassageRequest, Reach
from treering.ports.search import TextRequest
from treering.retrieval.index.code_places import CODE
from treering.retrieval.text.analysis import telling_terms
from treering.verbs.envelope import Call
from treering.verbs.file_names import sources_here

_REACH = Reach(ROOT)
_MAX_PASSAGES = 200
_MIN_OPTIONS = 3
"""Options that a file defines at least; fewer may be arguments of another program."""
_PATH_WEIGHT = 2
"""A command that a prompt names is often the name of a file or of its folder: `cmd/suspend.go`."""
_REQUEST = re.compile(
    r"\b(?:accepts?|adds?|allows?|creates?|implement|introduce|like|needs?|new|provide|supports?|takes?|wants?)\b",
    re.IGNORECASE,
)
"""Words of a request for a new option; without one, a prompt is about an option that exists."""
_TEST = re.compile(r"\b[Tt]est")
_OPTION = re.compile(r"(?<![\w-])--([a-z][\w-]*)", re.IGNORECASE)
_DEFINED = re.compile(
    # argparse, click, commander, picocli, and a `case` for each option
    r"""["'](?:-\w(?:["'], ?["']|, ?|\|))?--([a-z][\w-]+)(?=["'=,|/]| [<\[])"""
    # packages `flag` and `pflag` of Go
    r"""|[Ff]lag(?:s|Set|s\(\))?\.\w+\((?:&?[\w.]+, ?)?"([a-z][\w-]+)\""""
    # clap of Rust: the name of the field
    r"""|#\[(?:arg|clap)\((?:[^\]\n]*[ ,(])?long\b[^\]\n]*\]\s+(?:pub(?:\([^)\n]*\))? )?(\w+):"""
)
_WORDS = telling_terms(
    "add_argument add_option addoption click.option PersistentFlags StringVar BoolVar BoolVarP StringVarP clap arg "
    "ArgumentParser OptionParser parseArgs commander yargs option options flag flags command"
)
"""Words of code that defines options, in several languages."""
_OF_OPTIONS = frozenset(telling_terms("add flag flags option options switch argument cli command line new"))


@dataclass(slots=True)
class _Options:
    """The options that a file defines, and the first line of each passage with some, by its words of the prompt."""

    names: set[str] = field(default_factory=set)
    lines: list[tuple[int, int]] = field(default_factory=list)

    @property
    def score(self) -> int:
        """The words of the prompt that the best passage has."""
        return max(score for score, _ in self.lines)

    @property
    def line(self) -> int:
        """The line to show; 0 if all options are in tests."""
        return max(((score, -line) for score, line in self.lines if line), default=(0, 0))[1] * -1


def names_option(text: str) -> bool:
    """Return whether a text may ask for a new option."""
    return _OPTION.search(text) is not None and _REQUEST.search(text) is not None


def option_places(call: Call, prompt: str) -> list[NamedPlace]:
    """Return the place where options like a new one in a prompt are defined; none if the option is not new.

    Of several files, the one with most words of the prompt is chosen, then the one with most options.
    """
    if not names_option(prompt):
        return []
    wanted = {match[1].lower() for match in _OPTION.finditer(prompt)}
    subject = frozenset(telling_terms(prompt)) - _OF_OPTIONS
    files: dict[str, _Options] = {}
    for head, segment, start in _passages(call):
        defined = [*_DEFINED.finditer(segment.excerpt)]
        if defined:
            path = "/".join(head.origin.rpartition("#")[2].split("/")[-2:])
            of_path = len(subject.intersection(telling_terms(path)))
            shared = len(subject.intersection(telling_terms(f"{head.heading}\n{segment.excerpt}")))
            line = start + segment.excerpt.count("\n", 0, defined[0].start())
            options = files.setdefault(head.object_id, _Options())
            options.names |= {next(filter(None, one.groups())).lower().replace("_", "-") for one in defined}
            options.lines.append((shared + _PATH_WEIGHT * of_path, 0 if _TEST.search(head.heading) else line))
    defining = [one for one, options in files.items() if len(options.names) >= _MIN_OPTIONS]
    best = max(defining, key=lambda one: (files[one].score, len(files[one].names)), default="")
    if not best or not wanted.isdisjoint(files[best].names):
        return []
    line = files[best].line
    sources = sources_here(call, [best])
    places = (place_at_line(one, line) if line else whole_file(one) for one in sources)
    return [place for place in places if place]


def _passages(call: Call) -> Iterator[tuple[PassageHead, Segment, int]]:
    """Yield the passages of code with words of code that defines options, each with its first line."""
    index = call.engine.index
    (hits,) = index.text.search([TextRequest(_REACH, _MAX_PASSAGES, words=tuple(_WORDS), words_in=CODE)])
    (read,) = index.passages.read([PassageRequest(tuple(hit.key for hit in hits.words), _REACH)])
    heads = [read.heads[hit.key] for hit in hits.words if hit.key in read.visible]
    code = [head for head in heads if head.place_role == CODE and not is_of_helper(head.origin.rpartition("#")[2])]
    segments = call.engine.ledger.segments([(head.object_id, head.part) for head in code])
    for head in code:
        segment = segments.get((head.object_id, head.part))
        if segment and call.tree:
            segment = call.tree.segment_here(head.origin, segment)
        if segment and isinstance(segment.locator, Lines):
            yield head, segment, segment.locator.start
