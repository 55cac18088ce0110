"""A server package's clients: plain ``requests``, and the inference protocol's gRPC stubs."""

from __future__ import annotations

import pprint
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from emitters.packaging.facts import Wire
from emitters.packaging.photos import Preparation
from emitters.packaging.script.over_http import V2_TYPES
from emitters.templates import render

_BYTES = '''TYPES = {
    "BOOL": "?", "UINT8": "u1", "UINT16": "<u2", "UINT32": "<u4", "UINT64": "<u8", "INT8": "i1",
    "INT16": "<i2", "INT32": "<i4", "INT64": "<i8", "FP16": "<f2", "FP32": "<f4", "FP64": "<f8",
}


def encode(array, datatype):
    """The values as raw bytes; strings each behind their length, bfloat16 as the upper halves."""
    if datatype == "BYTES":
        texts = [str(value).encode() for value in array.ravel().tolist()]
        return b"".join(struct.pack("<I", len(text)) + text for text in texts)
    if datatype == "BF16":
        bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
        return (bits >> 16).astype("<u2").tobytes()
    return np.ascontiguousarray(array).astype(TYPES[datatype]).tobytes()


def decode(data, datatype):
    """The values in raw bytes."""
    if datatype == "BF16":
        return (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)
    if datatype != "BYTES":
        return np.frombuffer(data, TYPES[datatype])
    texts = []
    while data:
        end = 4 + struct.unpack("<I", data[:4])[0]
        texts.append(data[4:end].decode())
        data = data[end:]
    return np.array(texts, object)
'''


def write_clients(
    folder: Path,
    facts: Mapping[str, Any],
    wire: Wire,
    photo: Preparation | None,
    texts: Mapping[str, Any],
) -> list[tuple[str, str]]:
    """Writes the clients that a server can be asked with.

    Args:
        folder: The package's.
        facts: What ``modelyard.json`` says.
        wire: How the server is asked.
        photo: How a photo becomes the only input, where one does.
        texts: How a text becomes the inputs; see :func:`emitters.packaging.texts.texts_of`.

    Returns:
        Each file's name, and what it is.
    """
    first = facts["samples"][0]["feeds"] if facts["samples"] else {}
    known = {item["file"].rpartition(".")[2] for item in first.values()}
    values = {
        "model": facts["model"],
        "wire": wire,
        "binary": wire.kind == "v2-binary",
        "raw": "bin" in known or wire.kind == "v2-binary",
        "bytes": _BYTES,
        "photo": photo.python("The input") if photo else "",
        "texts": texts,
        "inputs": [_input(item, first.get(item["name"])) for item in facts["inputs"]],
        "steps": _steps(facts),
        "outputs": [_output(item, facts["labels"].get(item["name"])) for item in facts["outputs"]],
        "activations": any("activation" in item for item in facts["outputs"]),
        "labelled": bool(facts["labels"]),
    }
    made = [("client_requests.py", "a client by plain requests")]
    made += [("client_grpc.py", "a client by gRPC stubs")] if wire.grpc else []
    for name, _ in made:
        text = render("emitters.packaging", f"{name}.j2", values, literal=_literal)
        (folder / name).write_text(text, encoding="utf-8")
    return made


def _input(item: Mapping[str, Any], sample: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        "name": item["name"],
        "datatype": V2_TYPES.get(item["dtype"], item["dtype"]),
        "file": sample["file"] if sample else None,
        "shape": sample["shape"] if sample else None,
    }


def _output(item: Mapping[str, Any], labels: str | None) -> dict[str, Any]:
    known = {key: item[key] for key in ("activation",) if key in item}
    return {"name": item["name"], "labels": labels, **known}


def _steps(facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The files of each request of the first sequence, by input; empty where there are none."""
    return [
        {name: {"file": of["file"], "shape": of["shape"]} for name, of in item["feeds"].items()}
        for item in facts["samples"]
        if item.get("sequence", {}).get("id") == 1
    ]


def _literal(value: Any) -> str:
    return pprint.pformat(value, width=96, sort_dicts=False)
