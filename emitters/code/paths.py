"""The modules that nodes lie in, by their names.

| a node's name | modules | it is itself |
|---|---|---|
| ``layer1.0.conv1`` (torch's exporter) | layer1, 0 | conv1 |
| ``layer1.0/Add_2`` | layer1, 0 | |
| ``/layer1/layer1.0/conv1/Conv`` (TorchScript's) | layer1, 0, conv1 | |
| ``functional_1/block_conv/convolution`` (Keras) | block_conv, less what all have | |
| ``CONV_2D_3/Relu`` (TFLite) | CONV_2D_3 | |
| ``Relu_7``, ``node_Conv_2`` | | |
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Sequence

from emitters.code.steps import Path

_OPERATOR = re.compile(r"^(node_)?([A-Z][A-Za-z0-9]*|val)(_\d+)?$")
_WRAPPER = re.compile(r"^(model|functional|sequential|(Stateful)?PartitionedCall)(_\d+)?$")
_NUMBER = re.compile(r"^\d+$")


RESERVED = frozenset({
    *("self", "F", "nn", "torch", "Tensor", "math", "train", "eval", "type", "float", "half"),
    *("double", "forward", "call", "apply", "modules", "parameters", "buffers", "children", "to"),
    *("cpu", "cuda", "add_module", "register_buffer", "state_dict", "compile", "share_memory"),
    *("training", "dump_patches", "zero_grad", "requires_grad_", "keras", "ops", "layers", "name"),
    *("range", "list", "int", "bool", "len", "max", "min", "sum", "slice", "build", "extra_repr"),
    *("get_buffer", "get_parameter", "get_submodule", "register_module", "load_state_dict"),
})  # fmt: skip
"""Names that mean something in a module of a framework."""


def path_of(name: str) -> tuple[Path, str]:
    """The modules that a node lies in, and its own name as a module; empty where it has none."""
    parts = name.split("/")
    if len(parts) == 1:
        if _OPERATOR.match(name) or name.startswith("node_") or ":" in name:
            return (), ""
        modules = [part for part in name.split(".") if part]
        return tuple(modules[:-1]), modules[-1] if modules else ""
    while len(parts) > 1 and _NUMBER.match(parts[-1]):
        parts.pop()
    if len(parts) > 1:
        parts.pop()
    found = _flat(part for part in parts if part and not _OPERATOR.match(part))
    return found, ""


def _flat(parts: Iterable[str]) -> Path:
    """Parts at their dots, without what TorchScript's exporter repeats: ``layer1/layer1.0``."""
    found: list[str] = []
    for part in parts:
        pieces = part.split(".")
        if len(pieces) > 1 and found and found[-len(pieces) + 1 :] == pieces[:-1]:
            pieces = pieces[-1:]
        found += [piece for piece in pieces if piece]
    return tuple(found)


def without_root(paths: Sequence[Path]) -> int:
    """How many of the outermost modules all have that lie in any: ``functional_1``, ``model``."""
    inside = [path for path in paths if path]
    count = 0
    while inside and all(len(path) > count + 1 for path in inside):
        if len({path[count] for path in inside}) > 1 or not _WRAPPER.match(inside[0][count]):
            break
        count += 1
    return count


def identifier(name: str, taken: Iterable[str] = ()) -> str:
    """A name as Python can have it, apart from those that are taken."""
    text = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "value"
    if text[0].isdigit():
        text = f"_{text}"
    if keyword.iskeyword(text) or keyword.issoftkeyword(text):
        text += "_"
    known, found, count = set(taken), text, 1
    if (
        found in known
        and not found[-1].isdigit()
        and f"{found}_" not in known
        and found in RESERVED
    ):
        return f"{found}_"
    while found in known:
        count += 1
        found = f"{text}_{count}" if "_" in text or not text[0].isupper() else f"{text}{count}"
    return found


def snake(name: str) -> str:
    """``CONV_2D_3`` and ``BatchNorm`` as attributes are called: ``conv_2d_3``, ``batch_norm``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z])", "_", name).lower()


def camel(name: str) -> str:
    """``self_attention`` as a class is called: ``SelfAttention``."""
    text = snake(name) if name.isupper() or re.search(r"[A-Z]{2}", name) else name
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"\W+|_", text) if part)


def singular(name: str) -> str:
    """Of ``blocks``: ``block``."""
    if name.endswith("ies") and len(name) > 4:
        return f"{name[:-3]}y"
    ends = name.endswith("s") and not name.endswith(("ss", "us", "is"))
    return name[:-1] if ends and len(name) > 3 else name
