"""One line from a trained model to a checked, deployable folder.

    import modelyard

    result = modelyard.convert("net.py:Net", weights="net.pth", inputs=["x:batchx3x224x224"],
                               to="tflite", samples="photos/", out="build/net")
    print(result.artifacts["tflite:fp32"].path)

What a source, samples and options can be: :mod:`converter.api`. Nothing of ours is loaded before
the first of these names is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from converter.api import (
        Answer,
        Benchmark,
        Checked,
        Converted,
        ServerBenchmark,
        Tuning,
        bench,
        bench_server,
        check,
        check_server,
        convert,
        diff,
        doctor,
        inspect,
        inspect_artifact,
        load,
        report,
        rollback,
        run_recipe,
        sensitivity,
        serve,
        split,
        sweep,
        tune,
        warm_workers,
    )
    from converter.errors import (
        DependencyError,
        GateError,
        InternalError,
        MachineError,
        ModelError,
        ModelyardError,
        UnsupportedError,
        UsageError,
    )

    __version__: str

__all__ = [
    "Answer",
    "Benchmark",
    "Checked",
    "Converted",
    "DependencyError",
    "GateError",
    "InternalError",
    "MachineError",
    "ModelError",
    "ModelyardError",
    "ServerBenchmark",
    "Tuning",
    "UnsupportedError",
    "UsageError",
    "__version__",
    "bench",
    "bench_server",
    "check",
    "check_server",
    "convert",
    "diff",
    "doctor",
    "inspect",
    "inspect_artifact",
    "load",
    "report",
    "rollback",
    "run_recipe",
    "sensitivity",
    "serve",
    "split",
    "sweep",
    "tune",
    "warm_workers",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("modelyard")
    if name not in __all__:
        raise AttributeError(f"module 'modelyard' has no attribute {name!r}")
    from modelyard.own import claim

    claim()
    module = "converter.errors" if name.endswith("Error") else "converter.api"
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return sorted(__all__)
