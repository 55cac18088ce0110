"""Seeded random graphs of the operators that Transposes can pass, with Transposes in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx_ir
from onnx import TensorProto, helper, numpy_helper

from converter.ir import IR_VERSION, OPSET, Model

Array = np.ndarray[Any, Any]
_SIZES = (1, 2, 2, 3, 4)


class RandomGraph:
    """Grows a graph node by node; every value is a float tensor whose sizes are known.

    Args:
        seed: Decides everything.
        nodes: How many operators are put in.
    """

    def __init__(self, seed: int, nodes: int = 14) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.pool: dict[str, tuple[int, ...]] = {}
        self.free = bool(self.random.integers(2))
        rank = int(self.random.choice([2, 3, 4, 4, 4]))
        sizes = tuple(int(self.random.choice(_SIZES)) for _ in range(rank))
        self.inputs = {"x": sizes, "x2": sizes}
        self.pool.update(self.inputs)
        while len(self.nodes) < nodes:
            self._grow()

    # -- growing -----------------------------------------------------------------------

    def _grow(self) -> None:
        names = list(self.pool)
        name = names[-1 - min(int(self.random.geometric(0.35)) - 1, len(names) - 1)]
        if self.random.random() < 0.4:
            self.transpose(name)
            return
        makers: list[Callable[[str], object]] = [getattr(self, item) for item in _MAKERS]
        makers[int(self.random.integers(len(makers)))](name)

    def put(self, op: str, inputs: list[str], shape: tuple[int, ...], **attributes: Any) -> str:
        """A node with one output, which joins the pool."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        self.pool[name] = shape
        return name

    def const(self, array: Array) -> str:
        """An initializer."""
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def noise(self, *shape: int) -> str:
        """An initializer of noise."""
        return self.const(self.random.standard_normal(shape).astype(np.float32))

    def ints(self, *numbers: int) -> str:
        """An initializer of integers."""
        return self.const(np.asarray(numbers, np.int64))

    def axis(self, shape: tuple[int, ...]) -> int:
        """An axis, counted from the start or the end."""
        rank = len(shape)
        return int(self.random.integers(-rank, rank)) if rank else 0

    # -- operators ---------------------------------------------------------------------

    def transpose(self, x: str) -> str:
        """A Transpose by anything."""
        shape = self.pool[x]
        perm = [int(axis) for axis in self.random.permutation(len(shape))]
        if len(shape) == 4 and self.random.random() < 0.7:
            perm = [[0, 2, 3, 1], [0, 3, 1, 2]][int(self.random.integers(2))]
        return self.put("Transpose", [x], tuple(shape[axis] for axis in perm), perm=perm)

    def unary(self, x: str) -> str:
        """Relu and the like."""
        op = str(self.random.choice(["Relu", "Neg", "Sigmoid", "Identity", "HardSwish"]))
        return self.put(op, [x], self.pool[x])

    def clip(self, x: str) -> str:
        """Clip between scalars."""
        low, high = self.const(np.float32(-0.5)), self.const(np.float32(0.7))
        return self.put("Clip", [x, low, high], self.pool[x])

    def with_constant(self, x: str) -> str:
        """An operand of fewer axes, or with axes of one element."""
        shape = self.pool[x]
        low = [size if self.random.random() < 0.6 else 1 for size in shape]
        other = self.noise(*low[int(self.random.integers(len(shape) + 1)) :])
        op = str(self.random.choice(["Add", "Mul", "Sub", "PRelu", "Max"]))
        inputs = [x, other] if op == "PRelu" or self.random.random() < 0.5 else [other, x]
        return self.put(op, inputs, shape)

    def with_value(self, x: str) -> str:
        """Another value that broadcasts with it."""
        shape = self.pool[x]
        others = [o for o, s in self.pool.items() if _broadcasts(s, shape)]
        other = str(self.random.choice(others))
        return self.put(str(self.random.choice(["Add", "Mul", "Sum", "Min"])), [x, other], shape)

    def where(self, x: str) -> str:
        """Where, by a constant."""
        shape = self.pool[x]
        mask = self.const(self.random.random(shape) < 0.5)
        return self.put("Where", [mask, x, self.const(np.float32(0.25))], shape)

    def concat(self, x: str) -> str:
        """Concat with itself or another of its shape."""
        shape, axis = self.pool[x], self.axis(self.pool[x])
        if not shape:
            return x
        other = str(self.random.choice([o for o, s in self.pool.items() if s == shape]))
        return self.put("Concat", [x, other], _resized(shape, axis, shape[axis] * 2), axis=axis)

    def split(self, x: str) -> None:
        """Split into halves."""
        shape = self.pool[x]
        axes = [axis for axis, size in enumerate(shape) if size % 2 == 0]
        if axes:
            axis = int(self.random.choice(axes))
            names = [f"v{len(self.nodes)}", f"v{len(self.nodes)}b"]
            self.nodes.append(helper.make_node("Split", [x], names, axis=axis, num_outputs=2))
            self.pool.update(dict.fromkeys(names, _resized(shape, axis, shape[axis] // 2)))

    def pad(self, x: str) -> str:
        """Pad, for all axes or for one."""
        shape = self.pool[x]
        if not shape:
            return x
        if self.random.random() < 0.5:
            pads = [int(n) for n in self.random.integers(0, 2, 2 * len(shape))]
            ends = zip(shape, pads[: len(shape)], pads[len(shape) :], strict=True)
            return self.put("Pad", [x, self.ints(*pads)], tuple(a + b + c for a, b, c in ends))
        axis = self.axis(shape)
        inputs = [x, self.ints(1, 0), "", self.ints(axis)]
        return self.put("Pad", inputs, _resized(shape, axis, shape[axis] + 1))

    def slice(self, x: str) -> str:
        """Slice along one axis, or the first ones."""
        shape = self.pool[x]
        if not shape:
            return x
        if self.random.random() < 0.3:
            return self.put("Slice", [x, self.ints(0), self.ints(1)], (1, *shape[1:]))
        axis = self.axis(shape)
        inputs = [x, self.ints(-1), self.ints(-9), self.ints(axis), self.ints(-1)]
        return self.put("Slice", inputs, shape)

    def reduce(self, x: str) -> str:
        """A reduction; axes stay or go."""
        shape = self.pool[x]
        if not shape:
            return x
        count = int(self.random.integers(1, len(shape) + 1))
        axes = [int(a) for a in self.random.choice(len(shape), count, replace=False)]
        keep = bool(self.random.random() < 0.5 or len(shape) == count)
        result = tuple(
            1 if axis in axes else size
            for axis, size in enumerate(shape)
            if keep or axis not in axes
        )
        op = str(self.random.choice(["ReduceMean", "ReduceMax", "ReduceSum", "ReduceL2"]))
        return self.put(op, [x, self.ints(*axes)], result, keepdims=int(keep))

    def argmax(self, x: str) -> str:
        """ArgMax, as floats."""
        shape = self.pool[x]
        if len(shape) < 2:
            return x
        axis, keep = self.axis(shape) % len(shape), int(self.random.integers(2))
        result = tuple(
            1 if a == axis else size for a, size in enumerate(shape) if keep or a != axis
        )
        found = self.put("ArgMax", [x], result, axis=axis, keepdims=keep)
        del self.pool[found]
        return self.put("Cast", [found], result, to=TensorProto.FLOAT)

    def along(self, x: str) -> str:
        """Softmax and others along an axis."""
        shape = self.pool[x]
        if not shape:
            return x
        op = str(self.random.choice(["Softmax", "LogSoftmax", "Hardmax"]))
        return self.put(op, [x], shape, axis=self.axis(shape))

    def cumsum(self, x: str) -> str:
        """CumSum; its axis is an input."""
        shape = self.pool[x]
        if not shape:
            return x
        axis = self.const(np.asarray(self.axis(shape), np.int64))
        return self.put("CumSum", [x, axis], shape)

    def unsqueeze(self, x: str) -> str:
        """One axis more, up to five."""
        shape = self.pool[x]
        if len(shape) > 4:
            return x
        axis = int(self.random.integers(len(shape) + 1))
        result = (*shape[:axis], 1, *shape[axis:])
        return self.put("Unsqueeze", [x, self.ints(axis)], result)

    def squeeze(self, x: str) -> str:
        """All axes of one element but the first go."""
        shape = self.pool[x]
        axes = [axis for axis, size in enumerate(shape) if size == 1 and axis]
        if not axes:
            return x
        left = tuple(size for axis, size in enumerate(shape) if axis not in axes)
        return self.put("Squeeze", [x, self.ints(*axes)], left)

    def quantize(self, x: str) -> str:
        """QuantizeLinear and back, with one scale or one for each index of an axis."""
        shape = self.pool[x]
        per_axis = bool(shape) and self.random.random() < 0.6
        axis = self.axis(shape)
        count = (shape[axis],) if per_axis else ()
        scale = self.const(self.random.uniform(0.02, 0.05, count).astype(np.float32))
        zero = self.const(self.random.integers(-9, 9, count).astype(np.int8))
        attributes = {"axis": axis} if per_axis else {}
        middle = self.put("QuantizeLinear", [x, scale, zero], shape, **attributes)
        del self.pool[middle]
        if self.random.random() < 0.5 and not per_axis:
            moved = self.transpose_of(middle, shape)
            middle, shape = moved
        return self.put("DequantizeLinear", [middle, scale, zero], shape, **attributes)

    def transpose_of(self, x: str, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        """A Transpose of integers, which stay out of the pool."""
        perm = [int(axis) for axis in self.random.permutation(len(shape))]
        result = tuple(shape[axis] for axis in perm)
        name = self.put("Transpose", [x], result, perm=perm)
        del self.pool[name]
        return name, result

    def resize(self, x: str) -> str:
        """Resize of the last two axes."""
        shape = self.pool[x]
        if len(shape) != 4 or max(shape) > 8:
            return x
        result = (*shape[:2], shape[2] * 2, shape[3] * 2)
        if self.random.random() < 0.5:
            scales = self.const(np.asarray([1, 1, 2, 2], np.float32))
            return self.put("Resize", [x, "", scales], result, mode="linear")
        inputs = [x, "", "", self.ints(*result[2:])]
        return self.put("Resize", inputs, result, axes=[2, 3], mode="nearest")

    def normalize(self, x: str) -> str:
        """Operators whose channels are the second axis, or that take the last axes."""
        shape = self.pool[x]
        if len(shape) < 3:
            return x
        scale, bias = self.noise(shape[1]), self.noise(shape[1])
        kind = int(self.random.integers(3))
        if kind == 0:
            mean, variance = self.noise(shape[1]), self.const(np.ones(shape[1], np.float32))
            return self.put("BatchNormalization", [x, scale, bias, mean, variance], shape)
        if kind == 1:
            return self.put("InstanceNormalization", [x, scale, bias], shape)
        inputs = [x, self.noise(shape[-1]), self.noise(shape[-1])]
        return self.put("LayerNormalization", inputs, shape)

    def convolve(self, x: str) -> str:
        """A Conv of one point, or a pooling."""
        shape = self.pool[x]
        if len(shape) != 4 or max(shape) > 8:
            return x
        if self.random.random() < 0.3:
            op = str(self.random.choice(["GlobalAveragePool", "GlobalMaxPool"]))
            return self.put(op, [x], (*shape[:2], 1, 1))
        return self.put("Conv", [x, self.noise(3, shape[1], 1, 1)], (shape[0], 3, *shape[2:]))

    def multiply(self, x: str) -> str:
        """A product with constant weights, with or without a flattening before."""
        shape = self.pool[x]
        if len(shape) < 2:
            return x
        if len(shape) == 2 and self.random.random() < 0.5:
            inputs = [x, self.noise(3, shape[1])]
            return self.put("Gemm", inputs, (shape[0], 3), transB=1)
        if self.random.random() < 0.5:
            flat = (shape[0], int(np.prod(shape[1:])))
            if self.random.random() < 0.5:
                x = self.put("Flatten", [x], flat)
            else:
                x = self.put("Reshape", [x, self.ints(-1, flat[1])], flat)
            x, shape = self.put("Relu", [x], flat), flat
        return self.put("MatMul", [x, self.noise(shape[-1], 3)], (*shape[:-1], 3))

    def gather(self, x: str) -> str:
        """Gather by one index or two."""
        shape = self.pool[x]
        if len(shape) < 2:
            return x
        axis = self.axis(shape) % len(shape)
        if self.random.random() < 0.5:
            index = self.const(np.asarray(0, np.int64))
            left = (*shape[:axis], *shape[axis + 1 :])
            return self.put("Gather", [x, index], left, axis=axis)
        return self.put("Gather", [x, self.ints(0, -1)], _resized(shape, axis, 2), axis=axis)

    def reshape(self, x: str) -> str:
        """Two neighbours become one axis, or one becomes two."""
        shape = self.pool[x]
        if len(shape) < 2:
            return x
        axis = int(self.random.integers(len(shape) - 1))
        if self.random.random() < 0.5 and len(shape) < 5:
            result = (*shape[:axis], 1, shape[axis], *shape[axis + 1 :])
            if shape[axis] % 2 == 0:
                result = (*shape[:axis], 2, shape[axis] // 2, *shape[axis + 1 :])
        else:
            result = (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])
        target = [-1, *result[1:]] if self.random.random() < 0.5 else list(result)
        return self.put("Reshape", [x, self.ints(*target)], result)

    def by_shape(self, x: str) -> str:
        """What depends on the order of a Shape."""
        shape = self.pool[x]
        if not shape:
            return x
        sizes = self.put("Shape", [x], (len(shape),))
        del self.pool[sizes]
        return self.put("Cast", [sizes], (len(shape),), to=TensorProto.FLOAT)

    def repeat(self, x: str) -> str:
        """Tile, while it is small."""
        shape = self.pool[x]
        if not shape or np.prod(shape) > 500:
            return x
        repeats = [int(n) for n in self.random.integers(1, 3, len(shape))]
        result = tuple(a * b for a, b in zip(shape, repeats, strict=True))
        return self.put("Tile", [x, self.ints(*repeats)], result)

    def branch(self, x: str) -> str:
        """An If, one of whose branches permutes what it takes from outside."""
        shape = self.pool[x]
        perm = [int(axis) for axis in self.random.permutation(len(shape))]
        back = [perm.index(axis) for axis in range(len(perm))]
        tag, kind = len(self.nodes), TensorProto.FLOAT
        then = [
            helper.make_node("Transpose", [x], [f"p{tag}"], perm=perm),
            helper.make_node("Relu", [f"p{tag}"], [f"q{tag}"]),
            helper.make_node("Transpose", [f"q{tag}"], [f"r{tag}"], perm=back),
        ]
        other = [helper.make_node("Neg", [x], [f"s{tag}"])]
        graphs = [
            helper.make_graph(
                nodes,
                f"b{tag}",
                [],
                [helper.make_tensor_value_info(name, kind, [None] * len(shape))],
            )
            for nodes, name in ((then, f"r{tag}"), (other, f"s{tag}"))
        ]
        condition = self.const(np.asarray(bool(self.random.integers(2))))
        return self.put("If", [condition], shape, then_branch=graphs[0], else_branch=graphs[1])

    # -- the model ---------------------------------------------------------------------

    def model(self) -> Model:
        """The graph as a model; what nothing uses, and some of the rest, are its outputs."""
        used = {name for node in self.nodes for name in node.input}
        names = [n for n in self.pool if n not in self.inputs]
        outputs = [n for n in names if n not in used or self.random.random() < 0.1]
        graph = helper.make_graph(
            self.nodes,
            "random",
            [self._info(name, shape) for name, shape in self.inputs.items()],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
            self.constants,
        )
        opsets = [helper.make_opsetid("", OPSET)]
        proto = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
        return Model(onnx_ir.from_proto(onnx.shape_inference.infer_shapes(proto, data_prop=True)))

    def _info(self, name: str, shape: tuple[int, ...]) -> onnx.ValueInfoProto:
        sizes = ["batch", *shape[1:]] if self.free else list(shape)
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes)


def _resized(shape: tuple[int, ...], axis: int, size: int) -> tuple[int, ...]:
    axis %= len(shape)
    return (*shape[:axis], size, *shape[axis + 1 :])


def _broadcasts(low: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    if len(low) > len(shape):
        return False
    pairs = zip(reversed(low), reversed(shape), strict=False)
    return all(one in (1, size) for one, size in pairs)


_MAKERS = (
    "unary", "clip", "with_constant", "with_value", "with_value", "where", "concat", "split",
    "pad", "slice", "reduce", "argmax", "along", "cumsum", "unsqueeze", "squeeze", "quantize",
    "resize", "normalize", "convolve", "convolve", "multiply", "gather", "reshape", "by_shape",
    "repeat", "branch",
)  # fmt: skip
