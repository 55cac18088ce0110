"""Makes one operator of an activation that is spelled out.

Each is recognized however it is written (:mod:`.fuse_terms`), its constants to float32 rounding:

1.  Gelu             x (1 + erf(x / sqrt(2))) / 2
2.  Gelu, by tanh    x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
3.  HardSwish        x max(0, min(1, x / 6 + 1/2)), also of a HardSigmoid
4.  HardSigmoid      max(0, min(1, a x + b)), also as max(0, min(c, ...)) / c
5.  Mish             x tanh(softplus(x)), also of log(1 + exp(x)), which overflows to the same
6.  Sigmoid          1 / (1 + exp(-x))
7.  Swish            x / (1 + exp(-x)) becomes x Sigmoid(x): opset 20 has no operator for it, and
                     those two nodes are what targets look for
8.  LeakyRelu        max(x, a x), 0 < a < 1
9.  PRelu            relu(x) - a relu(-x), a constant
10. Limits           chains of Clip, Relu, Min and Max by constants become one Clip

log(1 + exp(x)) alone stays: it is infinite from x = 89 on, where Softplus is x.
onnxscript's rules for 3 and 4 take constants that are off by 1e-4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, pi, sqrt
from typing import Any, ClassVar

import numpy as np
import onnx_ir

from converter.passes.fuse.limits import LeakyRelu, Limits, PRelu
from converter.passes.fuse.patterns import Edit, FusePass, Rule, close, used_elsewhere
from converter.passes.fuse.terms import Formula, Function, Monomial, Sum, candidates, same

_FLOATS = frozenset({onnx_ir.DataType.FLOAT, onnx_ir.DataType.FLOAT16, onnx_ir.DataType.DOUBLE})
_X: Monomial = (0,)
_EXP: Sum = {(): 1.0, (1,): 1.0}

Build = Callable[[onnx_ir.Value, onnx_ir.Node, Edit], onnx_ir.Node]


@dataclass(frozen=True)
class Known:
    """A formula that was recognized.

    Attributes:
        op: The operator that it is.
        attributes: The operator's.
        wrong: What is different from the operator's formula, in words; empty where nothing is.
    """

    op: str
    attributes: dict[str, Any]
    wrong: str = ""


@dataclass(frozen=True)
class Found:
    """A formula in a graph: of which tensor, ending where, through which nodes."""

    known: Known
    x: onnx_ir.Value
    root: onnx_ir.Node
    inner: tuple[onnx_ir.Node, ...]


def recognize(formula: Formula) -> Known | None:
    """The operator that computes a formula; None where none is like it."""
    if formula.terms is None or not formula.functions:
        return None
    return next((known for form in _FORMS if (known := form(formula)) is not None), None)


def _last(formula: Formula) -> tuple[int, Function]:
    return len(formula.functions), formula.functions[-1]


def _gelu(formula: Formula) -> Known | None:
    """0.5 x + 0.5 x F, where F is odd: with both signs turned it is the same."""
    at, function = _last(formula)
    terms = formula.terms or {}
    product: Monomial = (0, at)
    if terms.keys() != {_X, product} or function.op not in ("Erf", "Tanh"):
        return None
    inner = dict(function.inner)
    if function.op == "Tanh" and inner.keys() != {_X, (0, 0, 0)}:
        return None
    if function.op == "Erf" and inner.keys() != {_X}:
        return None
    sign = float(np.sign(inner[_X]))
    if function.op == "Erf":
        wanted: Sum = {_X: sign / sqrt(2)}
        attributes = {}
    else:
        slope = sign * sqrt(2 / pi)
        wanted = {_X: slope, (0, 0, 0): slope * 0.044715}
        attributes = {"approximate": "tanh"}
    wrong = _constants(inner, wanted) or _constants(terms, {_X: 0.5, product: 0.5 * sign})
    return Known("Gelu", attributes, wrong)


def _constants(terms: Sum, wanted: Sum) -> str:
    if same(terms, wanted):
        return ""
    found = ", ".join(f"{terms[key]:.8g}" for key in sorted(terms))
    needed = ", ".join(f"{wanted[key]:.8g}" for key in sorted(wanted))
    return f"its constants are {found} and would have to be {needed}"


def _hard_swish(formula: Formula) -> Known | None:
    at, clip = _last(formula)
    terms = formula.terms or {}
    if terms.keys() != {(0, at)} or clip.op != "Clip" or set(dict(clip.inner)) != {(), _X}:
        return None
    if clip.low != 0 or not 0 < clip.high < inf:
        return None
    line, outer = dict(clip.inner), terms[0, at]
    found: Sum = {_X: line[_X] * outer, (): line[()] * outer, (1,): clip.high * outer}
    return Known("HardSwish", {}, _constants(found, {_X: 1 / 6, (): 0.5, (1,): 1.0}))


def _hard_sigmoid(formula: Formula) -> Known | None:
    at, clip = _last(formula)
    terms = formula.terms or {}
    if terms.keys() != {(at,)} or clip.op != "Clip" or set(dict(clip.inner)) != {(), _X}:
        return None
    if clip.low != 0 or not 0 < clip.high < inf:
        return None
    line, outer = dict(clip.inner), terms[(at,)]
    if not close(clip.high * outer, 1.0):
        return None
    attributes = {"alpha": line[_X] * outer, "beta": line[()] * outer}
    return Known("HardSigmoid", attributes)


def _mish(formula: Formula) -> Known | None:
    at, tanh = _last(formula)
    terms = formula.terms or {}
    if at < 2 or terms.keys() != {(0, at)} or tanh.op != "Tanh" or not tanh.is_of({(at - 1,): 1.0}):
        return None
    inner = formula.functions[-2]
    whole = inner.op == "Softplus" and inner.is_of({_X: 1.0})
    if not whole and not (at == 3 and inner.op == "Log" and _one_plus_exp(formula, inner, 1.0)):
        return None
    return Known("Mish", {}, _constants(terms, {(0, at): 1.0}))


def _one_plus_exp(formula: Formula, outer: Function, sign: float) -> bool:
    exponential = formula.functions[0]
    return outer.is_of(_EXP) and exponential.op == "Exp" and exponential.is_of({_X: sign})


def _sigmoid(formula: Formula) -> Known | None:
    at, inverse = _last(formula)
    if at != 2 or inverse.op != "Inverse" or not _one_plus_exp(formula, inverse, -1.0):
        return None
    terms = formula.terms or {}
    if same(terms, {(2,): 1.0}):
        return Known("Sigmoid", {})
    return Known("Swish", {}) if same(terms, {(0, 2): 1.0}) else None


def _softplus(formula: Formula) -> Known | None:
    at, logarithm = _last(formula)
    if at != 2 or logarithm.op != "Log" or not _one_plus_exp(formula, logarithm, 1.0):
        return None
    if not same(formula.terms or {}, {(2,): 1.0}):
        return None
    return Known("Softplus", {}, "exp(x) overflows from x = 89 on, where Softplus is x")


_FORMS = (_gelu, _hard_swish, _hard_sigmoid, _mish, _sigmoid, _softplus)


class SpelledOut(Rule[Found]):
    """Cases 1 to 7."""

    name = "activation"
    roots = frozenset({"Mul", "Div", "Clip", "Min", "Max", "Relu", "Reciprocal", "Add", "Log"})

    def pattern(self, node: onnx_ir.Node) -> Found | None:
        """A formula that some operator computes; of several tensors, one for which it may."""
        near: Found | None = None
        for x in candidates(node):
            found = self._formula(node, x)
            if found is not None and not self.check(found):
                return found
            near = near or found
        return near

    def _formula(self, node: onnx_ir.Node, x: onnx_ir.Value) -> Found | None:
        formula = Formula(node.outputs[0], x)
        known = recognize(formula)
        if known is None or (known.op != "Swish" and len(formula.nodes) < 2):
            return None
        return Found(known, x, node, tuple(item for item in formula.nodes if item is not node))

    def check(self, match: Found) -> str:
        """Whether the constants are right, and nobody else needs what is between."""
        if match.known.wrong:
            return f"{match.known.op}: {match.known.wrong}"
        if match.x.dtype not in _FLOATS:
            return f"{match.known.op} isn't defined for {match.x.dtype}"
        used = used_elsewhere(match.inner, match.root)
        return f"{match.known.op}: {used}" if used else ""

    def rewrite(self, match: Found, edit: Edit) -> None:
        """One operator; for Swish two."""
        known, root = match.known, match.root
        if known.op != "Swish":
            edit.replace(root, onnx_ir.node(known.op, [match.x], known.attributes))
            return
        gate = edit.insert(root, onnx_ir.node("Sigmoid", [match.x]), match.x)
        edit.replace(root, onnx_ir.node("Mul", [match.x, gate]))


class FuseActivation(FusePass):
    """Applies the module's rules."""

    name = "fuse-activation"
    summary = "Gelu, HardSwish, HardSigmoid, Mish, Sigmoid, Swish, LeakyRelu, PRelu, limits"
    rules: ClassVar[Sequence[Rule[Any]]] = (SpelledOut(), LeakyRelu(), PRelu(), Limits())
