"""Completion in shells: paths, ids, titles and names. It must be fast, so it does not open a space."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typer import Typer

VARIABLE = "_TREERING_COMPLETE"
"""Typer's variable, set while a shell completes."""
ROWS = "rows"
"""Its value in the scripts below. Only these scripts complete titles: Typer's would evaluate them as code."""
MAX_SHOWN = 50
"""Candidates of each sort, so that a shell can list them."""
_MAX_TITLE_CHARS = 120
_ITEMS = ("knowledge", "work_item", "activity")
_OPEN = frozenset({"open", "in_progress", "blocked"})

Candidates = list[tuple[str, str]]
"""Words, each with a description."""
Complete = Callable[[str], Candidates]


def places(incomplete: str) -> Candidates:
    """Return files, and titles and ids of entries; names of nodes once letters are typed."""
    return [*_paths(incomplete), *_titled(incomplete, (*_ITEMS, "node") if incomplete else _ITEMS)]


def evidence(incomplete: str) -> Candidates:
    """Return files."""
    return _paths(incomplete)


def statements(incomplete: str) -> Candidates:
    """Return titles and ids of knowledge."""
    return _titled(incomplete, ("knowledge",))


def tasks(incomplete: str) -> Candidates:
    """Return titles and ids of open tasks."""
    return _titled(incomplete, ("work_item",), statuses=_OPEN)


def items(incomplete: str) -> Candidates:
    """Return titles and ids of entries."""
    return _titled(incomplete, _ITEMS)


def is_asked() -> bool:
    """Return whether a script of this module requests candidates."""
    return os.environ.get(VARIABLE) == ROWS


def first_word() -> str:
    """Return the command in the line that is completed."""
    return next(iter(os.environ.get(_LINE, "").split()[1:]), "")


def print_rows(commands: "Typer") -> None:
    """Print the candidates for a line, each with a tab and its description."""
    # Typer has no public name for it.
    from typer._completion_classes import FishComplete
    from typer.main import get_command

    from treering.surfaces.cli.printing import say

    shell = FishComplete(get_command(commands), {}, "treering", VARIABLE)
    for item in shell.get_completions(*shell.get_completion_args()):
        say(f"{item.value}\t{' '.join((item.help or '').split())}".rstrip())


def use_own_scripts() -> None:
    """Make `--install-completion` and `--show-completion` use the scripts of this module."""
    from typer import _completion_shared

    _completion_shared._completion_scripts.update(SCRIPTS)


def _titled(incomplete: str, types: Sequence[str], *, statuses: frozenset[str] = frozenset()) -> Candidates:
    """Return objects whose title or id starts with a text: ids if it is empty, titles once letters are typed."""
    if not is_asked():
        return []
    from treering.core.characters import one_line, short_id
    from treering.core.errors import TreeringError
    from treering.stores.sqlite.titles import titles
    from treering.system.settings import Settings

    try:
        file = Settings.read().space_address(None).file
    except TreeringError:
        return []
    known = [one for one in titles(file, types) if not statuses or one.status in statuses] if file else []
    wanted = incomplete.casefold()
    candidates: Candidates = []
    for one in known:
        title = one_line(one.title, most=_MAX_TITLE_CHARS).removesuffix("…")
        forms = (short_id(one.id), one.id)
        if identity := next((form for form in forms if form.startswith(incomplete)), ""):
            candidates.append((identity, f"{title} ({one.kind})"))
        elif title.casefold().startswith(wanted):
            # With the letters as typed: titles are compared without case, but Typer drops other beginnings.
            candidates.append((incomplete + title[len(incomplete) :], f"{one.kind}, {one.status}"))
    return candidates[:MAX_SHOWN]


def _paths(incomplete: str) -> Candidates:
    """Return the files and folders that begin so; folders end in a slash."""
    folder, _, name = incomplete.rpartition("/")
    try:
        entries = sorted(Path(f"{folder}/" if "/" in incomplete else ".").iterdir())
    except OSError:
        return []
    begin = f"{folder}/" if "/" in incomplete else ""
    shown = (one for one in entries if one.name.startswith(name) and (name or not one.name.startswith(".")))
    words = (f"{begin}{one.name}{'/' if one.is_dir() else ''}" for one in shown)
    return [(word, "") for word in islice(_printable(words), MAX_SHOWN)]


def _printable(words: Iterator[str]) -> Iterator[str]:
    return (word for word in words if word.isprintable())


_LINE = "_TYPER_COMPLETE_ARGS"
_ASK = f"{VARIABLE}={ROWS} {_LINE}"
_BASH = f"""\
%(complete_func)s() {{
    local line="${{COMP_LINE:0:COMP_POINT}}" word row value IFS=$'\\n'
    local -a rows
    mapfile -t rows < <({_ASK}="$line" "$1" 2>/dev/null)
    word="${{line##*[[:space:]]}}"
    COMPREPLY=()
    for row in "${{rows[@]}}"; do
        value="${{row%%%%$'\\t'*}}"
        [[ $value == */ ]] && compopt -o nospace
        if [[ $COMP_TYPE -eq 63 && $row == *$'\\t'* && ${{#rows[@]}} -gt 1 ]]; then
            COMPREPLY+=("$value  (${{row#*$'\\t'}})")  # only shown
            continue
        fi
        [[ ${{COMP_WORDS[COMP_CWORD]}} == [\\"\\']* ]] || printf -v value '%%q' "$value"
        [[ $value == \\$\\'* ]] && value="${{row%%%%$'\\t'*}}"
        # Readline takes a colon as the end of a word.
        [[ $COMP_WORDBREAKS == *:* && $word == *:* ]] && value="${{value#"${{word%%"${{word##*:}}"}}"}}"
        COMPREPLY+=("$value")
    done
}}

complete -o default -o bashdefault -F %(complete_func)s %(prog_name)s
"""
_ZSH = f"""\
#compdef %(prog_name)s

%(complete_func)s() {{
  local row
  local -a rows words_ shown folders
  rows=("${{(@f)$({_ASK}="${{(j: :)words[1,CURRENT]}}" %(prog_name)s 2>/dev/null)}}")
  for row in $rows; do
    if [[ $row == */ ]]; then
      folders+=("$row")
    else
      words_+=("${{row%%%%$'\\t'*}}")
      shown+=("${{row/$'\\t'/  -- }}")
    fi
  done
  (( $#words_ + $#folders )) || {{ _files; return }}
  (( $#folders )) && compadd -S '' -M 'm:{{a-z}}={{A-Z}}' -a folders
  (( $#words_ )) && compadd -l -M 'm:{{a-zA-Z}}={{A-Za-z}}' -d shown -a words_
}}

compdef %(complete_func)s %(prog_name)s
"""
_FISH = f"""\
function %(complete_func)s
    set --local rows (env {_ASK}=(commandline --cut-at-cursor --current-process | string collect) %(prog_name)s)
    if test (count $rows) -gt 0
        printf '%%s\\n' $rows
    else
        __fish_complete_path (commandline --current-token)
    end
end

complete --command %(prog_name)s --no-files --arguments "(%(complete_func)s)"
"""
SCRIPTS: Mapping[str, str] = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
"""By shell, a script to be filled in as Typer's: `complete_func` and `prog_name`."""
