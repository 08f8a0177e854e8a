"""Count unidiomatic phrases in messages, docstrings, names and documentation, and numbers outside `tuning.toml`.

It fails if an area has more than before.

`python tools/ratchet.py` prints the counts and compares the total of each area with `tools/ratchet.json`.
`--update` lowers the totals in that file; it never raises them. `--list AREA` prints the places of an area.
After a merge that brings more, rewrite the new sentences, or delete the file, run `--update` and give the reason in
the commit.
"""

import argparse
import ast
import io
import json
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
BASELINE = "tools/ratchet.json"
ALWAYS_ZERO = frozenset({"messages"})
"""Areas that may not have any match, independent of the baseline."""

AREAS = ("messages", "docstrings", "names", "docs", "numbers")
"""Strings for users, docstrings and comments, names of variables, documentation, and constants; each has a total."""

PHRASES = {
    "what is … for a noun": r"\bwhat (?:is|was|are|were|it|they|has|had)\b(?![^.?!\n]*\?)",
    "where for if": r"\bwhere (?:a|an|the|it|they|there|no|one|none|nothing|somebody|that|this|its)\b",
    "says, tells of data": r"\b(?:says|said|tells|told|tell whether)\b",
    "keep for store": r"\b(?:keep|keeps|kept)\b",
    "stands, lies for is": r"\b(?:stands?|stood|lies|lay)\b",
    "somebody, nobody": r"\b(?:somebody|nobody|whoever)\b",
    "that of, the one that": r"\b(?:(?:that|those) of|(?:the one|those) (?:that|who|which))\b",
    "speaks of": r"\b(?:speaks? of|spoken of)\b",
    "anew, so many, but for": r"\b(?:anew|so many|but for|beside|in whose name|at it)\b",
}
"""Regular expressions of the phrases, by name. About three of four matches are faults, so only totals are compared."""

NAMES = {"told", "said", "kept", "asked", "found"}
"""Participles as names of variables: a noun names the value better."""

WHOLE = {"names": "participle as a name", "numbers": "number outside tuning.toml"}
"""Areas without phrases: each text counts, under this name."""

NUMBER_FOLDERS = ("src/treering/retrieval/", "src/treering/verbs/query/")
"""Folders whose constants with a decimal number are counted: such a number bounds no resource, it decides something."""

NOT_COUNTED = ("docs/releases/", "CHANGELOG.md", "changes/")
"""Release notes, which are not rewritten."""

MESSAGE_FOLDERS = ("surfaces", "parts")
"""Folders in which every string may be shown to a user; elsewhere only those in `raise` and in `hint=`."""

NOT_MESSAGES = {
    ("extensions/discussions/generators/by_model.py", "_SHAPE"): "a prompt; stored memories name its version",
    ("extensions/discussions/generators/by_model.py", "_MATERIAL"): "a prompt; stored memories name its version",
    ("extensions/discussions/generators/by_model.py", "DEFAULT_PROMPTS"): "prompts; stored memories name their version",
    ("extensions/workflows/generator.py", "_REPAIR"): "a prompt; stored memories name its version",
    ("extensions/workflows/generator.py", "_REPAIR_SYSTEM"): "a prompt; stored memories name its version",
    ("extensions/discussions/identity.py", "NOTHING_YET"): "placeholders, recognized in texts that users have stored",
    ("extensions/trial/steps.py", "_WITHOUT_WORDS"): "a question, as a user would type it",
    ("extensions/trial/steps.py", "_asked_for_default"): "a question, as a user would type it",
}
"""Constants and functions whose strings are not counted, by the end of the file's path, with the reason.

Strings without a space (names of options, keys, commands) and regular expressions are not counted anywhere.
"""

ALLOWED = {
    "session keep": "the name of a command",
    "begin, keep, edit": "names of hooks",
    "--keep-passages": "the name of an option",
    "--keep/--no-keep": "the name of an option",
    "treering:keep": "a marker in users' pages",
    "'says'": "a field of an exam",
    "beside others": "a state in the JSON of `hook status`",
    "what was given inline": "the stored target of a job",
    "said in a discussion": "a reason in the audit log",
    "What was made of messages": "a reason in the audit log",
}
"""Texts in messages that are not counted, with the reason."""


class Match(NamedTuple):
    """One counted phrase: its area, the name of the pattern, and the line it is on."""

    area: str
    pattern: str
    file: str
    line: int
    text: str


def main() -> None:
    """Print the counts; exit with an error if the total of an area rose."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help=f"lower the totals in {BASELINE}")
    parser.add_argument("--list", choices=AREAS, help="print the places of an area")
    arguments = parser.parse_args()
    places = list(matches(ROOT))
    if arguments.list:
        for match in places:
            if match.area == arguments.list:
                print(f"{match.file}:{match.line}: {match.pattern}: {match.text.strip()}")
        return
    totals = {area: sum(match.area == area for match in places) for area in AREAS}
    for area in AREAS:
        patterns = Counter(match.pattern for match in places if match.area == area)
        print(f"{area}: {totals[area]}")
        print("".join(f"  {count:5}  {pattern}\n" for pattern, count in patterns.most_common()), end="")
    file = ROOT / BASELINE
    baseline = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    if errors := rises(totals, baseline):
        sys.exit("\n".join(errors))
    if arguments.update:
        file.write_text(json.dumps(totals, indent=1) + "\n", encoding="utf-8")


def rises(totals: Mapping[str, int], baseline: Mapping[str, int]) -> list[str]:
    """Return an error for each area with more matches than the baseline allows."""
    allowed = {area: 0 if area in ALWAYS_ZERO else baseline.get(area, count) for area, count in totals.items()}
    return [
        f"{area}: {count} matches, {allowed[area]} allowed. `python tools/ratchet.py --list {area}` prints them."
        for area, count in totals.items()
        if count > allowed[area]
    ]


def matches(root: Path) -> Iterator[Match]:
    """Yield every match in the source code and documentation of a tree."""
    for file in sorted((root / "src").rglob("*.py")):
        name = file.relative_to(root).as_posix()
        for area, line, text in _texts_of_code(file.read_text(encoding="utf-8"), name):
            yield from _matches(area, name, line, text)
    for file in sorted((root / "src").rglob("*.html")):
        yield from _matches("messages", file.relative_to(root).as_posix(), 1, file.read_text(encoding="utf-8"))
    for file in sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md")]):
        name = file.relative_to(root).as_posix()
        if not name.startswith(NOT_COUNTED):
            yield from _matches("docs", name, 1, _prose(file.read_text(encoding="utf-8")))


def _matches(area: str, file: str, line: int, text: str) -> Iterator[Match]:
    if area in WHOLE:
        yield Match(area, WHOLE[area], file, line, text)
        return
    counted = _without_allowed(text) if area == "messages" else text
    for pattern, expression in PHRASES.items():
        for match in re.finditer(expression, counted, re.IGNORECASE):
            before = text.count("\n", 0, match.start())
            yield Match(area, pattern, file, line + before, text.splitlines()[before])


def _without_allowed(text: str) -> str:
    """Blank the allowed texts, so that all positions stay the same."""
    for allowed in ALLOWED:
        text = text.replace(allowed, " " * len(allowed))
    return text


def _texts_of_code(code: str, file: str) -> Iterator[tuple[str, int, str]]:
    """Yield the area, line and text of comments, docstrings, messages, names that are participles, and numbers."""
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.COMMENT:
            yield "docstrings", token.start[0], token.string
    shows_all = any(folder in Path(file).parts for folder in MESSAGE_FOLDERS)
    tree = ast.parse(code)
    if file.startswith(NUMBER_FOLDERS):
        yield from _numbers(tree)
    docstrings = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    shown = [tree] if shows_all else [node for node in ast.walk(tree) if _is_message(node)]
    hidden = {id(part) for node in ast.walk(tree) if _is_hidden(node, file) for part in ast.walk(node)}
    messages = {id(part) for node in shown for part in ast.walk(node)} - hidden
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) in docstrings:
                yield "docstrings", node.lineno, text
            case ast.Constant(value=str(text)) if id(node) in messages and " " in text:
                yield "messages", node.lineno, text
            case ast.Name(id=name, ctx=ast.Store()) if name in NAMES:
                yield "names", node.lineno, name


def _numbers(tree: ast.Module) -> Iterator[tuple[str, int, str]]:
    """Yield the constants of a module that contain a decimal number."""
    for node in tree.body:
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        if value and any(isinstance(part, ast.Constant) and isinstance(part.value, float) for part in ast.walk(value)):
            yield "numbers", node.lineno, ast.unparse(node)


def _is_message(node: ast.AST) -> bool:
    return isinstance(node, ast.Raise) or (isinstance(node, ast.keyword) and node.arg == "hint")


def _is_hidden(node: ast.AST, file: str) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr="compile")):
            return True
        case (
            ast.Assign(targets=[ast.Name(id=name)])
            | ast.AnnAssign(target=ast.Name(id=name))
            | ast.FunctionDef(name=name)
        ):
            return any(file.endswith(path) and name == hidden for path, hidden in NOT_MESSAGES)
    return False


def _prose(text: str) -> str:
    """Return a page without its code and the targets of its links, with the same lines."""
    without_code = re.sub(r"(?ms)^(```|~~~).*?^\1", lambda block: "\n" * block[0].count("\n"), text)
    return re.sub(r"`[^`\n]*`|\]\([^)\s]*\)", "", without_code)


if __name__ == "__main__":
    main()
