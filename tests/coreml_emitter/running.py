"""Small models through the emitter and back from disk, against ONNX Runtime."""

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from converter.errors import Unsupported
from converter.ir.model import Model
from converter.options.recipe import make_request
from converter.options.request import Request
from converter.protocols.emitter import Artifact
from converter.runtime.ort import OrtSession
from emitters.coreml.emitter import CoremlEmitter
from emitters.coreml.lowering import Lowered, lower
from modelyard.containers.coreml import coremltools
from tests.operators.cases import as_model

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


def emitted(model: Model, folder: Path, *, target: int = 17, precision: str = "fp32",
            **options: Any) -> Path:  # fmt: skip
    """The package; one that an earlier call made there goes."""
    shutil.rmtree(folder / "model.mlpackage", ignore_errors=True)
    return CoremlEmitter().emit(model, folder, precision, request(target, **options)).path


def opened(path: Path, precision: str = "fp32", **options: Any) -> AbstractContextManager[Any]:
    """A package opened from disk as the check opens it."""
    artifact = Artifact("coreml", precision, path, [path])
    return closing(CoremlEmitter().open(artifact, request(**options)))


def run_package(path: Path, feeds: Feeds, **options: Any) -> dict[str, Array]:
    """Outputs of a package."""
    with opened(path, **options) as session:
        return session.run(feeds)


def agree(
    model: Model | onnx.ModelProto, feeds: Feeds | Sequence[Feeds], folder: Path | None = None, *,
    target: int = 17, rtol: float = 1e-5, atol: float = 1e-5, **options: Any,
) -> dict[str, Array]:  # fmt: skip
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
            return agree(model, feeds, Path(made), target=target, rtol=rtol, atol=atol, **options)
    if isinstance(model, onnx.ModelProto):
        model = as_model(model)
    path = emitted(model, folder, target=target, **options)
    found: dict[str, Array] = {}
    with closing(OrtSession(model.graph)) as original, opened(path, target=target) as session:
        for fed in [feeds] if isinstance(feeds, Mapping) else feeds:
            expected, found = original.run(fed), session.run(fed)
            assert list(found) == list(expected)
            for name, array in expected.items():
                strict = {"err_msg": name, "strict": True}
                if array.dtype.kind == "f":
                    np.testing.assert_allclose(found[name], array, rtol, atol, **strict)
                else:
                    np.testing.assert_array_equal(found[name], array, **strict)
    return found
