"""Modules that are only imported when they are used."""

import subprocess
import sys

FIRST = "import converter, sys, onnx_ir; "


def _said(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", FIRST + code], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_sympy_waits() -> None:
    """A model without arithmetic on its dimensions never has it imported."""
    code = "from converter.ir import Model; onnx_ir.SymbolicDim('batch'); "
    assert _said(code + "print('sympy.core' in sys.modules)") == "False"


def test_dimensions_compute() -> None:
    """Where it is needed, it is there."""
    assert _said("print((onnx_ir.SymbolicDim('max(a, 3)') + 2).value)") == "Max(3, a) + 2"


def test_others_find_it() -> None:
    """Whoever looks for the package, or imports a part of it, finds the real one."""
    code = (
        "import importlib.util, sympy; print(importlib.util.find_spec('sympy').origin[-11:]); "
        "from sympy.core import Symbol; print(Symbol is sympy.Symbol, sympy.__name__)"
    )
    assert _said(code).split() == ["__init__.py", "True", "sympy"]
