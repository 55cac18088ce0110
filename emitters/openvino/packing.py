"""An IR as a package: what goes along for whoever runs it."""

from __future__ import annotations

from converter.check.shipping import Shipped
from converter.ir.model import Model
from converter.options.request import Request
from converter.protocols.emitter import Artifact
from emitters.openvino import usage
from emitters.packaging import Device, Package, Readme

_INSTALL = """In Python:
```
pip install openvino numpy
```
Elsewhere, OpenVINO's archives and packages (C++, C, Node.js) take the same two files."""

_LOAD = """`usage.py` has a class with this model's names, types and sizes. `model.bin` has to lie
beside `model.xml`. Compile with `INFERENCE_PRECISION_HINT` `f32`, as there: that was checked."""

_UNLOAD = """Let go of the compiled model."""

_SCALE = """`INFERENCE_NUM_THREADS` are the cores of one run; `PERFORMANCE_HINT` `THROUGHPUT` makes
streams for several runs at once, each by an inference request of its own."""

_TLS = """Nothing is sent anywhere by `usage.py` and `selftest.py`. Elsewhere, OpenVINO's Python
package tells its maker that it was imported, unless `opt_in_out --opt_out` was run."""


def pack(artifact: Artifact, model: Model, shipped: Shipped, request: Request) -> list[str]:
    """Writes around ``model.xml`` what every package has; gives what was decided.

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
    (folder / "usage.py").write_text(usage.snippet(model, artifact.path.name), encoding="utf-8")
    files = [("model.bin", "the weights"), ("usage.py", "code for Python")]
    return Package.on_device(
        "OpenVINO",
        artifact,
        model,
        shipped,
        request,
        runs=Device("on_openvino"),
        requires=("openvino", "numpy"),
        readme=Readme(_INSTALL, "", _LOAD, _UNLOAD, _SCALE, _TLS, files),
    ).write(folder)
