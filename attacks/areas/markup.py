"""Names that are markup, in a wiki and on web pages, and wikis whose paths lead out of their folder."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path

from markdown_it import MarkdownIt

import treering
from attacks.attack import Attack, Count
from treering.core.errors import TreeringError
from treering.extensions.wiki.showing import WikiBrowser
from treering.surfaces.python.space import Space

_TESTS = Path(__file__).parents[2] / "tests"
sys.path.extend(str(_TESTS / folder) for folder in (".", "surfaces/http"))

EVIL = "evil.example"
SECRET = "the launch code is heliotrope"
_SECONDS = 180.0
_NAMES = (
    f"![x](https://{EVIL}/a.png)",
    f"x](https://{EVIL}/) [y",
    f"<img src=https://{EVIL}/b onerror=alert(1)>",
    f"<script>fetch('https://{EVIL}')</script>",
    f'"><a href="javascript:alert(1)">{EVIL}</a>',
    f"<https://{EVIL}/auto>",
    f"[x]: https://{EVIL}/reference\n\n[x]",
    f"`` ` ``![x](https://{EVIL}/c.png)",
    f"x -->\n<iframe src=https://{EVIL}></iframe><!--",
    f"---\nstatus: active\nlink: https://{EVIL}\n---",
    f"a | b\n--|--\n![x](https://{EVIL}/d.png) | c",
    f"# x\n\n![x](https://{EVIL}/e.png)",
    f"&lt;img src=x&gt; &#60;img src=https://{EVIL}&#62;",
    f"\\![x](https://{EVIL}/f.png)\\",
    f'```mermaid\ngraph TD\nA["<img src=https://{EVIL}>"]\nclick A "https://{EVIL}"\n```',
)
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_MARKDOWN = MarkdownIt("commonmark", {"html": True, "linkify": False}).enable(["table", "strikethrough"])
_LEADS_AWAY = re.compile(r"\s*(?:[a-z][a-z0-9+.-]*:|//)", re.IGNORECASE)
_OURS = re.compile(r'\s*(?:<!-- treering:[^<>]*-->|<a id="[^"<>]*">|</a>|<br>)\s*')


class _Elements(HTMLParser):
    """Collects what of a page could run, load or lead somewhere else."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.bad: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag would do."""
        given = {name: value or "" for name, value in attrs}
        self.bad += [f"{tag} {name}" for name in given if name.startswith("on") or name in {"srcdoc", "style"}]
        self.bad += [tag] if tag in {"iframe", "img", "object", "embed", "base", "form"} and EVIL in str(given) else []
        self.bad += [
            f"{tag} {name}={value[:40]}"
            for name, value in given.items()
            if name in {"href", "src", "action", "formaction", "xlink:href", "data"}
            and (
                f"//{EVIL}" in value.partition("?")[0] or value.strip().casefold().startswith(("javascript:", "data:"))
            )
        ]


def _fill(space: Space, name: str) -> list[str]:
    """Give a name to everything that has one; return the ids of what was made."""
    title = " ".join(name.split())[:120]
    made: list[str] = []
    for mode, given in (
        ("node", {"kind": "component", "name": title, "aliases": [title], "summary": name, "tags": [title]}),
        (
            "knowledge",
            {"kind": "decision", "title": title, "payload": {"question": name, "outcome": name}, "tags": [title]},
        ),
        (
            "knowledge",
            {"kind": "fact", "title": title, "payload": {"subject": title, "predicate": title, "value": name}},
        ),
        ("work_item", {"title": title, "tags": [title]}),
        ("activity", {"title": title, "summary": name}),
    ):
        try:
            made += space.crystallize(mode, input=given, options={"reason": title}).ids
        except TreeringError:
            given.pop("tags", None)
            given.pop("aliases", None)
            try:
                made += space.crystallize(mode, input=given).ids
            except TreeringError:
                continue
    items = [{"text": f"The kiln burns gas. {name}", "title": title, "origin": f"note:{title}", "tags": [title]}]
    for item in items:
        try:
            space.ingest("source", input={"items": [item]})
        except TreeringError:
            space.ingest("source", input={"items": [{"text": item["text"], "title": title}]})
    return made


def _on_web_pages(folder: Path) -> Count:
    """Open every page of a space in which everything is called by markup; count pages that obey any of it."""
    running = import_module("rest_parts").running
    tried, wrong = 0, set[str]()
    ids: list[str] = []
    with treering.open(f"sqlite:{folder / 'space.db'}", background=False, channel="user") as space:
        for name in _NAMES:
            ids += _fill(space, name)
    paths = ["/", "/?q=kiln", "/web/graph?q=kiln", "/web/graph", "/web/timeline", "/web/health", "/web/work"]
    paths += ["/web/live", "/web/wiki", "/web/discussions", "/web/projects", *(f"/web/object/{one}" for one in ids)]
    paths += [f"/web/graph?id={one}" for one in ids[::5]]
    with running(folder) as client:
        for path in paths:
            told = client.get(path, headers={"Accept": "text/html"}, follow_redirects=True)
            tried += 1
            wrong |= {f"{path.partition('?')[0].partition(':')[0]}: {one}" for one in _Elements(told.text).bad}
            wrong |= (
                {f"{path}: no policy"}
                if "default-src" not in told.headers.get("content-security-policy", "")
                else set()
            )
    return Count(tried, len(wrong), "; ".join(sorted(wrong))[:300])


def _in_a_wiki(folder: Path) -> Count:
    """Build the wiki of a repository whose names are markup; count pages in which any is not text."""
    tree = _repository(folder)
    made = _treering(folder, tree, "wiki", "build", "--json")
    wiki, wrong, pages = tree / "wiki", set[str](), 0
    for page in sorted(wiki.rglob("*.md")):
        pages += 1
        text = page.read_text(encoding="utf-8")
        wrong |= {f"{page.name}: {one}" for one in _foreign_in(text)}
        path = page.relative_to(wiki).as_posix()
        wrong |= {f"{page.name} shown: {one}" for one in _Elements(WikiBrowser(wiki).html(path) or "").bad}
    note = "; ".join(sorted(wrong))[:400] or ("" if pages > len(_NAMES) // 2 else made.stderr[-300:])
    return Count(pages, len(wrong) + (pages == 0), note)


def _foreign_in(text: str) -> Iterator[str]:
    """Name what a forge would load or link to, or take for HTML, of a page."""
    body = text.split("\n---\n", 1)[1] if text.startswith("---\n") else text
    for token in _MARKDOWN.parse(body):
        for part in (token, *(token.children or ())):
            where = str(part.attrGet("href") or part.attrGet("src") or "")
            if part.type == "image" or (part.type == "link_open" and _LEADS_AWAY.match(where)):
                yield f"{part.type} {where[:60]}"
            if part.type in {"html_block", "html_inline"} and not _OURS.fullmatch(part.content):
                yield f"html {part.content.strip()[:60]}"
            if (
                part.type == "fence"
                and part.info.strip() == "mermaid"
                and re.search(r"<img|\bclick\b.*https?:", part.content)
            ):
                yield f"mermaid {part.content[:60]}"
    if _OBEYED.search(text):
        yield "a control character"


def _repository(folder: Path) -> Path:
    """Make a repository and its space; names of files, folders, classes' texts, headings and decisions are markup."""
    tree = folder / "web"
    (tree / "src" / "shop").mkdir(parents=True)
    (tree / "src" / "shop" / "__init__.py").write_text('"""A shop."""\n', encoding="utf-8")
    (tree / "README.md").write_text(
        f"# {_flat(_NAMES[0])}\n\n" + "".join(f"## {_flat(n)}\n\nText.\n\n" for n in _NAMES)
    )
    for number, name in enumerate(_NAMES):
        doc = name.replace("\\", "\\\\").replace('"""', "'''")
        code = (
            f'"""{doc} """\n\n\nclass Kiln{number}:\n    """{doc} """\n\n'
            f'    def fire(self, x: {_flat(name)!r} = {name!r}) -> None:\n        """{doc} """\n'
        )
        _written(tree / "src" / "shop" / f"part{number}.py", code)
        _written(tree / "src" / _flat(name).replace("/", "∕")[:60] / "oven.py", code)
        _written(tree / "docs" / f"{_flat(name).replace('/', '∕')[:60]}.md", f"# {_flat(name)}\n\n{_flat(name)}\n")
    package = {
        "name": _flat(_NAMES[1]),
        "version": _NAMES[2],
        "description": _NAMES[3],
        "scripts": {_NAMES[4]: _NAMES[5]},
    }
    (tree / "package.json").write_text(json.dumps(package), encoding="utf-8")
    who = ("-c", f"user.name={_flat(_NAMES[2]).replace('<', '(').replace('>', ')')}", "-c", "user.email=a@example.org")
    for command in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", _NAMES[0])):
        subprocess.run(["git", *who, *command], cwd=tree, check=True, capture_output=True, timeout=_SECONDS)
    with treering.open(f"sqlite:{folder / 'space.db'}", channel="user", background=False) as space:
        space.ingest("repo", input={"path": str(tree)})
        for name in _NAMES:
            _fill(space, name)
    return tree


def _flat(name: str) -> str:
    return " ".join(name.split())


def _written(place: Path, text: str) -> None:
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    except OSError:  # a file system that cannot name it
        return


def _treering(folder: Path, cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TREERING_SPACE": f"sqlite:{folder / 'space.db'}", "TREERING_BACKGROUND": "0"}
    command = [sys.executable, "-P", "-m", "treering", *arguments]
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False
    )


def _wiki_paths(folder: Path) -> Count:
    """Lay links and a forged manifest into a wiki's folder before it is built; count files outside that changed."""
    tree = _repository(folder)
    wiki, outside = tree / "wiki", folder / "outside"
    reached, wrong = 0, []
    for name, harm in _HARMS.items():
        subprocess.run(["rm", "-rf", str(wiki), str(outside)], check=True)
        outside.mkdir()
        (outside / "victim.md").write_text(SECRET, encoding="utf-8")
        harm(wiki, outside)
        before = _below(folder, without=wiki)
        _treering(folder, tree, "wiki", "build")
        changed = {path for path, data in _below(folder, without=wiki).items() if before.get(path) != data}
        bad = bool(changed) or SECRET in "".join(WikiBrowser(wiki).html(f"/{one}") or "" for one in _ASKED)
        reached += bad
        wrong += [f"{name}: {sorted(changed)}"] if bad else []
    return Count(len(_HARMS), reached, "; ".join(wrong))


def _below(folder: Path, *, without: Path) -> dict[str, bytes]:
    """Return the files that are no part of a wiki, a space or git, by path."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and without not in path.parents and not path.name.startswith(("space.db", ".treering-"))
    }


def _linked_folder(wiki: Path, outside: Path) -> None:
    wiki.mkdir()
    (wiki / "modules").symlink_to(outside)


def _linked_page(wiki: Path, outside: Path) -> None:
    wiki.mkdir()
    for name in ("overview.md", "index.md", "log.md"):
        (wiki / name).symlink_to(outside / "victim.md")


def _linked_wiki(wiki: Path, outside: Path) -> None:
    wiki.symlink_to(outside)


def _linked_manifest(wiki: Path, outside: Path) -> None:
    wiki.mkdir()
    (outside / "manifest.json").write_text(json.dumps({"version": 1, "files": {}}), encoding="utf-8")
    (wiki / ".treering-wiki.json").symlink_to(outside / "manifest.json")


def _forged_manifest(path: str) -> Callable[[Path, Path], None]:
    def harm(wiki: Path, outside: Path) -> None:
        wiki.mkdir()
        named = path.format(outside=outside)
        files = {named: {"digest": "0" * 16, "blocks": ["0" * 16], "title": "x"}}
        (wiki / ".treering-wiki.json").write_text(json.dumps({"version": 1, "files": files}), encoding="utf-8")

    return harm


def _left_beside(wiki: Path, outside: Path) -> None:
    wiki.mkdir()
    for which in ("part", "new"):
        (wiki.with_name(f".{wiki.name}.treering-{which}")).symlink_to(outside)


_HARMS: Mapping[str, Callable[[Path, Path], None]] = {
    "a folder that is a link": _linked_folder,
    "pages that are links": _linked_page,
    "a wiki that is a link": _linked_wiki,
    "a manifest that is a link": _linked_manifest,
    "a manifest with a way out": _forged_manifest("../../outside/victim.md"),
    "a manifest with an absolute path": _forged_manifest("{outside}/victim.md"),
    "a manifest with a folder of git": _forged_manifest(".git/config.md"),
    "what a killed publication left, as links": _left_beside,
}
_ASKED = (
    "modules/victim.md",
    "overview.md",
    "../../outside/victim.md",
    "%2e%2e/%2e%2e/outside/victim.md",
    "..%5c..%5coutside%5cvictim.md",
    "modules/../../../outside/victim.md",
    "%252e%252e/victim.md",
    "victim.md%00.md",
)


ATTACKS: Sequence[Attack] = (
    Attack("names that are markup, on web pages", _on_web_pages),
    Attack("names that are markup, in the pages of a wiki", _in_a_wiki),
    Attack("links and manifests lead a wiki out of its folder", _wiki_paths),
)
