"""The runner tells what is wrong from what is right, and outlives what it runs."""

from typing import Any

import numpy as np
import pytest

from tests.conformance.__main__ import main
from tests.conformance.cases import Store, open_store
from tests.conformance.compare import differences
from tests.conformance.outcome import Outcome
from tests.conformance.parameters import constant_inputs
from tests.conformance.pool import run_cases

FAULTY = "tests.conformance.faulty:FaultyEmitter"
STATES = {
    **dict.fromkeys(("test_abs", "test_neg", "test_sqrt"), "crashed"),
    "test_exp": "rejected",
    "test_relu": "wrong",
    "test_cumprod_1d": "unreadable",
    **dict.fromkeys(("test_reshape_reordered_all_dims", "test_sin"), "passed"),
}


@pytest.fixture(scope="module")
def store() -> Store:
    """The cases of the installed onnx."""
    return open_store()


@pytest.fixture(scope="module")
def faults(store: Store) -> dict[str, Outcome]:
    """What becomes of one case of each kind."""
    found = run_cases(store, [store.cases[name] for name in STATES], FAULTY, limit=3)
    return {outcome.name: outcome for outcome in found}


@pytest.mark.slow
@pytest.mark.parametrize("name", STATES)
def test_every_fault_is_told_apart(faults: dict[str, Outcome], name: str) -> None:
    """A dead child, an endless one, a bug, a broken file, a wrong result."""
    assert faults[name].state == STATES[name], faults[name]


@pytest.mark.slow
def test_reasons_say_what_happened(faults: dict[str, Outcome]) -> None:
    """With the dead child's last words, and the traceback of what isn't our error."""
    assert "SIGABRT" in faults["test_abs"].reason
    assert "about to die" in faults["test_abs"].trace
    assert "3 s" in faults["test_neg"].reason
    assert "in emit" in faults["test_sqrt"].trace
    assert "Max absolute difference among violations: 0.5" in faults["test_relu"].reason
    assert faults["test_reshape_reordered_all_dims"].constants == ["shape"]


@pytest.mark.slow
def test_the_command_line_counts(capsys: pytest.CaptureFixture[str]) -> None:
    """And the exit code says that there are failures."""
    assert main(["--target", FAULTY, "--only", "test_sqrt,test_sin"]) == 1
    said = capsys.readouterr().out
    assert "crashed    test_sqrt" in said and "1 passed" in said and "1 crashed" in said


def test_settings_come_before_weights(store: Store) -> None:
    """Data is never made constant."""
    pads = store.cases["test_constant_pad"]
    assert constant_inputs(pads, "settings") == ["pads", "value"]
    norm = store.cases["test_batchnorm_epsilon"]
    assert constant_inputs(norm, "settings") == []
    assert constant_inputs(norm, "weights") == ["s", "bias", "mean", "var"]
    for name in ("test_matmul_2d", "test_gather_0", "test_add", "test_where_example"):
        assert constant_inputs(store.cases[name], "weights") == []


_ONE = np.ones(2, np.float32)


@pytest.mark.parametrize(("expected", "found", "right"), [
    (_ONE, _ONE * np.float32(1.0009), True),
    (_ONE, _ONE * np.float32(1.0011), False),
    (_ONE, _ONE.astype(np.float64), False),
    (_ONE, _ONE[:1], False),
    (np.array([np.nan, np.inf]), np.array([np.nan, np.inf]), True),
    (np.array([np.inf]), np.array([-np.inf]), False),
    (np.array([1.0]), np.array([np.nan]), False),
    (np.array([100_000]), np.array([100_001]), False),
    (np.array(["a"], object), np.array(["b"], object), False),
])  # fmt: skip
def test_comparing(expected: Any, found: Any, right: bool) -> None:
    """Dtype, shape, NaN and infinities count; integers are exact."""
    assert (not differences({"y": expected}, {"y": found}, 1e-3, 1e-7)) == right
    # names, in order
    assert differences({"a": _ONE, "b": _ONE}, {"b": _ONE, "a": _ONE}, 1e-3, 1e-7)
