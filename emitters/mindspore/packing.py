"""A model for MindSpore Lite as a package: what goes along for whoever runs it."""

from __future__ import annotations

from converter.check.shipping import Shipped
from converter.ir.model import Model
from converter.options.request import Request
from converter.protocols.emitter import Artifact
from emitters.mindspore.python import INSTALL, USAGE
from emitters.packaging import Device, Package, Readme

_INSTALL = f"""A Python 3.7: mindspore-lite 2.0.0 is for no other.
```
{INSTALL}
```"""

_LOAD = f"""`{USAGE.name}` has a class that loads the file and runs arrays. Its sizes are fixed, the
batch too. `python selftest.py --python ms/bin/python` runs the samples by it."""

_UNLOAD = """Let go of the model."""

_SCALE = """`Model(path, threads)`: the cores of one run."""

_TLS = """Nothing is sent anywhere: the model runs where the code is."""


def pack(artifact: Artifact, model: Model, shipped: Shipped, request: Request) -> list[str]:
    """Writes around the model what every package has; gives what was decided.

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
    return Package.on_device(
        "MindSpore Lite",
        artifact,
        model,
        shipped,
        request,
        runs=Device("on_mindspore"),
        requires=("numpy",),
        readme=Readme(_INSTALL, "", _LOAD, _UNLOAD, _SCALE, _TLS, [(USAGE.name, "how it is run")]),
    ).write(artifact.path.parent)
