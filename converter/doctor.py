"""What is installed and usable on this machine, and what to do about what isn't."""

from __future__ import annotations

import platform
import shutil
import sys
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, distributions, requires, version
from typing import Any

from converter.plugins import KINDS, available


@dataclass
class Findings:
    """What was found.

    Attributes:
        python: Version and implementation.
        packages: For each package that the tool can use: its version, or None.
        extras: For each install extra: the packages that it still lacks.
        plugins: For each kind: name and where it comes from.
        providers: ONNX Runtime's execution providers that a session really starts.
        problems: What is wrong, each with what to do.
    """

    python: str
    packages: dict[str, str | None]
    extras: dict[str, list[str]]
    plugins: dict[str, dict[str, str]]
    providers: list[str]
    problems: list[str] = field(default_factory=list)
    tools: dict[str, str | None] = field(default_factory=dict)


_PACKAGES = (
    "modelyard", "onnx", "onnx-ir", "onnxscript", "onnxsim", "onnxslim", "onnxruntime",
    "onnxruntime-gpu", "numpy", "pillow", "torch", "safetensors", "tensorflow", "keras", "tf2onnx",
    "transformers", "ai-edge-litert", "coremltools", "tensorrt", "tensorrt-rtx", "tritonclient",
)  # fmt: skip


def examine() -> Findings:
    """Looks at this environment; imports ONNX Runtime, no framework."""
    packages = {name: _version(name) for name in _PACKAGES}
    findings = Findings(
        f"{platform.python_implementation()} {platform.python_version()}",
        packages,
        _missing_by_extra(),
        {kind: {name: entry.value for name, entry in available(kind).items()} for kind in KINDS},
        [],
        tools={name: shutil.which(name) for name in ("nvidia-smi", "tritonserver", "docker")},
    )
    findings.problems += _runtime_problems(packages)
    findings.providers, problems = _providers()
    findings.problems += problems
    return findings


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _missing_by_extra() -> dict[str, list[str]]:
    from packaging.requirements import Requirement

    extras: dict[str, list[str]] = {}
    for text in requires("modelyard") or ():
        needed = Requirement(text)
        for extra in _extras_of(needed):
            missing = extras.setdefault(extra, [])
            if needed.name != "modelyard" and _version(needed.name) is None:
                missing.append(needed.name)
    return extras


def _extras_of(needed: Any) -> list[str]:
    if needed.marker is None:
        return []
    names = [part.value for item in needed.marker._markers for part in _parts(item)]
    return [name for name in dict.fromkeys(names) if needed.marker.evaluate({"extra": name})]


def _parts(item: Any) -> list[Any]:
    if not isinstance(item, tuple) or item[0].value != "extra":
        return []
    return [item[2]]


def _runtime_problems(packages: dict[str, str | None]) -> list[str]:
    both = packages["onnxruntime"] and packages["onnxruntime-gpu"]
    problems = []
    if both:
        problems.append(
            "onnxruntime and onnxruntime-gpu are both installed and share one folder, so one has "
            "overwritten the other. Mend it with: pip uninstall -y onnxruntime onnxruntime-gpu && "
            f"pip install onnxruntime-gpu=={packages['onnxruntime-gpu']}"
        )
    if not packages["onnxruntime"] and not packages["onnxruntime-gpu"]:
        problems.append("ONNX Runtime isn't installed: pip install onnxruntime-gpu")
    return problems


def _providers() -> tuple[list[str], list[str]]:
    """Providers that a session of a tiny model really starts: the list alone promises too much."""
    import onnx
    import onnxruntime
    from onnx import helper

    tensors = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in "xy"]
    graph = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["y"])], "g", tensors[:1], tensors[1:]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnxruntime.set_default_logger_severity(4)
    running, problems = [], []
    for provider in onnxruntime.get_available_providers():
        if provider == "TensorrtExecutionProvider" and not shutil.which("nvidia-smi"):
            continue
        try:
            session = onnxruntime.InferenceSession(model.SerializeToString(), providers=[provider])
        except Exception as error:  # its own exception classes share no public base
            problems.append(f"ONNX Runtime can't start {provider}: {error}")
            continue
        if provider in session.get_providers():
            running.append(provider.removesuffix("ExecutionProvider"))
    return running, problems


def environment_summary() -> dict[str, str]:
    """Versions of the packages that can take part in a conversion, for the manifest."""
    found = {
        item.metadata["Name"]: item.version for item in distributions() if item.metadata["Name"]
    }
    wanted = {name: found[name] for name in _PACKAGES if name in found}
    return {"python": ".".join(map(str, sys.version_info[:3])), **wanted}
