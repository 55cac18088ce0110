"""The models of the GPU bench, converted: which, how, and where the result is kept."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "gpu"
"""What was converted and measured; `make clean` removes it."""

MAX_BATCH = 32
TOKENS = 64

Feeds = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Subject:
    """A model of the bench.

    Attributes:
        title: As the page calls it.
        reference: ``zoo:NAME``.
        options: Fields of :class:`converter.options.request.Request` for every conversion.
        engine: More of them, for engines.
        takes_text: Whether it takes words, else pictures.
    """

    title: str
    reference: str
    options: Mapping[str, Any] = field(default_factory=dict)
    engine: Mapping[str, Any] = field(default_factory=dict)
    takes_text: bool = False

    @property
    def name(self) -> str:
        """Of its files."""
        return self.reference.removeprefix("zoo:")

    def feeds(self, batch: int) -> Feeds:
        """Inputs to time, the same each time: pictures of noise, or words of a dictionary."""
        rng = np.random.default_rng(0)
        if not self.takes_text:
            return {"image": rng.standard_normal((batch, 3, 224, 224)).astype(np.float32)}
        ones = np.ones((batch, TOKENS), np.int64)
        ids = rng.integers(1000, 20000, (batch, TOKENS))
        return {"input_ids": ids, "attention_mask": ones, "token_type_ids": 0 * ones}


def _tokens(name: str) -> str:
    return f"{name}:1x4,8x{TOKENS},{MAX_BATCH}x128"


SUBJECTS = {
    subject.name: subject
    for subject in (
        Subject("EfficientNet-Lite0", "zoo:efficientnet-lite0"),
        Subject("ResNet-50, random weights", "zoo:resnet50-random", {"samples": "random:16"}),
        Subject(
            "all-MiniLM-L6-v2",
            "zoo:minilm",
            engine={
                "shapes": [
                    _tokens(name) for name in ("input_ids", "attention_mask", "token_type_ids")
                ]
            },
            takes_text=True,
        ),
    )
}
PRECISIONS = ("fp32", "fp16", "int8")


@dataclass(frozen=True)
class Made:
    """A conversion's artifact and what the report says of it.

    Attributes:
        path: The file to open.
        report: The artifact's part of ``report.json``.
    """

    path: Path
    report: Mapping[str, Any]


def converted(subject: Subject, target: str, precision: str, *, providers: list[str]) -> Made:
    """The model as ``target`` at ``precision``, checked where it runs; kept from an earlier call.

    Args:
        subject: The model.
        target: ``onnx``, ``tensorrt`` or ``tensorrt-rtx``.
        precision: Of :data:`PRECISIONS`.
        providers: Where ONNX Runtime checks it, for the target ``onnx``.

    Raises:
        ModelyardError: It can't be converted, or missed a gate.
    """
    from converter import api

    out = BUILD / f"{subject.name}-{target}-{precision}-{'-'.join(providers)}"
    if not (out / "report.json").is_file():
        shutil.rmtree(out, ignore_errors=True)
        engine = {} if target == "onnx" else dict(subject.engine)
        api.convert(
            subject.reference,
            to=[target],
            precision=[precision],
            out=str(out),
            offline=True,
            bench=False,
            few_samples=True,
            max_batch=MAX_BATCH,
            tf32=False,
            providers=providers,
            **{**subject.options, **engine},
        )
    report = json.loads((out / "report.json").read_text())
    artifact = report["artifacts"][0]
    return Made(out / artifact["path"], artifact)
