"""OpInfo's samples through targets, held against eager: ``python -m tests.opinfo_child TEST``.

PyTorch's samples import setuptools, which refuses a process that has distutils.
"""

import sys
from dataclasses import replace

import numpy as np

from bench.records import opinfo, opinfo_calls


def operator_through_targets() -> None:
    found = opinfo.attempt("cumsum:float32", ("onnx", "tflite", "coreml"))
    assert len(found["samples"]) == opinfo.COUNT["float32"]
    assert all(told == ["ok", ""] for sample in found["samples"] for told in sample.values())
    assert opinfo.attempt("normal.in_place:float32")["unfit"] == "random: two runs differ"


def what_differs_is_wrong() -> None:
    sample = opinfo_calls.samples("add:float32", 1)[0]
    right = sample.expected[0]
    assert not opinfo_calls.difference(sample, [right])
    assert not opinfo_calls.difference(sample, [right * np.float32(1 + 1e-6)])
    assert "off by" in opinfo_calls.difference(sample, [right * np.float32(1.001)])
    assert "NaN" in opinfo_calls.difference(sample, [np.full_like(right, np.nan)])
    assert "float64" in opinfo_calls.difference(sample, [right.astype(np.float64)])
    whole = opinfo_calls.samples("add:int64", 1)[0]
    assert "differ" in opinfo_calls.difference(whole, [whole.expected[0] + 1])
    moved = replace(whole, slack=[np.ones_like(whole.slack[0])])
    assert not opinfo_calls.difference(moved, [whole.expected[0] + 1])


TESTS = {test.__name__: test for test in (operator_through_targets, what_differs_is_wrong)}

if __name__ == "__main__":
    TESTS[sys.argv[1]]()
