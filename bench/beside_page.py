"""The section of docs/precision.md that :mod:`bench.beside` writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.measure import where

NAMES = {"onnxruntime": "ONNX Runtime", "litert": "LiteRT", "openvino": "OpenVINO"}
KINDS = ("stem", "depthwise", "other convolutions", "other products", "sums", "all else")
"""Of kernels, as :mod:`bench.peers.profiled` tells them apart."""


@dataclass(frozen=True)
class Way:
    """Runtime and quantizer: who reads what file, beside the runtime's own float32."""

    runtime: str
    title: str
    file: str
    plain: str

    def key(self, file: str, threads: int) -> str:
        """Names a latency."""
        return f"{self.runtime} {file} {threads}"


@dataclass(frozen=True)
class Seen:
    """What was measured of a model.

    Attributes:
        latency: Milliseconds, by :meth:`Way.key`.
        share: By file, which share of the multiply-adds computes in integers.
        cosine: By file, that of the worst sample and of all together.
    """

    latency: Mapping[str, float]
    share: Mapping[str, float]
    cosine: Mapping[str, Sequence[float]]


Spent = Mapping[tuple[str, Way], Mapping[str, float]]
"""Microseconds by kind of kernel, by model and way."""

TEXT = """`python -m bench.beside` makes this section. Each quantizer starts from the same float32 ONNX file, which
`convert` wrote. None has a budget. All are calibrated and judged on the sets of the tables above. Cosines
compare with that file in ONNX Runtime. ResNet-50 has random weights, so only its speed counts.

- *ours* is `--precision int8` for ONNX and for TFLite.
- `quantize_static` has its best settings (`bench/int8.py`). In a transformer it quantizes products alone.
- NNCF has its default preset, and then `MIXED` with `fast_bias_correction=False`. For a transformer it also has
  the model type.

The share of multiply-adds comes from the file for ours and `quantize_static`, and from the compiled model for OpenVINO
(`runtimePrecision` of the runtime model). There, attention is inside other kernels and doesn't count.
Latency is that of one sample, with fixed shapes in OpenVINO. Each run has a process of its own. Times are medians
of the fastest of {rounds} rounds in turns, since others use the machine too.

{table}

The next table says where the time goes on one thread, in milliseconds, by each runtime's own profiler. It compares
our file in ONNX Runtime with NNCF's default in OpenVINO, where sums are part of the kernels before them.

{kernels}

What follows from the tables:

- **EfficientNet-Lite0.** No other file is near our accuracy, so none is faster at the same accuracy. The kernels of
  ONNX Runtime and of OpenVINO take about as long together. OpenVINO leaves depthwise convolutions in float32. On a
  CPU with VNNI, that costs no more than MLAS' integer kernels. OpenVINO's first convolution is better, and MLAS'
  convolutions of 1 x 1 are faster. Our file has nothing left to fuse: each product is a QLinearConv or a QGemm, each
  sum is a QLinearAdd, and only the input has a QuantizeLinear. We tried the first convolution in float32. Its gain
  goes to a reorder, and to quantizing an output that is 2.7 times as large as the input.
- **ResNet-50.** OpenVINO is ahead. It adds a residual while a convolution writes its output. ONNX Runtime has no such
  kernel. On one thread, most of the difference is in ONNX Runtime's 16 QLinearAdds and in its first convolution, which
  gathers three channels pixel by pixel. `quantize_static`'s file has the same kernels and takes as long. Other places
  for Q and DQ don't change that. A first convolution over blocks of 2 x 2 pixels would gather longer pieces. We
  haven't built it.
- **MiniLM, accuracy.** NNCF's worst sample is a little better than ours in ONNX Runtime. All values together are
  alike. Full int8 in LiteRT loses most, and no rounding of weights helps: an integer FULLY_CONNECTED writes integers,
  and products in ONNX Runtime and OpenVINO write float32. For that reason, sums with a few large channels stay in
  float32 where only a normalization reads them. A budget recovers the rest (`minilm-tflite-int8`:
  `--min-cosine 0.99`): those layers then keep int8 weights beside float32.
- **MiniLM, speed.** OpenVINO is ahead in products, and more in the rest. It compiles attention with its products,
  biases, activations and quantizing into a few kernels. ONNX Runtime has one kernel for each (42 QuantizeLinear,
  32 Add, 24 Transpose, normalizations, Gelus). Two things are left for us to do: Q, K and V as one product with one
  bias (ONNX Runtime's kernel for products that write float32 takes no bias from Q/DQ), and ten Muls that bring
  channels to one size.

{where}
OpenVINO's environment: {peers}.
"""  # noqa: E501 - a table's row is one line


def page(
    found: Mapping[str, Seen], ways: Sequence[Way], spent: Spent,
    threads: Sequence[int], rounds: int, versions: Sequence[str],
) -> str:  # fmt: skip
    """The section, without its heading.

    Args:
        found: What was seen, by the model's title.
        ways: How files were made, in the order of rows.
        spent: Microseconds of a run by kind of kernel, for each model and way.
        threads: Numbers of threads that were timed.
        rounds: How often each file was timed.
        versions: The peers', as text.
    """
    head = ["model", "runtime", "int8 by", "cosine, worst", "all", "multiply-adds in int8"]
    head += [f"faster than its float32, {n} thread{'s'[: n != 1]}" for n in threads]
    table = [
        head,
        *(row for title, seen in found.items() for row in rows(title, seen, ways, threads)),
    ]
    kinds = [["model", "runtime", *KINDS]]
    for (title, way), parts in spent.items():
        times = (f"{parts.get(kind, 0) / 1e3:.2f}" for kind in KINDS)
        kinds.append([title, NAMES[way.runtime], *times])
    return TEXT.format(
        rounds=rounds, table=_table(table), kernels=_table(kinds), peers=", ".join(versions),
        where=where("onnxruntime-gpu", "ai-edge-litert", "onnx", "numpy"),
    )  # fmt: skip


def rows(
    title: str, seen: Seen, ways: Sequence[Way], threads: Sequence[int]
) -> Iterator[list[str]]:
    """A row for each way.

    Args:
        title: The model's.
        seen: What was seen of it.
        ways: How files were made.
        threads: Numbers of threads that were timed.
    """
    for way in ways:
        cosine = [f"{value:.4f}" for value in seen.cosine.get(way.file, ())] or ["-", "-"]
        yield [title, NAMES[way.runtime], way.title, *cosine, f"{seen.share[way.file]:.1%}",
               *(_faster(seen, way, each) for each in threads)]  # fmt: skip


def _faster(seen: Seen, way: Way, threads: int) -> str:
    plain, fast = (seen.latency[way.key(file, threads)] for file in (way.plain, way.file))
    return f"x{plain / fast:.2f} ({plain:.1f} / {fast:.1f} ms)"


def _table(rows: Sequence[Sequence[str]]) -> str:
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)
