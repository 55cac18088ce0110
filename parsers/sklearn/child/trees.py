"""What skl2onnx leaves out of scikit-learn's trees: where they send a missing value.

A tree's node has sent NaN left or right since scikit-learn 1.3, whatever it was trained on;
skl2onnx's trees all send it right.
"""

from __future__ import annotations

import sys
from typing import Any, Dict

import numpy as np
from skl2onnx.common import tree_ensemble

_NAME, _TRACKS = "add_tree_to_attribute_pairs", "nodes_missing_value_tracks_true"
_write = getattr(tree_ensemble, _NAME)


def register() -> None:
    """Make skl2onnx's converters write that too: each of them has the function by its name."""
    for name, module in list(sys.modules.items()):
        if name.startswith("skl2onnx.") and getattr(module, _NAME, None) is _write:
            setattr(module, _NAME, _write_all)


def _write_all(pairs: Dict[str, Any], classes: bool, tree: Any, *args: Any, **more: Any) -> None:
    _write(pairs, classes, tree, *args, **more)
    nodes = tree.__getstate__()["nodes"]
    if "missing_go_to_left" in (nodes.dtype.names or ()):
        inner = nodes["left_child"] != -1
        left = (nodes["missing_go_to_left"].astype(bool) & inner).astype(np.int64)
        pairs[_TRACKS][-len(nodes) :] = left.tolist()
