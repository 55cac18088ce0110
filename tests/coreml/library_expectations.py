"""coremltools' own tests of its operations, whose expected values Apple measured or computed, run
on what our parser reads instead of on Core ML.

They are run where they lie, in the installed library, by a process of their own: they are written
for pytest, and the function they compare with (``compare_backend``) is replaced by ours. So
every program that they build is saved, read by our parser, and run by ONNX Runtime.

    python -m tests.coreml.library_expectations [--cases 2] [iOS17 ...]

prints a JSON object: ``passed``, how many cases; ``refused`` by the parser, ``mac`` (they ask
for a Mac), ``torch`` (they ask for PyTorch, which isn't loaded) and ``failed``, what happened by
the case's name. Not counted are cases that compare no program's outputs, and those that
coremltools itself skips or expects to fail.
"""

from __future__ import annotations

import argparse
import collections
import json
import math
import random
import re
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter.coreml_file import coremltools
from converter.errors import UnsupportedError
from converter.ort import OrtSession
from parsers.coreml_import.importer import read

_TESTS = "coremltools.converters.mil.mil.ops.tests"
_VERSIONS = ("iOS14", "iOS15", "iOS16", "iOS17", "iOS18")
_NEEDS_MAC = "only supported on macOS"
_NEEDS_TORCH = "name 'torch' is not defined"
_OLDER = "backend='neuralnetwork'"
_NO_PROGRAM = ("builder_eval", "test_efficient_type_inference")  # the latter measures time
_REFUSED = "REFUSED"
_TOLERANCE = {"fp16": 1e-2, "fp32": 1e-4}


def _compare(
    mlmodel: Any,
    input_key_values: dict[str, Any],
    expected_outputs: dict[str, Any],
    dtype: str = "fp32",
    atol: float = 1e-4,
    rtol: float = 1e-5,
    **_: Any,
) -> None:
    """In place of coremltools' function of this name: the same arguments, and what it asserts."""
    _Selection.compared = True
    least = _TOLERANCE[dtype]
    found = _run(mlmodel, input_key_values)
    for name, wanted in (expected_outputs or {}).items():
        made, expected = found[name], np.asarray(wanted)
        if expected.ndim == 0:  # a program's outputs have an axis at least
            expected = expected.reshape(made.shape)
        assert made.shape == expected.shape, (made.shape, expected.shape)
        np.testing.assert_allclose(
            made.astype(np.float64),
            expected.astype(np.float64),
            atol=max(atol, least),
            rtol=max(rtol, least),
        )


def _run(mlmodel: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.mlpackage"
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
            # without axes there are none: such an input has one axis, of size 1
            feeds[spec.name] = array.reshape(1) if spec.shape and not array.ndim else array
        return session.run(feeds)


class _Selection:
    """A pytest plug-in: some cases of each test, and what became of them.

    Attributes:
        compared: Whether the test that runs has compared a program's outputs.
    """

    compared = False

    def __init__(self, cases: int) -> None:
        self._cases = cases
        self._version = ""
        self.report: dict[str, Any] = {"passed": 0}
        self.report |= {kind: {} for kind in ("refused", "mac", "torch", "failed")}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        tests = collections.defaultdict(list)
        for item in items:
            left_out = any(part in item.originalname for part in _NO_PROGRAM)
            if _OLDER not in item.name and not left_out:
                tests[item.path.parent.name, item.nodeid.split("[")[0]].append(item)
        chance = random.Random(0)
        kept = (
            found if len(found) <= self._cases else chance.sample(found, self._cases)
            for found in tests.values()
        )
        items[:] = [item for group in kept for item in group]

    def pytest_runtest_setup(self, item: Any) -> None:
        _Selection.compared = False
        self._version = item.path.parent.name
        np.random.seed(0)
        random.seed(0)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            said = str(report.longrepr)
            kind = "torch" if _NEEDS_TORCH in said else "failed"
            self.report[kind][report.nodeid] = _line(said[-300:])

    def pytest_runtest_logreport(self, report: Any) -> None:
        said = str(report.longrepr)
        if report.skipped and _REFUSED in said:
            kind, text = "refused", said.split(_REFUSED, 1)[1]
        elif report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            text = getattr(crash, "message", said)
            lacks = ((_NEEDS_MAC, "mac"), (_NEEDS_TORCH, "torch"))
            kind = next((kind for what, kind in lacks if what in text), "failed")
        else:
            done = report.when == "call" and report.passed and self.compared
            self.report["passed"] += int(done)
            return
        self.report[kind][f"{self._version}/{_short(report.nodeid)}"] = _line(text)


def _short(node: str) -> str:
    """A test's name, without the parameters that are the same for all."""
    return re.sub(r"compute_unit=\S+?-|backend=BackendConfig\(.*?>\)-?", "", node)


def _line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip(" '\")")[:300]


def _special() -> None:
    """Three functions that three of the files take from SciPy, where that isn't installed."""
    try:
        import scipy.special  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        special = types.ModuleType("scipy.special")
        special.erf = np.vectorize(math.erf)  # type: ignore[attr-defined]
        special.softmax = _softmax  # type: ignore[attr-defined]
        special.logsumexp = _log_sum  # type: ignore[attr-defined]
        scipy = types.ModuleType("scipy")
        scipy.special = special  # type: ignore[attr-defined]
        sys.modules.update({"scipy": scipy, "scipy.special": special})


def _softmax(x: Any, axis: Any = None) -> Any:
    return np.exp(x - _log_sum(x, axis, keepdims=True))


def _log_sum(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    axes = tuple(axis) if isinstance(axis, list | np.ndarray) else axis
    most = np.max(x, axis=axes, keepdims=True)
    found = np.log(np.sum(np.exp(x - most), axis=axes, keepdims=True)) + most
    return found if keepdims else np.squeeze(found, axes)


def main() -> None:
    """Runs them and prints the report."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--cases", type=int, default=2)
    arguments.add_argument("versions", nargs="*", default=_VERSIONS)
    chosen = arguments.parse_args()
    coremltools()
    _special()
    from coremltools.converters.mil import testing_utils
    from coremltools.converters.mil.mil.ops.tests import testing_utils as operations

    testing_utils.compare_backend = operations.compare_backend = _compare
    plugin = _Selection(chosen.cases)
    targets = [f"{_TESTS}.{version}" for version in chosen.versions]
    with tempfile.TemporaryDirectory() as root:
        options = ["-p", "no:cacheprovider", "-q", "--tb=short", "-W", "ignore", "--no-header"]
        options += ["--continue-on-collection-errors", "-c", "/dev/null", "--rootdir", root]
        code = pytest.main([*options, "--pyargs", *targets], plugins=[plugin])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED):
        sys.exit(f"the library's tests were not run: pytest ended with {code!r}")
    print("\n" + json.dumps(plugin.report))


if __name__ == "__main__":
    main()
