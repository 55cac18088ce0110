"""OpenVINO itself, imported without what it sends.

``openvino`` tells its maker of each import and each conversion, unless a file in the home folder
forbids it (``openvino_telemetry``). Where that distribution can't be imported it uses an empty one
of its own, and so it does here.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

from converter.errors import DependencyError
from converter.plugins.extras import install_line
from converter.text.words import one_line

SETTINGS = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
"""How artifacts are compiled. Without the first, OpenVINO computes float32 in bfloat16 on CPUs that
have products of it."""

_SENDS = "openvino_telemetry"


@cache
def engine() -> Any:
    """The package.

    Raises:
        DependencyError: It isn't installed.
    """
    if "openvino" not in sys.modules and _SENDS not in sys.modules:
        sys.modules[_SENDS] = None  # type: ignore[assignment]
    try:
        import openvino
    except ImportError as error:
        raise DependencyError(
            f"OpenVINO can't be imported: {one_line(error)}",
            code="package-missing",
            hint=install_line("openvino"),
        ) from error
    return openvino


@cache
def core() -> Any:
    """What reads and compiles models in this process."""
    return engine().Core()


def words(error: Exception) -> str:
    """What OpenVINO says, without the places in its code."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith(("Check '", "Exception from", "While "))]
    return one_line(" ".join(told or lines))
