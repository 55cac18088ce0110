"""The worker's methods for Keras' files: TensorFlow's, but for how they are opened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...tensorflow.child.backend import TensorFlowBackend
from ...tensorflow.child.model import Opened


class KerasBackend(TensorFlowBackend):
    """One model at a time."""

    def _opened(self, params: Mapping[str, Any]) -> Opened:
        from . import files

        trust, folders = bool(params.get("trust")), params.get("search_paths") or []
        return files.open_file(str(params["file"]), trust, folders)
