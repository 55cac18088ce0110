"""What is installed and usable on this machine, and what to do about what isn't."""

from __future__ import annotations

import platform
import shlex
import shutil
import sys
from dataclasses import dataclass, field

from converter.commands.doctor_frameworks import FrameworkState, examine_frameworks, problems
from converter.options.request import sections
from converter.plugins import KINDS, available, broken, specs, working
from converter.plugins.extras import (
    damaged,
    extras,
    in_range,
    installed,
    lacking,
    pip_line,
    requirements,
)
from converter.runtime.interpreter import Interpreter, interpreter
from converter.runtime.session import Progress
from converter.runtime.versions import packages
from converter.text.words import one_line

RUNTIMES = ("onnxruntime", "onnxruntime-gpu")
"""Distributions of one module: only one of them may be there."""


@dataclass
class Findings:
    """What was found.

    Attributes:
        python: Version and implementation.
        frameworks: What reads sources, as it was found in the Python that was asked about.
        interpreter: That Python, where it isn't the tool's own; the rest but ``problems`` is
            empty then.
        packages: For each package that the tool can use: its version, or None.
        extras: For each install extra: the packages that it still lacks.
        plugins: For each kind: name and where it comes from.
        providers: ONNX Runtime's execution providers that a session really starts.
        problems: What is wrong, each with what to do.
    """

    python: str
    packages: dict[str, str | None] = field(default_factory=dict)
    extras: dict[str, list[str]] = field(default_factory=dict)
    plugins: dict[str, dict[str, str]] = field(default_factory=dict)
    providers: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    tools: dict[str, str | None] = field(default_factory=dict)
    frameworks: list[FrameworkState] = field(default_factory=list)
    interpreter: str | None = None


def _tools() -> list[str]:
    """The commands that may be of use."""
    return ["nvidia-smi", *(name for _, item in specs("servers") for name in item.tools)]


def examine(python: str | None = None, progress: Progress = lambda text: None) -> Findings:
    """Looks at this environment, or at the Python at ``python``; frameworks are imported in
    children.

    Raises:
        UsageError: There is no usable Python at ``python``.
    """
    where = interpreter(python)
    findings = _of_users(where) if where.foreign else _of_ours()
    findings.frameworks = examine_frameworks(where, progress)
    findings.problems += problems(findings.frameworks, where)
    return findings


def _of_users(python: Interpreter) -> Findings:
    return Findings(f"Python {python.version_text}", interpreter=python.path)


def _of_ours() -> Findings:
    """What is installed here, less the frameworks; imports ONNX Runtime."""
    found = {name: installed(name) for name in packages()}
    findings = Findings(
        f"{platform.python_implementation()} {platform.python_version()}",
        found,
        {extra: lacking(extra) for extra in extras()},
        {kind: {name: entry.value for name, entry in available(kind).items()} for kind in KINDS},
        tools={name: shutil.which(name) for name in _tools()},
    )
    findings.problems += _runtime_problems(found)
    findings.problems += _broken_plugins(findings)
    findings.providers, wrong = _providers()
    findings.problems += wrong
    return findings


def _broken_plugins(findings: Findings) -> list[str]:
    """Plug-ins of other distributions that can't be used; each is marked among the others."""
    for kind in KINDS:
        working(kind)
    sections()
    for item in broken():
        findings.plugins[item.kind][item.name] += " (broken)"
    return [f"{item}\npip uninstall {item.package}" for item in broken()]


def _runtime_problems(packages: dict[str, str | None]) -> list[str]:
    """What is wrong with ONNX Runtime's distributions, and the lines that mend it."""
    there = [name for name in RUNTIMES if packages[name]]
    wanted = next(needed.name for needed in requirements() if needed.name in RUNTIMES)
    if not there:
        return [f"ONNX Runtime isn't installed\n{pip_line([in_range(wanted)])}"]
    if len(there) == 1:
        return []
    kept = f"{wanted}=={packages[wanted]}"
    return [
        "\n".join(
            [
                (
                    "onnxruntime and onnxruntime-gpu are both installed and share one folder, "
                    "so one has overwritten the other; these lines repair it"
                ),
                f"{shlex.quote(sys.executable)} -m pip uninstall -y {' '.join(RUNTIMES)}",
                pip_line(["--force-reinstall", "--no-deps", kept]),
            ]
        )
    ]


def _providers() -> tuple[list[str], list[str]]:
    """Providers that a session of a tiny model really starts: the list alone promises too much."""
    try:
        return _started()
    except (ImportError, AttributeError) as error:  # not there, or half of it
        found = damaged(error)
        if found is None:
            raise
        return [], [f"{found.message}\n{found.hint.splitlines()[0]}"]


def _started() -> tuple[list[str], list[str]]:
    import onnx
    import onnxruntime
    from onnx import helper

    from converter.runtime import ort_gpu

    tensors = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in "xy"]
    graph = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["y"])], "g", tensors[:1], tensors[1:]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnxruntime.set_default_logger_severity(4)
    ort_gpu.load_libraries()
    running, wrong = [], []
    for provider in onnxruntime.get_available_providers():
        if provider == "TensorrtExecutionProvider" and not shutil.which("nvidia-smi"):
            continue
        try:
            session = onnxruntime.InferenceSession(
                model.SerializeToString(), providers=[provider], enable_fallback=0
            )
        except Exception as error:  # its own exception classes share no public base
            if provider != ort_gpu.TENSORRT:  # few machines with a GPU have TensorRT
                wrong.append(f"ONNX Runtime can't start {provider}: {one_line(error)}")
            continue
        if provider in session.get_providers():
            running.append(provider.removesuffix("ExecutionProvider"))
    return running, wrong
