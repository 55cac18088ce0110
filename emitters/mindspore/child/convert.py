"""Converts ONNX files by MindSpore Lite's converter, as it is asked to (usage.py's protocol)."""

from typing import Any, Dict

import mindspore_lite as mslite
from usage import serve


class Converts:
    """Answers requests."""

    def convert(self, source: str, path: str) -> Dict[str, Any]:
        """Writes ``path``.mindir of an ONNX file."""
        converter = mslite.Converter()
        converter.input_format = mslite.Format.NCHW  # else pictures' inputs have channels last
        converter.save_type = mslite.ModelType.MINDIR
        converter.convert(mslite.FmkType.ONNX, source, path)
        return {}


serve(Converts())
