"""Neural networks that coremltools' own PyTorch front end makes of small networks.

A process of its own writes them (``python -m tests.coreml.torch_layers FOLDER``), where coremltools
sees PyTorch: for each a file, and beside it its inputs and what PyTorch computes of them.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.coreml.torch_packages import _arrays, _flat, file_name

if TYPE_CHECKING:
    from tests.coreml.torch_networks import Network

NAMES = (
    "images",
    "other convolutions",
    "activations",
    "arithmetic",
    "decisions",
    "reductions",
    "resizing",
    "moving",
    "ordering",
    "products",
    "masked attention",
)
"""Of :mod:`tests.coreml.torch_networks`, those that have only layers that are read."""


def _write(ct: Any, network: Network, path: Path) -> None:
    import torch

    torch.manual_seed(0)
    arrays = _arrays(network)
    net = network.make().eval()
    tensors = tuple(torch.from_numpy(array.copy()) for array in arrays)
    with torch.no_grad():
        expected = [np.asarray(output) for output in _flat(net(*tensors))]
        traced = torch.jit.trace(net, tensors)
    inputs = [
        ct.TensorType(name=f"input_{at}", shape=array.shape, dtype=array.dtype.type)
        for at, array in enumerate(arrays)
    ]
    ct.convert(traced, inputs=inputs, convert_to="neuralnetwork").save(f"{path}.mlmodel")
    named = {f"input_{at}": array for at, array in enumerate(arrays)}
    np.savez(f"{path}.npz", **named, **{f"output_{at}": y for at, y in enumerate(expected)})


def main(folder: Path) -> None:
    """Writes all of them."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    os.environ["TQDM_DISABLE"] = "1"
    import coremltools as ct

    from tests.coreml.torch_networks import networks

    made = networks()
    for name in NAMES:
        _write(ct, made[name], folder / file_name(name))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
