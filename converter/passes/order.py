"""The passes that models go through, in order."""

from __future__ import annotations

from converter import plugins

IMPORT_PASSES = ("upgrade-opset", "repair-shapes")
"""What every model goes through, simplified or not."""


SIMPLIFY_PASSES = (
    *("cleanup", "transposes", "ort-basic", "onnxscript"),
    *("fuse-shapes", "fuse-attention", "fuse-padding", "fuse-activation", "fuse-normalization"),
    "fuse-convolution",
    *("onnxsim", "onnxslim"),
)
"""Ours, in the order that left the fewest nodes on the real models of the tests, with the fewest
changes to verify. ort-basic takes HardSwish apart again, so it comes before the fusing passes; and
activations are recognized before a scale of theirs goes into a Conv."""


def simplify_passes() -> tuple[str, ...]:
    """The simplifying passes: ours, then those of other distributions that can be loaded, by
    name."""
    working = plugins.working("passes")
    return tuple(name for name in pass_names() if name in working)


def pass_names() -> tuple[str, ...]:
    """All of those, without loading any."""
    found = plugins.available("passes")
    return (*SIMPLIFY_PASSES, *(name for name in found if not plugins.is_ours(found[name])))
