"""A Swift file that runs the package: this model's names, types and sizes, ready to paste."""

from __future__ import annotations

import re

from converter.text.words import printable
from emitters.coreml.lowering import Lowered
from emitters.coreml.metadata import about
from emitters.coreml.options import Options
from emitters.templates import render

_UNITS = {
    "all": "all",
    "cpu-and-ne": "cpuAndNeuralEngine",
    "cpu-and-gpu": "cpuAndGPU",
    "cpu-only": "cpuOnly",
}
"""``MLComputeUnits``, by ``--compute-units``."""

SYSTEMS = {
    15: "iOS 15, macOS 12, watchOS 8, tvOS 15",
    16: "iOS 16, macOS 13, watchOS 9, tvOS 16",
    17: "iOS 17, macOS 14, watchOS 10, tvOS 17",
    18: "iOS 18, macOS 15, watchOS 11, tvOS 18",
    26: "iOS 26, macOS 26, watchOS 26, tvOS 26",
}
"""The systems of one generation (coremltools' ``target``)."""

_RESERVED = set(
    """
    as associatedtype break case catch class continue default defer deinit do else enum extension
    fallthrough false fileprivate for func guard if import in init inout internal is let nil open
    operator private protocol public repeat rethrows return self static struct subscript super
    switch throw throws true try typealias var where while model inputs outputs
    """.split()  # noqa: SIM905
)
"""Swift's keywords, and what the file itself calls things."""


def snippet(name: str, lowered: Lowered, options: Options) -> str:
    """The text of ``usage.swift``.

    Args:
        name: The model's.
        lowered: The package's inputs and outputs.
        options: Its target, compute units and sizes.
    """
    kind = _words(name, capital=True) or "Model"
    taken: set[str] = set()
    inputs = [
        (port, _argument(port.name, taken), _line(about(port, options))) for port in lowered.inputs
    ]
    taken = set()
    outputs = [(port.name, _argument(port.name, taken), "MLMultiArray") for port in lowered.outputs]
    if lowered.classifier:
        label, scores = lowered.classifier
        outputs = [
            (label, _argument(label, taken), "String"),
            (scores, _argument(scores, taken), "[AnyHashable: NSNumber]"),
            *outputs,
        ]
    values = {
        "kind": kind,
        "systems": SYSTEMS[options.target],
        "units": _UNITS[options.units],
        "inputs": inputs,
        "outputs": outputs,
    }
    return render("emitters.coreml", "usage.swift.j2", values)


def _argument(name: str, taken: set[str]) -> str:
    base = _words(name, capital=False) or "value"
    base = f"_{base}" if base[0].isdigit() else base
    base = f"{base}Value" if base in _RESERVED else base
    made, number = base, 1
    while made in taken:
        number += 1
        made = f"{base}{number}"
    taken.add(made)
    return made


def _words(name: str, *, capital: bool) -> str:
    """``inputIds`` of ``input_ids``; ``InputIds`` for a type."""
    parts = [part for part in re.split(r"[^A-Za-z0-9]+", name) if part]
    if not parts:
        return ""
    first = parts[0][0].upper() if capital else parts[0][0].lower()
    text = first + parts[0][1:] + "".join(part[0].upper() + part[1:] for part in parts[1:])
    return f"_{text}" if text[0].isdigit() else text


def _line(text: str) -> str:
    """Text that stays in one comment."""
    return printable(" ".join(text.split()))
