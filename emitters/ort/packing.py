"""A file of ONNX Runtime's own format as a package: what goes along for whoever runs it."""

from __future__ import annotations

from converter.check.shipping import Shipped
from converter.ir.model import Model
from converter.options.request import Request
from converter.protocols.emitter import Artifact
from emitters.packaging import Device, Package, Readme

_INSTALL = """In Python:
```
pip install onnxruntime numpy
```
On phones, `com.microsoft.onnxruntime:onnxruntime-android` or the pod `onnxruntime-mobile-c`; for a
build of ONNX Runtime with these operators alone, `--include_ops_by_config
required_operators.config`."""

_LOAD = """In Python: `onnxruntime.InferenceSession("model.ort")`, once; then
`session.run(None, {NAME: ARRAY})` for each input. A session may be used from several threads."""

_UNLOAD = """Let go of the session."""

_SCALE = """`SessionOptions.intra_op_num_threads` are the cores of one run; runs of several threads
share them."""

_TLS = """Nothing is sent anywhere: the model runs where the file is."""


def pack(artifact: Artifact, model: Model, shipped: Shipped, request: Request) -> list[str]:
    """Writes around ``model.ort`` what every package has; gives what was decided.

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
    files = [("required_operators.config", "the operators that a minimal build needs")]
    return Package.on_device(
        "ONNX Runtime",
        artifact,
        model,
        shipped,
        request,
        runs=Device("on_onnxruntime"),
        requires=("onnxruntime", "numpy"),
        readme=Readme(_INSTALL, "", _LOAD, _UNLOAD, _SCALE, _TLS, files),
    ).write(artifact.path.parent)
