"""Gather the texts that the static model is fitted to: `python tools/distil/corpus.py WORK [--mirrors FOLDER]`.

`sources.json` names every source with its version, its licence and how many texts are taken at most. What is fetched
is checked against `sources.lock.json` (SHA-256 of each archive, the commit of each repository), which the first run
with `--lock` writes. The result is `WORK/corpus.jsonl`, one text a line, in an order that depends on the texts alone.
"""

import argparse
import ast
import csv
import gzip
import io
import json
import re
import subprocess
import tarfile
import warnings
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b, sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
MOST_CHARS = 1_200
DERIVED_QUERIES = 70_000
File = tuple[str, bytes]
Text = tuple[str, str]  # role ("document" or "query") and text


@dataclass(frozen=True)
class Place:
    """Where things lie: downloads, clones, and the hash that each archive has to have."""

    work: Path
    mirrors: Path
    locks: dict[str, str]


# Fetching. Each way gives the files of a source as (path, content), sorted by path.


def files_of(source: dict[str, Any], place: Place) -> Iterator[File]:
    match = re.compile(source["match"]) if "match" in source else None
    for path, content in sorted(WAYS[source["get"]](source, place)):
        if match is None or match.search(path):
            yield path, content


def _git(source: dict[str, Any], place: Place) -> Iterator[File]:
    folder = place.mirrors / source["repository"].replace("/", "+") / "repo"
    if not folder.exists():
        folder = place.work / "downloads" / source["repository"].replace("/", "+")
    if not folder.exists():
        subprocess.run(["git", "clone", "--bare", f"https://github.com/{source['repository']}", folder], check=True)
    match = re.compile(source["match"])
    listed = _said("git", "-C", folder, "ls-tree", "-r", "--name-only", source["commit"]).decode().splitlines()
    for path in listed:
        if match.search(path):
            yield path, _said("git", "-C", folder, "show", f"{source['commit']}:{path}")


def _npm(source: dict[str, Any], place: Place) -> Iterator[File]:
    for package in source["package"].split():
        name = package.lstrip("@").replace("/", "-").replace("@", "-") + ".tgz"
        archive = _checked(place, name, ["npm", "pack", package])
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            for member in tar:
                if member.isfile():
                    yield member.name, tar.extractfile(member).read()  # type: ignore[union-attr]


def _pip(source: dict[str, Any], place: Place) -> Iterator[File]:
    for package in source["package"].split():
        stem, version = package.split("==")
        pattern = f"{stem.replace('-', '_')}-{version}-*.whl"
        get = ["python3", "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "-d", ".", package]
        with zipfile.ZipFile(io.BytesIO(_checked(place, pattern, get))) as wheel:
            for member in wheel.namelist():
                yield member, wheel.read(member)


def _deb(source: dict[str, Any], place: Place) -> Iterator[File]:
    name, version = source["package"].split("=")
    pattern = f"{name}_{version.replace(':', '%3a')}_*.deb"
    archive = _checked(place, pattern, ["apt-get", "download", source["package"]])
    with tarfile.open(fileobj=io.BytesIO(_said("dpkg-deb", "--fsys-tarfile", "-", given=archive))) as tar:
        for member in tar:
            if member.isfile():
                yield member.name, tar.extractfile(member).read()  # type: ignore[union-attr]


WAYS: dict[str, Callable[..., Iterator[File]]] = {"git": _git, "npm": _npm, "pip": _pip, "deb": _deb}


def _checked(place: Place, pattern: str, get: list[str]) -> bytes:
    folder = place.work / "downloads"
    folder.mkdir(parents=True, exist_ok=True)
    if not list(folder.glob(pattern)):
        subprocess.run(get, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    (archive,) = folder.glob(pattern)
    content = archive.read_bytes()
    found = sha256(content).hexdigest()
    if place.locks.setdefault(archive.name, found) != found:
        raise SystemExit(f"{archive} has SHA-256 {found}; the record says {place.locks[archive.name]}.")
    return content


def _said(*command: object, given: bytes | None = None) -> bytes:
    if given is not None:  # dpkg-deb reads files only
        command = (*command[:-1], "/dev/stdin")
    return subprocess.run([str(part) for part in command], input=given, check=True, capture_output=True).stdout


# Reading. Each reader turns the files of a source into documents and queries.


def wordnet(files: Iterator[File]) -> Iterator[Text]:
    for path, content in files:
        if not re.search(r"dict/data\.(noun|verb|adj|adv)$", path):
            continue
        for line in content.decode("latin-1").splitlines():
            if line.startswith(" ") or " | " not in line:
                continue
            fields, gloss = line.split(" | ", 1)
            parts = fields.split()
            words = [parts[4 + 2 * n].split("(")[0].replace("_", " ") for n in range(int(parts[3], 16))]
            yield "document", f"{', '.join(words)}: {gloss.strip()}"
            if parts[2] == "n" and _chance(words[0] + gloss) < 0.15:
                asked = "Who was" if parts[1] == "18" and words[0][:1].isupper() else "What is"
                yield "query", f"{asked} {words[0]}?"


def factbook(files: Iterator[File]) -> Iterator[Text]:
    def walk(value: Any, trail: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
        if isinstance(value, dict):
            for key, inner in value.items():
                yield from walk(inner, trail if key == "text" else (*trail, key))
        elif isinstance(value, str) and len(value) > 40:
            yield trail, value

    for path, content in files:
        if not path.endswith(".json") or path.endswith("package.json"):
            continue
        country = json.loads(content)
        named = country.get("Government", {}).get("Country name", {})
        name = (named.get("conventional short form") or {}).get("text") or ""
        name = name if name and name != "none" else Path(path).stem
        for trail, text in walk(country, ()):
            for part in _cut(_clean(text.replace("++", " "))):
                yield "document", f"{name}: {trail[-1] if trail else ''}\n{part}"


def plain(files: Iterator[File]) -> Iterator[Text]:
    """Read prose: paragraphs where blank lines part them, else stretches of sentences."""
    for _, content in files:
        text = content.decode("utf-8", "replace").lstrip("\ufeff")
        paragraphs = re.split(r"\n\s*\n", text)
        if len(paragraphs) < len(text) / 5_000:
            paragraphs = [text]
        for paragraph in paragraphs:
            for part in _cut(_clean(paragraph)):
                yield "document", part


def html(files: Iterator[File]) -> Iterator[Text]:
    for _, content in files:
        reader = _Html()
        reader.feed(content.decode("utf-8", "replace"))
        reader.close()
        for heading, text, is_code in reader.found:
            if is_code:
                if 40 < len(text) < 1_500 and "\n" in text:
                    yield "document", text
                continue
            for part in _cut(_clean(text)):
                yield "document", f"{heading}\n{part}" if heading and _chance(part) < 0.6 else part
        for heading in dict.fromkeys(heading for heading, _, _ in reader.found):
            if 2 < len(heading.split()) < 14:
                yield "query", heading


class _Html(HTMLParser):
    _BLOCKS = frozenset(("p", "li", "dd", "td", "pre", "h1", "h2", "h3", "h4"))
    _SKIPPED = frozenset(("script", "style", "nav"))

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str, bool]] = []
        self._heading, self._text, self._block, self._skipping = "", [""], "", 0

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002 - as the parser calls it
        self._skipping += tag in self._SKIPPED
        if tag in self._BLOCKS:
            self._end()
            self._block = tag

    def handle_endtag(self, tag: str) -> None:
        self._skipping -= tag in self._SKIPPED and self._skipping > 0
        if tag in self._BLOCKS:
            self._end()

    def handle_data(self, data: str) -> None:
        if self._block and not self._skipping:
            self._text.append(data)

    def _end(self) -> None:
        text = "".join(self._text)
        if self._block.startswith("h"):
            self._heading = _clean(text).rstrip("#¶ ")
        elif self._block and text.strip():
            self.found.append((self._heading, text.strip("\n"), self._block == "pre"))
        self._text, self._block = [""], ""


def taskmaster(files: Iterator[File]) -> Iterator[Text]:
    for _, content in files:
        for dialogue in json.loads(content):
            for turn in dialogue["utterances"]:
                if len(turn["text"]) > 25:
                    yield "document", _clean(turn["text"])


def turns(files: Iterator[File]) -> Iterator[Text]:
    for _, content in files:
        for line in gzip.decompress(content).decode().splitlines():
            for who, text in re.findall(
                r"(Human|Assistant): (.*?)(?=\n\nHuman: |\n\nAssistant: |$)", json.loads(line)["chosen"], re.DOTALL
            ):
                if len(text) > 20:
                    yield "document", _clean(text)[:MOST_CHARS]
                if who == "Human" and 15 < len(text) < 200:
                    yield "query", _clean(text)


def irc(files: Iterator[File]) -> Iterator[Text]:
    for _, content in files:
        for line in content.decode("utf-8", "replace").splitlines():
            said = re.match(r"\[\d\d:\d\d\] <([^>]+)> (.+)", line)
            if said and len(said[2]) > 30:
                text = f"{said[1]}: {said[2]}" if _chance(line) < 0.5 else said[2]
                yield ("query" if said[2].rstrip().endswith("?") and _chance(text) < 0.5 else "document"), text.strip()


def simple_questions(files: Iterator[File]) -> Iterator[Text]:
    for _, content in files:
        for line in content.decode().splitlines():
            question = line.split("\t")[3].strip()
            yield "query", question if _chance(question) < 0.4 else question[:1].upper() + question[1:] + "?"


def intents(files: Iterator[File]) -> Iterator[Text]:
    for _, content in files:
        for rows in json.loads(content).values():
            for text, _ in rows:
                yield ("query" if _chance(text) < 0.7 else "document"), text


def csv_text(files: Iterator[File]) -> Iterator[Text]:
    for _, content in files:
        for row in csv.DictReader(io.StringIO(content.decode())):
            yield "query", _clean(row["text"])


def services(files: Iterator[File]) -> Iterator[Text]:
    for path, content in files:
        service = json.loads(gzip.decompress(content) if path.endswith(".gz") else content)
        title = service["metadata"].get("serviceFullName", "")
        for kind in ("operations", "shapes"):
            for name, told in service.get(kind, {}).items():
                text = _clean(re.sub(r"<[^>]+>", " ", told.get("documentation", "")))
                for part in _cut(text):
                    yield "document", f"{title} {name}\n{part}" if _chance(part) < 0.5 else part


def python(files: Iterator[File]) -> Iterator[Text]:
    """Read functions and classes with their docstrings, and docstrings by themselves."""
    for path, content in files:
        if "/tests/" in path or "/test_" in path or "/_vendor/" in path:
            continue
        try:
            text = content.decode()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(text)
        except (SyntaxError, UnicodeDecodeError):
            continue
        lines = text.splitlines()
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
                continue
            told = ast.get_docstring(node) or ""
            name = getattr(node, "name", Path(path).stem)
            for part in _cut(_clean(told))[:3]:
                yield "document", f"{path}\n{name}: {part}" if _chance(part) < 0.3 else f"{name}: {part}"
            first = _sentences(_clean(told.split("\n\n")[0]))[:1]
            if first and 4 < len(first[0].split()) < 25 and _chance(path + name) < 0.3:
                yield "query", _asked(first[0], name)
            if not isinstance(node, ast.Module) and node.end_lineno:
                code = "\n".join(lines[node.lineno - 1 : min(node.end_lineno, node.lineno + 25)])
                if code.count("\n") > 1:
                    yield "document", f"{path}\n{code}"[:MOST_CHARS] if _chance(code) < 0.4 else code[:MOST_CHARS]


def _asked(sentence: str, name: str) -> str:
    forms = (
        "{0}",
        "How does {1} {0}?",
        "Where is the code that {0}?",
        "{1} does not {0}",
        "What does `{1}` do to {0}?",
    )
    words = sentence.rstrip(".")
    return forms[int(_chance(sentence) * 5)].format(words[:1].lower() + words[1:], name)


def blocks(files: Iterator[File]) -> Iterator[Text]:
    """Read code in stretches between blank lines, with the comment above it."""
    for path, content in files:
        if "test" in path.lower() or ".min." in path:
            continue
        held = ""
        for block in re.split(r"\n\s*\n", content.decode("utf-8", "replace")):
            held = f"{held}\n\n{block}" if held else block
            if held.count("\n") > 6:
                if max(map(len, held.splitlines())) < 200:
                    yield "document", f"{path}\n{held}"[:MOST_CHARS] if _chance(held) < 0.3 else held[:MOST_CHARS]
                held = ""


READERS: dict[str, Callable[[Iterator[File]], Iterator[Text]]] = {
    each.__name__: each
    for each in (
        wordnet,
        factbook,
        plain,
        html,
        taskmaster,
        turns,
        irc,
        simple_questions,
        intents,
        csv_text,
        services,
        python,
        blocks,
    )
}


def _clean(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def _sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.!?])[\"”’']?\s+(?=[\"“‘A-Z])", text)


def _cut(text: str, most: int = 420, least: int = 60) -> list[str]:
    """Cut prose into stretches of whole sentences, of differing length."""
    found, held, aim = [], "", most
    for sentence in _sentences(text):
        held = f"{held} {sentence}" if held else sentence
        aim = aim if len(held) > len(sentence) else 120 + int(_chance(sentence) * most)
        if len(held) >= aim:
            found.append(held[:MOST_CHARS])
            held = ""
    return [each for each in (*found, held) if len(each) >= least]


def _chance(text: str) -> float:
    """Return a number from 0 to 1 that depends on the text alone."""
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=6).digest()) / 2**48


def _derived(row: dict[str, Any]) -> str | None:
    """Take a sentence out of a document, as a question that the rest of it is near to."""
    sentences = [each for each in _sentences(row["text"].split("\n", 1)[-1]) if 4 <= len(each.split()) <= 22]
    return sentences[int(_chance("which" + row["text"]) * len(sentences))] if sentences else None


def gather(place: Place) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    seen: set[bytes] = set()
    for name, source in json.loads((HERE / "sources.json").read_text()).items():
        found: dict[str, list[str]] = {"document": [], "query": []}
        for role, text in READERS[source["reader"]](files_of(source, place)):
            clean = text.encode("utf-8", "replace").decode().strip()
            key = blake2b(clean.lower().encode(), digest_size=12).digest()
            if len(clean) >= 12 and key not in seen and sum(map(str.isascii, clean)) > 0.9 * len(clean):
                seen.add(key)
                found[role].append(clean)
        for role, texts in found.items():
            kept = sorted(texts, key=_chance)[: source["limit"]]
            rows += [
                {
                    "text": text,
                    "role": role,
                    "source": name,
                    "kind": source["kind"],
                    "held_out": source.get("held_out", False),
                }
                for text in kept
            ]
        print(name, {role: len(texts) for role, texts in found.items()}, flush=True)
    derived = [
        {**row, "text": text, "role": "query"} for row in rows if row["role"] == "document" and (text := _derived(row))
    ]
    rows += sorted(derived, key=lambda row: _chance("derive" + row["text"]))[:DERIVED_QUERIES]
    return sorted(rows, key=lambda row: _chance("order" + row["role"] + row["text"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("--mirrors", type=Path, default=Path("mirrors"))
    parser.add_argument("--lock", action="store_true", help="record the archives found, rather than check them")
    given = parser.parse_args()
    record = HERE / "sources.lock.json"
    locks: dict[str, str] = {} if given.lock else json.loads(record.read_text())
    rows = gather(Place(given.work, given.mirrors, locks))
    if given.lock:
        record.write_text(json.dumps(dict(sorted(locks.items())), indent=1) + "\n")
    with (given.work / "corpus.jsonl").open("w") as out:
        for row in rows:
            out.write(json.dumps(row, ensure_ascii=False) + "\n")
    print(len(rows), "texts; SHA-256", sha256((given.work / "corpus.jsonl").read_bytes()).hexdigest())


if __name__ == "__main__":
    main()
