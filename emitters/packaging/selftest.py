"""``selftest.py``: one file that runs a package's samples and compares what comes out.

It is put together (:mod:`emitters.composing`) of the very modules that the check's sums and its
matching of rows are in, of gates that a test holds to the check's own, and of what runs the model.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from emitters.composing import compose

NAME = "selftest.py"

_HEAD = '''#!/usr/bin/env python3
"""Runs the samples of this folder, and compares what comes out with what the source model gave.

    python selftest.py
    python selftest.py --help

It needs Python 3.10, numpy{needs}. It ends with 0 where all is within the limits in modelyard.json,
with 1 where it isn't, with 2 where nothing could be compared. Written by Modelyard.
"""
'''
_NEEDS = {
    "on_litert": " and ai-edge-litert",
    "on_onnxruntime": " and onnxruntime",
    "on_openvino": " and openvino",
    "on_coreml": ", pillow and coremltools, on a Mac",
    "on_mindspore": "",
    "on_keras": ", keras, h5py and tensorflow (or torch, or jax)",
    "on_pytorch": " and torch",
    "on_tensorflow": " and tensorflow",
    "over_http": "",
    "over_files": "",
}
_NUMPY = "import numpy as np\n"
_GUARDED = """try:
    import numpy as np
except ImportError as error:
    import sys

    print(f"{error}; install what it needs: pip install numpy{packages}", file=sys.stderr)
    raise SystemExit(2) from None
"""
_END = 'if __name__ == "__main__":\n    sys.exit(main(Runner(), sys.argv[1:]))\n'


@cache
def selftest(part: str, *, listed: bool) -> str:
    """The file's text; the same every time.

    Args:
        part: The module of :mod:`emitters.packaging.script` that runs the model; ``over_files``
            asks a flow's server about files.
        listed: Whether outputs are lists of found things, whose rows may change places.
    """
    script = "emitters.packaging.script"
    if part == "over_files":
        parts = (f"{script}.stored", f"{script}.over_http", "converter.check.agreements")
        return _composed(part, (*parts, f"{script}.{part}"))
    rows = ("converter.check.matching", f"{script}.listed_rows") if listed else (f"{script}.rows",)
    parts = ("converter.check.sums", *rows, f"{script}.gates", f"{script}.stored")
    return _composed(part, (*parts, f"{script}.{part}", f"{script}.command"))


def _composed(part: str, parts: Sequence[str]) -> str:
    text = compose(_HEAD.replace("{needs}", _NEEDS[part]), parts, _END)
    packages = re.sub(r", on a Mac|,| and", "", _NEEDS[part])
    return text.replace(_NUMPY, _GUARDED.replace("{packages}", packages), 1)
