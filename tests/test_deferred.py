"""Modules that are only imported when they are used."""

import subprocess
import sys

import pytest

FIRST = "import converter, sys, importlib.util, onnx_ir; "


@pytest.mark.parametrize(("code", "said"), [
    # a model without arithmetic on its dimensions never has it imported
    ("import converter.ir.model; onnx_ir.SymbolicDim('b'); print('sympy.core' in sys.modules)",
     "False"),
    ("print((onnx_ir.SymbolicDim('max(a, 3)') + 2).value)", "Max(3, a) + 2"),
    # whoever looks for the package, or imports a part of it, finds the real one
    ("import sympy; print(importlib.util.find_spec('sympy').origin[-11:])", "__init__.py"),
    ("import sympy; from sympy.core import Symbol; print(Symbol is sympy.Symbol, sympy.__name__)",
     "True sympy"),
    ("import sympy.core.expr, sympy; print(sympy.core.symbol.Symbol is sympy.Symbol, "
     "sympy.core.__spec__.name, importlib.reload(sympy.core).__name__)",
     "True sympy.core sympy.core"),
])  # fmt: skip
def test_sympy_waits_and_is_found(code: str, said: str) -> None:
    command = [sys.executable, "-c", FIRST + code]
    assert subprocess.run(command, capture_output=True, text=True).stdout.strip() == said
