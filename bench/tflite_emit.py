"""``tflite_emit.py MODEL.onnx FOLDER``: reads a model and emits it, nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

from converter.ir.model import Model
from converter.options.request import Request
from emitters.tflite.emitter import TfliteEmitter

if __name__ == "__main__":
    source, folder = sys.argv[1:]
    TfliteEmitter().emit(Model.load(Path(source)), Path(folder), "fp32", Request(source=source))
