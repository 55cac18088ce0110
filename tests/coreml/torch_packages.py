"""Packages, and neural networks, that coremltools' own PyTorch front end makes of small networks.

A process of its own writes them (``python -m tests.coreml.torch_packages FOLDER [NAME ...]``),
where coremltools sees PyTorch: for each network a package, a file of the older kind where its
layers are read, and beside them its inputs and what PyTorch computes of them. What goes wrong is in
``errors.json``.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import traceback
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tests.coreml.torch_networks import Network

Array = np.ndarray[Any, Any]


def file_name(name: str) -> str:
    """A network's, without a suffix."""
    return name.replace(" ", "_")


def _arrays(network: Network) -> list[Array]:
    draw = np.random.default_rng(0)
    return [
        given if isinstance(given, np.ndarray) else draw.uniform(-1, 1, given).astype(np.float32)
        for given in network.inputs
    ]


def _flat(outputs: Any) -> list[Any]:
    if isinstance(outputs, list | tuple):
        return [item for output in outputs for item in _flat(output)]
    return [outputs]


def _type(ct: Any, network: Network, at: int, array: Array) -> Any:
    free = network.free if at == 0 else ()
    shape = [
        ct.RangeDim(1, 64, default=size) if axis in free else size
        for axis, size in enumerate(array.shape)
    ]
    return ct.TensorType(name=f"input_{at}", shape=ct.Shape(shape), dtype=array.dtype.type)


def _compressed(ct: Any, model: Any, how: str) -> Any:
    """A package's weights in fewer bits, by coremltools' own tools."""
    tools, least = ct.optimize.coreml, {"weight_threshold": 64}
    linear = least | {"mode": "linear_symmetric"}
    small = linear | {"dtype": "int4", "granularity": "per_channel"}
    pruned, palettes = least | {"threshold": 1e-3}, least | {"mode": "unique"}
    choices: dict[str, tuple[Any, Any]] = {
        "int8": (tools.linear_quantize_weights, tools.OpLinearQuantizerConfig(**linear)),
        "int4": (tools.linear_quantize_weights, tools.OpLinearQuantizerConfig(**small)),
        "palettes": (tools.palettize_weights, tools.OpPalettizerConfig(**palettes)),
        "sparse": (tools.prune_weights, tools.OpThresholdPrunerConfig(**pruned)),
    }
    for index, step in enumerate(how.split()):
        tool, config = choices[step]
        given = {"joint_compression": True} if index else {}
        model = tool(model, tools.OptimizationConfig(global_config=config), **given)
    return model


def _write(ct: Any, network: Network, path: Path) -> None:
    import torch

    torch.manual_seed(0)
    arrays = _arrays(network)
    net = network.make().eval()
    tensors = tuple(torch.from_numpy(array.copy()) for array in arrays)
    with torch.no_grad():
        expected = [np.asarray(output) for output in _flat(net(*tensors))]
        traced = torch.jit.script(net) if network.scripted else torch.jit.trace(net, tensors)
    named: dict[str, Any] = {f"input_{at}": array for at, array in enumerate(arrays)}
    named |= {f"output_{at}": array for at, array in enumerate(expected)}
    np.savez(f"{path}.npz", **named)
    inputs = [_type(ct, network, at, array) for at, array in enumerate(arrays)]
    if network.layers:
        ct.convert(traced, inputs=inputs, convert_to="neuralnetwork").save(f"{path}.mlmodel")
    states = [
        ct.StateType(wrapped_type=ct.TensorType(shape=shape, dtype=np.float16), name=name)
        for name, shape in network.states.items()
    ]
    precision = ct.precision.FLOAT16 if network.half else ct.precision.FLOAT32
    how: dict[str, Any] = {"compute_precision": precision, "states": states or None}
    how["minimum_deployment_target"] = getattr(ct.target, f"iOS{network.target}")
    model = ct.convert(traced, inputs=inputs, skip_model_load=True, **how)
    if network.compress:
        model = _compressed(ct, model, network.compress)
    model.save(f"{path}.mlpackage")


class _Scalar(type):
    """A type of numbers that takes an array of one element: coremltools gives ``int`` such arrays,
    and from numpy 2.4 on only those without axes can be converted."""

    of: type

    def __call__(cls, value: Any) -> Any:
        return cls.of(np.asarray(value).item())

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, cls.of)


def _let_arrays_be_numbers() -> None:
    from coremltools.converters.mil.frontend.torch import ops

    original = ops._cast

    def cast(context: Any, node: Any, dtype: type, name: str) -> None:
        original(context, node, _Scalar(dtype.__name__, (), {"of": dtype}), name)

    ops._cast = cast


def main(folder: Path, chosen: list[str]) -> None:
    """Writes the networks that are named, or all."""
    os.environ["TQDM_DISABLE"] = "1"
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    sys.modules["tensorflow"] = None  # type: ignore[assignment]  # coremltools would load it
    import coremltools as ct

    _let_arrays_be_numbers()
    from tests.coreml.torch_networks import networks

    errors = {}
    for name, network in networks().items():
        if chosen and name not in chosen:
            continue
        try:
            _write(ct, network, folder / file_name(name))
        except Exception:  # anything may be wrong with another library's front end: it is told
            errors[name] = traceback.format_exc()
    (folder / "errors.json").write_text(json.dumps(errors), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
