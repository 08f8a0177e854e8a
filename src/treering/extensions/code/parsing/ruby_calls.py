"""The calls in Ruby code: with parentheses, without them, and of setters."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property

from tree_sitter import Node, Query, QueryCursor

from treering.extensions.code.parsing.languages import LANGUAGES, parsing_of

_CALLS = "(call method: (identifier) @called) (identifier) @bare"
_ASSIGNMENTS = ("assignment", "operator_assignment")
_CONSTANTS = ("constant", "scope_resolution")
_NO_CALLS = frozenset(
    "alias_method attr_accessor attr_reader attr_writer autoload context define_method describe extend format include "
    "lambda loop module_function new p pp prepend private private_class_method private_constant proc protected public "
    "puts raise require require_relative sprintf throw".split()
)
"""Methods of Ruby, and two of its test frameworks that many projects define for other purposes."""
_READ_IN = frozenset(
    "argument_list array body_statement binary block_body case conditional do else elsif ensure if if_modifier "
    "interpolation parenthesized_statements program return begin splat_argument then unary unless unless_modifier "
    "until until_modifier while while_modifier".split()
)
"""Nodes that read the value of a bare name."""


@dataclass(frozen=True)
class RubyNames:
    """The calls and the bare names in a text of Ruby code, each with the first byte of its last name."""

    data: bytes
    root: Node

    def calls(self) -> Iterator[tuple[int, str]]:
        """Yield the calls with arguments, a block or a receiver.

        A constant or `self` before the name is part of it; of any other receiver only a dot is.
        """
        for node in self._captures.get("called", ()):
            name, call = self._text(node), node.parent
            receiver = call.child_by_field_name("receiver") if call else None
            is_construction = receiver is not None and receiver.type in _CONSTANTS and name == "new"
            if call is not None and (
                name not in _NO_CALLS or (is_construction and call.child_by_field_name("arguments"))
            ):
                name += "=" if _is_assigned(call) else ""
                yield node.start_byte, self._of_receiver(receiver, name)

    def bare(self, names: Collection[str]) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
        """Return some names without arguments and receiver, first if they are read, then if they may be variables."""
        read, bound = list[tuple[int, str]](), list[tuple[int, str]]()
        for node in self._captures.get("bare", ()):
            name = self._text(node)
            parent = node.parent if name in names else None
            if parent is None:
                continue
            is_right = parent.type in _ASSIGNMENTS and not _is_assigned(node)
            is_receiver = parent.type == "call" and parent.child_by_field_name("receiver") == node
            if parent.type in _READ_IN or is_right or is_receiver:
                read.append((node.start_byte, name))
            elif parent.type not in ("call", "method", "singleton_method", "setter", "alias", "undef"):
                bound.append((node.start_byte, name))
        return read, bound

    @cached_property
    def _captures(self) -> Mapping[str, list[Node]]:
        return QueryCursor(_query()).captures(self.root)

    def _of_receiver(self, receiver: Node | None, name: str) -> str:
        if receiver is None:
            return name
        if receiver.type == "call" and self.data.endswith(b".new", 0, receiver.end_byte):
            receiver = receiver.child_by_field_name("receiver") or receiver
        is_named = receiver.type in ("self", *_CONSTANTS)
        return f"{self._text(receiver)}.{name}" if is_named else f".{name}"

    def _text(self, node: Node) -> str:
        return self.data[node.start_byte : node.end_byte].decode("utf-8", "replace")


def _is_assigned(node: Node) -> bool:
    parent = node.parent
    return parent is not None and parent.type in _ASSIGNMENTS and parent.child_by_field_name("left") == node


@cache
def _query() -> Query:
    return Query(parsing_of(LANGUAGES["ruby"]).grammar, _CALLS)
