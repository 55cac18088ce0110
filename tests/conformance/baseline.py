"""Which cases ONNX Runtime itself passes, as they are."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from tests.conformance.cases import Case, Store, versions
from tests.conformance.compare import differences
from tests.conformance.outcome import Outcome


class Baseline:
    """Runs a case's own model in ONNX Runtime on the CPU, through nothing of ours."""

    target = "onnxruntime itself"

    def __init__(self, store: Store) -> None:
        self._store = store
        self._options = onnxruntime.SessionOptions()
        self._options.log_severity_level = 4
        self._options.intra_op_num_threads = 1

    def run(self, case: Case) -> Outcome:
        """``passed``, ``wrong``, or ``rejected`` with ONNX Runtime's own words."""
        model, expected = self._store.model(case), self._store.outputs(case)
        feeds = map(onnx.numpy_helper.to_array, self._store.inputs(case))
        try:
            session = onnxruntime.InferenceSession(
                model.SerializeToString(), self._options, providers=["CPUExecutionProvider"]
            )
            names = [item.name for item in session.get_inputs()]
            found = session.run([*expected], dict(zip(names, feeds, strict=True)))
        except Exception as error:  # its own exception classes share no public base
            return Outcome(case.name, case.op, "rejected", str(error))
        arrays = dict(zip(expected, map(np.asarray, found), strict=True))
        wrong = differences(expected, arrays, case.rtol, case.atol)
        return Outcome(case.name, case.op, "wrong" if wrong else "passed", "; ".join(wrong))


def baseline(store: Store, run: Callable[[list[Case]], list[Outcome]]) -> dict[str, str]:
    """The state of every plain case in ONNX Runtime; computed once for these versions.

    Args:
        store: The cases.
        run: Runs cases under :attr:`Baseline.target`, each safe from the others' crashes.
    """
    made_by = "-".join(versions("onnxruntime", "onnxruntime-gpu").values())
    path = Path(f"{store.path.with_suffix('')}-onnxruntime{made_by}.json")
    if not path.exists():
        states = {o.name: o.state for o in run([c for c in store.cases.values() if not c.special])}
        scratch = path.with_suffix(".tmp")
        scratch.write_text(json.dumps(states))
        scratch.replace(path)
    known: dict[str, str] = json.loads(path.read_text())
    return known
