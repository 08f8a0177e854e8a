"""What a release promises to programs, and what a later state of the tree breaks of it.

`python tools/promises.py` compares this tree with the last release, whose promises are in `tests/released`: the names
of the facades with their parameters, commands with their options, modes of the tools with their fields, errors with
their exit codes, and the HTTP contract. It ends with a list of breaks, each of which needs a note: a fragment in
`changes/` of the kind `removed` or `changed` that names it in backticks. `--write` writes the promises down, as
`make release` does.
"""

import argparse
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

ROOT = Path(__file__).resolve().parents[1]
RELEASED = ROOT / "tests/released"
CONTRACT = ROOT / "tests/surfaces/http/openapi.json"
"""The HTTP contract of this tree, as it was approved."""

Data = Mapping[str, Any]


def main() -> None:
    """Compare, or write; end with the breaks that have no note."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--write", action="store_true", help="write the promises of this tree to tests/released")
    if asked.parse_args().write:
        write()
    elif without_note := broken_without_a_note():
        sys.exit("\n".join(["Broken, without a note in changes/:", *without_note]))


def broken_without_a_note(*, frameworks: bool = True) -> list[str]:
    """Return what this tree breaks of the last release's promises and no fragment says.

    `frameworks`: whether the facades of frameworks are compared, whose imports take seconds.
    """
    return unnoted(breaks(last_release(), promises(frameworks=frameworks)), notes(ROOT / "changes"))


def write() -> None:
    """Write down what this tree promises."""
    RELEASED.mkdir(exist_ok=True)
    for name, data in promises().items():
        text = json.dumps(data, indent=1, ensure_ascii=False, sort_keys=True)
        # Lists of words on one line each: people read there what changed from release to release.
        text = re.sub(r"\[[^\[\]{}]*\]", lambda found: " ".join(found[0].split()), text)
        (RELEASED / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def last_release() -> dict[str, Any]:
    """Return what the last release promised."""
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in sorted(RELEASED.glob("*.json"))}


def promises(*, frameworks: bool = True) -> dict[str, Any]:
    """Return what this tree promises, by kind."""
    from treering.verbs.catalog import TOOLS

    return {
        "python": python_names(frameworks=frameworks),
        "commands": dict(commands()),
        "modes": {
            f"{verb} {name}": {
                field: kind.is_required()
                for side in (mode.input, mode.options)
                for field, kind in side.model_fields.items()
            }
            for verb, tool in TOOLS.items()
            for name, mode in tool.modes.items()
        },
        "errors": dict(errors()),
        "openapi": without_prose(json.loads(CONTRACT.read_text(encoding="utf-8"))),
    }


def python_names(*, frameworks: bool = True) -> dict[str, Any]:
    """Return every name of every facade, with what may be done with it; of what is not loaded, that it is there."""
    from treering.core.errors import MissingExtra
    from treering.frameworks import FRAMEWORKS

    heavy = set() if frameworks else {*FRAMEWORKS, "wiki"}

    found: dict[str, Any] = {}
    for stub in sorted((ROOT / "src/treering").glob("**/*.pyi")):
        facade = ".".join(stub.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
        module = import_module(facade)
        for name in module.__all__:
            if stub.stem in heavy:
                found[f"{facade}.{name}"] = {"kind": "unknown"}
                continue
            try:
                found[f"{facade}.{name}"] = told_of(getattr(module, name))
            except MissingExtra:  # its framework is not installed here: that there is the name is all that is known
                found[f"{facade}.{name}"] = {"kind": "unknown"}
    return found


def told_of(value: Any) -> dict[str, Any]:
    """Return what is promised of a value: how it is called, and the names that it has."""
    if not inspect.isclass(value):
        if callable(value) and not get_args(value):
            return {"kind": "function", "call": parameters(value)}
        return {"kind": "value", "values": sorted(str(one) for one in get_args(value) if isinstance(one, str))}
    own = [part for part in value.__mro__ if part.__module__.startswith("treering")]
    names = {
        name
        for part in own
        for name in (*vars(part), *vars(part).get("__annotations__", {}))
        if not name.startswith(("_", "test_", "model_"))
    }
    return {
        "kind": "protocol" if getattr(value, "_is_protocol", False) else "class",
        "call": parameters(value),
        "members": {name: members_of(value, name) for name in sorted(names)},
    }


def members_of(value: type, name: str) -> list[str] | None:
    """Return the parameters of a method, or `None` for what is no method."""
    member = inspect.getattr_static(value, name, None)
    member = getattr(member, "__func__", member)
    return parameters(member)[1:] if inspect.isfunction(member) else None


def parameters(value: Callable[..., Any]) -> list[str]:
    """Return the parameters in order: `name`, `name?` where it may be left out, `=name` by keyword only."""
    if fields := getattr(value, "model_fields", None):  # Pydantic makes its signature when a model is first used
        return [f"={name}{'' if field.is_required() else '?'}" for name, field in fields.items()]
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return []
    told = []
    for one in signature.parameters.values():
        if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            told.append("*" if one.kind is one.VAR_POSITIONAL else "**")
        elif not one.name.startswith("_"):
            keyword = "=" if one.kind is one.KEYWORD_ONLY else ""
            told.append(f"{keyword}{one.name}{'?' if one.default is not one.empty else ''}")
    return told


def commands() -> Iterator[tuple[str, list[str]]]:
    """Yield every command with its options and arguments; `!` marks those that have to be given."""
    import typer

    from treering.surfaces.cli.commands import command_line

    waiting: list[tuple[str, Any]] = [("", typer.main.get_command(command_line()))]
    while waiting:
        name, command = waiting.pop()
        waiting.extend((f"{name} {word}".strip(), sub) for word, sub in getattr(command, "commands", {}).items())
        if name and not getattr(command, "hidden", False):
            yield (
                name,
                sorted(
                    f"{flag}{'!' if one.required else ''}"
                    for one in command.params
                    if not getattr(one, "hidden", False)
                    for flag in ([*one.opts, *one.secondary_opts] if one.param_type_name == "option" else [one.name])
                ),
            )


def errors() -> Iterator[tuple[str, int]]:
    """Yield the code of every error with the exit code of commands that end with it."""
    from treering.core.errors import TreeringError
    from treering.surfaces.cli.failures import EXIT_CODES, OTHER

    waiting: list[type[TreeringError]] = [TreeringError]
    while waiting:
        error = waiting.pop()
        waiting.extend(one for one in error.__subclasses__() if one.__module__ == TreeringError.__module__)
        yield (
            f"{error.__name__} {error.code}",
            next((EXIT_CODES[one] for one in error.__mro__ if one in EXIT_CODES), OTHER),
        )


def without_prose(data: Any) -> Any:
    """Return a document without what only people read of it."""
    if isinstance(data, list):
        return [without_prose(one) for one in data]
    if not isinstance(data, dict):
        return data
    prose = {"description", "summary", "example", "examples", "title", "tags", "info"}
    return {name: without_prose(one) for name, one in data.items() if name not in prose or isinstance(one, dict)}


def breaks(old: Data, new: Data) -> list[str]:
    """Return what a program that was written for the old promises may stumble over, each as `` `subject`: what``."""
    return [
        *_of_python(old["python"], new["python"]),
        *_of_options(old["commands"], new["commands"]),
        *_of_modes(old["modes"], new["modes"]),
        *(
            f"`{name}`: its exit code was {code}"
            for name, code in old["errors"].items()
            if new["errors"].get(name) != code
        ),
        *_of_contract(old["openapi"], new["openapi"]),
    ]


def notes(folder: Path) -> set[str]:
    """Return the names that fragments of the kinds `removed` and `changed` have in backticks."""
    files = [*folder.glob("*.removed.md"), *folder.glob("*.changed.md")]
    return {name for file in files for name in re.findall(r"`([^`]+)`", file.read_text(encoding="utf-8"))}


def unnoted(found: list[str], named: set[str]) -> list[str]:
    """Return the breaks whose subject no note names."""
    return [one for one in found if one.split("`")[1] not in named]


def _of_python(old: Data, new: Data) -> Iterator[str]:
    for name, was in old.items():
        now = new.get(name)
        if now is None:
            yield f"`{name}`: is gone"
        elif "unknown" in (was["kind"], now["kind"]):
            continue
        elif now["kind"] != was["kind"]:
            yield f"`{name}`: was a {was['kind']}, is a {now['kind']}"
        elif was["kind"] == "value":
            yield from (f"`{name}`: has no {one!r} any more" for one in was["values"] if one not in now["values"])
        else:
            yield from _of_call(name, was["call"], now["call"])
            yield from _of_members(name, was, now)


def _of_members(name: str, was: Data, now: Data) -> Iterator[str]:
    there = now.get("members", {})
    for member, call in was.get("members", {}).items():
        if member not in there:
            yield f"`{name}.{member}`: is gone"
        elif call is not None and there[member] is not None:
            yield from _of_call(f"{name}.{member}", call, there[member])
        elif (call is None) != (there[member] is None):
            yield f"`{name}.{member}`: is {'a' if call is None else 'no'} method now"
    if was["kind"] == "protocol":
        yield from (f"`{name}.{one}`: is asked of who implements it" for one in there if one not in was["members"])


def _of_call(name: str, was: list[str], now: list[str]) -> Iterator[str]:
    def named(parameters: list[str]) -> dict[str, str]:
        return {one.strip("=?"): one for one in parameters if one not in ("*", "**")}

    def in_order(parameters: list[str]) -> list[str]:
        return [one.strip("?") for one in parameters if not one.startswith(("=", "*"))]

    before, after = named(was), named(now)
    for one, told in before.items():
        if one not in after:
            if "**" not in now:
                yield f"`{name}`: takes no `{one}` any more"
        elif told.endswith("?") and not after[one].endswith("?"):
            yield f"`{name}`: needs `{one}`, which could be left out"
    yield from (
        f"`{name}`: needs `{one}`, which is new" for one, told in after.items() if one not in before and told[-1] != "?"
    )
    kept = [one for one in in_order(was) if one in after]
    if in_order(now)[: len(kept)] != kept and "*" not in now:
        yield f"`{name}`: takes its arguments in another order"


def _of_options(old: Data, new: Data) -> Iterator[str]:
    for command, was in old.items():
        if command not in new:
            yield f"`treering {command}`: is gone"
            continue
        now = {one.rstrip("!"): one for one in new[command]}
        yield from (
            f"`treering {command}`: has no {one.rstrip('!')} any more" for one in was if one.rstrip("!") not in now
        )
        yield from (
            f"`treering {command}`: needs {one}" for one, told in now.items() if told != one and told not in was
        )


def _of_modes(old: Data, new: Data) -> Iterator[str]:
    for mode, was in old.items():
        now = new.get(mode)
        if now is None:
            yield f"`{mode}`: is gone"
            continue
        yield from (f"`{mode}`: has no field `{one}` any more" for one in was if one not in now)
        yield from (f"`{mode}`: needs `{one}`" for one, needed in now.items() if needed and not was.get(one, False))


def _of_contract(old: Data, new: Data) -> Iterator[str]:
    for path, methods in old["paths"].items():
        for method, was in methods.items():
            subject = f"{method.upper()} {path}"
            now = new["paths"].get(path, {}).get(method)
            if now is None:
                yield f"`{subject}`: is gone"
                continue
            found = [
                *_of_arguments(was.get("parameters", []), now.get("parameters", [])),
                *_of_bodies(old, new, was.get("requestBody", {}), now.get("requestBody", {}), asked=True),
            ]
            for status, answer in was["responses"].items():
                if status not in now["responses"]:
                    found.append(f"never answers {status} any more")
                else:
                    found += _of_bodies(old, new, answer, now["responses"][status], asked=False)
            yield from (f"`{subject}`: {one}" for one in dict.fromkeys(found))


def _of_arguments(was: list[Data], now: list[Data]) -> Iterator[str]:
    before, after = ({one["name"]: one for one in side} for side in (was, now))
    yield from (f"takes no `{name}` any more" for name in before if name not in after)
    for name, one in after.items():
        if one.get("required") and not before.get(name, {}).get("required"):
            yield f"needs `{name}`"


def _of_bodies(old: Data, new: Data, was: Data, now: Data, *, asked: bool) -> Iterator[str]:
    for kind, body in was.get("content", {}).items():
        if kind not in now.get("content", {}):
            yield f"has no body of type {kind} any more"
        else:
            yield from _Schemas(old, new, asked).compared(
                body.get("schema", {}), now["content"][kind].get("schema", {})
            )


class _Schemas:
    """Compare two schemas, through their references, each pair once."""

    def __init__(self, old: Data, new: Data, asked: bool) -> None:
        """`asked`: they are of what a client sends, not of what it gets."""
        self._old, self._new, self._asked = old, new, asked
        self._seen: set[str] = set()

    def compared(self, was: Data, now: Data, place: str = "the body") -> Iterator[str]:
        if "$ref" in was:
            if was["$ref"] in self._seen:
                return
            self._seen.add(was["$ref"])
        named = was
        was, now = _resolved(self._old, was), _resolved(self._new, now)
        # What was one thing and is one of several now: a client of before goes on with that one, or the first.
        if "anyOf" not in was and (several := now.get("anyOf")):
            now = _resolved(self._new, next((one for one in several if one == named), several[0]))
        if was.get("type") != now.get("type") and now.get("type") is not None:
            yield f"{place} was {was.get('type', 'of any type')}, is {now['type']}"
            return
        yield from self._values(was, now, place)
        yield from self._fields(was, now, place)
        if "items" in was and "items" in now:
            yield from self.compared(was["items"], now["items"], f"{place}, each")
        for choice in ("anyOf", "oneOf", "allOf"):
            before, after = was.get(choice, []), now.get(choice, [])
            if len(before) > len(after) and after:
                yield f"{place} has fewer alternatives"
            for one, other in zip(before, after, strict=False):
                yield from self.compared(one, other, place)

    def _values(self, was: Data, now: Data, place: str) -> Iterator[str]:
        before, after = was.get("enum"), now.get("enum")
        if self._asked and after and (gone := [one for one in before or ["any value"] if one not in after]):
            yield f"{place} may not be {', '.join(map(str, gone))} any more"

    def _fields(self, was: Data, now: Data, place: str) -> Iterator[str]:
        before, after = was.get("properties", {}), now.get("properties", {})
        for name, schema in before.items():
            if name in after:
                yield from self.compared(schema, after[name], f"`{name}`")
            elif not self._asked or now.get("additionalProperties") is False:
                yield f"{place} has no `{name}` any more"
        needed, was_needed = set(now.get("required", [])), set(was.get("required", []))
        if self._asked:
            yield from (f"{place} needs `{name}`" for name in sorted(needed - was_needed))
        else:
            yield from (f"{place} may lack `{name}`" for name in sorted((was_needed - needed) & set(after)))


def _resolved(document: Data, schema: Data) -> Data:
    """Return a schema, or the one that it refers to."""
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


if __name__ == "__main__":
    main()
