"""The same model gives the same bytes, whatever seed Python hashes with."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import onnx
import onnx_ir
import pytest

from tests.passes.real import real_model

PROGRAM = """
import hashlib, sys
from pathlib import Path
from converter import plugins
from converter.ir import Model
from converter.plan import SIMPLIFY_PASSES
from converter.verify import Verifier, run_passes

model = Model.load(Path(sys.argv[1]))
steps = [plugins.load("passes", name) for name in SIMPLIFY_PASSES]
result = run_passes(model, steps, Verifier(model, []))
for record in result.history:
    print(record.name, record.status, record.nodes_after, file=sys.stderr)
result.save(Path(sys.argv[2]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["silero", "ocr-rec"])
def test_same_bytes_with_any_hash_seed(name: str, tmp_path: Path) -> None:
    source = tmp_path / "source.onnx"
    onnx.save(onnx_ir.to_proto(real_model(name).graph), source)
    digests, histories = set(), set()
    for seed in ("0", "1", "4242"):
        target = tmp_path / f"{seed}.onnx"
        command = [sys.executable, "-c", PROGRAM, str(source), str(target)]
        env = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
        assert done.returncode == 0, done.stderr
        digests.add(hashlib.sha256(target.read_bytes()).hexdigest())
        histories.add(done.stderr)
    assert len(digests) == 1, histories
