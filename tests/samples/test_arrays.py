"""Samples from .npz and .npy files."""

import io
import os
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from converter.ir.model import TensorSpec
from converter.options.request import Request
from converter.samples import load_samples
from tests.samples.conftest import Load, Refuse, spec

X = spec("x", "batch", 3)
RNG = np.random.default_rng(7)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def test_each_row_of_the_batch_is_a_sample(load: Load) -> None:
    x = floats(5, 3)
    np.savez("a.npz", x=x)
    samples = load("a.npz", X)
    assert len(samples) == 5 and not samples.labelled and not samples.random
    for one, other in zip(samples, samples, strict=True):  # neither disturbs the other
        np.testing.assert_array_equal(one.feeds["x"], other.feeds["x"])
    for index, sample in enumerate(samples):
        assert sample.name == f"a.npz[{index}]" and not sample.feeds["x"].flags.writeable
        np.testing.assert_array_equal(sample.feeds["x"], x[index : index + 1])


def test_several_inputs_are_matched_by_name(load: Load) -> None:
    """An input without a batch is every sample's; a batch may stand at any axis."""
    inputs = (spec("x", "batch", 3), spec("state", 2, "batch", 4), spec("rate", dtype="int64"))
    x, state = floats(3, 3), floats(2, 3, 4)
    np.savez("a.npz", state=state, rate=np.int64(16000), x=x, label=[5, 6, 7])
    samples = load("a.npz", *inputs)
    assert len(samples) == 3 and samples.labelled
    for index, sample in enumerate(samples):
        assert list(sample.feeds) == ["x", "state", "rate"]
        np.testing.assert_array_equal(sample.feeds["state"], state[:, index : index + 1])
        assert sample.feeds["rate"].shape == () and sample.feeds["rate"] == 16000
        assert sample.label == 5 + index and type(sample.label) is int


def test_a_missing_batch_axis_is_one_sample(load: Load) -> None:
    np.savez("a.npz", x=floats(3), y=np.int64(4))
    for shape in (("batch", 3), (1, 3)):
        (sample,) = load("a.npz", spec("x", *shape))
        assert sample.feeds["x"].shape == (1, 3)
        assert (sample.label, sample.name) == (4, "a.npz")


def test_an_axis_more_counts_samples(load: Load, refuse: Refuse) -> None:
    """Where the batch is 1, and where there is none."""
    np.save("a.npy", x := floats(5, 1, 3))
    assert [s.feeds["x"].tolist() for s in load("a.npy", X)] == x.tolist()
    np.save("b.npy", floats(5, 2, 3))
    refuse("b.npy", X, says="3 dimensions instead of 2")
    tokens, scale = np.arange(12, dtype=np.int32).reshape(3, 4), floats(3)
    np.savez("a.npz", tokens=tokens, scale=scale)
    samples = list(load("a.npz", spec("tokens", "length", dtype="int32"), spec("scale")))
    assert [s.feeds["tokens"].tolist() for s in samples] == tokens.tolist()
    assert [float(s.feeds["scale"]) for s in samples] == scale.tolist()


def test_a_fixed_batch_gives_chunks(load: Load, refuse: Refuse) -> None:
    fixed = spec("x", 2, 3)
    x = floats(6, 3)
    np.savez("a.npz", x=x, labels=np.arange(6))
    samples = list(load("a.npz", fixed))
    assert [s.feeds["x"].shape for s in samples] == [(2, 3)] * 3
    assert [s.label.tolist() for s in samples] == [[0, 1], [2, 3], [4, 5]]
    assert len(load("a.npz", fixed, samples_limit=5)) == 2
    refuse("a.npz", fixed, samples_limit=1, says="fixed batch of 2")
    refuse("a.npz", spec("x", 4, 3), says="isn't a multiple of the fixed batch 4")
    assert len(load("a.npz", spec("x", 1, 3))) == 6


def test_free_dimensions_may_vary_between_files(load: Load) -> None:
    inputs = (spec("ids", "batch", "length", dtype="int64"), spec("mask", "batch", "length"))
    for index, length in enumerate((4, 7, 2)):
        ids, mask = np.ones((1, length), np.int64), np.ones((1, length), np.float32)
        np.savez(f"{index}_{length}.npz", ids=ids, mask=mask)
    samples = load(".", *inputs, labels="filename")
    assert [s.feeds["ids"].shape[1] for s in samples] == [4, 7, 2]
    assert [s.label for s in samples] == [4, 7, 2]
    assert [s.name for s in samples] == ["0_4.npz", "1_7.npz", "2_2.npz"]
    assert [f["mask"].shape for f in samples.batches(3)] == [(3, 4)]


@pytest.mark.parametrize(("stored", "says"), [
    ({"a": floats(2, 3), "b": floats(2, 3)}, ("missing: x", "not an input: a, b", "np.savez")),
    ({"x": floats(2, 3), "extra": floats(2)}, ("not an input: extra",)),
    ({"x": floats(2, 4)}, ("expected float32[batch, 3]", "dimension 1 is 4 instead of 3")),
    ({"x": floats(2, 3, 1, 1)}, ("it has 4 dimensions instead of 2",)),
    ({"x": np.zeros((2, 3))}, ("found float64[2, 3]", "array.astype('float32')")),
    ({"x": floats(0, 3)}, ("x holds no samples",)),
    ({"x": np.array([[None] * 3])}, ("pickled objects are not read",)),
    ({"x": floats(2, 3), "label": np.arange(3)}, ("labels of shape [3]",)),
    ({"x": floats(2, 3), "y": np.array([{}, {}])}, ("labels are pickled",)),
])  # fmt: skip
def test_what_does_not_fit(refuse: Refuse, stored: Any, says: tuple[str, ...]) -> None:
    np.savez("a.npz", **stored)
    refuse("a.npz", X, says=("a.npz", *says))


def test_inputs_that_do_not_go_together(refuse: Refuse) -> None:
    inputs = (spec("a", "batch", 3), spec("b", "batch", 2))
    np.savez("a.npz", a=floats(2, 4), b=np.zeros((2, 2), np.int8))
    error = refuse("a.npz", *inputs, says=("dimension 1 is 4", "the dtype differs"))
    assert len(error.details) == 2
    np.savez("a.npz", a=floats(2, 3), b=floats(4, 2))
    refuse("a.npz", *inputs, says=("a holds 2 samples", "b holds 4 samples"))
    np.savez("a.npz", ids=floats(1, 4), mask=floats(1, 5))
    tokens = (spec("ids", "batch", "length"), spec("mask", "batch", "length"))
    refuse("a.npz", *tokens, says="length is 5 here, but 4 in ids")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_are_named(refuse: Refuse, bad: float) -> None:
    """Once contents are read, which they are only while iterating."""
    x = floats(4, 3)
    x[2, 1] = bad
    np.savez("a.npz", x=x)
    assert len(load_samples(Request("net", samples="a.npz"), (X,), {})) == 4
    value = "NaN" if np.isnan(bad) else str(bad)
    refuse("a.npz", X, says=f"a.npz[2]: the input 'x' holds {value} at [0, 1]")


@pytest.mark.parametrize("suffix", [".npz", ".npy"])
@pytest.mark.parametrize("keep", [0, 10, 200, -30, -1])
def test_truncated_files(refuse: Refuse, suffix: str, keep: int) -> None:
    path = Path(f"a{suffix}")
    save = np.savez if suffix == ".npz" else np.save
    save(path, floats(100, 3))
    path.write_bytes(path.read_bytes()[:keep])
    refuse(path, X, says=("can't be read", path.name))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_changed_byte_is_found_by_the_archives_checksum(refuse: Refuse, save: Any) -> None:
    path = Path("a.npz")
    save(path, x=floats(100, 3))
    whole = path.read_bytes()
    path.write_bytes(whole[:600] + bytes([whole[600] ^ 1]) + whole[601:])
    refuse(path, X, says="a.npz can't be read")
    path.write_bytes(whole)
    with zipfile.ZipFile(path) as archive:
        checksum = archive.getinfo("x.npy").CRC
    wrong = (checksum ^ 1).to_bytes(4, "little")
    path.write_bytes(whole.replace(checksum.to_bytes(4, "little"), wrong))
    refuse(path, X, says=("a.npz can't be read", "CRC"))


def test_a_file_holds_what_its_header_says_or_is_refused(refuse: Refuse) -> None:
    with Path("a.npy").open("wb") as stream:
        np.save(stream, floats(2, 3))
        np.save(stream, floats(2, 3))
    refuse("a.npy", X, says="expected 24 bytes of values, found 176")
    stream = io.BytesIO()
    header = {"descr": "<f4", "fortran_order": True, "shape": (10**12, 3)}
    np.lib.format.write_array_header_1_0(stream, header)
    Path("a.npy").write_bytes(stream.getvalue() + b"0" * 12)
    refuse("a.npy", X, says="expected 12000000000000 bytes of values, found 12")
    with zipfile.ZipFile("a.npz", "w") as archive:
        archive.writestr("x.npy", stream.getvalue() + b"0" * 12)
    refuse("a.npz", X, says="expected 12000000000000 bytes of values, found 12")


def test_a_pickle_is_never_loaded(refuse: Refuse) -> None:
    """Loading it would make a file."""

    class Evil:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, ("evil",)

    np.save("a.npy", np.array([Evil()], dtype=object), allow_pickle=True)
    refuse("a.npy", X, says="pickled")
    assert not Path("evil").exists()


def test_labels_by_key_or_none(load: Load, refuse: Refuse) -> None:
    np.savez("a.npz", x=floats(2, 3), target=["cat", "dog"])
    assert [s.label for s in load("a.npz", X, labels="target")] == ["cat", "dog"]
    refuse("a.npz", X, labels="other", says=("no such array", "x, target"))
    refuse("a.npz", X, labels="filename", says="a folder")
    refuse("a.npz", X, labels="x", says="is an input")
    np.savez("b.npz", x=floats(2, 3), y=[1, 2])
    assert not load("b.npz", X, labels="none").labelled
    assert load("b.npz", X).labelled
    np.savez("c.npz", y=floats(2, 3))  # the only array is the input's
    assert not load("c.npz", X).labelled


def test_other_dtypes(load: Load) -> None:
    import ml_dtypes

    np.save("big.npy", floats(2, 3).astype(">f4"))
    assert next(iter(load("big.npy", X))).feeds["x"].dtype == np.dtype("float32")
    np.save("text.npy", np.array([["a", "bc"]]))
    (sample,) = load("text.npy", spec("t", "batch", 2, dtype="string"))
    assert sample.feeds["t"].tolist() == [["a", "bc"]]
    assert sample.feeds["t"].dtype == np.dtype(object)
    brain = floats(2, 3).astype(ml_dtypes.bfloat16)
    np.save("brain.npy", brain)
    samples = load("brain.npy", spec("x", "batch", 3, dtype="bfloat16"))
    np.testing.assert_array_equal(np.concatenate([s.feeds["x"] for s in samples]), brain)


def test_the_digest_follows_contents_and_options_but_not_the_place(load: Load) -> None:
    x = floats(4, 3)
    digests = []
    for folder in ("one", "two"):
        Path(folder).mkdir()
        np.savez(f"{folder}/a.npz", x=x)
        digests.append(load(f"{folder}/a.npz", X).digest)
    assert digests[0] == digests[1]
    assert load("one", X, samples_limit=2).digest not in digests
    np.savez("one/a.npz", x=x + 1)
    assert load("one/a.npz", X).digest not in digests


def test_limit_and_pattern(load: Load, refuse: Refuse) -> None:
    for name in ("a1", "a2", "b1"):
        np.savez(f"{name}.npz", x=floats(2, 3))
    Path("z.npz").write_bytes(b"junk")  # beyond the limit: not looked at
    found = load(".", X, samples_limit=3)
    assert [s.name for s in found] == ["a1.npz[0]", "a1.npz[1]", "a2.npz[0]"]
    assert len(load(".", X, samples_pattern="a*")) == 4
    refuse(".", X, says="z.npz can't be read")
    refuse(".", X, samples_pattern="q*", says="that match 'q*'")
    refuse("a1.npz", X, samples_pattern="a*", says="needs a folder")
    refuse(".", X, samples_limit=0, says="at least 1")


def test_memory_does_not_grow_with_the_number() -> None:
    np.savez("a.npz", x=np.zeros((4000, 2000), np.float32))
    wide = spec("x", "batch", 2000)
    tracemalloc.start()
    samples = load_samples(Request("net", samples="a.npz"), (wide,), {})
    samples.validate()
    assert len(samples.digest) == 64
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4_000_000  # the array is 32 MB


def test_batches_start_over_when_there_are_too_few_or_are_the_models(load: Load) -> None:
    inputs = (spec("x", "batch", 3), spec("state", 2, "batch"), spec("anchors", 4))
    x, state, anchors = floats(3, 3), floats(2, 3), floats(4)
    np.savez("a.npz", x=x, state=state, anchors=anchors)
    samples = load("a.npz", *inputs)
    first, second = samples.batches(4, 2)
    np.testing.assert_array_equal(first["x"], x[[0, 1, 2, 0]])
    np.testing.assert_array_equal(second["x"], x[[1, 2, 0, 1]])
    np.testing.assert_array_equal(first["state"], state[:, [0, 1, 2, 0]])
    np.testing.assert_array_equal(first["anchors"], anchors)
    np.savez("a.npz", x=floats(4, 3))
    samples = load("a.npz", spec("x", 2, 3))
    for size in (1, 2):
        assert [feeds["x"].shape for feeds in samples.batches(size, 2)] == [(2, 3), (2, 3)]
    with pytest.raises(Exception, match="the model's batch is fixed"):
        next(samples.batches(8))


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_samples_are_the_slices_that_numpy_takes(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Any rank, any place of the batch, any order in the file, compressed or not."""
    dims = data.draw(st.lists(st.integers(1, 4), max_size=3))
    count = data.draw(st.integers(1, 4))
    axis = data.draw(st.integers(0, len(dims)))
    shape = (*dims[:axis], count, *dims[axis:])
    array = np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)
    stored = np.asarray(array, order=data.draw(st.sampled_from("CF")))
    symbols: tuple[int | str, ...] = (*dims[:axis], "batch", *dims[axis:])
    save = data.draw(st.sampled_from([np.save, np.savez, np.savez_compressed]))
    path = tmp_path_factory.mktemp("any") / ("a.npy" if save is np.save else "a.npz")
    save(path, **({"arr": stored} if save is np.save else {"x": stored}))
    inputs = (TensorSpec("x", "int32", symbols),)
    samples = list(load_samples(Request("net", samples=str(path)), inputs, {}))
    assert len(samples) == count
    for index, sample in enumerate(samples):
        np.testing.assert_array_equal(sample.feeds["x"], array.take([index], axis))
