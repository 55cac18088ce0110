"""Files as trees of plain values, by their formats, and back.

A tree is what ``json`` knows, and ``bytes``. What a tree lost by a change that no file can express
(a number where a table was) can't be encoded: one of :data:`IMPOSSIBLE` is raised.
"""

from __future__ import annotations

import ast
import io
import json
import pickle
import pickletools
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import PurePath
from typing import Any

import numpy as np
import yaml

from converter.errors import ModelyardError

Tree = Any
IMPOSSIBLE = (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError,
              OverflowError, AssertionError, OSError, RuntimeError, SyntaxError, ModelyardError,
              EOFError, struct.error, yaml.YAMLError, zipfile.BadZipFile, zlib.error)  # fmt: skip
"""What reading a file as a tree raises, and writing a tree that is none."""

_DEPTH = 40


class Field(list[Any]):
    """A field of a protobuf message: its number, its wire type, its value."""


# -- protobuf without its schema -----------------------------------------------------------


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return value, at


def read_message(data: bytes, depth: int = 0) -> list[Field]:
    """The fields of a message; what can be one itself is read, too."""
    fields, at = [], 0
    while at < len(data):
        key, at = _varint(data, at)
        kind, value = key & 7, Ellipsis
        if kind == 0:
            value, at = _varint(data, at)
        else:
            size = {1: 8, 5: 4}.get(kind)
            if kind == 2:
                size, at = _varint(data, at)
            value, at = data[at : at + size], at + size  # type: ignore[operator]
        if at > len(data) or key < 8:
            raise ValueError("cut short, or no message")
        fields.append(Field([key >> 3, kind, _inner(value, depth) if kind == 2 else value]))
    return fields


def _inner(data: Any, depth: int) -> Tree:
    """A text, a message, or bytes, whichever they look like."""
    text = data.decode("utf-8", "replace")
    if text.isprintable() and "\ufffd" not in text:
        return text
    try:
        return read_message(data, depth + 1) if depth < _DEPTH and len(data) < 1 << 20 else data
    except (ValueError, IndexError, TypeError):
        return data


def write_message(fields: Tree) -> bytes:
    """The bytes of a message."""
    return b"".join(map(_field, fields))


def _field(field: Field) -> bytes:
    number, kind, value = field
    if isinstance(value, int):
        return _number(number << 3) + _number(value)
    if isinstance(value, float):
        return _number(number << 3 | 1) + struct.pack("<d", value)
    data = write_message(value) if isinstance(value, list) else _bytes(value)
    if kind in (1, 5) and len(data) == (8 if kind == 1 else 4):
        return _number(number << 3 | kind) + data
    return _number(number << 3 | 2) + _number(len(data)) + data


def _number(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _bytes(value: Tree) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    return bytes(value) if isinstance(value, bytes) else str(value).encode()


# -- others --------------------------------------------------------------------------------


def _read_zip(data: bytes) -> Tree:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return [[item.filename, read(item.filename, archive.read(item))]
                for item in archive.infolist()]  # fmt: skip


def _write_zip(tree: Tree) -> bytes:
    with zipfile.ZipFile(made := io.BytesIO(), "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that are there twice
        for name, content in tree:
            archive.writestr(zipfile.ZipInfo(name), write(name, content))
    return made.getvalue()


def _read_npy(data: bytes) -> Tree:
    size = int.from_bytes(data[8:10], "little")
    if data[:8] != b"\x93NUMPY\1\0":
        raise ValueError("no array")
    head = ast.literal_eval(data[10 : 10 + size].decode())
    return {**head, "shape": list(head["shape"]), "": data[10 + size :]}


def _write_npy(tree: Tree) -> bytes:
    head = {k: tuple(v) if isinstance(v, list) else v for k, v in tree.items() if k}
    text = _bytes(repr(head)) + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text + _bytes(tree.get("", b""))


def _read_safetensors(data: bytes) -> Tree:
    size = int.from_bytes(data[:8], "little")
    return [json.loads(data[8 : 8 + size]), data[8 + size :]]


def _write_safetensors(tree: Tree) -> bytes:
    head = _write_json(tree[0])
    return struct.pack("<Q", len(head)) + head + b"".join(map(_bytes, tree[1:]))


def _write_json(tree: Tree) -> bytes:
    return json.dumps(tree, default=repr).encode("utf-8", "surrogatepass")


def _read_pickle(data: bytes) -> Tree:
    places = [at for _, _, at in pickletools.genops(data) if at is not None]
    return [data[a:b] for a, b in zip(places, [*places[1:], len(data)], strict=True)]


def _read_tflite(data: bytes) -> Tree:
    from modelyard.containers.tflite import unpack

    return _plain(unpack(data, "f"))


def _plain(value: Any) -> Tree:
    if isinstance(value, np.ndarray):
        return value.tobytes() if value.dtype == np.uint8 else value.tolist()
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if hasattr(value, "__dict__"):
        return {"@": type(value).__name__} | {k: _plain(v) for k, v in vars(value).items()}
    return value


def _write_tflite(tree: Tree) -> bytes:
    from modelyard.containers.tflite import pack

    return pack(_table(tree), "f")


def _table(tree: Tree) -> Any:
    from ai_edge_litert import schema_py_generated as schema

    if isinstance(tree, list):
        return [_table(item) for item in tree]
    if isinstance(tree, bytes):
        return np.frombuffer(tree, np.uint8)
    if not isinstance(tree, dict):
        return tree
    made = getattr(schema, tree["@"])()
    for key, value in tree.items():
        if key != "@":
            setattr(made, key, _table(value))
    return made


_LARGE = 1e6
"""Elements of a dataset from which on they aren't written or read."""


def _read_h5(data: bytes) -> Tree:
    import h5py

    with h5py.File(io.BytesIO(data)) as file:
        return _group(file)


def _group(node: Any) -> Tree:
    tree: dict[str, Any] = {"@": {}}
    for key, value in node.attrs.items():
        json_text = isinstance(value, str) and value.startswith("{")
        tree["@"][key] = (
            json.loads(value) if json_text else getattr(value, "tolist", lambda v=value: v)()
        )
    if not hasattr(node, "keys"):
        data = node[()].tobytes() if node.size < _LARGE else b""  # a damaged one can claim any size
        return tree | {"dtype": str(node.dtype), "shape": list(node.shape), "": data}
    return tree | {key: _group(node[key]) for key in node}


def _write_h5(tree: Tree) -> bytes:
    import h5py

    with h5py.File(made := io.BytesIO(), "w") as file:
        _fill(file, tree)
    return made.getvalue()


def _fill(node: Any, tree: Tree) -> None:
    for key, value in tree["@"].items():
        node.attrs[key] = json.dumps(value, default=repr) if isinstance(value, dict) else value
    for key, value in tree.items():
        if isinstance(value, dict) and "" in value:
            dtype, shape = np.dtype(value["dtype"]), value["shape"]
            small = np.prod(shape) < _LARGE
            found = np.resize(np.frombuffer(value[""], dtype), shape) if small else None
            _fill_attributes(node.create_dataset(key, shape, dtype, found), value)
        elif key != "@":
            _fill(node.create_group(key), value)


def _fill_attributes(node: Any, tree: Tree) -> None:
    _fill(node, {"@": tree["@"]})


def _read_lines(data: bytes) -> Tree:
    return data.decode().splitlines()


def _write_lines(tree: Tree) -> bytes:
    return b"".join(_bytes(line) + b"\n" for line in tree)


Codec = tuple[Callable[[bytes], Tree], Callable[[Tree], bytes]]
_PROTO: Codec = (read_message, write_message)
_ZIP: Codec = (_read_zip, _write_zip)
_JSON: Codec = (json.loads, _write_json)
_LINES: Codec = (_read_lines, _write_lines)
_CODECS: dict[str, Codec] = {
    **dict.fromkeys((".onnx", ".mlmodel", ".pb", ".index"), _PROTO),
    **dict.fromkeys((".npz", ".keras", ".pt", ".pt2", ".pth"), _ZIP),
    **dict.fromkeys((".csv", ".txt", ".py"), _LINES),
    ".json": _JSON,
    ".yaml": (yaml.safe_load, lambda tree: yaml.safe_dump(tree, sort_keys=False).encode()),
    ".npy": (_read_npy, _write_npy),
    ".safetensors": (_read_safetensors, _write_safetensors),
    ".pkl": (_read_pickle, lambda tree: b"".join(map(_bytes, tree))),
    ".tflite": (_read_tflite, _write_tflite),
    ".h5": (_read_h5, _write_h5),
}


def read(name: str, data: bytes) -> Tree:
    """The tree of a file; its bytes where it is none of these formats, or damaged."""
    suffix = PurePath(name).suffix
    try:
        return pickle.loads(_kept(suffix, data))
    except RecursionError:  # too deep to be kept
        return _decoded(suffix, data)


@lru_cache(64)
def _kept(suffix: str, data: bytes) -> bytes:
    """A tree that stays as it is, whatever is done to those that are read from it."""
    return pickle.dumps(_decoded(suffix, data), pickle.HIGHEST_PROTOCOL)


def _decoded(suffix: str, data: bytes) -> Tree:
    try:
        return _CODECS.get(suffix, (bytes,))[0](data)
    except IMPOSSIBLE:
        return data


def write(name: str, tree: Tree) -> bytes:
    """The file of a tree.

    Raises:
        IMPOSSIBLE: No file is like that.
    """
    return tree if isinstance(tree, bytes) else _CODECS[PurePath(name).suffix][1](tree)
