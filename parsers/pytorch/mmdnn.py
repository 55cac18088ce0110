"""What MMdnn's users know of PyTorch's models."""

from __future__ import annotations

from typing import Any

from converter.errors import UsageError
from converter.protocols.mmdnn import Known

_FETCHED = (
    *("alexnet", "densenet121", "densenet169", "inception_v3", "resnet18", "resnet50"),
    *("resnet101", "resnet152", "squeezenet1_0", "vgg11", "vgg13", "vgg16", "vgg19"),
)
"""Models that MMdnn fetched, by the names that ``torchvision.models`` has for them."""


def _files(network: str | None, weights: str | None, named: bool) -> dict[str, Any] | None:
    """A class and its weights."""
    if not (named and network and weights):
        return None
    if ":" in network:
        return {"source": network, "weights": weights}
    raise UsageError(
        "for pytorch, one file holds the model, so -in and -iw can't be used together",
        code="mmdnn",
        hint="For a class of your own: -sf pytorch -in net.py:Net -iw net.pth "
        "--inputShape 3,224,224",
    )


MMDNN = Known(
    aliases=("torchscript",),
    shaped=True,
    example="-sf pytorch -in net.py:Net -iw net.pth --inputShape 3,224,224 -df onnx -om net.onnx",
    files=_files,
    written={"trainable": True},
    fetched={
        name: f"torchvision has it: modelyard convert torchvision.models:{name} "
        "--arg weights=DEFAULT --input image:batchx3x224x224"
        for name in _FETCHED
    },
)
