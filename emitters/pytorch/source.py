"""The text of ``model.py``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from emitters.code.classes import text_of
from emitters.code.functions import texts
from emitters.code.program import Program, doc_of
from emitters.pytorch.dialect import Torch

_FUNCTIONS = Path(__file__).parent / "functions"

_LOADING = '''def load(path: str = "{weights}") -> Model:
    """The model with its weights, ready for inference."""
    model = Model()
{given}
    return model.eval()


def read(path: str) -> dict[str, Tensor]:
    """Tensors by name, of a .safetensors file: a header in JSON, and their bytes."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = bytearray(file.read()) or bytearray(1)
    header.pop("__metadata__", None)
    types = {types}
    found = {{}}
    for name, told in header.items():
        start, end = told["data_offsets"]
        dtype = types[told["dtype"]]
        count = (end - start) // dtype.itemsize
        flat = torch.empty(0, dtype=dtype)
        if count:
            flat = torch.frombuffer(data, dtype=dtype, count=count, offset=start)
        found[name] = flat.reshape(told["shape"])
    return found'''

_TYPES = {
    "F64": "torch.float64",
    "F32": "torch.float32",
    "F16": "torch.float16",
    "BF16": "torch.bfloat16",
    "BOOL": "torch.bool",
    "I64": "torch.int64",
    "I32": "torch.int32",
    "I16": "torch.int16",
    "I8": "torch.int8",
    "U8": "torch.uint8",
    "U16": "torch.uint16",
    "U32": "torch.uint32",
    "U64": "torch.uint64",
}


def source_of(program: Program, title: str, weights: str) -> str:
    """The file's text.

    Args:
        program: Without refusals.
        title: What the model is, in a line.
        weights: The file of its weights.
    """
    functions = texts(_FUNCTIONS, program.helpers)
    classes = [text_of(made, Torch(), doc_of(made)) for made in program.classes]
    tied = program.tied
    if tied:
        classes[-1] = _with_ties(classes[-1], tied)
    loading = _loading(program, weights)
    body = "\n\n\n".join([*functions, *classes, loading])
    imports = ["import json"] if "json." in body else []
    if "Callable[" in body:
        imports.append("from collections.abc import Callable")
    theirs = ["import torch"]
    if re.search(r"\bF\.", body):
        theirs.append("import torch.nn.functional as F")
    theirs.append("from torch import Tensor, nn")
    head = [f'"""{title}"""', "", *imports, *([""] if imports else []), *theirs]
    return "\n".join(head) + "\n\n\n" + body + "\n"


def _with_ties(text: str, tied: Mapping[str, str]) -> str:
    """The model's class with tensors that several modules have as one."""
    lines = [f"        self.{_path(name)} = self.{_path(first)}" for name, first in tied.items()]
    head, _, rest = text.partition("\n    def forward")
    return head.rstrip() + "\n" + "\n".join(lines) + "\n\n    def forward" + rest


def _path(name: str) -> str:
    """``layer.0.weight`` as an expression."""
    return re.sub(r"\.(\d+)(?=\.|$)", r"[\1]", name)


def _loading(program: Program, weights: str) -> str:
    from emitters.code.safetensors import CODES

    used = {CODES[weight.dtype.name] for weight in program.weights.values()}
    types = ", ".join(f'"{code}": {_TYPES[code]}' for code in sorted(used))
    given = "    model.load_state_dict(read(path))"
    if program.tied:
        pairs = program.tied.items()
        ties = [f'    weights["{name}"] = weights["{first}"]' for name, first in pairs]
        given = "\n".join(["    weights = read(path)", *ties, "    model.load_state_dict(weights)"])
    lines = _LOADING.format(weights=weights, types="{" + types + "}", given=given)
    from emitters.code.formatting import formatted

    return "\n".join(line for text in lines.split("\n") for line in formatted(text))
