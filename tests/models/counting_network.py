"""A cross-encoder small enough to be written by hand: it counts the tokens that a question and a text share.

The file is an ONNX model in the wire format of protocol buffers; numbers of fields are those of `onnx.proto3`.
"""

from importlib.resources import files
from pathlib import Path

FLOAT, INT64 = 1, 7
OPSET, IR_VERSION = 13, 8
SHIPPED = files("treering.models") / "bge_small_en_v1_5_int8"


def write_cross_encoder(folder: Path, *, network: str = "model.onnx") -> Path:
    """Write the network, and the tokenizer of the built-in embedder, into a folder."""
    (folder / network).parent.mkdir(parents=True, exist_ok=True)
    (folder / network).write_bytes(counting_network())
    (folder / "tokenizer.json").write_bytes((SHIPPED / "tokenizer.json").read_bytes())
    return folder


def counting_network() -> bytes:
    """Return the network: in the first segment a token is its id and 0 elsewhere, in the second its id and -1."""
    nodes = [
        _node("Sub", ["one", "token_type_ids"], "first"),
        _node("Mul", ["input_ids", "first"], "asked"),
        _node("Mul", ["input_ids", "token_type_ids"], "told_ids"),
        _node("Sub", ["told_ids", "first"], "told"),
        _node("Unsqueeze", ["asked", "last_axis"], "column"),
        _node("Unsqueeze", ["told", "middle_axis"], "row"),
        _node("Equal", ["column", "row"], "same"),
        _node("Cast", ["same"], "counted", _attribute("to", FLOAT)),
        _node("ReduceSum", ["counted"], "sum", _attribute("keepdims", 0)),
        _node("Reshape", ["sum", "one_by_one"], "logits"),
    ]
    constants = {"one": [1], "last_axis": [2], "middle_axis": [1], "one_by_one": [1, 1]}
    graph = b"".join(_bytes(1, node) for node in nodes) + _bytes(2, b"counting")
    graph += b"".join(_bytes(5, _int64(name, values)) for name, values in constants.items())
    graph += _bytes(11, _value("input_ids", INT64)) + _bytes(11, _value("token_type_ids", INT64))
    graph += _bytes(12, _value("logits", FLOAT))
    return _number(1, IR_VERSION) + _bytes(7, graph) + _bytes(8, _number(2, OPSET))


def _node(operator: str, inputs: list[str], output: str, *attributes: bytes) -> bytes:
    named = b"".join(_bytes(1, name.encode()) for name in inputs) + _bytes(2, output.encode())
    return named + _bytes(4, operator.encode()) + b"".join(_bytes(5, each) for each in attributes)


def _attribute(name: str, value: int) -> bytes:
    return _bytes(1, name.encode()) + _number(3, value) + _number(20, 2)


def _int64(name: str, values: list[int]) -> bytes:
    raw = b"".join(value.to_bytes(8, "little") for value in values)
    return _number(1, len(values)) + _number(2, INT64) + _bytes(8, name.encode()) + _bytes(9, raw)


def _value(name: str, kind: int) -> bytes:
    shape = _bytes(1, _bytes(2, b"rows")) + _bytes(1, _bytes(2, b"columns"))
    return _bytes(1, name.encode()) + _bytes(2, _bytes(1, _number(1, kind) + _bytes(2, shape)))


def _bytes(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _varint(value: int) -> bytes:
    head, rest = value & 0x7F, value >> 7
    return bytes([head | 0x80]) + _varint(rest) if rest else bytes([head])
