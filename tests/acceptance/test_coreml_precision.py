"""Precisions of Core ML packages on small models: int8, float16, weights alone in fewer bits.
What large ones keep is measured by ``bench.precision``.

Core ML doesn't run here: packages are read back from disk and computed by ONNX Runtime.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import precision_data as data
from converter import api, plugins
from converter.errors import UsageError
from converter.ir import Model
from tests.acceptance.cli import small_cnn

ATTENTION = '''
"""Attention of two heads, padding hidden by a number added to the scores, or put in their place."""
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, hide: str, size: int = 16) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.hide, self.table, self.norm = hide, nn.Embedding(64, size), nn.LayerNorm(size)
        self.query, self.key, self.value, self.out = (nn.Linear(size, size) for _ in range(4))

    def forward(self, ids, mask):
        x = self.table(ids)
        q, k, v = (
            layer(x).unflatten(-1, (2, -1)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        scores, seen = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, mask[:, None, None, :]
        if self.hide == "min":
            least = torch.finfo(scores.dtype).min
            weights = torch.softmax(scores + (1.0 - seen.to(scores.dtype)) * least, -1)
        else:
            weights = torch.softmax(scores.masked_fill(seen == 0, float("-inf")), -1)
            weights = torch.nan_to_num(weights)
        return self.norm(x + self.out((weights @ v).transpose(1, 2).flatten(2)))
'''


def _converted(source: str, folder: Path, **options: Any) -> list[Any]:
    """The report's artifacts, every gate of theirs passed that can be judged here."""
    made = api.convert(source, to=["coreml"], out=str(folder / "out"), bench=False, **options)
    assert made.report is not None
    for artifact in made.report.artifacts:
        gates = {gate.status for gate in artifact.gates if gate.name != "runs"}
        assert gates == {"passed"}
    return list(made.report.artifacts)


def _read(package: Path) -> Model:
    """The package's program, by the parser."""
    return plugins.load("parsers", "coreml").read(package)  # type: ignore[no-any-return]


def _share(artifact: Any) -> float:
    """Of the multiply-adds that are int8, as the report says it."""
    (said,) = (line for line in artifact.decisions if "of the multiply-adds are int8" in line)
    found = re.match(r"([\d.]+)%", said)
    assert found is not None
    return float(found[1]) / 100


# -- int8 ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_digits_in_int8(tmp_path: Path) -> None:
    samples = {"samples": str(data.judged_digits(tmp_path, 16)), "labels": "label"}
    calibration = {"calibration_samples": str(data.calibration_digits(tmp_path))}
    (artifact,) = _converted(
        "zoo:ccexam-mnist", tmp_path, precision=["int8"], **samples, **calibration
    )
    assert _share(artifact) == 1.0 and artifact.metrics[0].drop <= 0.5  # a digit of 300 is 0.33


# -- float16 -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("hide", ["min", "inf"])
def test_a_row_with_nothing_to_attend_to(tmp_path: Path, hide: str) -> None:
    (tmp_path / "attention.py").write_text(ATTENTION)
    draw = np.random.default_rng(0)
    mask = (draw.random((8, 7)) > 0.3).astype(np.int64)
    mask[3], mask[5] = 0, 1
    np.savez(tmp_path / "samples.npz", ids=draw.integers(0, 64, (8, 7)), mask=mask)
    (artifact,) = _converted(
        f"{tmp_path / 'attention.py'}:Attention",
        tmp_path,
        args=[f"hide={hide}"],
        inputs=["ids:int64:batchxseq", "mask:int64:batchxseq"],
        samples=str(tmp_path / "samples.npz"),
        precision=["fp16"],
    )
    assert artifact.accuracy.cosine >= 0.9999  # NaN would be a gate
    program = _read(tmp_path / "out" / artifact.path)
    types = {str(node.outputs[0].dtype) for node in program.nodes() if node.op_type == "Softmax"}
    assert types == {"FLOAT16"}
    held = [value.const_value for value in program.graph.graph.initializers.values()]
    floats = [
        x.numpy().astype(np.float64) for x in held if x is not None and "FLOAT16" in str(x.dtype)
    ]
    assert all(np.isfinite(x).all() for x in floats) or hide == "inf"


def test_float16_at_the_border(tmp_path: Path) -> None:
    small_cnn(tmp_path / "model.onnx")
    images = np.random.default_rng(3).standard_normal((8, 3, 16, 16)).astype(np.float32)
    np.savez(tmp_path / "samples.npz", image=images)
    options = {"samples": str(tmp_path / "samples.npz"), "io_dtype": "float16"}
    plain, half = _converted(
        str(tmp_path / "model.onnx"), tmp_path, precision=["fp32", "fp16"], **options
    )
    program = _read(tmp_path / "out" / half.path)
    assert {spec.dtype for spec in (*program.inputs, *program.outputs)} == {"float16"}
    assert {spec.dtype for spec in _read(tmp_path / "out" / plain.path).inputs} == {"float32"}
    assert not any(node.op_type == "Cast" for node in program.nodes())


# -- weights alone -------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "options", "limits"),
    [
        ("iOS18", {}, {"int4-weights": (0.995, 0.28e6), "fp16+int4-weights": (0.995, 0.25e6)}),
        ("iOS16", {"io_dtype": "float16"}, {"fp16+palettized": (0.999, 0.34e6)}),
    ],
)
def test_weights_alone(
    tmp_path: Path,
    target: str,
    options: dict[str, Any],
    limits: dict[str, tuple[float, float]],
) -> None:
    """In float32 they take 1.7 MB."""
    options = {**options, "precision": list(limits), "coreml_target": target}
    for artifact in _converted("zoo:ccexam-mnist", tmp_path, **options):
        cosine, most = limits[artifact.precision]
        assert artifact.accuracy.cosine >= cosine and artifact.bytes <= most


def test_onnx_takes_them_too(tmp_path: Path) -> None:
    small_cnn(tmp_path / "model.onnx", channels=64)
    made = api.convert(
        str(tmp_path / "model.onnx"),
        precision=["fp32", "int8-weights", "int4-weights", "palettized"],
        samples="random:4",
        min_cosine=0.9,
        bench=False,
        out=str(tmp_path / "out"),
    )
    assert made.report is not None
    plain, *stored = made.report.artifacts
    assert len(stored) == 3
    assert all(artifact.bytes < plain.bytes / 2 for artifact in stored)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"to": ["tflite"], "precision": ["int4-weights"]}, "tflite has no int4-weights"),
        ({"to": ["tensorrt-rtx"], "precision": ["palettized"]}, "has no palettized"),
        ({"to": ["coreml"], "precision": ["int4-weights"]}, "since iOS18"),
        ({"to": ["coreml"], "precision": ["int8-dynamic"]}, "coreml has no int8-dynamic"),
        ({"precision": ["palettized"], "palette_bits": 5}, "one of 1, 2, 4, 6, 8"),
    ],
)
def test_what_a_target_has_not(tmp_path: Path, options: dict[str, Any], told: str) -> None:
    small_cnn(tmp_path / "model.onnx")
    with pytest.raises(UsageError, match=told):
        api.convert(str(tmp_path / "model.onnx"), out=str(tmp_path / "out"), **options)
