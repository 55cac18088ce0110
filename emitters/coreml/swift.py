"""A Swift file that runs the package: this model's names, types and sizes, ready to paste."""

from __future__ import annotations

import re

from converter.report.words import printable
from emitters.coreml.interface import Port
from emitters.coreml.lowering import Lowered
from emitters.coreml.metadata import about
from emitters.coreml.options import Options

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
    inputs = [(port, _argument(port.name, taken)) for port in lowered.inputs]
    taken = set()
    outputs = [(port.name, _argument(port.name, taken), "MLMultiArray") for port in lowered.outputs]
    if lowered.classifier:
        label, scores = lowered.classifier
        outputs = [
            (label, _argument(label, taken), "String"),
            (scores, _argument(scores, taken), "[AnyHashable: NSNumber]"),
            *outputs,
        ]
    return "\n".join(
        [
            f"// Runs model.mlpackage; needs {SYSTEMS[options.target]} or newer.",
            "",
            "import CoreML",
            "import Foundation",
            "",
            f"final class {kind} {{",
            "    private let model: MLModel",
            "",
            "    /// - Parameter compiled: The compiled model: in an app's bundle the .mlmodelc",
            "    ///   that Xcode makes of it, else what `MLModel.compileModel(at:)` gives.",
            "    init(compiled: URL) throws {",
            "        let configuration = MLModelConfiguration()",
            f"        configuration.computeUnits = .{_UNITS[options.units]}",
            "        model = try MLModel(contentsOf: compiled, configuration: configuration)",
            "    }",
            "",
            *_method(inputs, outputs, options),
            "}",
            "",
        ]
    )


def _method(
    inputs: list[tuple[Port, str]], outputs: list[tuple[str, str, str]], options: Options
) -> list[str]:
    arguments = ", ".join(f"{name}: {_type(port)}" for port, name in inputs)
    named = [f"{name}: {kind}" for _, name, kind in outputs]
    given = named[0].split(": ", 1)[1] if len(named) == 1 else f"({', '.join(named)})"
    values = [f'            "{port.name}": {_value(port, name)},' for port, name in inputs]
    read = [f'outputs.featureValue(for: "{key}")!.{_READ[kind]}' for key, _, kind in outputs]
    back = read[0] if len(read) == 1 else "(" + ", ".join(read) + ")"
    return [
        "    /// - Parameters:",
        *(f"    ///   - {name}: {_line(about(port, options))}" for port, name in inputs),
        f"    func callAsFunction({arguments}) throws -> {given} {{",
        "        let inputs = try MLDictionaryFeatureProvider(dictionary: [",
        *values,
        "        ])",
        "        let outputs = try model.prediction(from: inputs)",
        f"        return {back}",
        "    }",
    ]


_READ = {
    "MLMultiArray": "multiArrayValue!",
    "String": "stringValue",
    "[AnyHashable: NSNumber]": "dictionaryValue",
}


def _type(port: Port) -> str:
    return "MLMultiArray" if port.image is None else "CGImage"


def _value(port: Port, name: str) -> str:
    if port.image is None:
        return f"MLFeatureValue(multiArray: {name})"
    constraint = f'model.modelDescription.inputDescriptionsByName["{port.name}"]!.imageConstraint!'
    return f"try MLFeatureValue(cgImage: {name}, constraint: {constraint})"


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
