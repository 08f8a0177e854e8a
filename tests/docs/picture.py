"""The picture of the README: a terminal, drawn from what a page shows and the tests run.

`python tests/docs/picture.py` writes it anew.
"""

import re
from html import escape
from pathlib import Path

from blocks import blocks_of, commands_of

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/tutorials/memory-that-notices-a-change.md"
PICTURE = ROOT / "docs/pictures/drift.svg"

SHOWN = ("treering decide", "sed ", "treering add . --worktree", "treering lint")
"""How the commands of the page begin that the picture shows, in order."""

_WIDTH, _LINE, _LEFT, _TOP = 860, 21, 22, 56
_WIDEST = 92
_ALARM = re.compile(r"Now stale|\d+  warning")
_ID = re.compile(r"\b(src|know|patch):[0-9a-z]{26}|\bseg_[0-9a-z]{13}")
_STYLE = (
    "text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#c9d1d9;white-space:pre}"
    ".command{fill:#fff;font-weight:600}.prompt{fill:#3fb950}.alarm{fill:#ffa657}"
)


def lines_of_page() -> list[tuple[str, str]]:
    """Return what the picture shows: `("command" | "alarm" | "", line)`."""
    commands = [one for block in blocks_of(PAGE) if block.language == "console" for one in commands_of(block)]
    lines: list[tuple[str, str]] = []
    for beginning in SHOWN:
        one = next(command for command in commands if command.line.startswith(beginning))
        lines += [("command", line) for line in _broken(one.line)]
        printed = [_short(line) for line in one.shown.splitlines() if line != "…"]
        lines += [("alarm" if _ALARM.match(line) else "", line) for line in printed]
        lines.append(("", ""))
    return lines[:-1]


def drawn() -> str:
    """Return the picture."""
    lines = lines_of_page()
    height = _TOP + _LINE * len(lines) + 8
    said = escape(" / ".join(line for kind, line in lines if kind == "command"), quote=True)
    rows = [_row(kind, line, _TOP + _LINE * at) for at, (kind, line) in enumerate(lines)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" role="img" '
            f'aria-label="A terminal: {said}">',
            f"<style>{_STYLE}</style>",
            f'<rect width="{_WIDTH}" height="{height}" rx="10" fill="#0d1117"/>',
            *(f'<circle cx="{24 + 20 * at}" cy="22" r="6" fill="{c}"/>' for at, c in enumerate(_LIGHTS)),
            *rows,
            "</svg>\n",
        ]
    )


_LIGHTS = ("#ff5f56", "#ffbd2e", "#27c93f")


def _row(kind: str, line: str, height: int) -> str:
    text = escape(line)
    if kind == "command" and not line.startswith("    "):
        text = f'<tspan class="prompt">$ </tspan>{text}'
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{_LEFT}" y="{height}"{named}>{text}</text>'


def _short(line: str) -> str:
    return _ID.sub(lambda found: f"{found[0][:12]}…", line)


def _broken(command: str) -> list[str]:
    """Break a command before the options that would make it too long."""
    lines, line = [], ""
    for part in re.split(r" (?=--)", _short(command)):
        if line and len(line) + len(part) > _WIDEST - 8:
            lines.append(f"{line} \\")
            line = f"    {part}"
        else:
            line = f"{line} {part}" if line else part
    return [*lines, line]


if __name__ == "__main__":
    PICTURE.write_text(drawn(), encoding="utf-8")
