"""The Core ML emitter against onnx2coreml and onnxsim: seconds, memory, and whose time it is.

``python -m bench.coreml`` measures and prints; ``python -m bench coreml-resnet coreml-bert`` gives
the page's rows. onnx2coreml has an environment of its own:

    python3.11 -m venv build/onnx2coreml && build/onnx2coreml/bin/pip install onnx2coreml==1.1.0

All get the same ONNX file, at batch 1, with fixed sizes, nothing masked, and its constants folded
(onnxsim's ``simplify``): the two others take no other BERT. In fp16, ours makes the float16 model
as well, as theirs do.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.measure import peak_memory, wall_seconds

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
ONNX2COREML = ROOT / "build" / "onnx2coreml" / "bin" / "onnx2coreml"

MODELS: dict[str, dict[str, int]] = {"resnet50-random": {}, "bert-base-random": {"tokens": 128}}
"""Models of the zoo, and their free dimensions but the batch."""

OURS = "modelyard"
PRECISIONS = ("fp32", "fp16")
ROUNDS = 3
OUTSIDE = 0.2
"""The largest share of emitting that may be spent outside of coremltools."""

_ONNXSIM = """
import coremltools, onnx, onnxsim, sys
precision = getattr(coremltools.precision, {"fp32": "FLOAT32", "fp16": "FLOAT16"}[sys.argv[3]])
onnxsim.export_coreml(onnx.load(sys.argv[1]), sys.argv[2], compute_precision=precision)
"""
_FIX = """
import json, numpy, onnx, onnxsim, sys
model, sizes = onnx.load(sys.argv[1]), json.loads(sys.argv[3])
del model.graph.value_info[:]
for value in (*model.graph.input, *model.graph.output):
    for dim in value.type.tensor_type.shape.dim:
        if dim.dim_param in sizes:
            dim.dim_value = sizes[dim.dim_param]
for value in [value for value in model.graph.input if value.name == "attention_mask"]:
    ones = numpy.ones([dim.dim_value for dim in value.type.tensor_type.shape.dim], numpy.int64)
    model.graph.initializer.append(onnx.numpy_helper.from_array(ones, value.name))
    model.graph.input.remove(value)
kept = ["fuse_matmul_add_bias_into_gemm", "fuse_matmul_add_bias_into_gemm_batched", "fuse_qkv"]
onnx.save(onnxsim.simplify(model, skipped_optimizers=kept)[0], sys.argv[2])
"""


@dataclass
class Tool:
    """What one tool took for one model.

    Attributes:
        seconds: Of whole commands, one a round.
        memory: Largest resident memory of the process tree, in bytes.
        size: Of what it wrote, in bytes.
        error: Why it failed.
        outside: The share of emitting that is spent outside of coremltools; ours alone.
    """

    seconds: list[float] = field(default_factory=list)
    memory: int = 0
    size: int = 0
    error: str = ""
    outside: float | None = None

    @property
    def median(self) -> float:
        """Median seconds."""
        return statistics.median(self.seconds)

    def figures(self) -> str:
        """All of it, in short."""
        if self.error:
            return f"failed ({self.error})"
        return f"{self.median:.3g} s {self.memory / 1e9:.2g} GB"


def measure(name: str, precision: str, folder: Path, rounds: int = ROUNDS) -> dict[str, Tool]:
    """One model of the zoo, by every tool in turns.

    Args:
        name: In :data:`MODELS`.
        precision: ``fp32`` or ``fp16``.
        folder: For what is written.
        rounds: How many times each command is timed; once more for its memory.
    """
    # Installed packages have their bytecode; a checkout has to be let keep its own.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    model = _onnx(name, folder)
    commands = _commands(model, precision, folder)
    tools = {tool: Tool() for tool in commands}
    for number in range(rounds + 1):
        for tool, (argv, made) in commands.items():
            if not tools[tool].error:
                _once(tools[tool], argv, made, folder, memory=number == rounds)
    tools[OURS].outside = _outside(model, precision, folder)
    return tools


def _onnx(name: str, folder: Path) -> Path:
    fixed = folder / f"{name}.onnx"
    if not fixed.exists():
        argv = [str(BIN / "modelyard"), "convert", f"zoo:{name}", "--batch", "1", "--no-bench"]
        wall_seconds([*argv, "--to", "onnx", "--out", name, "--overwrite"], folder)
        made = str(folder / name / "onnx" / "fp32" / "model.onnx")
        sizes = json.dumps(MODELS[name])
        wall_seconds([sys.executable, "-c", _FIX, made, str(fixed), sizes], folder)
    return fixed


def _commands(model: Path, precision: str, folder: Path) -> dict[str, tuple[list[str], Path]]:
    """The command of each tool that is there, and the package that it writes."""
    out = folder / "packages" / model.stem / precision
    out.mkdir(parents=True, exist_ok=True)
    sim, other = out / "onnxsim.mlpackage", out / "onnx2coreml.mlpackage"
    found = {
        OURS: (_emit(model, out / "ours", precision), out / "ours" / "model.mlpackage"),
        "onnxsim": ([sys.executable, "-c", _ONNXSIM, str(model), str(sim), precision], sim),
    }
    if ONNX2COREML.exists():
        argv = [str(ONNX2COREML), "convert", str(model), "-o", str(other)]
        found["onnx2coreml"] = ([*argv, "--precision", precision], other)
    return found


def _emit(model: Path, folder: Path, precision: str) -> list[str]:
    script = str(ROOT / "bench" / "coreml_emit.py")
    return [sys.executable, script, str(model), str(folder), precision]


def _once(tool: Tool, argv: list[str], made: Path, folder: Path, *, memory: bool) -> None:
    try:
        if memory:
            tool.memory = peak_memory(argv, folder).resident
        else:
            tool.seconds.append(wall_seconds(argv, folder))
    except RuntimeError as error:
        lines = [line for line in str(error).strip().splitlines() if "rror" in line]
        tool.error = (lines or [str(error)])[-1].strip()[:200]
        return
    if not made.exists():
        tool.error = f"it wrote no {made.name}"
        return
    tool.size = sum(file.stat().st_size for file in made.rglob("*") if file.is_file())


def _outside(model: Path, precision: str, folder: Path) -> float:
    """The smallest share of three runs: what else runs on the machine only adds to it."""
    shares: list[float] = []
    for _ in range(3):
        argv = [*_emit(model, folder / "apart", precision), "--apart"]
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
        parts = json.loads(done.stdout.splitlines()[-1])
        shares.append(float(1 - parts["coremltools"] / parts["emit"]))
    return min(shares)


@dataclass(frozen=True)
class Summary:
    """One model in figures: ours against the best of the others in each.

    Attributes:
        seconds, memory: Ours over the smallest of theirs.
        outside: The share of emitting outside of coremltools.
        text: All figures.
    """

    seconds: float
    memory: float
    outside: float
    text: str

    @property
    def met(self) -> bool:
        """No slower (3% is noise), less memory, and little that isn't coremltools' own."""
        return self.seconds <= 1.03 and self.memory < 1 and self.outside < OUTSIDE


def summary(tools: Mapping[str, Tool]) -> Summary:
    """What :func:`measure` gave, in short.

    Raises:
        RuntimeError: No other tool wrote a package, or ours didn't.
    """
    ours = tools[OURS]
    others = [tool for name, tool in tools.items() if name != OURS and not tool.error]
    if ours.error or not others or ours.outside is None:
        errors = "; ".join(f"{name}: {tool.error}" for name, tool in tools.items() if tool.error)
        raise RuntimeError(f"nothing to compare: {errors}")
    return Summary(
        ours.median / min(tool.median for tool in others),
        ours.memory / min(tool.memory for tool in others),
        ours.outside,
        ", ".join(f"{name} {tool.figures()}" for name, tool in tools.items()),
    )


def main() -> None:
    """Prints everything."""
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build", prefix="bench-") as name:
        for model in MODELS:
            for precision in PRECISIONS:
                tools = measure(model, precision, Path(name))
                for tool, found in tools.items():
                    print(model, precision, tool, found, flush=True)


if __name__ == "__main__":
    main()
