"""The file in OpenVINO."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


class Runner:
    """Runs an IR on a device of OpenVINO's."""

    def options(self, facts: Mapping[str, Any], arguments: list[str]) -> Any:
        """What the command line says."""
        text = "Runs the samples in OpenVINO and compares."
        parser = argparse.ArgumentParser(description=text)
        parser.add_argument("--device", default="CPU", help="CPU, GPU, NPU... (CPU)")
        parser.add_argument("--threads", type=int, default=0, help="threads; 0: OpenVINO's own")
        return parser.parse_args(arguments)

    @contextlib.contextmanager
    def opened(self, folder: Path, facts: Mapping[str, Any], options: Any) -> Iterator[Any]:
        """Gives what runs a sample."""
        sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]  # it sends
        import openvino

        settings: dict[str, Any] = {"INFERENCE_PRECISION_HINT": "f32"}
        if options.threads:
            settings["INFERENCE_NUM_THREADS"] = options.threads
        core = openvino.Core()
        compiled = core.compile_model(folder / facts["artifact"], options.device, settings)
        names = [item["name"] for item in facts["outputs"]]
        yield lambda feeds: dict(zip(names, compiled(feeds).values(), strict=True))
