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

TEXT = """Made by `python -m bench.beside`. Each starts from the same float32 ONNX file, which `convert` wrote, has
no budget, and is calibrated and judged on the sets of the tables above; cosines are to that file in ONNX
Runtime. ResNet-50's weights are random: speed alone. "Ours" is `--precision int8` for ONNX and for TFLite;
`quantize_static` has its best settings (`bench/int8.py`; of a transformer products alone); NNCF its default
preset, and `MIXED` with `fast_bias_correction=False`, and knows of a transformer that it is one.
Multiply-adds are counted in the file of ours and of `quantize_static`, and of OpenVINO in what it compiled
(`runtimePrecision` of the runtime model; attention is inside other kernels there, and isn't counted).
Latency is that of one sample, with shapes fixed in OpenVINO, each run in a process of its own: medians of
the fastest of {rounds} rounds in turns, since others use the machine too.

{table}

Where the time goes on one thread, in milliseconds, by each runtime's own profiler: our file in ONNX Runtime,
NNCF's default in OpenVINO, where sums are part of the kernels before them.

{kernels}

What that says, and what of it is ours to close:

- EfficientNet-Lite0: nobody else is near our accuracy, so that nobody is faster at the same. ONNX Runtime's
  and OpenVINO's kernels take as long together: OpenVINO leaves depthwise convolutions in float32, which on a
  CPU with VNNI costs no more than MLAS' integer ones, and has a better first convolution; MLAS has faster
  ones of 1 x 1. Of our file nothing is left to fuse: each product is a QLinearConv or QGemm, each sum a
  QLinearAdd, and the input's QuantizeLinear the only one. The first convolution in float32 was tried: what
  it gains goes to a reorder and to quantizing an output that is 2.7 times as large as the input.
- ResNet-50: OpenVINO is ahead. It adds a residual while a convolution writes its output; ONNX Runtime has no
  such kernel, and its 16 QLinearAdds and the first convolution, whose three channels it gathers pixel by
  pixel, are most of the difference on one thread. `quantize_static`'s file has the same kernels and takes as
  long. Neither is to be had by placing Q and DQ otherwise. A first convolution over blocks of 2 x 2 pixels
  would gather in longer pieces; that isn't done.
- MiniLM, accuracy: NNCF's worst sample is a little better than ours in ONNX Runtime, all values together are
  alike. In LiteRT full int8 loses most, and no rounding of weights heals it: an integer FULLY_CONNECTED
  writes integers, where products in ONNX Runtime and OpenVINO write float32. Sums that a normalization
  alone reads, in which few channels are large, stay float32 for that reason. What is left a budget
  heals (`minilm-tflite-int8`: `--min-cosine 0.99`): those layers then keep int8 weights beside float32.
- MiniLM, speed: OpenVINO is ahead, in products and more in the rest: attention, its products too, biases,
  activations and quantizing are a few compiled kernels there, and one each in ONNX Runtime (42 QuantizeLinear,
  32 Add, 24 Transpose, normalizations, Gelus). Ours to close, and not closed: Q, K and V as one product with one bias
  (ONNX Runtime's kernel for products that write float32 takes no bias from Q/DQ), and ten Muls by which
  channels are brought to one size.

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
