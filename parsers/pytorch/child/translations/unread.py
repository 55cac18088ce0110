"""Arguments that a translation doesn't read: a node that gives one is refused by name.

    avg_pool2d(x, 2, divisor_override=3)   its translation never reads divisor_override: refused
    avg_pool2d(x, 2)                       the default needs no reading
    group_norm(x, 4, cudnn_enabled=False)  the result doesn't hang on it (NO_MATTER)

Read off a function's code, so that it holds for each version of torch. What a function reads and
then loses this doesn't see: ``bench/arguments.py`` does.
"""

# zip() knows no strict= before Python 3.10.
# ruff: noqa: B905

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ....worker.errors import WorkerError

NO_MATTER = {
    **dict.fromkeys(("layout", "device", "pin_memory", "non_blocking"), "where a tensor lies"),
    **dict.fromkeys(("memory_format", "stride"), "how a tensor lies in memory"),
    **dict.fromkeys(("requires_grad", "sparse_grad", "scale_grad_by_freq"), "for gradients alone"),
    **dict.fromkeys(("cudnn_enable", "cudnn_enabled"), "chooses a kernel"),
    "sparse": "for gradients alone",
    "generator": "which random numbers: a model whose outputs depend on them is refused",
    "implicit": "set by the tracer",
}
"""Arguments of any operator that what it gives doesn't hang on, and why."""

NO_MATTER_HERE = {
    ("aten::embedding", "padding_idx"): "for gradients alone",
    ("aten::einsum", "path"): "the order of products",
    ("aten::multinomial", "replacement"): "a model that draws by Multinomial is refused",
    ("aten::linalg_vector_norm", "keepdim"): "it is read, but for scalars, which have no axes",
    ("aten::native_group_norm", "N"): "a size of the input",
    ("aten::native_group_norm", "C"): "a size of the input",
    ("aten::native_group_norm", "HxW"): "a size of the input",
    ("onnx_symbolic::_symbolic", "shape"): "what the tracer says of the result",
    ("onnx_symbolic::_symbolic_multi_out", "shapes"): "what the tracer says of the results",
    ("aten::repeat_interleave.self_int", "output_size"): "a size that the rest says",
    ("aten::repeat_interleave.Tensor", "output_size"): "a size that the rest says",
    ("aten::stft", "return_complex"): "the same numbers, as pairs",
    ("aten::sym_storage_offset", "self"): "it is 0: ONNX's tensors have none",
    ("aten::unique_consecutive", "return_inverse"): "what isn't asked for isn't used",
    ("aten::unique_consecutive", "return_counts"): "what isn't asked for isn't used",
    ("aten::_unique", "sorted"): "unsorted is any order",
    ("aten::_unique2", "sorted"): "unsorted is any order",
    ("aten::unique_dim", "sorted"): "unsorted is any order",
    ("aten::_scaled_dot_product_flash_attention", "return_debug_mask"): "an output for tests",
    **{
        (f"quantized_decomposed::dequantize_per_{what}", f"quant_{end}"): "what it holds is within"
        for what in ("tensor", "tensor.tensor", "tensor.tensor2", "channel")
        for end in ("min", "max")
    },
}
"""Arguments of one operator, likewise."""


def matters(operator: str, name: str) -> bool:
    """Whether what an operator gives hangs on an argument that isn't read."""
    return name not in NO_MATTER and (operator, name) not in NO_MATTER_HERE


def unread(target: Any, function: Callable[..., Any]) -> list[str]:
    """The arguments of an operator that a translation doesn't read, of those that matter.

    Args:
        target: The operator, a torch.ops overload.
        function: Its translation, onnxscript's or a plain function.
    """
    plain = getattr(function, "function", None) or getattr(function, "func", None) or function
    if not inspect.isfunction(plain):
        return []
    parameters = [*inspect.signature(plain).parameters.values()]
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        return []
    names, read = [p.name for p in parameters], {*_read(plain)}
    lost = []
    for place, argument in enumerate(target._schema.arguments):
        name = argument.name
        if place < len(names) and not argument.kwarg_only:
            name = names[place]
        if name not in read or name not in names:
            lost.append(argument.name)
    return [name for name in lost if matters(target.name(), name)]


def _read(function: Any) -> Iterator[str]:
    """Names whose values a function's code takes before it gives them another."""
    written: set[str] = set()
    for step in dis.get_instructions(function):
        names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
        if step.opname.startswith("STORE_FAST_"):  # later Pythons store one and load another
            names, stored = names[1:], names[:1]
        else:
            stored = names if step.opname == "STORE_FAST" else ()
        if "LOAD" in step.opname:
            yield from (name for name in names if name not in written)
        written.update(stored)


def require_read(node: Any, function: Callable[..., Any]) -> None:
    """Raises unsupported where a node of a traced program gives an argument that is lost."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return
    given = _given(node)
    if not given:
        return
    for name in unread(node.target, function):
        if name in given:
            operator = node.target.name().replace("::", ".")
            text = (
                f"{operator}: torch {torch.__version__} translates it to ONNX without its argument "
                f"{name}, which is {given[name]} here; without that the model is another"
            )
            raise WorkerError("unsupported", text, [text])


def _given(node: Any) -> dict[str, Any]:
    """The arguments of a node that aren't their defaults."""
    arguments = node.target._schema.arguments
    values = {**dict(zip((a.name for a in arguments), node.args)), **node.kwargs}
    default = {a.name: a.default_value for a in arguments if a.has_default_value()}
    return {n: v for n, v in values.items() if n not in default or _differs(v, default[n])}


def _differs(value: Any, default: Any) -> bool:
    if isinstance(value, torch.fx.Node):
        return True
    return bool(value != default)
