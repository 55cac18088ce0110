"""Cases of operators: how their text becomes a model and feeds."""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx.parser
import onnx_ir

from converter.ir.model import Model
from emitters.lowering.folding import fill_in

Array = np.ndarray[Any, Any]
Feeds = Mapping[str, Any]

HEADER = '<ir_version: 9, opset_import: ["" : 20]>\n'
ML = "ai.onnx.ml."
OTHERS = (
    "float16", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "complex64",
)  # fmt: skip
TYPES = {"float": np.float32, "double": np.float64, "bfloat16": ml_dtypes.bfloat16}
TYPES |= {name: np.dtype(name).type for name in OTHERS}
TYPE = rf"(?P<type>{'|'.join(TYPES)})"
OPERAND = re.compile(
    rf"(?<=[(,])\s*(?:\b{TYPE}\b ?)?(?:"
    r"(?P<name>[a-z]\w*)?(?P<weight>!)?\[(?P<dims>[\w, ]*)\]"
    r"(?:~(?P<low>-?[\d.]+):(?P<high>-?[\d.]+))?(?!\s*\w)"
    r"|\{(?P<vector>[^{}]*)\}|\$(?P<scalar>-?[\w.]+(?:(?<=e)-\d+)?))"
)
RESULT = re.compile(
    rf"\s*(?:{TYPE}(?:\[(?P<dims>[\w, ?]*)\])? (?=[\w, ]+ =))?"
    r"(?:(?P<names>[\w, ]+?)\s*=(?!=)\s*)?(?=\w)"
)
STEP = re.compile(r"\(=([^()]*)\)")
CHOICE = re.compile(r"\(([^()|]*(?:\|[^()|]*)+)\)")


@dataclass(frozen=True, eq=False)
class Case:
    """A model, what it is run on, and what is expected of the targets.

    Attributes:
        text: Nodes as :mod:`tests.operators` says, or a whole graph in onnx's text form.
        sizes: Free dimensions of each run.
        feeds: Values of inputs by name: for all runs, or for each.
        weights: Values of weights by name.
        tflite: Operators, or a refusal's words.
        coreml: Operations, or a refusal's words.
        tol: Tolerance of floats, relative and absolute: for all targets, or by target.
        ios: The oldest systems to write Core ML packages for.
        like: Text of another model that is right of the same feeds, where ONNX Runtime hasn't it.
        steps: Whether integers may be one apart where rounding is, in at most one of twenty.
    """

    text: str
    sizes: str = ""
    feeds: Feeds | Sequence[Feeds] = field(default_factory=dict)
    weights: Feeds = field(default_factory=dict)
    tflite: str = ""
    coreml: str = ""
    tol: float | Mapping[str, float] = 1e-5
    ios: tuple[int, ...] = (17,)
    like: str = ""
    steps: bool = False

    def model(self) -> Model:
        """The model, at the pipeline's opset, with nodes named and values typed."""
        return _Built(self).model

    def runs(self) -> list[dict[str, Array]]:
        """What it is run on."""
        return _Built(self).runs()


def each(cases: Mapping[str, Case | str]) -> Iterator[tuple[str, Case]]:
    """Cases by name; those with choices in the name once for each."""
    for name, given in cases.items():
        case = Case(given) if isinstance(given, str) else given
        found = CHOICE.search(name)
        if found is None:
            yield name, case
            continue
        for place, choice in enumerate(found[1].split("|")):
            told = (case.text, case.sizes, case.tflite, case.coreml)
            text, sizes, tflite, coreml = (_chosen(item, found, place) for item in told)
            made = replace(case, text=text, sizes=sizes, tflite=tflite, coreml=coreml)
            yield from each({name.replace(found[0], choice, 1): made})


def _chosen(told: str, found: re.Match[str], place: int) -> str:
    """With one of the name's choices, and those of as many in step with it."""
    ways = found[1].split("|")

    def step(other: re.Match[str]) -> str:
        parts = other[1].split("|")
        return parts[place] if len(parts) == len(ways) else other[0]

    return STEP.sub(step, told.replace(found[0], ways[place]))


def numbers(*shape: int, seed: int = 0) -> Array:
    """Seeded normal numbers, float32."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def parsed(text: str) -> Model:
    """A Model from ONNX's text form: the graph alone, at the pipeline's opset."""
    return as_model(onnx.parser.parse_model(HEADER + text))


def as_model(proto: onnx.ModelProto) -> Model:
    """A Model of a protobuf, its nodes named and its values typed."""
    model = Model.wrap(onnx_ir.from_proto(proto))
    for number, node in enumerate(model.nodes()):
        node.name = node.name or f"{node.op_type}_{number}"
    fill_in(model.graph)
    return model


def with_weights(model: Model, **weights: Array) -> Model:
    """The model with inputs made initializers."""
    graph = model.graph.graph
    for value in list(graph.inputs):
        if value.name in weights:
            graph.inputs.remove(value)
            value.const_value = onnx_ir.Tensor(weights[value.name], name=value.name)
            graph.register_initializer(value)
    fill_in(model.graph)
    return model


@dataclass(frozen=True)
class _Operand:
    dtype: str
    dims: tuple[int | str, ...]
    low: float | None
    high: float | None
    seed: int

    def values(self, sizes: Mapping[str, int]) -> Array:
        dtype = np.dtype(TYPES[self.dtype])
        shape = tuple(sizes[dim] if isinstance(dim, str) else dim for dim in self.dims)
        if self.low is not None and self.high is not None:
            generator = np.random.default_rng(self.seed)
            if dtype.kind in "iu":
                return generator.integers(int(self.low), int(self.high), shape).astype(dtype)
            return generator.uniform(self.low, self.high, shape).astype(dtype)
        made = numbers(*shape, seed=self.seed)
        if dtype.kind == "b":
            return np.asarray(made > 0)
        if dtype.kind in "iu":
            made = made * 10 if dtype.kind == "i" else np.abs(made) * 10
        return np.asarray(made.astype(dtype))


class _Built:
    """A case's model and operands."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.inputs: dict[str, _Operand] = {}
        self.constants: dict[str, Array] = {}
        self.count = 0
        if re.match(r"\s*\w+\s*\(.*?\)\s*=>", case.text, re.DOTALL):
            header = HEADER.replace("]", ', "ai.onnx.ml" : 3]') if ML in case.text else HEADER
            proto = onnx.parser.parse_model(header + case.text)
            self._declare(proto)
        else:
            proto = self._parsed()
        self.model = as_model(proto)

    def runs(self) -> list[dict[str, Array]]:
        """Feeds of each run."""
        sizes = [
            {name: int(size) for name, size in (item.split("=") for item in run.split())}
            for run in self.case.sizes.split(",")
        ]
        given = self.case.feeds
        feeds = [given] if isinstance(given, Mapping) else list(given)
        count = max(len(sizes), len(feeds))
        return [self._fed(sizes[run % len(sizes)], feeds[run % len(feeds)]) for run in range(count)]

    def _fed(self, sizes: Mapping[str, int], feeds: Feeds) -> dict[str, Array]:
        unknown = set(feeds) - set(self.inputs)
        assert not unknown, f"no inputs: {unknown}"
        return {
            name: np.asarray(feeds[name], TYPES[operand.dtype])
            if name in feeds
            else operand.values(sizes)
            for name, operand in self.inputs.items()
        }

    def _declare(self, proto: onnx.ModelProto) -> None:
        """Inputs of a whole graph; those that ``weights`` has become constants."""
        for value in list(proto.graph.input):
            tensor = value.type.tensor_type
            dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))
            kind = next(name for name, known in TYPES.items() if np.dtype(known) == dtype)
            dims = tuple(dim.dim_param or dim.dim_value for dim in tensor.shape.dim)
            if value.name in self.case.weights:
                proto.graph.input.remove(value)
                array = np.asarray(self.case.weights[value.name], dtype)
                proto.graph.initializer.append(onnx.numpy_helper.from_array(array, value.name))
            else:
                self.inputs[value.name] = _Operand(kind, dims, None, None, len(self.inputs))

    def _parsed(self) -> onnx.ModelProto:
        lines, results = [], {}
        for statement in _statements(self.case.text):
            for chosen in _choices(statement):
                text = OPERAND.sub(self._operand, chosen)
                head = RESULT.match(text)
                assert head is not None, text
                names = [n.strip() for n in (head["names"] or f"y{len(lines)}").split(",")]
                results |= {name: (head["type"], head["dims"]) for name in names if name}
                lines.append(f"{', '.join(names)} = {text[head.end() :]}")
        body = "\n".join(lines)
        given = ", ".join(
            f"{item.dtype}[{', '.join(map(str, item.dims))}] {name}"
            if item.dims
            else f"{item.dtype} {name}"
            for name, item in self.inputs.items()
        )
        proto = onnx.parser.parse_model(f"{HEADER} g ({given}) => () {{ {body} }}")
        for name, array in self.constants.items():
            proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
        return _with_outputs(proto, results)

    def _operand(self, found: re.Match[str]) -> str:
        kind = found["type"] or "float"
        if found["dims"] is None:
            return " " + self._constant(found)
        listed = (dim.strip() for dim in found["dims"].split(",") if dim.strip())
        dims = tuple(int(dim) if dim.isdigit() else dim for dim in listed)
        name = found["name"] or f"x{self.count}"
        low, high = (None if found[end] is None else float(found[end]) for end in ("low", "high"))
        made = _Operand(kind, dims, low, high, self.count)
        self.count += 1
        if found["weight"]:
            values = self.case.weights.get(name)
            array = made.values({}) if values is None else np.asarray(values, TYPES[kind])
            self.constants.setdefault(name, array)
        elif name in self.inputs:
            known = self.inputs[name]
            assert (known.dtype, known.dims) == (kind, dims), f"{name} is declared twice"
        else:
            self.inputs[name] = made
        return " " + name

    def _constant(self, found: re.Match[str]) -> str:
        told = found["vector"] if found["scalar"] is None else found["scalar"]
        items = [_number(item.strip()) for item in told.split(",") if item.strip()]
        whole = all(isinstance(item, int) for item in items)
        kind = found["type"] or ("int64" if whole else "float")
        name = f"c{self.count}"
        self.count += 1
        values = items if found["scalar"] is None else items[0]
        self.constants[name] = np.asarray(values, TYPES[kind])
        return name


def _number(text: str) -> int | float:
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)


def _statements(text: str) -> Iterator[str]:
    """Nodes: lines, or what semicolons part; a node's own graphs may go over many."""
    depth, part = 0, ""
    for piece in re.split(r"(\"[^\"]*\"|=>|[;\n{}<>()])", text):
        depth += (piece in ("{", "(", "<")) - (piece in ("}", ")", ">"))
        if piece in (";", "\n") and not depth:
            if part.strip():
                yield part.strip()
            part = ""
        else:
            part += piece
    if part.strip():
        yield part.strip()


def _choices(text: str) -> Iterable[str]:
    parts = CHOICE.split(text)
    ways = [part.split("|") if place % 2 else [part] for place, part in enumerate(parts)]
    return ("".join(way) for way in itertools.product(*ways))


def _with_outputs(
    proto: onnx.ModelProto, results: Mapping[str, tuple[str | None, str | None]]
) -> onnx.ModelProto:
    """With outputs for the results that no node takes, of the types that onnx infers."""
    taken = {name for node in proto.graph.node for name in _taken(node)}
    for name, (kind, dims) in results.items():
        listed = proto.graph.value_info if name in taken else proto.graph.output
        if kind is not None:
            element = int(onnx.helper.np_dtype_to_tensor_dtype(np.dtype(TYPES[kind])))
            told = None if dims is None else dims.replace(",", " ").split()
            shape = told and [int(d) if d.isdigit() else None if d == "?" else d for d in told]
            listed.append(onnx.helper.make_tensor_value_info(name, element, shape))
        elif name not in taken and not name.startswith("_"):
            listed.add(name=name)
    return onnx.shape_inference.infer_shapes(proto, data_prop=True)


def _taken(node: onnx.NodeProto) -> Iterator[str]:
    yield from node.input
    for attribute in node.attribute:
        for inner in attribute.g.node:
            yield from _taken(inner)
        yield from (value.name for value in attribute.g.output)
