"""One case through one target: read as the pipeline reads it, emitted, opened, run, compared."""

import shutil
import traceback
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import onnx
import onnx_ir
from onnx.numpy_helper import to_array

from converter import plugins
from converter.errors import DependencyError, ModelyardError, UnsupportedError
from converter.ir.model import Model
from converter.options.request import Request
from converter.passes.order import IMPORT_PASSES
from converter.protocols.emitter import Artifact, Emitter
from converter.runtime.child import ChildError
from parsers.onnx.graph import check, densify
from tests.conformance.cases import Case, Store
from tests.conformance.compare import differences
from tests.conformance.outcome import Outcome
from tests.conformance.parameters import STAGES, constant_inputs, make_constant
from tests.conformance.saved_models import opened

_REFUSALS = (2, 3)
"""Exit codes of errors that say that this model can't be taken."""

_REFUSED = ("refused", "unreadable")


class NotReadable(Exception):
    """The importer refuses the case: no target gets to see it."""


class Attempts:
    """Runs cases through one target.

    Args:
        store: The cases.
        target: An emitter's name, or ``module:Class`` of one that isn't registered.
        folder: For artifacts.
    """

    def __init__(self, store: Store, target: str, folder: Path) -> None:
        self._store = store
        self._folder = folder
        self._emitter = _emitter(target)
        self._runs_here = _runs_here(self._emitter)
        self._request = Request(source="model.onnx", to=[self._emitter.name], threads=1)
        self._passes = [plugins.load("passes", name) for name in ("normalize", *IMPORT_PASSES)]

    def run(self, case: Case) -> Outcome:
        """What becomes of a case; refused ones are tried again with constant inputs.

        Raises:
            DependencyError: The emitter can't work here at all.
        """
        outcome: Outcome | None = None
        tried = None
        for stage in STAGES:
            constants = constant_inputs(case, stage)
            if constants == tried:
                continue
            tried = constants
            found = self._try(case, constants)
            if outcome is None or found.state not in _REFUSED:
                outcome = found
            if found.state not in _REFUSED:
                break
        assert outcome is not None  # there is a first stage
        shutil.rmtree(self._folder / case.name, ignore_errors=True)
        return outcome

    def _try(self, case: Case, constants: list[str]) -> Outcome:
        def result(state: str, reason: str = "", **more: Any) -> Outcome:
            return Outcome(case.name, case.op, state, reason, constants=constants, **more)

        opening = False
        try:
            model = self.read(case, constants)
            items = self._emitter.unsupported(model, self._request)
            if items:
                raise UnsupportedError("it holds what the target can't take", items)
            folder = self._folder / case.name
            shutil.rmtree(folder, ignore_errors=True)
            artifact = self._emitter.emit(model, folder, "fp32", self._request)
            if not self._runs_here:
                return result("built")
            opening = True
            return self._check(case, constants, artifact, result)
        except NotReadable as error:
            return result("unreadable", str(error))
        except DependencyError:
            raise
        except ChildError as error:  # of SavedModels
            return result("rejected", error.message)
        except ModelyardError as error:
            state = "refused" if error.exit_code in _REFUSALS else "crashed"
            state = "rejected" if opening else state
            return result(state, _words(error), trace=traceback.format_exc())
        except Exception as error:  # whatever isn't ours is the finding
            reason = f"{type(error).__name__}: {error}"
            return result("crashed", reason, trace=traceback.format_exc())

    def read(self, case: Case, constants: list[str]) -> Model:
        """The case's Model as emitters get it: at the pipeline's opset, shapes repaired.

        Raises:
            NotReadable: The importer refuses it, or has no way to the pipeline's opset.
        """
        proto = self._store.model(case)
        if constants:
            make_constant(proto, constants, self._feeds(case, proto))
        try:
            check(proto, case.name)
            densify(proto)
            model = Model.wrap(onnx_ir.from_proto(proto))
            model.graph.graph.sort()
            for step in self._passes:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model.graph = step(model.graph).model
        except ModelyardError as error:
            raise NotReadable(_words(error)) from error
        return model

    def _check(self, case: Case, constants: list[str], artifact: Artifact,
               result: Callable[..., Outcome]) -> Outcome:  # fmt: skip
        fed = self._feeds(case, self._store.model(case))
        feeds = {n: to_array(item) for n, item in fed.items() if n not in constants}
        if self._emitter.name == "savedmodel":
            found = opened(artifact, self._folder / case.name).run(feeds)
        else:
            session = self._emitter.open(artifact, self._request)
            try:
                found = session.run(feeds)
            finally:
                session.close()
        wrong = differences(self._store.outputs(case), found, case.rtol, case.atol)
        return result("wrong" if wrong else "passed", "; ".join(wrong))

    def _feeds(self, case: Case, proto: onnx.ModelProto) -> dict[str, onnx.TensorProto]:
        names = [value.name for value in proto.graph.input]
        return dict(zip(names, self._store.inputs(case), strict=True))


def _emitter(target: str) -> Emitter:
    if ":" not in target:
        emitter: Emitter = plugins.load("emitters", target)
        return emitter
    module, name = target.split(":")
    made: Emitter = getattr(import_module(module), name)()
    return made


def _runs_here(emitter: Emitter) -> bool:
    """An engine needs a GPU; without one, opening it gives something else in its place."""
    if not emitter.name.startswith("tensorrt"):
        return True
    from emitters.tensorrt.libraries import has_gpu

    return has_gpu()


def _words(error: ModelyardError) -> str:
    return "; ".join(error.details) or error.message
