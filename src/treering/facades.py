"""Facades: modules whose names are imported when they are first used, so that `import treering` loads next to nothing.

The stub of a facade (`client.pyi` for `client.py`) is the only list of its names and their locations. Type checkers and
this module read it. `tests/test_facade.py` pins the names.
"""

import sys
from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

# Nothing else is imported here, because every start of the command pays for it.


def lazily(
    facade: str, *, extras: "Mapping[str, str] | None" = None, framework: str = ""
) -> "tuple[Callable[[str], Any], Callable[[], list[str]]]":
    """Return `__getattr__` and `__dir__` of the module `facade`, which has a stub.

    `extras`: the extra that installs a package, by package. `framework`: the framework in `frameworks` that defines the
    extras instead.
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
        module, original = homes()[name]
        try:
            value = getattr(import_module(module), original)
        except ModuleNotFoundError as error:
            missing_extra = import_module("treering.frameworks").missing_extra
            raise missing_extra(error, extras or {}, framework, needed_for=f"{facade}.{name}") from error
        setattr(sys.modules[facade], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[facade]), *homes()})

    return load, names


class LazyModule:
    """A module that is imported at its first use, so that declaring a command is cheap."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> "Any":
        from importlib import import_module

        return getattr(import_module(self._name), name)


def _names(stub: str) -> dict[str, tuple[str, str]]:
    """Return the module and original name of each name in a stub. `import A as A` and `B = A` export a name."""
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
