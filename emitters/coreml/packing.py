"""A package of Core ML's with what goes along, for a Mac to finish the check that none else can.

Samples lie in their files as the package takes them: by its names, integers of 32 bits, pictures'
pixels. ``selftest.py`` runs them in Core ML and writes what came of it beside the report. It has
not run on a Mac yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from converter.check.shipping import Item, Shipped
from converter.ir.model import Model, TensorSpec
from converter.options.request import Request
from converter.protocols.emitter import Artifact
from emitters.coreml.declared import read_description
from emitters.coreml.interface import Port
from emitters.coreml.mac import UNITS, specs_of
from emitters.coreml.session import package_ports, taken
from emitters.packaging import Device, Package, Readme

_INSTALL = """In an app, add the package to the Xcode project. For the test below, on a Mac:
```
pip install coremltools numpy pillow
```"""

_LOAD = """`usage.swift` has a class with this model's names, types and sizes. Xcode compiles the
package with the app; Core ML specializes it for the device when it is first loaded."""

_UNLOAD = """Let go of the object."""

_SCALE = """`MLModelConfiguration.computeUnits` says which units it may use. Predictions of one
model may be asked for from several tasks at once."""

_TLS = """Nothing is sent anywhere: the model runs where the package is."""


def pack(artifact: Artifact, model: Model, shipped: Shipped, request: Request) -> list[str]:
    """Writes around ``model.mlpackage`` what every package has; gives what was decided.

    Args:
        artifact: What was checked; the package is the folder that it lies in.
        model: What the artifact was made of.
        shipped: The samples that go along, and what the source gave for them.
        request: What was asked for; its name is the package's.

    Returns:
        Lines on what was decided.

    Raises:
        OSError: The folder can't be written.
        ModelError: The package can't be read.
    """
    folder = artifact.path.parent
    description = read_description(artifact.path)
    specs = {"inputs": specs_of(description.input), "outputs": specs_of(description.output)}
    ports = package_ports(artifact.path, specs, description)
    result = f"selftest-{artifact.target}-{artifact.precision}.json"
    artifact.later.write += [folder / result, folder.parents[1] / result]
    labels = {spec.name: spec.labels for spec in model.outputs}
    outputs = [replace(p.spec, labels=labels.get(p.spec.name)) for p in ports["outputs"]]
    decided = Package.on_device(
        "Core ML",
        artifact,
        model,
        _as_taken(shipped, ports["inputs"]),
        request,
        inputs=[_spec(port) for port in ports["inputs"]],
        outputs=outputs,
        runs=Device(
            "on_coreml",
            {
                "units": UNITS.get(str(artifact.details["compute_units"]), "ALL"),
                "result": result,
                "ports": {
                    "images": {p.name: p.image.color for p in ports["inputs"] if p.image},
                    "outputs": [_answered(port) for port in ports["outputs"]],
                },
            },
        ),
        requires=("coremltools", "numpy", "pillow"),
        readme=Readme(
            _INSTALL, "", _LOAD, _UNLOAD, _SCALE, _TLS, [("usage.swift", "code for apps")],
            notes=[f"selftest.py has not run on a Mac yet; there it writes {result}"],
        ),
    ).write(folder)  # fmt: skip
    return [*decided, f"Core ML has not run it; selftest.py does on a Mac, and writes {result}"]


def _spec(port: Port) -> TensorSpec:
    return TensorSpec(port.name, "uint8" if port.image else port.dtype, port.shape)


def _answered(port: Port) -> dict[str, object]:
    return {
        "of": port.spec.name,
        "name": port.name,
        "dtype": port.spec.dtype,
        "joined": port.joined,
    }


def _as_taken(shipped: Shipped, inputs: Sequence[Port]) -> Shipped:
    """The samples as the package takes them, but for those that are no pictures where it takes
    pictures."""
    items, notes = [], list(shipped.notes)
    for item in shipped.items:
        feeds = {port.name: taken(port, item.feeds[port.spec.name]) for port in inputs}
        pixels = [feeds[port.name] for port in inputs if port.image is not None]
        if any((p != np.rint(p)).any() or p.min() < 0 or p.max() > 255 for p in pixels):
            notes.append(f"{item.name} isn't in the package: it isn't a picture")
            continue
        images = {p.name: feeds[p.name].astype(np.uint8) for p in inputs if p.image is not None}
        items.append(Item(item.name, {**feeds, **images}, item.expected))
    return replace(shipped, items=tuple(items), notes=tuple(notes))
