"""Random graphs of fixed seeds through the passes and the emitters; and that the fuzzer sees."""

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np
import onnx
import pytest

from tests.fuzz.case import Case, Finding, differences
from tests.fuzz.emitting import refusals
from tests.fuzz.generate import generate
from tests.fuzz.grow import OPSET
from tests.fuzz.running import Tally, run
from tests.fuzz.shrink import shrink
from tests.fuzz.values import Array, Rejected, Value, open_session


def require_nothing_found(target: str, seeds: range) -> None:
    tally = Tally()
    refusals.clear()
    found = [
        f"{case.name}: {finding.kind}: {finding.detail}"
        for case, finding in run(seeds, [target], tally)
    ]
    assert not found, "\n".join(found)
    assert tally.run >= 0.8 * len(seeds), tally.useless
    assert refusals.total() <= 0.5 * len(seeds), refusals


@pytest.mark.parametrize("start", range(0, 80, 5))
def test_nothing_is_found_in_the_passes(start: int) -> None:
    require_nothing_found("passes", range(start, start + 5))


@pytest.mark.slow
@pytest.mark.parametrize(("target", "seeds"), [
    *(("tflite", range(100, 114)), ("tflite-raw", range(200, 208)), ("coreml", range(300, 310))),
    *(("coreml-raw", range(402, 408)), ("int8", range(500, 508)), ("openvino", range(600, 605))),
])  # fmt: skip
def test_nothing_is_found_in_what_targets_run(target: str, seeds: range) -> None:
    require_nothing_found(target, seeds)


def test_a_seed_is_always_the_same_graph_and_has_what_networks_have() -> None:
    for seed in range(3):
        first, again = generate(seed), generate(seed)
        assert first.proto.SerializeToString() == again.proto.SerializeToString()
        assert first.nodes >= 5
    cases = [generate(seed) for seed in range(40)]
    ops = Counter(node.op_type for case in cases for node in case.proto.graph.node)
    assert len(ops) > 50
    assert all(ops[op] for op in ("Conv", "Transpose", "Reshape", "Softmax", "Add", "Concat"))
    free = [case for case in cases if len(case.feeds) > 1]
    assert 10 < len(free) < 35  # others have fixed sizes


def turned(case: Case) -> onnx.ModelProto:
    """A conversion that is wrong: it drops the Neg behind a Relu."""
    proto = onnx.ModelProto()
    proto.CopyFrom(case.proto)
    made = {node.output[0]: node for node in proto.graph.node}
    for node in proto.graph.node:
        before = made.get(node.input[0])
        if node.op_type == "Neg" and before is not None and before.op_type == "Relu":
            node.op_type = "Identity"
    return proto


def wrong(case: Case, expected: Mapping[str, Value]) -> Iterator[Finding]:
    """What is wrong with that conversion."""
    session = open_session(turned(case))
    for index, feeds in enumerate(case.feeds):
        found = dict(zip(case.outputs, session.run(None, dict(feeds)), strict=True))
        for text in differences(expected, index, found):
            yield Finding("wrong", text)


LONG = """
    long (float[batch, 3, 4, 5] x) => (float[batch, 3, 4, 5] y, float[1, 1, 1, 1] z)
    <float[3] c = {0.5, 0.2, 0.4}> {
        a = Transpose <perm = [0, 2, 3, 1]> (x)
        b = Sigmoid (a)
        d = Sub (b, c)
        e = Relu (d)
        f = Neg (e)
        g = Softmax <axis = -1> (f)
        h = Transpose <perm = [0, 3, 1, 2]> (g)
        y = Tanh (h)
        z = ReduceMean (x)
    }
"""
"""A Relu and a Neg with much around them that has nothing to do with it."""

EDGE = """
    edge (float[2] x) => (bool[2] y) <float[2] c = {0.1, 5}, float zero = {0}> {
        a = Sub (x, c)
        y = Greater (a, zero)
    }
"""


def case_of(text: str, *arrays: Array) -> Case:
    head = f'<ir_version: 9, opset_import: ["": {OPSET}]>'
    proto = onnx.parser.parse_model(head + text)
    return Case(proto.graph.name, proto, tuple({"x": a.astype(np.float32)} for a in arrays))


def long_case() -> Case:
    random = np.random.default_rng(0)
    return case_of(LONG, *(random.standard_normal((size, 3, 4, 5)) for size in (2, 3, 1)))


def test_what_is_wrong_is_found_and_made_small() -> None:
    case = long_case()
    assert list(wrong(case, case.expected()))
    small = shrink(case, lambda item: bool(list(wrong(item, item.expected()))))
    assert [node.op_type for node in small.proto.graph.node] == ["Relu", "Neg"]
    assert len(small.feeds) == 1


def test_what_hangs_on_rounding_is_refused() -> None:
    with pytest.raises(Rejected, match="rounding"):
        case_of(EDGE, np.asarray([0.1 + 1e-8, 1])).expected()


def test_a_tolerance_is_a_few_units_in_the_last_place() -> None:
    case = long_case()
    for value in case.expected().values():
        largest = float(np.abs(value.exact[0]).max())
        assert 2**-20 * largest <= value.tolerance(0) < 2**-14 * largest
