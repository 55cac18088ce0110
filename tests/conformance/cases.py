"""The official node tests as one file: collected from the installed onnx, kept in our cache.

Collecting takes seconds, reading one case from the file a millisecond. The file is a zip with
an index and, for each case, its model and its data, tensor by tensor, as ONNX's own test data
is laid out. Its name holds the versions of what it was made by.
"""

import json
import os
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from converter.files.cache_root import cache_root

Array = np.ndarray[Any, Any]

FORMAT = 3
"""Of the file; a new number makes it anew."""

_DEFAULT_DOMAINS = {"", "ai.onnx"}
_RANDOM = {
    *("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike"),
    *("RandomUniform", "RandomUniformLike"),
}


@dataclass(frozen=True)
class Case:
    """One official test.

    Attributes:
        name: As onnx calls it: ``test_conv_with_strides_padding``.
        op: The operator under test, with its domain where that isn't ONNX's own. A case called
            ``..._expanded`` holds what ONNX defines the operator to be, in other operators.
        opset: Of the default domain; 0 where the case has none.
        special: Why it isn't about plain tensors of the default domain; empty where it is.
        parameters: For each of the graph's inputs, the name that the operator's schema has for
            it: ``{"x": "data", "shape": "shape"}``.
        rtol, atol: onnx's own tolerances.
    """

    name: str
    op: str
    opset: int
    special: str = ""
    parameters: dict[str, str] = field(default_factory=dict)
    rtol: float = 1e-3
    atol: float = 1e-7


class Store:
    """The cases in their file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._zip = zipfile.ZipFile(path)

    @cached_property
    def cases(self) -> dict[str, Case]:
        """All cases by name, in onnx's order."""
        return {item["name"]: Case(**item) for item in json.loads(self._zip.read("index.json"))}

    def model(self, case: Case) -> onnx.ModelProto:
        """The case's model."""
        return onnx.ModelProto.FromString(self._zip.read(f"{case.name}/model.onnx"))

    def inputs(self, case: Case) -> list[onnx.TensorProto]:
        """What is fed, in the order of the graph's inputs; plain tensors only."""
        return list(self._tensors(case, "input"))

    def outputs(self, case: Case) -> dict[str, Array]:
        """What has to come out, in the order of the graph's outputs."""
        names = [value.name for value in self.model(case).graph.output]
        arrays = map(onnx.numpy_helper.to_array, self._tensors(case, "output"))
        return dict(zip(names, arrays, strict=True))

    def _tensors(self, case: Case, kind: str) -> Iterator[onnx.TensorProto]:
        with suppress(KeyError):
            for index in count():
                yield onnx.TensorProto.FromString(self._zip.read(f"{case.name}/{kind}_{index}.pb"))


def versions(*packages: str) -> dict[str, str]:
    """Versions of the packages that are installed."""
    found = {}
    for name in packages:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def open_store() -> Store:
    """The cases of the installed onnx; the file is made where it isn't there yet."""
    made_by = "-".join(f"{k}{v}" for k, v in versions("onnx", "numpy").items())
    path = cache_root() / "conformance" / f"cases-{made_by}-{FORMAT}.zip"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = path.with_suffix(f".{os.getpid()}.tmp")
        _write(scratch)
        scratch.replace(path)
    return Store(path)


def _write(path: Path) -> None:
    from onnx.backend.test.case import node as suite

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the reference code overflows on purpose
        collected = suite.collect_testcases(None)
    tested: dict[str, onnx.NodeProto] = suite._existing_names
    index = []
    with zipfile.ZipFile(path, "w") as archive:
        for item in collected:
            assert item.model is not None and item.data_sets is not None  # of a node test
            node = tested[item.name if item.name in tested else _base(item.name, tested)]
            case = _case(item, node)
            index.append(asdict(case))
            archive.writestr(f"{case.name}/model.onnx", item.model.SerializeToString())
            if not _special_types(item.model):
                for name, content in _data(item.data_sets):
                    archive.writestr(f"{case.name}/{name}", content)
        archive.writestr("index.json", json.dumps(index))


def _base(name: str, tested: dict[str, Any]) -> str:
    """The case that ``NAME_expanded...`` was made from."""
    found = name.rsplit("_expanded", 1)[0]
    return found if found in tested else name.split("_expanded", 1)[0]


def _case(item: Any, node: onnx.NodeProto) -> Case:
    graph = item.model.graph
    imports = {entry.domain: entry.version for entry in item.model.opset_import}
    foreign = sorted(set(imports) - _DEFAULT_DOMAINS)
    special = f"operators of {', '.join(foreign)}" if foreign else _special_types(item.model)
    if not special and any(entry.op_type in _RANDOM for entry in graph.node):
        special = "random outputs"
    domain = "" if node.domain in _DEFAULT_DOMAINS else f"{node.domain}::"
    present = [name for name in node.input if name]
    formal = _formal_names(node, imports.get(node.domain))
    formals = {present[i]: formal[i] for i in range(len(present))}
    opset = imports.get("", imports.get("ai.onnx", 0))
    parameters = {v.name: formals.get(v.name, "") for v in graph.input}
    told = (item.name, domain + node.op_type, opset, special, parameters)
    return Case(*told, rtol=item.rtol, atol=item.atol)


def _formal_names(node: onnx.NodeProto, opset: int | None) -> list[str]:
    """The schema's name of each input that is present, in order."""
    newest = onnx.defs.onnx_opset_version()
    if node.domain not in _DEFAULT_DOMAINS:
        opset = opset or 1
    schema = onnx.defs.get_schema(node.op_type, opset or newest, node.domain)
    last = len(schema.inputs) - 1
    return [schema.inputs[min(i, last)].name for i, name in enumerate(node.input) if name]


def _special_types(model: onnx.ModelProto) -> str:
    kinds = {value.type.WhichOneof("value") for value in (*model.graph.input, *model.graph.output)}
    others = sorted(str(kind).removesuffix("_type") for kind in kinds - {"tensor_type"})
    return f"inputs or outputs of type {', '.join(others)}" if others else ""


def _data(data_sets: Sequence[Any]) -> Iterator[tuple[str, bytes]]:
    (arrays,) = data_sets
    for kind, values in zip(("input", "output"), arrays, strict=True):
        for index, value in enumerate(values):
            if not isinstance(value, onnx.TensorProto):
                value = onnx.numpy_helper.from_array(np.asarray(value))
            yield f"{kind}_{index}.pb", value.SerializeToString()
