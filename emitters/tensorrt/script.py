"""``build_engine.py``: one file out of modules that are tested one by one
(:mod:`emitters.composing`). It needs Python 3.9, the standard library and TensorRT."""

from __future__ import annotations

from functools import cache

from emitters.composing import compose

SCRIPT_NAME = "build_engine.py"

PARTS = tuple(
    f"emitters.tensorrt.{name}"
    for name in (
        "engine_script.refusals",
        "engine_script.lock",
        "child_network",
        "child_settings",
        "engine_script.building",
        "engine_script.comparing",
        "engine_script.driver",
        "engine_script.running",
        "engine_script.switching",
        "engine_script.command",
    )
)
"""The modules, each after those that it imports."""

_HEAD = '''#!/usr/bin/env python3
"""Builds the TensorRT engine that engine.lock.json beside this file describes, on this machine's
GPU; compares it with the source framework's outputs; turns the Triton folder to it.

    python3 build_engine.py --dry-run      # what it would do
    python3 build_engine.py                # does it
    python3 build_engine.py --help

It needs Python 3.9 or newer and TensorRT's Python package, and nothing else. Written by Modelyard.
"""
'''


@cache
def script_text() -> str:
    """The file's text; the same every time.

    Raises:
        InternalError: Two of the modules have a name in common, or one imports what isn't there.
    """
    return compose(_HEAD, PARTS, 'if __name__ == "__main__":\n    sys.exit(main())\n')
