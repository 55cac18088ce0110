"""A .tflite file as a package: what goes along for whoever runs it on a device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from converter.check.shipping import Shipped
from converter.ir.model import Model, TensorSpec
from converter.options.request import Request
from converter.protocols.emitter import Artifact
from emitters.packaging import Device, Package, Readme
from emitters.tflite.session import declared
from emitters.tflite.writer import SIGNATURE

_INSTALL = """In Python:
```
pip install ai-edge-litert numpy
```
On Android, LiteRT's Maven package (`com.google.ai.edge.litert:litert`). Both give the interpreter
that `usage.py` and `usage.kt` call."""

_LOAD = """`usage.py` and `usage.kt` have a class with this model's names, types and sizes; it loads
the file once, and each call is one run. An interpreter is for one thread at a time."""

_UNLOAD = """In Kotlin, `close()`; in Python, let go of the object."""

_SCALE = """`threads` of that class are the cores of one run. For several runs at once, make an
interpreter each: they share the file's pages."""

_TLS = """Nothing is sent anywhere: the model runs where the file is."""


def pack(artifact: Artifact, model: Model, shipped: Shipped, request: Request) -> list[str]:
    """Writes around ``model.tflite`` what every package has; gives what was decided.

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
    inputs, outputs = declared(artifact.path)
    usage = [("usage.py", "code for Python"), ("usage.kt", "code for Android")]
    files = [(text, name) for name, text in usage if (folder / name).is_file()]
    return Package.on_device(
        "LiteRT",
        artifact,
        model,
        shipped,
        request,
        title="A package for LiteRT (TensorFlow Lite)",
        inputs=inputs,
        outputs=_labelled(outputs, model),
        runs=Device("on_litert", {"signature": SIGNATURE}),
        requires=("ai-edge-litert", "numpy"),
        readme=Readme(_INSTALL, "", _LOAD, _UNLOAD, _SCALE, _TLS, [(n, t) for t, n in files]),
    ).write(folder)


def _labelled(outputs: Sequence[TensorSpec], model: Model) -> list[TensorSpec]:
    labels = {spec.name: spec.labels for spec in model.outputs}
    return [replace(spec, labels=labels.get(spec.name)) for spec in outputs]
