"""Ragged batches: the message, the refusals, and requests of different lengths on the real server.

Its core lets them into one batch; joining them is the stand-in backend's, in the compiled one's
place.
"""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tritonclient.http

from converter.errors import UsageError
from converter.ir.model import Model
from emitters.serving.triton.config import read_config
from emitters.serving.triton.validate import validate_folder
from tests.serving.models import MemorySamples, package, text_model
from tests.triton.server import TritonServer

SUMS = """g (float[total] x, int32[batch] ends) => (float[batch, 1] y)
    <int64[1] zero = {0}, int64[1] last = {-1}, int64 one = {1}, int64[1] axis = {1}> {
    first = Constant<value_int = 0>() steps = CumSum(x, first)
    whole = Cast<to = 7>(ends) at = Sub(whole, one) until = Gather(steps, at)
    before = Slice(until, zero, last) nothing = ConstantOfShape<value = float[1] {0}>(axis)
    start = Concat<axis = 0>(nothing, before)
    each = Sub(until, start) y = Unsqueeze(each, axis) }"""
"""The sum of each request, of the rows joined and the places where each ends."""

ENDS = "x=BATCH_ACCUMULATED_ELEMENT_COUNT:ends"


def sums() -> Model:
    return text_model(SUMS)


def samples(ends: int = 0) -> MemorySamples:
    rng = np.random.default_rng(5)
    return MemorySamples(
        [
            {"x": rng.standard_normal(n, np.float32), "ends": np.array([ends or n], np.int32)}
            for n in (3, 5)
        ]
    )


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ragged")
    package(sums(), folder, samples(), ragged=[ENDS], max_batch=8, queue_delay=300_000)
    return folder / "repository"


@pytest.fixture(scope="module")
def server(repository: Path) -> Iterator[TritonServer]:
    with TritonServer(repository, log_verbose=1) as running:
        yield running


def test_the_message(repository: Path) -> None:
    config = read_config(repository / "tiny/config.pbtxt")
    (entry,), (made,) = config.input, config.batch_input
    assert (entry.name, list(entry.dims), entry.allow_ragged_batch) == ("x", [-1], True)
    assert (list(made.target_name), list(made.source_input)) == (["ends"], ["x"])
    assert made.kind == made.BATCH_ACCUMULATED_ELEMENT_COUNT and made.data_type == 8
    assert config.max_batch_size == 8 and config.HasField("dynamic_batching")
    assert not validate_folder(repository / "tiny")


@pytest.mark.slow
def test_requests_of_different_lengths_in_one_batch(server: TritonServer) -> None:
    rng = np.random.default_rng(0)
    rows = [rng.standard_normal((1, length), np.float32) for length in range(1, 9)]

    def ask(row: np.ndarray) -> float:
        client = tritonclient.http.InferenceServerClient(server.http_url)
        tensor = tritonclient.http.InferInput("x", list(row.shape), "FP32")
        tensor.set_data_from_numpy(row)
        reply = client.infer("tiny", [tensor]).as_numpy("y")
        assert reply.shape == (1, 1)
        return float(reply[0, 0])

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(ask, rows))
    np.testing.assert_allclose(found, [row.sum() for row in rows], rtol=1e-4, atol=1e-5)
    counts = [int(n) for n in re.findall(r"'tiny' runs (\d+) requests", server.log())]
    assert max(counts[-8:]) > 1  # some of them were joined


REFUSED = {
    "no kind": ("x=BATCH_SIZE:ends", "no kind BATCH_SIZE"),
    "of items": ("x=BATCH_ITEM_SHAPE:ends", "no kind BATCH_ITEM_SHAPE"),
    "no target": ("x=BATCH_ELEMENT_COUNT:begins", "no input begins"),
    "another kind": ("x=BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO:ends", r"is \[0, 3\]"),
    "no form": ("x", "INPUT=KIND:TARGET"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(tmp_path: Path, name: str) -> None:
    option, says = REFUSED[name]
    with pytest.raises(UsageError, match=says):
        package(sums(), tmp_path, samples(), ragged=[option], max_batch=4)


def test_a_model_that_pads_is_refused(tmp_path: Path) -> None:
    model = text_model("g (float[batch, n] x, int32[batch] ends) => (float[batch, n] y) { "
                       "y = Add(x, x) }")  # fmt: skip
    with pytest.raises(UsageError, match="joined to a row"):
        package(model, tmp_path, samples(), ragged=[ENDS], max_batch=4)


def test_a_model_that_mixes_requests_is_refused(tmp_path: Path) -> None:
    model = text_model("""g (float[total] x, int32[batch] ends) => (float[batch, 1] y)
        <int64[1] axis = {1}> { all = ReduceSum<keepdims = 1>(x) ones = Cast<to = 1>(ends)
        one = Div(ones, ones) each = Mul(one, all) y = Unsqueeze(each, axis) }""")
    with pytest.raises(UsageError, match="doesn't keep the requests apart"):
        package(model, tmp_path, samples(), ragged=[ENDS], max_batch=4)
