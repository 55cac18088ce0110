"""A SavedModel as a package: what goes along for whoever runs it."""

from __future__ import annotations

from converter.check.shipping import Shipped
from converter.ir.model import Model
from converter.options.request import Request
from converter.protocols.emitter import Artifact
from emitters.packaging import Device, Package, Readme

_INSTALL = """```
pip install tensorflow numpy
```"""

_LOAD = """`usage.py` loads the folder and asks its signature by names. A server of SavedModels
takes it as it is: `--serve tfserving` writes such a folder."""

_UNLOAD = """Let go of what `tf.saved_model.load` gave."""

_SCALE = """`tf.config.threading` has the cores of one run; runs may go side by side in threads."""

_TLS = """Nothing is sent anywhere: the model runs where the code is."""

_USAGE = '''"""Runs the model of this folder on one input of zeros, and shows what it gives."""

from pathlib import Path

import tensorflow as tf

loaded = tf.saved_model.load(str(Path(__file__).with_name({file!r})))
inputs = {{{inputs}}}
outputs = loaded.signatures[{signature!r}](**inputs)
for name, output in outputs.items():
    print(name, output.dtype.name, output.shape)
'''


def pack(artifact: Artifact, model: Model, shipped: Shipped, request: Request) -> list[str]:
    """Writes around the folder what every package has; gives what was decided.

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
    signature = str(model.source.get("signature") or "serving_default")
    (folder / "usage.py").write_text(_usage(artifact, model, request, signature), encoding="utf-8")
    return Package.on_device(
        "TensorFlow",
        artifact,
        model,
        shipped,
        request,
        runs=Device("on_tensorflow", {"signature": signature}),
        requires=("tensorflow", "numpy"),
        readme=Readme(
            *(_INSTALL, "", _LOAD, _UNLOAD, _SCALE, _TLS),
            [(artifact.path.name, "the SavedModel"), ("usage.py", "how it is run")],
        ),
    ).write(folder)


def _usage(artifact: Artifact, model: Model, request: Request, signature: str) -> str:
    """A program that runs the model once."""
    inputs = ", ".join(
        f"{spec.name!r}: tf.zeros({_sizes(spec.shape or (), request)}, tf.{spec.dtype})"
        for spec in model.inputs
    )
    return _USAGE.format(file=artifact.path.name, inputs=inputs, signature=signature)


def _sizes(shape: tuple[int | str, ...], request: Request) -> list[int]:
    return [dim if isinstance(dim, int) else request.dims.get(dim, 1) for dim in shape]
