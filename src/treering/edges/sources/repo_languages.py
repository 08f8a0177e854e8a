"""Languages by file name, for counting. What a file means is told by its parser, not here."""

from typing import NamedTuple


class FileLanguage(NamedTuple):
    """A language: its name, and whether its files are code (others are markup, data or configuration)."""

    name: str
    code: bool


_CODE = {
    "Assembly": "asm s",
    "C": "c h",
    "C#": "cs",
    "C++": "cc cpp cxx hh hpp hxx",
    "Clojure": "clj cljs",
    "Dart": "dart",
    "Elixir": "ex exs",
    "Erlang": "erl",
    "Fortran": "f f90 f95",
    "Go": "go",
    "Haskell": "hs",
    "Java": "java",
    "JavaScript": "cjs js jsx mjs",
    "Julia": "jl",
    "Kotlin": "kt kts",
    "Lua": "lua",
    "Objective-C": "m mm",
    "OCaml": "ml mli",
    "Perl": "pl pm",
    "PHP": "php",
    "PowerShell": "ps1",
    "Python": "py pyi pyx",
    "R": "r",
    "Ruby": "rb",
    "Rust": "rs",
    "Scala": "scala",
    "Shell": "bash sh zsh",
    "SQL": "sql",
    "Svelte": "svelte",
    "Swift": "swift",
    "TypeScript": "cts mts ts tsx",
    "Vue": "vue",
    "Zig": "zig",
}
_OTHER = {
    "CSS": "css less sass scss",
    "CSV": "csv tsv",
    "GraphQL": "graphql graphqls",
    "HTML": "htm html",
    "JSON": "json",
    "Jupyter": "ipynb",
    "Markdown": "markdown md mdx",
    "Protocol Buffers": "proto",
    "reStructuredText": "rst",
    "Terraform": "tf",
    "Text": "txt",
    "TOML": "toml",
    "XML": "xml",
    "YAML": "yaml yml",
}
_BY_NAME = {"Dockerfile": FileLanguage("Docker", code=False), "Makefile": FileLanguage("Make", code=False)}
_BY_EXTENSION = {
    extension: FileLanguage(name, code)
    for table, code in ((_CODE, True), (_OTHER, False))
    for name, extensions in table.items()
    for extension in extensions.split()
}


def counted_language(path: str) -> FileLanguage | None:
    """Tell the language of a file by its name; `None` where the name does not tell."""
    name = path.rpartition("/")[2]
    return _BY_NAME.get(name) or _BY_EXTENSION.get(name.rpartition(".")[2].lower() if "." in name else "")
