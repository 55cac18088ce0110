"""Models of one node, in the opset they are written in, with inputs to run them on."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

Array = np.ndarray[Any, Any]
_RNG = np.random.default_rng(0)


def floats(*shape: int) -> Array:
    return _RNG.standard_normal(shape).astype(np.float32)


def longs(*values: int) -> Array:
    return np.array(values, np.int64)


class Case:
    """One node: ``feeds`` come in, ``weights`` are initializers (None for a missing input)."""

    def __init__(
        self, name: str, opset: int, op: str, feeds: list[Array], weights: Sequence[Any] = (),
        outputs: int | Sequence[int] = TensorProto.FLOAT, *, typed: bool = True, **attributes: Any,
    ) -> None:  # fmt: skip
        self.name, self.opset, self.op, self.typed = f"{op}-{opset}-{name}", opset, op, typed
        self.feeds = {f"in{index}": feed for index, feed in enumerate(feeds)}
        self.weights = [("" if w is None else f"w{k}", w) for k, w in enumerate(weights)]
        self.outputs = (outputs,) if isinstance(outputs, int) else tuple(outputs)
        self.attributes = attributes

    def __str__(self) -> str:
        return self.name

    def model(self, *, free: bool = False) -> tuple[onnx.ModelProto, dict[str, Array]]:
        """The model, with every dimension of its inputs free or fixed, and its inputs."""
        info, kind = helper.make_tensor_value_info, helper.np_dtype_to_tensor_dtype
        outputs = [info(f"out{index}", kind, None) for index, kind in enumerate(self.outputs)]
        names = [*self.feeds, *(name for name, _ in self.weights)]
        node = helper.make_node(self.op, names, [o.name for o in outputs], **self.attributes)
        inputs = [
            info(name, kind(array.dtype), self._shape(name, array, free=free))
            for name, array in self.feeds.items()
        ]
        stored = [(np.asarray(w), name) for name, w in self.weights if name]
        tensors = [onnx.numpy_helper.from_array(w, name) for w, name in stored]
        graph = helper.make_graph([node], "case", inputs, outputs, tensors)
        imports = [helper.make_opsetid("", self.opset)]
        version = min(10, max(4, helper.OP_SET_ID_VERSION_MAP[("ai.onnx", self.opset)]))
        return helper.make_model(graph, opset_imports=imports, ir_version=version), self.feeds

    def _shape(self, name: str, array: Array, *, free: bool) -> list[Any] | None:
        if not self.typed:
            return None
        return [f"{name}_{d}" for d in range(array.ndim)] if free else list(array.shape)


F, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
X = floats(2, 3, 8, 8)
ROIS = np.array([[0.7, 0.7, 6.2, 5.1], [1, 2, 3, 7.5]], np.float32)
GRID = (_RNG.random((2, 5, 5, 2)) * 2 - 1).astype(np.float32)
WHERE = np.array([[1, 0, 2], [0, 2, 1]], np.int64)
NO_ROI = np.zeros(0, np.float32)
CROP = np.array([0, 0, 0.1, 0.1, 1, 1, 0.8, 0.8], np.float32)


def scales(*values: float) -> Array:
    return np.array(values, np.float32)


def statistics(*shape: int) -> list[Array]:
    return [floats(*shape), floats(*shape), floats(*shape), abs(floats(*shape))]


def each(op: str, *rows: tuple[str, int, list[Array], dict[str, Any]]) -> list[Case]:
    """Cases of one operator without weights: name, opset, feeds and attributes."""
    return [Case(name, opset, op, feeds, **how) for name, opset, feeds, how in rows]


FLAT, THIN = floats(2, 5), floats(2, 5, 1, 1)
HOLES, PADS = floats(1, 3, 1, 2), [0, 0, 1, 1, 0, 0, 2, 2]
MODE = "coordinate_transformation_mode"
BOX = {"output_height": 3, "output_width": 3, "sampling_ratio": 2, "spatial_scale": 0.9}
EIGHTH, BYTES = [np.float32(0.1), np.uint8(12)], np.arange(10, dtype=np.uint8)
REDUCTIONS = "Sum Mean Max Min Prod L1 L2 LogSum LogSumExp SumSquare"

CHANGED = [
    Case("plain", 7, "BatchNormalization", [X], statistics(3)),
    Case("per-element", 7, "BatchNormalization", [X], statistics(3, 8, 8), spatial=0),
    Case("epsilon", 9, "BatchNormalization", [X], statistics(3), epsilon=0.1),
    Case("plain", 7, "Dropout", [X], ratio=0.3),
    Case("mask", 7, "Dropout", [X], outputs=(F, F), ratio=0.3),
    Case("mask", 10, "Dropout", [X], outputs=(F, BOOL), ratio=0.3),
    Case("ratio", 12, "Dropout", [X], [np.float32(0.4)]),
    Case("nearest", 7, "Upsample", [X], mode="nearest", scales=[1.0, 1.0, 2.0, 2.0]),
    Case("uneven", 7, "Upsample", [X], mode="nearest", scales=[1.0, 1.0, 1.5, 1.7]),
    Case("linear", 7, "Upsample", [X], mode="linear", scales=[1.0, 1.0, 2.0, 2.0]),
    Case("linear", 9, "Upsample", [X], [scales(1, 1, 2.5, 2.5)], mode="linear"),
    Case("fed scales", 9, "Upsample", [X, scales(1, 1, 2, 2)], mode="nearest"),
    Case("larger", 10, "Resize", [X], [scales(1, 1, 1.5, 1.7)], mode="nearest"),
    Case("smaller", 10, "Resize", [X], [scales(1, 1, 0.6, 0.3)], mode="nearest"),
    Case("both", 10, "Resize", [X], [scales(1, 1, 0.6, 1.7)], mode="nearest"),
    Case("fed scales", 10, "Resize", [X, scales(1, 1, 0.6, 1.7)], mode="nearest"),
    Case("linear", 10, "Resize", [X], [scales(1, 1, 2.5, 0.5)], mode="linear"),
    Case("tf_half_pixel_for_nn", 11, "Resize", [X], [NO_ROI, scales(1, 1, 2.5, 0.7)],
         mode="nearest", nearest_mode="floor", **{MODE: "tf_half_pixel_for_nn"}),
    Case("crop", 11, "Resize", [X], [CROP, scales(1, 1, 2.5, 2.5)], mode="linear",
         **{MODE: "tf_crop_and_resize"}),
    Case("sizes", 11, "Resize", [X], [NO_ROI, NO_ROI, longs(2, 3, 12, 20)], mode="cubic"),
    Case("no roi", 13, "Resize", [X], [None, scales(1, 1, 2, 2)], mode="nearest"),
    *(
        one
        for op in ("Softmax", "LogSoftmax", "Hardmax")
        for one in each(
            op,
            ("matrix", 7, [FLAT], {}),
            ("default axis", 7, [X], {}),
            *((f"axis {axis}", 7, [X], {"axis": axis}) for axis in (0, 2, 3)),
            ("ones behind", 7, [THIN], {"axis": 1}),
            *((f"axis {axis}", 11, [X], {"axis": axis}) for axis in (-1, -2)),
            ("no rank", 11, [X], {"axis": 1, "typed": False}),
            ("axis 1", 13, [X], {"axis": 1}),
        )
    ),
    Case("axes", 7, "Slice", [X], starts=[0, 1], ends=[1, 100], axes=[1, 2]),
    Case("no axes", 7, "Slice", [X], starts=[0, 1], ends=[1, 3]),
    Case("negative", 7, "Slice", [X], starts=[-3], ends=[-1], axes=[3]),
    Case("k", 7, "TopK", [floats(3, 9)], outputs=(F, I64), k=3, axis=1),
    Case("k input", 10, "TopK", [floats(3, 9)], [longs(3)], outputs=(F, I64)),
    Case("value", 7, "Pad", [X], pads=PADS, value=1.5),
    Case("reflect", 7, "Pad", [X], pads=PADS, mode="reflect"),
    Case("negative", 7, "Pad", [X], pads=[0, 0, -1, 1, 0, 0, 0, -2]),
    *each("Clip", *((" ".join(how) or "none", 7, [X], how) for how in (
        {"min": -0.5, "max": 0.5}, {"min": 0.0}, {"max": 0.25}, {}))),
    *each("Squeeze", ("axes", 7, [HOLES], {"axes": [0, 2]}), ("all", 7, [HOLES], {}),
          ("negative", 11, [HOLES], {"axes": [-2]})),
    *each("Unsqueeze", ("axes", 7, [FLAT], {"axes": [0, 3]}),
          ("negative", 11, [FLAT], {"axes": [-1]})),
    *(
        one
        for op in REDUCTIONS.split()
        for one in each(
            f"Reduce{op}",
            ("axes", 7, [abs(X)], {"axes": [1, 3], "keepdims": 0}),
            ("all", 7, [abs(X)], {"keepdims": 0}),
            ("negative", 11, [abs(X)], {"axes": [-1]}),
        )
    ),
    Case("axes", 13, "ReduceMean", [X], axes=[1]),
    Case("nothing", 13, "ReduceSum", [X], [np.zeros(0, np.int64)], noop_with_empty_axes=1),
    Case("sizes", 7, "Split", [floats(2, 6)], outputs=(F, F), axis=1, split=[2, 4]),
    Case("equal", 7, "Split", [floats(2, 6)], outputs=(F, F, F), axis=1),
    Case("sizes", 13, "Split", [floats(2, 6)], [longs(1, 5)], outputs=(F, F), axis=1),
    Case("equal", 13, "Split", [floats(2, 6)], outputs=(F, F), axis=-1),
    Case("first axis", 9, "Scatter", [floats(3, 3), WHERE, floats(2, 3)]),
    Case("axis", 9, "Scatter", [floats(3, 3), WHERE, floats(2, 3)], axis=1),
    Case("unshifted", 10, "RoiAlign", [X, ROIS, longs(0, 1)], **BOX),
    Case("default", 16, "GridSample", [X, GRID]),
    Case("bilinear", 16, "GridSample", [X, GRID], mode="bilinear", align_corners=1),
    Case("bicubic", 16, "GridSample", [X, GRID], mode="bicubic", padding_mode="border"),
    Case("nearest", 16, "GridSample", [X, GRID], mode="nearest"),
    Case("default", 17, "DFT", [floats(1, 6, 4, 1)]),
    Case("axis", 17, "DFT", [floats(1, 6, 4, 1)], axis=2, onesided=1),
    Case("length", 17, "DFT", [floats(1, 6, 4, 1)], [np.int64(8)], axis=2),
    Case("default", 17, "STFT", [floats(1, 32, 1)], [np.int64(4), scales(*np.hanning(8))]),
    Case("by group", 18, "GroupNormalization", [floats(2, 6, 4)], [floats(2)] * 2, num_groups=2),
    Case("by group", 20, "GroupNormalization", [X[:, :2]], [floats(2)] * 2, num_groups=2),
    Case("by channel", 21, "GroupNormalization", [floats(2, 6, 4)], [floats(6)] * 2, num_groups=2),
]  # fmt: skip
"""Operators whose form or meaning changed up to opset 20."""

KEPT = [
    Case("same pads", 7, "AveragePool", [X], kernel_shape=[3, 3], auto_pad="SAME_UPPER"),
    Case("pads", 7, "AveragePool", [X], kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=1),
    Case("ceil", 10, "AveragePool", [X], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4,
         ceil_mode=1),
    Case("indices", 8, "MaxPool", [X], outputs=(F, I64), kernel_shape=[2, 2], strides=[2, 2]),
    Case("dilated", 10, "MaxPool", [X], kernel_shape=[2, 2], dilations=[2, 2], ceil_mode=1),
    Case("p 2", 7, "LpPool", [X], kernel_shape=[3, 3], strides=[2, 2], p=2),
    Case("p 2", 11, "LpPool", [X], kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER"),
    Case("to int", 7, "Cast", [X], outputs=TensorProto.INT32, to=TensorProto.INT32),
    Case("per tensor", 10, "QuantizeLinear", [X], EIGHTH, outputs=TensorProto.UINT8),
    Case("per tensor", 10, "DequantizeLinear", [BYTES], EIGHTH),
    Case("three outputs", 7, "LSTM", [floats(4, 2, 3)],
         [floats(1, 20, 3), floats(1, 20, 5), floats(1, 40)], outputs=(F, F, F), hidden_size=5),
    Case("reset", 7, "GRU", [floats(4, 2, 3)], [floats(1, 15, 3), floats(1, 15, 5), floats(1, 30)],
         outputs=(F, F), hidden_size=5, linear_before_reset=1),
    Case("bias", 7, "Conv", [X], [floats(4, 3, 3, 3), floats(4)], kernel_shape=[3, 3]),
    Case("size", 7, "ConvTranspose", [X], [floats(3, 4, 3, 3)], strides=[2, 2],
         output_shape=[17, 17]),
    Case("transposed", 7, "Gemm", [floats(2, 3)], [floats(4, 3), floats(4)], transB=1, alpha=0.5),
    Case("copy and rest", 7, "Reshape", [X], [longs(0, -1)]),
    Case("axis", 11, "ArgMax", [X], outputs=I64, axis=-1, keepdims=0),
    Case("default", 7, "DepthToSpace", [floats(1, 8, 2, 2)], blocksize=2),
    Case("off", 9, "OneHot", [longs(1, 2, 0)], [longs(4), np.array([0, 1], np.float32)]),
    Case("whole", 7, "Shape", [X], outputs=I64),
    Case("fractions", 10, "Mod", [floats(4), floats(4)], fmod=1),
    Case("channel", 7, "PRelu", [X], [floats(3, 1, 1)]),
    Case("axis", 11, "CumSum", [X], [np.int64(2)]),
    Case("condition", 9, "Where", [X > 0, X, X * 2]),
    Case("default", 7, "InstanceNormalization", [X], [floats(3), floats(3)]),
]  # fmt: skip
"""Operators that later opsets only extended."""

NEWER = [
    Case("default", 24, "Swish", [floats(2, 8)]),
    Case("alpha", 24, "Swish", [floats(2, 8)], alpha=1.5),
    Case("default", 23, "RMSNormalization", [floats(2, 8)], [floats(8)]),
    Case("causal", 23, "Attention", [floats(2, 4, 5, 8)], [floats(2, 4, 6, 8)] * 2, is_causal=1),
    Case("past without mask", 24, "Attention", [floats(2, 4, 5, 8)],
         [*[floats(2, 4, 6, 8)] * 2, None, *[floats(2, 4, 3, 8)] * 2],
         outputs=(F, F, F), is_causal=1),
    Case("halves", 23, "RotaryEmbedding", [floats(2, 4, 3, 8)], [floats(2, 3, 4)] * 2),
    Case("plain", 24, "Relu", [X]),
    Case("round", 24, "Cast", [X], outputs=TensorProto.INT32, to=TensorProto.INT32),
    Case("neutral", 24, "Cast", [X], outputs=TensorProto.INT32, to=6, round_mode="up"),
    Case("k", 24, "TopK", [floats(3, 9)], [longs(3)], outputs=(F, I64)),
    Case("per tensor", 21, "QuantizeLinear", [X], EIGHTH, outputs=TensorProto.UINT8),
]  # fmt: skip
"""Operators of opsets above 20 that can be said in 20."""
