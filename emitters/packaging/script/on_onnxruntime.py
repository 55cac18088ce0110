"""The file in ONNX Runtime."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


class Runner:
    """Runs an .ort or .onnx file on the CPU."""

    def options(self, facts: Mapping[str, Any], arguments: list[str]) -> Any:
        """What the command line says."""
        text = "Runs the samples in ONNX Runtime and compares."
        parser = argparse.ArgumentParser(description=text)
        parser.add_argument("--threads", type=int, default=0, help="threads; 0: one a core")
        return parser.parse_args(arguments)

    @contextlib.contextmanager
    def opened(self, folder: Path, facts: Mapping[str, Any], options: Any) -> Iterator[Any]:
        """Gives what runs a sample."""
        import onnxruntime

        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = options.threads
        session = onnxruntime.InferenceSession(
            str(folder / facts["artifact"]), settings, providers=["CPUExecutionProvider"]
        )
        names = [item.name for item in session.get_outputs()]
        yield lambda feeds: dict(zip(names, session.run(names, feeds), strict=True))
