"""Facades: modules whose names are imported when they are first used, so that `import treering` loads next to nothing.

The stub beside a facade (`client.pyi` beside `client.py`) is the one list of its names and of where each is: type
checkers read it, and so does this module. `tests/test_facade.py` pins the names.
"""

import sys
from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

# Nothing else is imported here: every start of the command pays for it, and for the modules of typing and regular
# expressions half as much again.


def lazily(
    facade: str, *, extras: "Mapping[str, str] | None" = None, framework: str = ""
) -> "tuple[Callable[[str], Any], Callable[[], list[str]]]":
    """Return `__getattr__` and `__dir__` of the module `facade`, which has a stub.

    `extras`: the extra that installs a package, by package. `framework`: the name of a framework in `frameworks`, which
    defines them instead.
    """

    @cache
    def homes() -> dict[str, tuple[str, str]]:
        return _names(str(sys.modules[facade].__file__).removesuffix(".py") + ".pyi")

    def load(name: str) -> "Any":
        from importlib import import_module

        if name == "__all__":
            return sorted({*homes(), *(["__version__"] if facade == "treering" else [])})
        if name not in homes():
            raise AttributeError(f"module {facade!r} has no attribute {name!r}")
        module, there = homes()[name]
        try:
            found = getattr(import_module(module), there)
        except ModuleNotFoundError as error:
            missing_extra = import_module("treering.frameworks").missing_extra
            raise missing_extra(error, extras or {}, framework, needed_for=f"{facade}.{name}") from error
        setattr(sys.modules[facade], name, found)
        return found

    def names() -> list[str]:
        return sorted({*vars(sys.modules[facade]), *homes()})

    return load, names


class LazyModule:
    """A module that is imported when something of it is first used: to declare a command loads next to nothing."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> "Any":
        from importlib import import_module

        return getattr(import_module(self._name), name)


def _names(stub: str) -> dict[str, tuple[str, str]]:
    """Return where each name of a stub is: its module, and its name there. `import A as A` and `B = A` offer a name."""
    import ast
    from pathlib import Path

    imported: dict[str, tuple[str, str]] = {}
    offered: dict[str, tuple[str, str]] = {}
    for statement in ast.parse(Path(stub).read_text(encoding="utf-8")).body:
        match statement:
            case ast.ImportFrom(module=str(module), names=names):
                imported.update({one.name: (module, one.name) for one in names})
                offered.update({one.name: (module, one.name) for one in names if one.asname == one.name})
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name(id=there)):
                offered[name] = imported[there]
    return offered
