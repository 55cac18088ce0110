"""A large model's weights are mapped files, and stay so through every pass."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from converter.ir.weight_placeholders import LARGE_MODEL
from tests.passes.models import HEADER

WIDTH, LAYERS = 3072, 8

PROGRAM = """
import json, sys, threading, time
from pathlib import Path
import numpy as np, onnx_ir, psutil
from converter import plugins
from converter.ir.model import Model
from converter.passes.libraries.tools import start_tools, stop_tools
from converter.passes.order import SIMPLIFY_PASSES
from converter.verify import Verifier, build_probes, run_passes

def anonymous():
    me = psutil.Process()
    total = 0
    for process in [me, *me.children(recursive=True)]:
        try:
            maps = process.memory_maps()
        except psutil.NoSuchProcess:
            continue
        total += sum(m.private_dirty for m in maps if m.path in ("[anon]", "[heap]"))
    return total

start_tools()
time.sleep(2)
model = Model.load(Path(sys.argv[1]))
base, peak, done = anonymous(), 0, threading.Event()

def watch():
    global peak
    while not done.wait(0.02):
        peak = max(peak, anonymous())

watcher = threading.Thread(target=watch)
watcher.start()
steps = [plugins.load("passes", name) for name in SIMPLIFY_PASSES]
result = run_passes(model, steps, Verifier(model, build_probes(model, None, {})))
done.set()
watcher.join()
stop_tools()
weights = [v.const_value for v in result.initializers() if v.const_value.nbytes > 1 << 20]
print(json.dumps({
    "grown": peak - base,
    "mapped": [isinstance(tensor, onnx_ir.ExternalTensor) for tensor in weights],
    "history": [(r.name, r.status, r.detail, round(r.seconds, 2)) for r in result.history],
    "nodes": result.node_count(),
}))
"""


def _large(folder: Path) -> Path:
    """Layers of MatMul, Add and two Identities; weights in a sparse file: nothing is written."""
    nodes = [f"m{i} = MatMul(r{i}, w{i}) i{i} = Identity(m{i}) r{i + 1} = Relu(i{i})"
             for i in range(LAYERS)]  # fmt: skip
    proto = onnx.parser.parse_model(f"""{HEADER}
        large (float[batch,{WIDTH}] r0) => (float[batch,{WIDTH}] y)
        {{ {" ".join(nodes)} y = Identity(r{LAYERS}) }}""")
    size = WIDTH * WIDTH * 4
    for i in range(LAYERS):
        tensor = proto.graph.initializer.add(name=f"w{i}", data_type=1, dims=[WIDTH, WIDTH])
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, text in (("location", "w.bin"), ("offset", i * size), ("length", size)):
            tensor.external_data.add(key=key, value=str(text))
    path = folder / "large.onnx"
    onnx.save(proto, path)
    with (folder / "w.bin").open("wb") as file:
        file.truncate(LAYERS * size)
        for i in range(LAYERS):  # different beginnings, so that no two weights are equal
            file.seek(i * size)
            file.write(np.full(256, i + 1, np.float32).tobytes())
    return path


@pytest.mark.slow
def test_weights_stay_mapped_and_memory_small(tmp_path: Path) -> None:
    path = _large(tmp_path)
    total = (tmp_path / "w.bin").stat().st_size
    assert total > LARGE_MODEL
    command, env = [sys.executable, "-c", PROGRAM, path], {**os.environ, "OMP_NUM_THREADS": "2"}
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert all(told["mapped"]) and len(told["mapped"]) == LAYERS
    assert told["nodes"] == 2 * LAYERS, told
    assert told["grown"] < total / 4, told
    assert not any(status == "failed" for _, status, _, _ in told["history"]), told
