"""What is asked of the files that ONNX Runtime runs: ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from converter.options.option import declared
from converter.options.request import Request

if TYPE_CHECKING:
    from converter.ir.model import Model
    from converter.precision.int8.scheme import Scheme

FILE = "bytes of a file"
"""How what an input means begins that takes a file's."""

_SATURATES = (
    "for x86 CPUs without VNNI{}, convert with --reduce-range: there, its sums of 8-bit products "
    "can saturate"
)


@dataclass
class OnnxRequest(Request):
    """What is asked of int8 and of files; docs/options.md lists it."""

    reduce_range: bool = declared(
        "ONNX Runtime",
        "--reduce-range",
        "Give int8 weights 7 bits. Their products don't saturate on any x86 CPU.",
        False,
        affects=("plan",),
    )
    ort_extensions: bool = declared(
        "ONNX Runtime",
        "--ort-extensions",
        "With --prepare graph, the artifact takes picture files (JPEG, PNG) or sound files "
        "(WAV, FLAC). It needs onnxruntime-extensions to decode them.",
        False,
        needs="in_graph",
        affects=("parse",),
    )


def scheme_of(request: Request) -> Scheme:
    """The int8 that is asked for."""
    from converter.precision.int8.scheme import ONNXRUNTIME_CPU, ONNXRUNTIME_CPU_REDUCED

    reduced = request.of(OnnxRequest).reduce_range
    return ONNXRUNTIME_CPU_REDUCED if reduced else ONNXRUNTIME_CPU


def assumed(model: Model) -> list[str]:
    """What has to be known of the CPUs that run a model, for ``assumes`` in an artifact's details.

    Docs: "Quantize ONNX models" of ONNX Runtime, under "When and why do I need to try U8U8?".
    """
    from converter.runtime.ort_integers import holds_wide_products, saturates

    if not holds_wide_products(model.graph):
        return []
    return [_SATURATES.format(" (such as this one)" if saturates() else "")]
