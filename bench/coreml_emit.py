"""``coreml_emit.py MODEL.onnx FOLDER PRECISION [--apart]``: reads a model and emits it.

With ``--apart`` it prints, as JSON, the processor seconds of the parts.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from converter.ir.model import Model
from converter.options.request import Request
from converter.precision.fp16.half import to_half
from emitters.coreml import emitter
from modelyard.containers.coreml import coremltools


class Clock:
    """The seconds spent in functions of coremltools."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0

    def timed(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """The function, its time counted; one inside another counts once."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            self._depth += 1
            start = time.process_time()
            try:
                return run(*args, **kwargs)
            finally:
                self._depth -= 1
                if self._depth == 0:
                    self.seconds += time.process_time() - start

        return timed


def emit(model: Model, folder: Path, precision: str) -> None:
    """Writes the package; that of the round before goes.

    Args:
        model: What is written.
        folder: Where the package goes.
        precision: The package's, by name.
    """
    shutil.rmtree(folder / emitter.FILE_NAME, ignore_errors=True)
    request = Request(source="model.onnx", precision=[precision])
    emitter.CoremlEmitter().emit(model, folder, precision, request)


def read(source: Path, precision: str) -> Model:
    """The model, in float16 where that is asked for."""
    model = Model.load(source)
    return to_half(model, None).model if precision == "fp16" else model


def apart(source: Path, folder: Path, precision: str) -> dict[str, float]:
    """Processor seconds of reading the ONNX file, of emitting, and of the latter those inside of
    coremltools: its import, its builder, its conversion.

    Args:
        source: The ONNX file.
        folder: Where the package goes.
        precision: The package's, by name.
    """
    clock = Clock()
    start = time.process_time()
    model = read(source, precision)
    reading = time.process_time() - start
    library = clock.timed(coremltools)()
    from coremltools.converters.mil import converter

    builder = library.converters.mil.mil.Builder
    builder._add_op = clock.timed(builder._add_op)
    converter.mil_convert_to_proto = clock.timed(converter.mil_convert_to_proto)
    emit(model, folder, precision)
    took = time.process_time() - start - reading
    return {"read": reading, "emit": took, "coremltools": clock.seconds}


if __name__ == "__main__":
    source, folder = (Path(text) for text in sys.argv[1:3])
    if "--apart" in sys.argv:
        print(json.dumps(apart(source, folder, sys.argv[3])))
    else:
        emit(read(source, sys.argv[3]), folder, sys.argv[3])
