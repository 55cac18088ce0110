"""Emission for PyTorch and OpenVINO, against onnx2torch and OpenVINO's own conversion.

``python -m bench frameworks`` gives the page's rows. Both read the same ONNX file (batch 1, random
weights; opset 17 for onnx2torch, for OpenVINO that of ``--to onnx``), each in a process of its own
and in turns. onnx2torch imports torchvision, whose package needs another torch: it gets a module in
its place that has what is imported.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.measure import Ratio, Row, cold_cache, wall_seconds

BIN = Path(sys.executable).parent
MODELS = ("resnet50", "bert-base")
ROUNDS = 3
MOST = 1.2

EXPORT = """
import sys
import torch
from bench.peers.networks import NETWORKS, with_tuple
import bench.peers.networks as all_of_them
chosen = NETWORKS[sys.argv[1]]
torch.manual_seed(0)
model = with_tuple(getattr(all_of_them, chosen.factory)().eval())
for tensor in (*model.parameters(), *model.buffers()):
    if tensor.ndim == 1 and tensor.is_floating_point():
        tensor.data += 0.02 * torch.rand_like(tensor)  # onnx2torch takes no two that are one
of_words = len(chosen.shape) == 2
example = torch.zeros(chosen.shape, dtype=torch.int64 if of_words else torch.float32)
torch.onnx.export(model, (example,), sys.argv[2], dynamo=False, opset_version=17,
                  input_names=["x"])
"""
OURS = """
import sys
import time
from pathlib import Path
import onnx_ir
from converter import plugins
from converter.ir.model import OPSET, Model
from converter.options.request import Request
from converter.passes.order import IMPORT_PASSES
target, source, folder = sys.argv[1:]
model = Model.wrap(onnx_ir.load(source))
if model.graph.opset_imports[""] != OPSET:
    for name in ("normalize", *IMPORT_PASSES):
        model.graph = plugins.load("passes", name)(model.graph).model
emitter = plugins.load("emitters", target)
start = time.perf_counter()
emitter.emit(model, Path(folder), "fp32", Request(source=source, to=[target]))
print(time.perf_counter() - start)
"""
"""onnx2torch knows no opset 20, so that its file is brought to the IR's opset first."""

THEIRS = {
    "pytorch": """
import sys
import time
start = time.perf_counter()
import onnx2torch, torch
torch.save(onnx2torch.convert(sys.argv[2]).state_dict(), sys.argv[3] + ".pt")
print(time.perf_counter() - start)
""",
    "openvino": """
import sys
import time
start = time.perf_counter()
import openvino
model = openvino.convert_model(sys.argv[2])
openvino.save_model(model, sys.argv[3] + ".xml", compress_to_fp16=False)
print(time.perf_counter() - start)
""",
}
"""Both say how long it took; theirs reads the file, ours has the model, and both import."""

PEERS = {"pytorch": "onnx2torch 1.5.15", "openvino": "openvino.convert_model"}


def rows(folder: Path) -> Iterator[Row]:
    """Two rows for each target and network."""
    peer = _onnx2torch(folder)
    for name in MODELS:
        source = folder / f"{name}.onnx"
        subprocess.run([sys.executable, "-c", EXPORT, name, str(source)], check=True)
        subprocess.run(_whole(source, "onnx"), cwd=folder, check=True, capture_output=True)
        newer = (folder / "whole/onnx/fp32/model.onnx").rename(folder / f"{name}-20.onnx")
        for target, theirs in THEIRS.items():
            given = source if target == "pytorch" else newer
            yield from _compared(name, given, target, theirs, folder, peer)


def _compared(
    name: str, source: Path, target: str, theirs: str, folder: Path, peer: Path
) -> Iterator[Row]:
    lines = {
        "ours": [sys.executable, "-c", OURS, target, str(source), str(folder / "ours")],
        "theirs": [sys.executable, "-c", theirs, target, str(source), str(folder / "theirs")],
        "onnx": _whole(source, "onnx"),
        "whole": _whole(source, target),
    }
    path = os.pathsep.join([str(peer), os.environ.get("PYTHONPATH", "")])
    taken: dict[str, list[float]] = {key: [] for key in lines}
    for number in range(ROUNDS + 1):
        for key, argv in lines.items():
            cold_cache(folder)
            if key in ("ours", "theirs"):
                env = {**os.environ, **({"PYTHONPATH": path} if key == "theirs" else {})}
                seconds = float(subprocess.check_output(argv, env=env, text=True).split()[-1])
            else:
                seconds = wall_seconds(argv, folder)
            if number:
                taken[key].append(seconds)
    ratio = Ratio(taken["ours"], taken["theirs"])
    seen = f"x{ratio.ratio:.2f} ({ratio.medians[0]:.3g} s / {ratio.medians[1]:.3g} s)"
    what = f"{name}, ONNX to {target}, emission / {PEERS[target]}"
    yield Row(what, seen, f"x{MOST}", ratio.ratio <= MOST)
    onnx, whole = (statistics.median(taken[key]) for key in ("onnx", "whole"))
    share = whole / (onnx + ratio.medians[1])
    seen = f"x{share:.2f} ({whole:.3g} s / {onnx:.3g} s + {ratio.medians[1]:.3g} s)"
    yield Row(f"{name}, whole command / `--to onnx` and that", seen, f"x{MOST}", share <= MOST)


def _whole(source: Path, target: str) -> list[str]:
    argv = [str(BIN / "modelyard"), "convert", str(source), "--to", target, "--no-bench"]
    return [*argv, "--samples", "random:2", "--few-samples", "--out", "whole", "--overwrite"]


def _onnx2torch(folder: Path) -> Path:
    """A folder for Python's path with onnx2torch, and a torchvision that it can import."""
    place = folder / "onnx2torch"
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(place)]
    subprocess.run([*install, "onnx2torch==1.5.15"], check=True)
    stub = place / "torchvision"
    stub.mkdir()
    (stub / "__init__.py").write_text("from torchvision import ops\n")
    names = "def _missing(*args, **kwargs):\n    raise NotImplementedError\n\n\n"
    (stub / "ops.py").write_text(f"{names}deform_conv2d = nms = roi_align = _missing\n")
    return place
