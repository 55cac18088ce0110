"""coremltools' own tests, whose expected values Apple measured or computed, run on what our parser
reads instead of on Core ML: of its operations, of the layers of neural networks, and of what its
PyTorch front end makes, where PyTorch's own outputs are expected.

They are run where they lie, in the installed library, by a process of their own: they are written
for pytest, and the functions in which they compare are replaced by ours. So every model that they
build is saved, read by our parser, and run by ONNX Runtime.

    python -m tests.coreml.library_expectations [--cases 2] [--share 8] [iOS17 layers ...]

prints a JSON object: ``passed``, how many cases; ``refused`` by the parser and ``failed``, what
happened by the case's name, and ``theirs``: the library asks for a Mac, or can't make the model.
Cases that compare no outputs, and those that coremltools skips or expects to fail, aren't counted.
"""

import argparse
import collections
import json
import random
import re
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch  # coremltools sees it: expected values of some are PyTorch's

from converter.errors import UnsupportedError
from converter.runtime.ort import OrtSession
from modelyard.containers.coreml import coremltools
from parsers.coreml.importer import read
from tests.sweep import taken

_TESTS = "coremltools.converters.mil.mil.ops.tests"
_TARGETS = {f"iOS{number}": [f"{_TESTS}.iOS{number}"] for number in range(14, 19)}
_TARGETS["layers"] = ["coremltools.test.neural_network.test_numpy_nn_layers"]
_TORCH = "coremltools.converters.mil.frontend.torch.test.test_torch_ops::Test"
_IDIOMS = {
    "modules": """ScriptedModels Conv ConvTranspose BatchNorm InstanceNorm GroupNorm LayerNorm
        Linear AvgPool MaxPool AdaptiveAvgPool AdaptiveMaxPool Upsample LSTM StackedBLSTM
        Transformer ScaledDotProductAttention""",
    "functions": """Activation Normalize Embedding Gather Scatter Index IndexSelect OneHot Triu Tril
        Roll Flip Split Unbind Transpose Slice Expand Reshape GridSample""",
}
_TARGETS |= {part: [f"{_TORCH}{name}" for name in names.split()] for part, names in _IDIOMS.items()}
_NO_MODEL = ("builder_eval", "test_efficient_type_inference", "StressTest", "_gpu")
"""Parts of tests' names: the second measures time, the others take minutes."""
_REFUSED, _NEEDS_MAC = "REFUSED", "macOS"
_TOLERANCE = {"fp16": 1e-2, "fp32": 1e-4}


def _compare(
    mlmodel: Any, input_key_values: dict[str, Any], expected_outputs: dict[str, Any],
    dtype: str = "fp32", atol: float = 1e-4, rtol: float = 1e-5, **_: Any,
) -> None:  # fmt: skip
    """In place of coremltools' function of this name: the same arguments, and what it asserts."""
    _Selection.compared = True
    least = _TOLERANCE[dtype]
    bounds = {"atol": max(atol, least), "rtol": max(rtol, least)}
    found = _run(mlmodel, input_key_values)
    for name, wanted in (expected_outputs or {}).items():
        made, expected = found[name], np.asarray(wanted)
        if expected.ndim == 0:  # a program's outputs have an axis at least
            expected = expected.reshape(made.shape)
        assert made.shape == expected.shape, (made.shape, expected.shape)
        np.testing.assert_allclose(made.astype("f8"), expected.astype("f8"), **bounds)


def _compare_layers(
    _: Any, model: Any, input: dict[str, Any], expected: dict[str, Any], *__: Any,
    validate_shapes_only: bool = False, delta: float = 0.01, test_metric: str = "rel_error",
    **___: Any,
) -> None:  # fmt: skip
    """Of neural networks, whose older ones have axes of size 1 besides."""
    _Selection.compared = True
    ct = coremltools()
    made = model if isinstance(model, ct.models.MLModel) else ct.models.MLModel(model)
    for name, found in _run(made, input).items():
        if name in expected:
            wanted = np.asarray(expected[name])
            assert found.size == wanted.size, (found.shape, wanted.shape)
            if not validate_shapes_only and test_metric == "rel_error":
                bound = delta if delta != 0.01 else 1e-3
                np.testing.assert_allclose(found.reshape(wanted.shape), wanted, bound, bound)


def _compare_torch(
    input_data: Any, model_spec: Any, expected_results: Any = None,
    backend: tuple[str, str] = ("neuralnetwork", "fp32"), atol: float = 1e-4, rtol: float = 1e-5,
    **how: Any,
) -> tuple[Any, ...]:  # fmt: skip
    """In place of ``convert_and_compare``, which compares on a Mac only."""
    from coremltools.converters.mil.frontend.torch.test import testing_utils as theirs

    fed = input_data if isinstance(input_data, list | tuple) else [input_data]
    if expected_results is None:
        expected_results = model_spec(*theirs._copy_input_data(fed))
    expected = theirs.flatten_and_detach_torch_results(expected_results)
    made = theirs.convert_to_mlmodel(model_spec, fed, backend=backend, **how)
    feeds = theirs.convert_to_coreml_inputs(made.input_description, fed)
    names = [output.name for output in made.get_spec().description.output]
    wanted = dict(zip(names, expected, strict=True))
    _compare(made, feeds, wanted, backend[1], atol=atol, rtol=rtol)
    return model_spec, made, feeds, wanted


def _run(mlmodel: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("model.mlpackage" if mlmodel.is_package else "model.mlmodel")
        mlmodel.save(str(path))
        try:
            model = read(path)
        except UnsupportedError as error:
            item = error.items[0]
            pytest.skip(f"{_REFUSED} {item.op}: {item.reason}")
        session = OrtSession(model.graph, exact=True)
        feeds = {}
        for spec in model.inputs:
            array = np.asarray(inputs[spec.name]).astype(spec.dtype)
            # axes of size 1 that the file has and the test hasn't
            missing = len(spec.shape) - array.ndim
            feeds[spec.name] = array.reshape((1,) * missing + array.shape) if missing > 0 else array
        return session.run(feeds)


class _Selection:
    """A pytest plug-in: some cases of each test, and what became of them.

    Attributes:
        compared: Whether the test that runs has compared a model's outputs.
    """

    compared = False

    def __init__(self, cases: int, take: Callable[[str], bool]) -> None:
        self._cases, self._take = cases, take
        self._part = ""
        self.report: dict[str, Any] = {"passed": 0, "refused": {}, "theirs": {}, "failed": {}}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        tests = collections.defaultdict(list)
        for item in items:
            if not any(part in item.nodeid for part in _NO_MODEL):
                backend = "neuralnetwork" in item.name
                tests[item.path.parent.name, item.nodeid.split("[")[0], backend].append(item)
        chance = random.Random(0)
        kept = (
            found if len(found) <= self._cases else chance.sample(found, self._cases)
            for found in tests.values()
        )
        items[:] = [item for group in kept for item in group if self._take(item.nodeid)]

    def pytest_runtest_setup(self, item: Any) -> None:
        _Selection.compared = False
        self._part = item.path.parent.name
        np.random.seed(0)
        random.seed(0)
        torch.manual_seed(0)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.report["failed"][report.nodeid] = _line(str(report.longrepr)[-300:])

    def pytest_runtest_logreport(self, report: Any) -> None:
        said = str(report.longrepr)
        if report.skipped and _REFUSED in said:
            kind, text = "refused", said.split(_REFUSED, 1)[1]
        elif report.failed:
            text = getattr(getattr(report.longrepr, "reprcrash", None), "message", said)
            kind = "failed" if self.compared and _NEEDS_MAC not in text else "theirs"
        else:
            self.report["passed"] += int(report.when == "call" and report.passed and self.compared)
            return
        self.report[kind][f"{self._part}/{_short(report.nodeid)}"] = _line(text)


def _short(node: str) -> str:
    """A test's name, without the parameters that are the same for all."""
    return re.sub(r"compute_unit=\S+?-|backend=BackendConfig\(.*?>\)-?", "", node)


def _line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip(" '\")")[:300]


def _replace() -> None:
    """Has the library's tests compare by our functions, and take this machine for a Mac: those of
    layers are skipped elsewhere."""
    coremltools()
    from coremltools.converters.mil import testing_utils
    from coremltools.converters.mil.mil.ops.tests import testing_utils as operations
    from coremltools.models import utils

    testing_utils.compare_backend = operations.compare_backend = _compare
    _replace_of_torch()
    utils._is_macos, utils._macos_version = lambda: True, lambda: (99, 0)
    from coremltools.test.neural_network import test_numpy_nn_layers as layers

    layers.CorrectnessTest._test_model = _compare_layers


def _replace_of_torch() -> None:
    """Likewise, and has the front end take arrays of one element for numbers: ``int`` of those with
    axes fails from numpy 2.4 on."""
    from coremltools.converters.mil import Builder as mb
    from coremltools.converters.mil.frontend.torch import ops
    from coremltools.converters.mil.frontend.torch.test import testing_utils

    original, testing_utils.convert_and_compare = ops._cast, _compare_torch

    def cast(context: Any, node: Any, dtype: type, name: str) -> None:
        (x,) = ops._get_inputs(context, node, expected=1)
        if x.can_be_folded_to_const():
            context.add(mb.const(val=dtype(np.asarray(x.val).item()), name=node.name))
        else:
            original(context, node, dtype, name)

    ops._cast = cast


def main() -> None:
    """Runs them and prints the report."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--cases", type=int, default=2)
    arguments.add_argument("--share", type=int, default=1, help="one of them in so many")
    arguments.add_argument("--salt", default="", help="which of them")
    arguments.add_argument("parts", nargs="*", default=list(_TARGETS))
    chosen = arguments.parse_args()
    _replace()
    plugin = _Selection(chosen.cases, partial(taken, share=chosen.share, salt=chosen.salt))
    targets = [target for part in chosen.parts for target in _TARGETS[part]]
    with tempfile.TemporaryDirectory() as root:
        options = ["-p", "no:cacheprovider", "-q", "--tb=short", "-W", "ignore", "--no-header"]
        options += ["--continue-on-collection-errors", "-c", "/dev/null", "--rootdir", root]
        code = pytest.main([*options, "--pyargs", *targets], plugins=[plugin])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED):
        sys.exit(f"the library's tests were not run: pytest ended with {code!r}")
    print("\n" + json.dumps(plugin.report))


if __name__ == "__main__":
    main()
