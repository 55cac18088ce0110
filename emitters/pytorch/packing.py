"""PyTorch's code as a package: what goes along for whoever runs it."""

from __future__ import annotations

from converter.check.shipping import Shipped
from converter.ir.model import Model
from converter.options.request import Request
from converter.protocols.emitter import Artifact
from emitters.packaging import Device, Package, Readme

_INSTALL = """```
pip install torch numpy
```"""

_LOAD = """`model = model.load("model.safetensors")` after `import model`, or in a program of yours:
```
import torch
from model import load

model = load("model.safetensors")
with torch.no_grad():
    answer = model(torch.rand({shape}))
```
`usage.py` runs the first sample of this folder."""

_UNLOAD = """Let go of the module."""

_SCALE = """`model.to("cuda")` moves it to a GPU, `torch.compile(model)` makes it faster;
`torch.set_num_threads` are the cores of one run."""

_TLS = """Nothing is sent anywhere: the model runs where the code is."""

_USAGE = '''"""Runs the model of this folder on one input of zeros, and shows what it gives."""

from pathlib import Path

import torch
from model import load

model = load(str(Path(__file__).with_name("model.safetensors")))
inputs = [{inputs}]
with torch.no_grad():
    outputs = model(*inputs)
for name, output in zip({names}, outputs if isinstance(outputs, tuple) else (outputs,)):
    print(name, output.dtype, tuple(output.shape))
'''


def pack(artifact: Artifact, model: Model, shipped: Shipped, request: Request) -> list[str]:
    """Writes around ``model.py`` what every package has; gives what was decided.

    Args:
        artifact: What was checked; the package is the folder that it lies in.
        model: What the artifact was made of.
        shipped: The samples that go along, and what the source gave for them.
        request: What was asked for; its name is the package's.

    Returns:
        Lines on what was decided.

    Raises:
        OSError: The folder can't be written.
    """
    folder = artifact.path.parent
    first = model.inputs[0] if model.inputs else None
    shape = ", ".join(str(d) if isinstance(d, int) else "1" for d in (first.shape or ())) if (
        first is not None
    ) else ""  # fmt: skip
    (folder / "usage.py").write_text(_usage(model, request), encoding="utf-8")
    files = [
        ("model.py", "the model's classes, and `load`"),
        ("model.safetensors", "its weights"),
        ("usage.py", "how it is run"),
    ]
    return Package.on_device(
        "PyTorch",
        artifact,
        model,
        shipped,
        request,
        runs=Device("on_pytorch"),
        requires=("torch", "numpy"),
        readme=Readme(_INSTALL, "", _LOAD.format(shape=shape), _UNLOAD, _SCALE, _TLS, files),
    ).write(folder)


def _usage(model: Model, request: Request) -> str:
    """A program that runs the model once."""
    inputs = ", ".join(
        f"torch.zeros(({', '.join(str(_size(d, request)) for d in spec.shape or ())}"
        f"{',' if len(spec.shape or ()) == 1 else ''}), dtype=torch.{spec.dtype})"
        for spec in model.inputs
    )
    names = ", ".join(f'"{spec.name}"' for spec in model.outputs)
    return _USAGE.format(inputs=inputs, names=f"({names},)")


def _size(dim: int | str, request: Request) -> int:
    return dim if isinstance(dim, int) else request.dims.get(dim, 1)
