"""The kinds of files that a user can hand over, how each is read, and small good ones of each.

How good files are made says tests/hostile/good.py.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from parsers.huggingface.spec import HUGGINGFACE
from parsers.keras.parser import KERAS
from parsers.pytorch.spec import PYTORCH
from parsers.tflite.spec import LITERT

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "hostile"


@dataclass(frozen=True)
class Kind:
    """A kind of files.

    Attributes:
        group: What has to be imported to read them.
        share: How many of a hundred or so cases are of it.
        args: What ``modelyard`` is asked; ``{}`` is the damaged file or folder.
        others: The same, of variants that are asked otherwise.
        codes: The exit codes that may come of it.
    """

    group: str
    share: int
    args: str = "inspect {}"
    others: Mapping[str, str] = field(default_factory=dict)
    codes: frozenset[int] = frozenset({0, 2, 3})

    def line(self, variant: str, source: str) -> list[str]:
        """The arguments for a variant."""
        return self.others.get(variant, self.args).format(source).split()


_NET = "inspect net.py:Net --weights {} --input x:batchx4"
_SAMPLES = "check ref.onnx --against ref.onnx --samples "

KINDS = {
    "onnx": Kind("plain", 34),
    "tflite": Kind("plain", 7),
    "coreml": Kind("plain", 6),
    "recipe": Kind("plain", 20, "run {}"),
    "samples": Kind(
        "plain", 16, _SAMPLES + "{}",
        {"labels": _SAMPLES + "x --labels {} --metric top1",
         "names": _SAMPLES + "x.npz --label-names {}"},
        frozenset({0, 2, 3, 4}),
    ),
    "cache": Kind("plain", 1, "convert ref.onnx --samples random:1 --no-bench --out out",
                  codes=frozenset({0})),
    "report": Kind(
        "plain", 2, "inspect {}",
        {"check": "check {} --against ref.onnx", "diff": "diff ref.onnx {}/onnx"},
        frozenset({0, 2, 3, 4}),
    ),
    "keras": Kind("tensorflow", 3),
    "tensorflow": Kind("tensorflow", 2),
    "torch": Kind(
        "torch", 5, _NET,
        {"script": "inspect {} --trust-source --input x:batchx4", "untrusted": "inspect {}",
         "program": "inspect {} --trust-source"},
    ),
    "huggingface": Kind("huggingface", 1),
}  # fmt: skip

BACKENDS = {
    "plain": LITERT.backend,
    "torch": PYTORCH.backend,
    "huggingface": HUGGINGFACE.backend,
    "tensorflow": KERAS.backend,
}
"""The worker that a group starts."""


@cache
def seeds(kind: str) -> dict[str, dict[str, bytes]]:
    """The good files of a kind: variants, each files by path."""
    folder = made(KINDS[kind].group) / kind
    return {
        variant.name: {p.relative_to(variant).as_posix(): p.read_bytes()
                       for p in sorted(variant.rglob("*")) if p.is_file()}
        for variant in sorted(folder.iterdir())
    }  # fmt: skip


@cache
def made(group: str) -> Path:
    """The folder of a group's good files, which are made where they aren't there yet."""
    from converter.files.digest import code_digest

    code = [Path(__file__).with_name("good.py").read_text(), (ROOT / "constraints.txt").read_text()]
    if group == "plain":  # a cache's entries have other names once the code changes
        code.append(code_digest())
    place = BUILD / "good" / f"{group}-{hashlib.sha256(''.join(code).encode()).hexdigest()[:12]}"
    if not place.exists():
        for old in place.parent.glob(f"{group}-*"):
            shutil.rmtree(old)
        half = place.with_name(f".{place.name}-{os.getpid()}")
        half.mkdir(parents=True)
        env = {
            **os.environ,
            "MODELYARD_CACHE": str(half / "cache/default/m"),
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }
        subprocess.run([sys.executable, "-m", "tests.hostile.good", group, str(half)], cwd=ROOT,
                       env=env, check=True,
                       stdout=sys.stderr)  # fmt: skip
        half.rename(place)
    return place
