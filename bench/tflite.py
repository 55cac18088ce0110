"""The TFLite emitter against onnx2tf and onnxsim: seconds, memory, and how fast their files run.

``python -m bench tflite`` gives the page's rows. onnx2tf has an environment of its own:

    python3.12 -m venv build/onnx2tf && build/onnx2tf/bin/pip install onnx2tf==2.6.9
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import onnx

from bench.measure import peak_memory, wall_seconds

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
ONNX2TF = ROOT / "build" / "onnx2tf" / "bin" / "onnx2tf"

MODELS: dict[str, dict[str, int]] = {"resnet50-random": {}, "bert-base-random": {"tokens": 128}}
"""Models of the zoo, and their free dimensions but the batch: onnxsim's exporter takes none."""

OURS = "modelyard"
ROUNDS = 3

_ONNXSIM = "import onnx, onnxsim, sys; onnxsim.export_tflite(onnx.load(sys.argv[1]), sys.argv[2])"


@dataclass
class Tool:
    """What one tool took for one model.

    Attributes:
        seconds: Of whole commands, one a round.
        memory: Largest resident memory of the process tree, in bytes.
        file: What it wrote; None where it failed.
        error: Why it failed.
        milliseconds: Median latency of its file in LiteRT.
    """

    seconds: list[float] = field(default_factory=list)
    memory: int = 0
    file: Path | None = None
    error: str = ""
    milliseconds: float | None = None

    @property
    def median(self) -> float:
        """Median seconds."""
        return statistics.median(self.seconds)


def measure(name: str, folder: Path, rounds: int = ROUNDS) -> dict[str, Tool]:
    """One model of the zoo at batch 1, by every tool in turns.

    Args:
        name: In :data:`MODELS`.
        folder: For what is written.
        rounds: How many times each command is timed; once more for its memory.
    """
    # Installed packages have their bytecode; a checkout has to be let keep its own.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    model = _onnx(name, folder)
    tools = {tool: Tool() for tool in _commands(model, folder)}
    for number in range(rounds + 1):
        for tool, (argv, file) in _commands(model, folder).items():
            if not tools[tool].error:
                _once(tools[tool], argv, file, folder, memory=number == rounds)
    _run_files(tools, folder)
    return tools


def _onnx(name: str, folder: Path) -> Path:
    argv = [str(BIN / "modelyard"), "convert", f"zoo:{name}", "--batch", "1", "--no-bench"]
    wall_seconds([*argv, "--to", "onnx", "--out", name, "--overwrite"], folder)
    made, fixed = folder / name / "onnx" / "fp32" / "model.onnx", folder / name / f"{name}.onnx"
    model = onnx.load(made)
    del model.graph.value_info[:]
    for value in (*model.graph.input, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in MODELS[name]:
                dim.dim_value = MODELS[name][dim.dim_param]
    onnx.save(onnx.shape_inference.infer_shapes(model), fixed)
    return fixed


def _commands(model: Path, folder: Path) -> dict[str, tuple[list[str], Path]]:
    """The command of each tool that is there, and the file that it writes."""
    out = folder / "files" / model.stem
    out.mkdir(parents=True, exist_ok=True)
    sim = out / "onnxsim.tflite"
    script = str(ROOT / "bench" / "tflite_emit.py")
    found = {
        OURS: ([sys.executable, script, str(model), str(out / "ours")], out / "ours/model.tflite"),
        "onnxsim": ([sys.executable, "-c", _ONNXSIM, str(model), str(sim)], sim),
    }
    if ONNX2TF.exists():
        argv = [str(ONNX2TF), "-i", str(model), "-o", str(out / "onnx2tf"), "-n"]
        found["onnx2tf"] = (argv, out / "onnx2tf" / f"{model.stem}_float32.tflite")
    return found


def _once(tool: Tool, argv: list[str], file: Path, folder: Path, *, memory: bool) -> None:
    try:
        if memory:
            tool.memory = peak_memory(argv, folder).resident
        else:
            tool.seconds.append(wall_seconds(argv, folder))
    except RuntimeError as error:
        tool.error = str(error).strip().splitlines()[-1][:200]
        return
    if not file.exists():
        tool.error = f"it wrote no {file.name}"
        return
    tool.file = file


def _run_files(tools: Mapping[str, Tool], folder: Path) -> None:
    """Latency of all files, in turns in one process of its own."""
    files = {name: tool.file for name, tool in tools.items() if tool.file and not tool.error}
    script = str(ROOT / "bench" / "tflite_run.py")
    done = subprocess.run(
        [sys.executable, script, *map(str, files.values())],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name, text in zip(files, done.stdout.split(), strict=True):
        tools[name].milliseconds = float(text)


@dataclass(frozen=True)
class Summary:
    """One model in figures: ours against the best of the others in each.

    Attributes:
        seconds, memory, latency: Ours over the smallest of theirs.
        text: All figures.
    """

    seconds: float
    memory: float
    latency: float
    text: str

    @property
    def met(self) -> bool:
        """Five times as fast, half the memory, inference no slower (3% is noise)."""
        return self.seconds <= 0.2 and self.memory <= 0.5 and self.latency <= 1.03


def summary(tools: Mapping[str, Tool]) -> Summary:
    """What :func:`measure` gave, in short.

    Raises:
        RuntimeError: No other tool wrote a file, or ours didn't.
    """
    ours = tools[OURS]
    others = [tool for name, tool in tools.items() if name != OURS and not tool.error]
    if ours.error or not others:
        errors = "; ".join(f"{name}: {tool.error}" for name, tool in tools.items() if tool.error)
        raise RuntimeError(f"nothing to compare: {errors}")
    text = ", ".join(f"{name} {_figures(tool)}" for name, tool in tools.items())
    return Summary(
        ours.median / min(tool.median for tool in others),
        ours.memory / min(tool.memory for tool in others),
        _latency(ours) / min(map(_latency, others)),
        text,
    )


def _latency(tool: Tool) -> float:
    return tool.milliseconds or float("inf")


def _figures(tool: Tool) -> str:
    if tool.error:
        return f"failed ({tool.error})"
    return f"{tool.median:.3g} s {tool.memory / 1e9:.2g} GB {_latency(tool):.3g} ms"
