"""The calls in Ruby code: with parentheses, without them, and of setters."""

from collections.abc import Iterator, Mapping
from functools import cache

from tree_sitter import Node, Query, QueryCursor

from treering.extensions.code.parsing.languages import LANGUAGES, parsing_of

_CALLS = "(call method: (identifier) @called) (identifier) @bare"
_ASSIGNMENTS = ("assignment", "operator_assignment")
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


def ruby_calls(root: Node) -> Iterator[tuple[int, str]]:
    """Yield each call with arguments, a block or a receiver: the first byte of the method's name, and its full name.

    A constant or `self` before the name is part of it; of any other receiver only a dot is.
    """
    for node in _captures(root).get("called", ()):
        name, call = _text(node), node.parent
        if call is None or name in _NO_CALLS:
            continue
        if _is_assigned(call):
            name += "="
        yield node.start_byte, _of_receiver(call.child_by_field_name("receiver"), name)


def bare_names(root: Node) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """Return the first bytes and texts of bare names, first if they are read, then if they may be local variables."""
    read, bound = list[tuple[int, str]](), list[tuple[int, str]]()
    for node in _captures(root).get("bare", ()):
        parent = node.parent
        if parent is None:
            continue
        is_right = parent.type in _ASSIGNMENTS and not _is_assigned(node)
        is_receiver = parent.type == "call" and parent.child_by_field_name("receiver") == node
        if parent.type in _READ_IN or is_right or is_receiver:
            read.append((node.start_byte, _text(node)))
        elif parent.type not in ("call", "method", "singleton_method", "setter", "alias", "undef"):
            bound.append((node.start_byte, _text(node)))
    return read, bound


def _is_assigned(node: Node) -> bool:
    parent = node.parent
    return parent is not None and parent.type in _ASSIGNMENTS and parent.child_by_field_name("left") == node


def _of_receiver(receiver: Node | None, name: str) -> str:
    if receiver is None:
        return name
    if receiver.type == "call" and receiver.text is not None and receiver.text.endswith(b".new"):
        receiver = receiver.child_by_field_name("receiver") or receiver
    return f"{_text(receiver)}.{name}" if receiver.type in ("self", "constant", "scope_resolution") else f".{name}"


def _captures(root: Node) -> Mapping[str, list[Node]]:
    return QueryCursor(_query()).captures(root)


@cache
def _query() -> Query:
    return Query(parsing_of(LANGUAGES["ruby"]).grammar, _CALLS)


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")
