"""Ranges of models' tensors: all of them measured, on all samples, in little memory."""

import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter.errors import ModelError, UsageError
from converter.ir.model import Model
from converter.precision.calibrate.ranges import METHODS, MINIMUM, MOMENTUM, Ranges, collect
from converter.precision.calibrate.tally_files import HISTOGRAMS, NUMBERS
from converter.runtime.ort import OrtSession
from tests.passes.models import Array, ListedSamples, run, text_model
from tests.passes.real import real_model, real_samples

SMALL = """
agraph (float[batch, 8] x, int64[batch] i) => (float[batch, 4] y, float[batch, 1] j)
<float[4] unused = {1.0, 2.0, 3.0, 4.0}> {
    h = MatMul(x, w)  r = Relu(h)  two = Constant<value_float = 2.0>()  four = Mul(two, two)
    y = Mul(r, four)  axis = Constant<value_ints = [1]>()  k = Unsqueeze(i, axis)
    j = Cast<to = 1>(k) }
"""


def small() -> Model:
    return text_model(SMALL, w=np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32))


def small_samples(count: int = 12) -> ListedSamples:
    xs = np.random.default_rng(5).standard_normal((count, 1, 8)).astype(np.float32)
    return ListedSamples([{"x": x, "i": np.array([number])} for number, x in enumerate(xs)])


def inner(model: Any, names: list[str], feeds: dict[str, Array]) -> dict[str, Array]:
    """Those tensors, as the model is written."""
    copied = model.copy()
    values = {out.name: out for node in copied.graph.graph for out in node.outputs}
    copied.graph.graph.outputs[:] = [values[name] for name in names]
    return run(copied, feeds)


def test_every_float_tensor_that_varies_is_measured() -> None:
    model, samples = small(), small_samples()
    ranges = collect(model, samples)
    assert (ranges.names, ranges.samples) == (("x", "h", "r", "y", "j"), 12)
    seen = [inner(model, ["h", "r", "y", "j"], sample.feeds) for sample in samples]
    for name in ("h", "r", "y", "j"):
        values = np.concatenate([item[name].ravel() for item in seen])
        assert ranges.extremes(name) == (values.min(), values.max())
        assert ranges.tally(name).count == values.size
    assert ranges.limits("r") == ranges.extremes("r") and ranges.limits("r")[0] == 0
    with pytest.raises(KeyError):
        ranges.limits("w")
    with pytest.raises(KeyError, match="percentile"):
        ranges.limits("r", "percentle")


def test_moving_averages_alone_follow_the_order() -> None:
    samples = small_samples()
    ranges = collect(small(), samples, ["x"])
    low, high = np.inf, -np.inf
    for number, sample in enumerate(samples):
        x = sample.feeds["x"].astype(np.float64)
        low = x.min() if not number else MOMENTUM * low + (1 - MOMENTUM) * x.min()
        high = x.max() if not number else MOMENTUM * high + (1 - MOMENTUM) * x.max()
    assert ranges.limits("x", "moving") == pytest.approx((low, high), rel=1e-12)
    model, samples = small(), small_samples(20)
    turned = ListedSamples([sample.feeds for sample in reversed(list(samples))])
    one, other = collect(model, samples), collect(model, turned)
    for name, method, symmetric in product(one.names, METHODS, (False, True)):
        limits = [ranges.limits(name, method, symmetric=symmetric) for ranges in (one, other)]
        assert limits[0] == limits[1] or method == "moving"
    assert one.limits("x", "moving") != other.limits("x", "moving")


def test_parts_give_what_one_run_gives() -> None:
    model, samples = real_model("ocr-cls"), real_samples("ocr-cls", 3)
    whole = collect(model, samples, few=True)
    parts = collect(model, samples, few=True, budget=150_000_000)
    assert whole.names == parts.names
    assert len(whole.names) > 100
    for name in whole.names:
        tally, other = whole.tally(name), parts.tally(name)
        assert tally.count == other.count > 0
        assert (tally.low, tally.high) == pytest.approx((other.low, other.high), rel=1e-4, abs=1e-6)


def test_lent_arrays_outlive_later_runs() -> None:
    session = OrtSession(small().graph)
    samples = list(small_samples())
    lent = [session.run_lent(sample.feeds) for sample in samples]
    for sample, outputs in zip(samples, lent, strict=True):
        for name, array in session.run(sample.feeds).items():
            assert np.array_equal(outputs[name], array)
    session.close()
    assert np.isfinite(lent[0]["y"]).all()


def test_progress_names_sample_and_part() -> None:
    told: list[str] = []
    collect(small(), small_samples(8), progress=told.append, budget=40)
    assert told[0] == "sample 1 of 8, tensors 1 of 3"
    assert told[-1] == "sample 8 of 8, tensors 3 of 3"
    told.clear()
    collect(small(), small_samples(8), progress=told.append)
    assert told[-1] == "sample 8 of 8"


def test_few_samples_are_refused() -> None:
    model = small()
    with pytest.raises(UsageError, match=f"7 samples are too few.*{MINIMUM}") as caught:
        collect(model, small_samples(7))
    assert "--few-samples" in caught.value.hint
    assert collect(model, small_samples(1), few=True).samples == 1
    with pytest.raises(UsageError, match="0 samples"):
        collect(model, small_samples(0), few=True)


def test_a_later_sample_a_million_times_larger() -> None:
    feeds = [sample.feeds for sample in small_samples(9)]
    feeds[7] = {**feeds[7], "x": feeds[7]["x"] * np.float32(1e6)}
    ranges = collect(small(), ListedSamples(feeds), ["x"])
    rest = np.concatenate([item["x"].ravel() for item in feeds])
    assert ranges.extremes("x") == (rest.min(), rest.max())
    assert ranges.tally("x").histogram.bins().total == rest.size


def test_nan_in_a_sample_or_a_tensor_is_named() -> None:
    feeds = [sample.feeds for sample in small_samples(9)]
    feeds[3] = {**feeds[3], "x": np.full((1, 8), np.nan, np.float32)}
    with pytest.raises(UsageError, match="sample s3: input x holds 8 values"):
        collect(small(), ListedSamples(feeds))
    model = text_model("agraph (float[batch, 2] x) => (float[batch, 2] y) {l = Log(x) y = Neg(l)}")
    feeds = [{"x": np.array([[1.0, 2.0 + i]], np.float32)} for i in range(9)]
    feeds[5]["x"][0, 0], feeds[6]["x"][0, 0] = 0, -1
    samples = ListedSamples(feeds)
    with pytest.raises(ModelError) as caught:
        collect(model, samples)
    assert caught.value.details == (
        "l: 2 values, first in sample s5",
        "y: 2 values, first in sample s5",
    )
    ranges = collect(model, samples, strict=False)
    assert ranges.nonfinite == {"l": (2, "s5"), "y": (2, "s5")}
    assert ranges.limits("l") == (0.0, pytest.approx(np.log(10)))
    assert ranges.tally("l").count == 16


@pytest.mark.parametrize("value", [0.0, 3.0, -3.0, 1e-42])
@pytest.mark.parametrize("method", METHODS)
def test_constant_samples(value: float, method: str) -> None:
    model = text_model("agraph (float[batch, 2] x) => (float[batch, 2] y) {y = Neg(x)}")
    ranges = collect(model, ListedSamples([{"x": np.full((1, 2), value, np.float32)}] * 8))
    for symmetric in (False, True):
        low, high = ranges.limits("x", method, symmetric=symmetric)
        assert low <= 0 <= high
        assert (high - low) / 255 > 1e-15
        if abs(value) > 1:
            assert low <= value * 0.98 <= high
            assert max(-low, high) == pytest.approx(3, rel=0.02)


def test_half_and_double() -> None:
    model = text_model(
        "agraph (float16[batch, 2] x) => (double[batch, 2] y) {d = Cast<to = 11>(x) y = Exp(d)}"
    )
    feeds = [{"x": np.array([[i, 60000]], np.float16)} for i in range(8)]
    ranges = collect(model, ListedSamples([{"x": f["x"] / np.float16(100)} for f in feeds]))
    assert ranges.extremes("x") == (0.0, 600.0)
    assert ranges.extremes("y")[1] > 1e260  # beyond float32, and exact
    assert ranges.limits("y", "percentile")[1] <= ranges.extremes("y")[1]


def test_subgraphs_and_strangers() -> None:
    model = text_model("""
    agraph (float[batch, 2] x, bool c) => (float[batch, 2] y) {
        y = If(c) <then_branch = a () => (float[batch, 2] t) {t = Neg(x)},
                   else_branch = b () => (float[batch, 2] e) {e = Exp(x)}> }""")
    feeds = [{"x": np.ones((1, 2), np.float32), "c": np.array(i % 2 == 0)} for i in range(8)]
    ranges = collect(model, ListedSamples(feeds))
    assert ranges.names == ("x", "y")
    assert ranges.extremes("y") == (-1.0, pytest.approx(np.e))
    with pytest.raises(ModelError, match="no such tensors") as caught:
        collect(model, ListedSamples(feeds), ["t", "y", "z"])
    assert caught.value.details == ("t", "z")


def test_files(tmp_path: Path) -> None:
    model, samples = small(), small_samples()
    ranges = collect(model, samples, folder=tmp_path / "r")
    read = Ranges.load(tmp_path / "r")
    assert read is not None
    assert (read.names, read.digest) == (ranges.names, ranges.digest)
    for name, method in product(ranges.names, METHODS):
        assert read.limits(name, method) == ranges.limits(name, method)
    again = collect(model, ListedSamples([{}] * 12), folder=tmp_path / "r")  # nothing is run
    assert again.digest == ranges.digest
    other = collect(model, small_samples(13), folder=tmp_path / "r")
    assert other.samples == 13 and other.digest != ranges.digest
    assert collect(model, small_samples(13)).digest == other.digest


@pytest.mark.parametrize("name", [NUMBERS, HISTOGRAMS])
@pytest.mark.parametrize("damage", ["gone", "short", "flipped"])
def test_damaged_files_count_as_not_there(tmp_path: Path, name: str, damage: str) -> None:
    collect(small(), small_samples()).save(tmp_path)
    path = tmp_path / name
    content = bytearray(path.read_bytes())
    path.unlink()
    if damage != "gone":
        content[len(content) // 2] ^= 4
        path.write_bytes(content[:-9] if damage == "short" else content)
    assert Ranges.load(tmp_path) is None
    assert collect(small(), small_samples(), folder=tmp_path).samples == 12
    assert Ranges.load(tmp_path) is not None


PEAK = """
import resource, sys
import numpy as np
from converter.precision.calibrate.ranges import collect
from converter.samples import Sample, Samples
from tests.passes.models import text_model

NODES = "".join(f"h{i + 1} = Relu(h{i})" for i in range(8))

class Drawn(Samples):
    origin, digest = "drawn", ""
    def __len__(self):
        return int(sys.argv[1])
    def __iter__(self):
        for seed in range(len(self)):
            rng = np.random.default_rng(seed)
            image = rng.standard_normal((1, 3, 128, 128), np.float32) * np.float32(1 + seed)
            yield Sample(str(seed), {"x": image})

text = "agraph (float[batch, 3, 128, 128] x) => (float[batch, 3, 128, 128] h8) {h0 = Sin(x)"
collect(text_model(text + NODES + "}"), Drawn())
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_memory_does_not_depend_on_the_number_of_samples() -> None:
    peaks = []
    for count in (20, 200):
        command = [sys.executable, "-c", PEAK, str(count)]
        peaks.append(int(subprocess.check_output(command, text=True)) * 1024)
    assert peaks[1] - peaks[0] < 5_000_000  # 180 samples' tensors are 300 MB
