"""What the parser can't take, before anything is built."""

from pathlib import Path
from typing import Any

import pytest

from converter.errors import DependencyError, UsageError
from emitters.tensorrt.emitter import TensorrtEmitter, TensorrtRtxEmitter
from emitters.tensorrt.libraries import has_gpu
from emitters.tensorrt.refusals import refused
from tests.serving.models import text_model
from tests.tensorrt.models import conv_model, request

HERE, RTX = TensorrtEmitter(), TensorrtRtxEmitter()

UNSUPPORTED = """g (float[batch, 4, 4] x) => (float[batch, 4, 4] r, int64[n] u, float[batch] d) {
    r = Relu(x)
    u0 = Unique(r)
    u = Cast<to=7>(u0)
    d = Det(r)
}"""

INNER = """g (float[2, 2] x, bool c) => (float[m] y) {
    y = If(c) <then_branch = t () => (float[] a) { a = Det(x) },
               else_branch = e () => (float[2, 2] b) { b = Relu(x) }>
}"""

FOLDING = """g (float[batch, 4] x) => (float[batch, 4] y)
<int64[4] k = {2, 2, 1, 1}> {
    u = Unique<sorted=1>(k)
    f = Cast<to=1>(u)
    s = ReduceSum<keepdims=0>(f)
    y = Mul(x, s)
}"""


def test_every_node_is_named_with_what_to_do() -> None:
    """Those inside branches, too."""
    items = RTX.unsupported(text_model(UNSUPPORTED), request())
    assert [(item.node, item.op) for item in items] == [("Unique_1", "Unique"), ("Det_3", "Det")]
    assert all("no such operator" in item.reason for item in items)
    assert "outside of the model" in items[0].remedy and "--plugin" in items[1].remedy
    assert [item.op for item in RTX.unsupported(text_model(INNER), request())] == ["Det"]


def test_what_folding_takes_away_counts_only_once_it_was_simplified() -> None:
    assert list(RTX.unsupported(conv_model(), request())) == []
    model = text_model(FOLDING)
    assert RTX.unsupported(model, request(), simplified=False) == []
    assert [item.op for item in RTX.unsupported(model, request())] == ["Unique"]


@pytest.mark.parametrize(("op", "text", "says"), [
    ("MatMulInteger", "false", "--precision int8"),
    *((op, "false", "tensors instead of sequences")
      for op in ("SequenceAt", "OptionalHasElement", "ConcatFromSequence")),
    ("Foo", 'creator && "Plugin not found, are the plugin name, version, and namespace correct?"',
     "the library has neither such an operator nor a plugin of that name"),
    ("Foo", "Assertion failed: dims == 4: Only 4-D input is supported.",
     "Only 4-D input is supported."),
])  # fmt: skip
def test_what_the_parser_says_is_said_in_words_with_a_way(op: str, text: str, says: str) -> None:
    """And without its source code."""
    (item,) = refused([{"name": "m", "op": op, "text": text, "code": "x"}])
    assert item.reason == says if op == "Foo" else says in item.remedy


def test_tensors_of_types_that_it_lacks_are_named() -> None:
    text = "g (int16[4] x, float[4] f) => (int16[4] y, float[4] z) { y = Identity(x) z = Relu(f) }"
    assert [str(item) for item in RTX.unsupported(text_model(text), request())] == [
        "input (x): TensorRT has no int16 - cast it outside",
        "output (y): TensorRT has no int16 - cast it outside",
    ]


DYNAMIC = {"precision": ["int8-dynamic"]}
SHAPES = {"shapes": ["x:1x3x16,2x3x16,4x3x16"]}


@pytest.mark.parametrize(("emitter", "asked", "says", "details"), [
    (RTX, DYNAMIC, ("has no int8-dynamic", "--precision int8"), 0),
    (HERE, DYNAMIC, ("has no int8-dynamic", "--precision int8"), 0),
    (RTX, {"version_compatible": True}, ("--version-compatible: ",), 1),
    (RTX, {"hardware_compatible": "ampere+"}, ("--hardware-compatible: ",), 1),
    (RTX, {"optimization_level": 5}, ("--optimization-level: ",), 1),
    (RTX, {"version_compatible": True, "optimization_level": 2}, (), 2),
    (HERE, {"compute_capabilities": ["8.6"]}, ("of the given options", "GPU at hand only"), 1),
    (RTX, {"optimization_level": 6}, (), None),
    (RTX, {"workspace": 0}, (), None),
    (RTX, {"compute_capabilities": ["sm_86"]}, (), None),
    (HERE, SHAPES, ("doesn't fit x",), None),
])  # fmt: skip
def test_options_that_are_refused(emitter: Any, asked: dict[str, Any], says: tuple[str, ...],
                                  details: int | None) -> None:  # fmt: skip
    with pytest.raises(UsageError) as error:
        emitter.unsupported(conv_model(), request(**asked))
    assert all(text in str(error.value) for text in says), str(error.value)
    assert details is None or len(error.value.details) == details


@pytest.mark.skipif(has_gpu(), reason="it is about machines without a GPU")
def test_what_needs_a_gpu_is_refused_without_one() -> None:
    for field in ("refit", "strip_weights"):
        with pytest.raises(UsageError, match="of the given options"):
            RTX.unsupported(conv_model(), request(**{field: True}))
    with pytest.raises(DependencyError, match="--max-latency can't be judged"):
        RTX.unsupported(conv_model(), request(max_latency=5.0))


def test_a_plugin_needs_trust_and_has_to_be_there(tmp_path: Path) -> None:
    library = tmp_path / "plugin.so"
    with pytest.raises(UsageError, match="runs that library's code"):
        RTX.unsupported(conv_model(), request(plugins=[str(library)]))
    asked = request(plugins=[str(library)], trust_source=True)
    with pytest.raises(UsageError, match="no such file"):
        RTX.unsupported(conv_model(), asked)
    library.write_bytes(b"no library")
    with pytest.raises(UsageError, match=r"--plugin plugin.so: it can't be loaded"):
        RTX.unsupported(conv_model(), asked)
