"""PyTorch's operators as its own tests call them (``op_db``): few samples of each, as modules."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from bench.arguments_calls import SEED, Call, _is_plain
from parsers.pytorch.child.tensors import to_numpy

DTYPES = ("float32", "int64", "bool")

LOOKED_AT = 40
"""The first samples of an operator: the ones that run are chosen of them."""

RELATIVE, OF_LARGEST = 1e-4, 1e-5
"""Of each value, and of an output's largest one: what may differ where nothing rounds badly."""

ROUNDED = 8
"""How many times the effect of rounding the inputs, which is measured, may be in it as well."""

DRAWS, SEEDS = 3, 8

TIES = ("kthvalue", "topk")
"""Operators that give places of values; samples of integers have equal ones."""

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Sample:
    """A call, and what eager gives.

    Attributes:
        call: The operator on its arguments; its tensors are the model's inputs.
        expected: The outputs.
        slack: For each output and value how far it moves if the float inputs are changed in their
            last place; of integers and booleans, whether it moves.
    """

    call: Call
    expected: list[Array]
    slack: list[Array]


class Unfit(Exception):
    """No sample is about a function of tensors."""


@cache
def operators() -> dict[str, Any]:
    """Every OpInfo, by its name and variant."""
    return {".".join(filter(None, (i.name, i.variant_test_name))): i for i in op_db}


def names(dtypes: Sequence[str] = DTYPES) -> list[str]:
    """``OPERATOR:DTYPE`` of all that PyTorch has on the CPU, one dtype after another."""
    return [
        f"{name}:{dtype}"
        for dtype in dtypes
        for name, info in operators().items()
        if info.supports_dtype(getattr(torch, dtype), "cpu")
    ]


def samples(name: str, count: int) -> list[Sample]:
    """At most ``count`` samples that differ in form (ranks, dtypes, and which arguments are given),
    those with the most arguments first.

    Raises:
        Unfit: There are none, and why.
    """
    operator, dtype = name.rsplit(":", 1)
    if operator in TIES and dtype != "float32":
        raise Unfit("which of equal values it names isn't defined")
    torch.manual_seed(SEED)
    random.seed(SEED)
    forms: dict[Any, Call] = {}
    for call in _calls(operators()[operator], getattr(torch, dtype)):
        forms.setdefault(_form(call), call)
    found: list[Sample] = []
    reasons: list[str] = []
    for call in sorted(forms.values(), key=_richness, reverse=True):
        if len(found) == count:
            break
        try:
            found.append(_sample(call))
        except Unfit as error:
            reasons.append(str(error))
    if not found:
        raise Unfit(reasons[0] if reasons else "no sample of plain tensors that aren't empty")
    return found


def _calls(info: Any, dtype: torch.dtype) -> Iterator[Call]:
    found = info.sample_inputs("cpu", dtype, requires_grad=False)
    for item in islice(found, LOOKED_AT):
        call = Call(info.op, (item.input, *item.args), dict(item.kwargs))
        if call.tensors() and _is_plain((call.args, call.kwargs)):
            yield call


def _form(call: Call) -> Any:
    leaves, shape = tree_flatten((call.args, call.kwargs))
    told = [(x.dim(), x.dtype) if isinstance(x, torch.Tensor) else type(x) for x in leaves]
    return str(shape), tuple(told)


def _richness(call: Call) -> tuple[int, int]:
    leaves = tree_flatten((call.args, call.kwargs))[0]
    return len(leaves), sum(tensor.dim() for tensor in call.tensors())


def outputs(result: Any) -> list[torch.Tensor]:
    """The tensors in what an operator gives."""
    return [leaf for leaf in tree_flatten(result)[0] if isinstance(leaf, torch.Tensor)]


def _sample(call: Call) -> Sample:
    try:
        with _Draws() as draws:
            call.run()
        first, *others = outputs(call.run()), outputs(call.run()), *_seeded(call)
    except Exception as error:  # a sample of what PyTorch refuses
        raise Unfit(f"eager: {type(error).__name__}") from error
    if not first:
        raise Unfit("it gives no tensor")
    if any(t.layout is not torch.strided or t.is_quantized for t in first):
        raise Unfit("it gives tensors that aren't dense")
    pairs = [pair for other in others for pair in zip(first, other, strict=True)]
    if draws.seen or not all(_same(one, other) for one, other in pairs):
        raise Unfit("random: two runs differ")
    for what, is_so in (("complex numbers", torch.is_complex), ("bfloat16", _is_bfloat16)):
        if any(map(is_so, first)):
            raise Unfit(f"it gives {what}")
    return Sample(call, [to_numpy(t) for t in first], _slack(call, first))


class _Draws(TorchDispatchMode):  # type: ignore[misc]  # torch is not type-checked
    """Sees whether random numbers are drawn, which may come out alike for many seeds."""

    seen = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        may = torch.Tag.nondeterministic_seeded in func.tags
        self.seen |= may and not any(word in func.name() for word in ("attention", "dropout"))
        return func(*args, **(kwargs or {}))


def _is_bfloat16(tensor: torch.Tensor) -> bool:
    return bool(tensor.dtype is torch.bfloat16)


def _seeded(call: Call) -> Iterator[list[torch.Tensor]]:
    """What other seeds give; OpInfo hides random numbers by a seed of its own."""
    for number in range(1, SEEDS):
        torch.manual_seed(SEED + number)
        with patch("torch.manual_seed"):
            yield outputs(call.on(tensor.clone() for tensor in call.tensors()))


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    same: bool = one.shape == other.shape and torch.equal(
        *(torch.nan_to_num(t) if t.is_floating_point() else t for t in (one, other))
    )
    return same


def _slack(call: Call, expected: Sequence[torch.Tensor]) -> list[Array]:
    worst = [np.zeros(tuple(t.shape)) for t in expected]
    draw = np.random.default_rng(SEED)
    for _ in range(DRAWS):
        moved = [_moved(tensor, draw) for tensor in call.tensors()]
        with suppress(Exception):  # what is on the edge of what the operator takes
            torch.manual_seed(SEED)
            for index, (one, other) in enumerate(
                zip(expected, outputs(call.on(iter(moved))), strict=True)
            ):
                a, b = (to_numpy(t).astype(np.float64) for t in (one, other))
                if a.shape == b.shape:
                    with np.errstate(invalid="ignore"):
                        worst[index] = np.fmax(worst[index], np.nan_to_num(np.abs(a - b)))
    return worst


def _moved(tensor: torch.Tensor, draw: np.random.Generator) -> torch.Tensor:
    if not tensor.is_floating_point():
        return tensor.clone()
    step = torch.from_numpy(np.asarray(draw.choice([-1.0, 1.0], tuple(tensor.shape))))
    eps = float(torch.finfo(tensor.dtype).eps)
    return (tensor.double() * (1 + step * eps)).to(tensor.dtype)


def difference(sample: Sample, found: Sequence[Array]) -> str:
    """What is wrong with outputs, in words; empty where nothing is."""
    if len(found) != len(sample.expected):
        return f"{len(found)} outputs, not {len(sample.expected)}"
    for index, (want, got) in enumerate(zip(sample.expected, found, strict=True)):
        if (want.shape, want.dtype) != (got.shape, got.dtype):
            return f"output {index} is {got.dtype}{[*got.shape]}, not {want.dtype}{[*want.shape]}"
        if said := _apart(want, got, sample.slack[index]):
            return f"output {index}: {said}"
    return ""


def _apart(want: Array, got: Array, slack: Array) -> str:
    if not want.size:
        return ""
    if want.dtype.kind in "iub":
        off = int(((want != got) & (slack == 0)).sum())
        return f"{off} of {want.size} values differ" if off else ""
    one, other = want.astype(np.float64), got.astype(np.float64)
    finite = np.isfinite(one)
    if not np.array_equal(one[~finite], other[~finite], equal_nan=True):
        return "not where eager gives NaN or infinity"
    if not finite.any():
        return ""
    if not np.isfinite(other[finite]).all():
        return "NaN or infinity where eager gives numbers"
    largest = float(np.abs(one[finite]).max())
    allowed = RELATIVE * np.abs(one) + OF_LARGEST * largest + ROUNDED * slack
    apart = np.where(finite, np.abs(np.where(finite, one, 0) - np.where(finite, other, 0)), 0)
    if (apart <= np.where(finite, allowed, 1)).all():
        return ""
    worst = float(apart.max()) / max(largest, math.ulp(1.0))
    return f"off by {worst:.2g} of the largest value"
