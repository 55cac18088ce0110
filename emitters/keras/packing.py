"""Keras' code as a package: what goes along for whoever runs it."""

from __future__ import annotations

from converter.check.shipping import Shipped
from converter.ir.model import Model
from converter.options.request import Request
from converter.protocols.emitter import Artifact
from emitters.packaging import Device, Package, Readme

_INSTALL = """```
pip install keras h5py tensorflow
```
`torch` or `jax` will do in tensorflow's place: KERAS_BACKEND says which."""

_LOAD = """`model = model.load("model.keras")` after `import model`, or in a program of yours:
```
import numpy as np
from model import load

model = load("model.keras")
answer = model(np.zeros({shape}, dtype="float32"), training=False)
```
`usage.py` runs the first sample of this folder. The archive names the class that `model.py` has:
`keras.saving.load_model("model.keras")` takes it once that is imported."""

_UNLOAD = """Let go of the model."""

_SCALE = """`model.predict` takes batches; `model.export("folder")` writes a SavedModel where
Keras computes by TensorFlow. A GPU is used where the backend finds one."""

_TLS = """Nothing is sent anywhere: the model runs where the code is."""

_USAGE = '''"""Runs the model of this folder on one input of zeros, and shows what it gives."""

from pathlib import Path

import numpy as np
from model import load

model = load(str(Path(__file__).with_name("model.keras")))
outputs = model({inputs}, training=False)
for name, output in (outputs if isinstance(outputs, dict) else {{{name}: outputs}}).items():
    print(name, output.dtype, tuple(output.shape))
'''


def pack(artifact: Artifact, model: Model, shipped: Shipped, request: Request) -> list[str]:
    """Writes around ``model.keras`` what every package has; gives what was decided.

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
    (folder / "usage.py").write_text(_usage(model, request), encoding="utf-8")
    files = [
        ("model.py", "the model's classes, `build` and `load`"),
        ("model.keras", "its weights, in Keras' archive"),
        ("usage.py", "how it is run"),
    ]
    shape = _shape(model, 0, request) if model.inputs else "()"
    return Package.on_device(
        "Keras",
        artifact,
        model,
        shipped,
        request,
        runs=Device("on_keras"),
        requires=("keras", "h5py", "tensorflow", "numpy"),
        readme=Readme(_INSTALL, "", _LOAD.format(shape=shape), _UNLOAD, _SCALE, _TLS, files),
    ).write(folder)


def _usage(model: Model, request: Request) -> str:
    """A program that runs the model once."""
    from emitters.code.keras.interface import Interface

    interface = Interface("model", tuple(model.inputs), tuple(model.outputs))
    zeros = [
        f'np.zeros({_shape(model, at, request)}, dtype="{spec.dtype}")'
        for at, spec in enumerate(model.inputs)
    ]
    pairs = (f'"{s.name}": {text}' for s, text in zip(model.inputs, zeros, strict=True))
    inputs = zeros[0] if interface.plain_inputs else "{" + ", ".join(pairs) + "}"
    return _USAGE.format(inputs=inputs, name=f'"{model.outputs[0].name}"')


def _shape(model: Model, at: int, request: Request) -> str:
    sizes = [
        d if isinstance(d, int) else request.dims.get(d, 1) for d in model.inputs[at].shape or ()
    ]
    return f"({', '.join(map(str, sizes))}{',' if len(sizes) == 1 else ''})"
