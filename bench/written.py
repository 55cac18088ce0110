"""What we write beside what peers write, from the same weights: how fast it is in LiteRT, and how
much a Core ML program does and moves (there is no Core ML here to run it).

``python -m bench litert moved``; litert-torch's environment is :mod:`bench.whole`'s.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.measure import Row, wall_seconds
from bench.peers.networks import NETWORKS
from bench.whole import COMPARED, ROOT, ours, theirs
from modelyard.containers.coreml import coremltools

SLOWER, MEDIAN = 1.03, 0.9
"""How many times a peer's latency ours may take, on each network and in the median of all."""


def litert(folder: Path) -> Iterator[Row]:
    """Latency of our TFLite files over litert-torch's: a row for each network, and the median."""
    ratios = []
    for network in NETWORKS:
        wall_seconds(theirs(network, "litert-torch", folder), folder)
        wall_seconds(ours(network, ["tflite"], folder), folder)
        files = [next((folder / "out" / "tflite").rglob("*.tflite")), folder / "bare.tflite"]
        run = [sys.executable, str(ROOT / "bench" / "tflite_run.py"), *map(str, files)]
        done = subprocess.run(run, cwd=folder, capture_output=True, text=True, check=True)
        mine, peers = (float(word) for word in done.stdout.split())
        ratios.append(mine / peers)
        seen = f"x{ratios[-1]:.2f} ({mine:.3g} ms / {peers:.3g} ms)"
        what = f"{network}, in LiteRT / litert-torch's"
        yield Row(what, seen, f"x{SLOWER}", ratios[-1] <= SLOWER)
    middle = statistics.median(ratios)
    yield Row("median of these", f"x{middle:.2f}", f"x{MEDIAN}", middle <= MEDIAN)


def moved(folder: Path) -> Iterator[Row]:
    """Operations and bytes of our Core ML programs over those of coremltools' own conversion."""
    for network in COMPARED:
        wall_seconds(theirs(network, "coremltools", folder), folder)
        wall_seconds(ours(network, ["coreml"], folder), folder)
        mine = program(next((folder / "out" / "coreml").rglob("*.mlpackage")))
        peers = program(folder / "bare.mlpackage")
        count, size = (a / b for a, b in zip(mine, peers, strict=True))
        seen = (
            f"operations x{count:.2f} ({mine[0]} / {peers[0]}), bytes x{size:.2f} "
            f"({mine[1] / 1e6:.1f} MB / {peers[1] / 1e6:.1f} MB)"
        )
        what = f"{network}, Core ML program / coremltools'"
        yield Row(what, seen, "x1.0, x1.0", count <= 1 and size <= 1)


def program(package: Path) -> tuple[int, int]:
    """Operations of an ML Program, and the bytes that they read and write at sizes that are 1
    where they are free: each input and output of each operation, weights too.

    Constants are no operations (MIL.proto: ``const``).
    """
    library = coremltools()
    spec = library.models.MLModel(str(package), skip_model_load=True).get_spec()
    (function,) = spec.mlProgram.functions.values()
    block = function.block_specializations[function.opset]
    sizes = {port.name: _bytes(port.type) for port in function.inputs}
    operations = moved_bytes = 0
    for operation in block.operations:
        made = {port.name: _bytes(port.type) for port in operation.outputs}
        sizes |= made
        if operation.type == "const":
            continue
        operations += 1
        read = [name.name for given in operation.inputs.values() for name in given.arguments]
        moved_bytes += sum(made.values()) + sum(sizes.get(name, 0) for name in read)
    return operations, moved_bytes


_WIDTHS = {"FLOAT32": 4, "INT32": 4, "FLOAT16": 2, "INT16": 2, "UINT16": 2}


def _bytes(kind: Any) -> int:
    """The size of a value of a type of MIL (MIL.proto: ValueType)."""
    tensor = kind.tensorType
    count = 1
    for dimension in tensor.dimensions:
        count *= dimension.constant.size if dimension.HasField("constant") else 1
    name = type(tensor).DESCRIPTOR.fields_by_name["dataType"].enum_type.values_by_number
    return count * _WIDTHS.get(name[tensor.dataType].name, 1)
