"""The file in LiteRT."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


class Runner:
    """Runs the signature of a .tflite file."""

    def options(self, facts: Mapping[str, Any], arguments: list[str]) -> Any:
        """What the command line says."""
        parser = argparse.ArgumentParser(description="Runs the samples in LiteRT and compares.")
        parser.add_argument("--threads", type=int, help="threads; LiteRT's own number by default")
        return parser.parse_args(arguments)

    @contextlib.contextmanager
    def opened(self, folder: Path, facts: Mapping[str, Any], options: Any) -> Iterator[Any]:
        """Gives what runs a sample."""
        from ai_edge_litert.interpreter import Interpreter

        path = str(folder / facts["artifact"])
        interpreter = Interpreter(path, num_threads=options.threads)
        run = interpreter.get_signature_runner(facts["signature"])
        yield lambda feeds: run(**feeds)
