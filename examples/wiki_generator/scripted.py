"""A chat model that follows a script, in place of a language model: it plans three pages and writes them."""

import re
from collections.abc import Mapping
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableLambda

_FILE = re.compile(r"^(\d+) (\S+\.(?:py|go|java|ts|rs))$", re.MULTILINE)
_ASIDE = re.compile(r"test|(?:^|/)(?:examples?|docs|website)/", re.IGNORECASE)
_DEFINITION = re.compile(r"^[\w ]*\b(?:class|def|func|function|fn|interface|struct|type) (?:\([^)]*\) )?(\w+)")


class ScriptedWriter(BaseChatModel):
    """Calls the tools of the memory and of the repository, as a language model would."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, *_: Any, **__: Any) -> Any:
        """Accept any tools."""
        return self

    def with_structured_output(self, schema: Any, **_: Any) -> Any:
        """Plan a page for each of the three largest files of code."""
        return RunnableLambda(lambda messages: schema.model_validate(_plan(messages)))

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        humans = [str(one.text) for one in messages if one.type == "human"]  # memories of the middleware among them
        task = next(text for text in humans if text.startswith(("Plan the wiki", "Write the page")))
        message = (_plan_next if task.startswith("Plan") else _write_next)(task, _answers(messages))
        return ChatResult(generations=[ChatGeneration(message=message)])


def _answers(messages: list[BaseMessage]) -> Mapping[str, str]:
    return {str(one.name): str(one.text) for one in messages if one.type == "tool"}


def _plan(messages: list[BaseMessage]) -> Mapping[str, Any]:
    files = [(int(size), path) for size, path in _FILE.findall(str(messages[0].text)) if not _ASIDE.search(path)]
    pages = [
        {"path": re.sub(r"\W+", "-", path) + ".md", "title": path, "file": path}
        for _, path in sorted(files, reverse=True)[:3]
    ]
    return {
        "title": "Planned as before" if "Found" in _answers(messages)["recall_memories"] else "A plan",
        "pages": pages,
    }


def _plan_next(_: str, answers: Mapping[str, str]) -> AIMessage:
    if "recall_memories" not in answers:
        return _call("recall_memories", query="how pages are organized")
    if "Found" in answers["recall_memories"] or "store_memory" in answers:
        return AIMessage("The largest files have a page each.")
    decision = "Pages are organized by file: one for each of the largest files."
    return _call("store_memory", content=decision, memory_type="structural_decision")


def _write_next(task: str, answers: Mapping[str, str]) -> AIMessage:
    page, file, pages = re.findall(r"the page (\S+) about (\S+)\. All pages: (.*)", task)[0]
    if "read_text_file" not in answers:
        return _call("read_text_file", path=file)
    if "get_file_memories" not in answers:
        return _call("get_file_memories", file_paths=[file])
    lines = enumerate(answers["read_text_file"].split("\n"), 1)
    names = [(at, name[1]) for at, line in lines if (name := _DEFINITION.match(line))][:5]
    if "No memories" in answers["get_file_memories"] and "store_memory" not in answers:
        pattern = f"{file} defines {', '.join(name for _, name in names)}."
        return _call("store_memory", content=pattern, memory_type="pattern_found", file_paths=[file])
    definitions = "\n".join(f"- [`{name}`]({file}#L{at}-L{at})" for at, name in names)
    others = ", ".join(f"[{one}]({one})" for one in pages.split(", ") if one != page)
    return AIMessage(f"# {file}\n\n{definitions}\n\nSee also: {others}.")


def _call(name: str, **arguments: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": f"call-{name}"}])
