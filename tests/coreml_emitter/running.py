"""Small models through the emitter and back from disk, against ONNX Runtime."""

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from converter.coreml_file import coremltools
from converter.errors import Unsupported
from converter.ir import Model
from converter.ort import OrtSession
from converter.plugins import Artifact
from converter.recipe import make_request
from converter.request import Request
from emitters.coreml.emitter import CoremlEmitter
from emitters.coreml.lowering import Lowered, lower
from tests.operators.cases import as_model as as_model
from tests.operators.cases import numbers as numbers
from tests.operators.cases import parsed as parsed
from tests.operators.cases import with_weights as with_weights

Array = np.ndarray[Any, Any]
Feeds = Mapping[str, Array]


def request(target: int = 17, **options: Any) -> Request:
    """A request for a package."""
    return make_request({"source": "model.onnx", "coreml_target": f"iOS{target}", **options})


def lowered(model: Model, target: int = 17) -> Lowered:
    """What lowering gives; nothing may have been refused."""
    made = lower(model, target)
    assert not made.refusals, made.refusals
    return made


def refusals(model: Model, target: int = 17) -> Sequence[Unsupported]:
    """What the emitter says beforehand that it can't take."""
    return CoremlEmitter().unsupported(model, request(target))


def main_block(package: Path) -> Any:
    """A package's main program."""
    coremltools()
    from coremltools.proto import Model_pb2

    path = package / "Data" / "com.apple.CoreML" / "model.mlmodel"
    function = Model_pb2.Model.FromString(path.read_bytes()).mlProgram.functions["main"]
    return function.block_specializations[function.opset]


def kinds(package: Path) -> list[str]:
    """Its operations in order, constants left out."""
    return [op.type for op in main_block(package).operations if op.type != "const"]


def emitted(
    model: Model, folder: Path, *, target: int = 17, precision: str = "fp32", **options: Any
) -> Path:
    """The package; one that an earlier call made there goes."""
    shutil.rmtree(folder / "model.mlpackage", ignore_errors=True)
    return CoremlEmitter().emit(model, folder, precision, request(target, **options)).path


def run_package(path: Path, feeds: Feeds, **options: Any) -> dict[str, Array]:
    """Outputs of a package, opened from disk as the check opens it."""
    session = CoremlEmitter().open(Artifact("coreml", "fp32", path, [path]), request(**options))
    try:
        return session.run(feeds)
    finally:
        session.close()


def agree(
    model: Model | onnx.ModelProto,
    feeds: Feeds | Sequence[Feeds],
    folder: Path | None = None,
    *,
    target: int = 17,
    rtol: float = 1e-5,
    atol: float = 1e-5,
    **options: Any,
) -> dict[str, Array]:
    """Emits the model, opens the package from disk, and compares it with ONNX Runtime.

    Args:
        model: At the pipeline's opset.
        feeds: What to run, or several: other sizes of free dimensions, say.
        folder: Where the package goes; nowhere that stays where it is left out.
        target: The oldest system that the package is for.
        rtol, atol: Tolerances of floats; all else has to be equal.
        options: More of the request's.

    Returns:
        The package's outputs on the last feeds.
    """
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="coreml-test-") as made:
            place = Path(made)
            return agree(model, feeds, place, target=target, rtol=rtol, atol=atol, **options)
    if isinstance(model, onnx.ModelProto):
        model = as_model(model)
    original = OrtSession(model.graph)
    path = emitted(model, folder, target=target, **options)
    session = CoremlEmitter().open(Artifact("coreml", "fp32", path, [path]), request(target))
    found: dict[str, Array] = {}
    try:
        for fed in [feeds] if isinstance(feeds, Mapping) else feeds:
            expected, found = original.run(fed), session.run(fed)
            assert list(found) == list(expected)
            for name, array in expected.items():
                _compare(name, found[name], array, rtol, atol)
    finally:
        session.close()
        original.close()
    return found


def _compare(name: str, found: Array, expected: Array, rtol: float, atol: float) -> None:
    assert found.dtype == expected.dtype, f"{name} is {found.dtype}, not {expected.dtype}"
    assert found.shape == expected.shape, f"{name} is {found.shape}, not {expected.shape}"
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol, err_msg=name)
    else:
        np.testing.assert_array_equal(found, expected, err_msg=name)
