"""Buffers that forward changes: inputs and outputs, and what can't be one is refused by name."""

from pathlib import Path

import numpy as np

from .client import Client
from .conftest import Write, check_equal, eager, export, make_feeds, network, refused, spec

KEEPING = """
class Stream(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(1, 4, 3))
        self.register_buffer("calls", torch.zeros(1, dtype=torch.int64))
        self.register_buffer("gain", torch.tensor([2.0, 3.0, 4.0, 5.0]))
        self.mix = nn.Conv1d(4, 4, 4)

    def forward(self, x):
        x = torch.cat([self.cache, x], 2)
        self.cache = x[:, :, -3:]
        self.calls += 1
        self.gain.mul_(0.5)
        return self.mix(x) * self.gain[:, None]
"""

STREAMS = KEEPING + network("return self.stream(x)", "self.stream = Stream()")


def test_a_buffer_that_outputs_hang_on_goes_in_and_out(
    worker: Client, write: Write, tmp_path: Path
) -> None:
    made = export(worker, write(STREAMS), [spec("x", 1, 4, 10)])
    assert [item["name"] for item in made["inputs"]] == ["x", "stream_cache", "stream_gain"]
    assert made["states"] == [
        {"input": "stream_cache", "output": "stream_cache_out", "initial": 0.0},
        {"input": "stream_gain", "output": "stream_gain_out", "initial": [2.0, 3.0, 4.0, 5.0]},
    ]
    told = " ".join(made["warnings"])
    assert "stream_cache (starts at 0.0), stream_gain (starts at the model's own values)" in told
    assert "BUFFERS THAT FORWARD CHANGES" in told and "stream.calls" in told
    outputs = check_equal(worker, made)
    feeds = {"x": np.ones((1, 4, 10), "f"), "stream_gain": np.ones(4, "f"),
             "stream_cache": outputs["stream_cache_out"]}  # fmt: skip
    one, two = (eager(worker, tmp_path, feeds) for _ in range(2))
    for name, array in one.items():  # nothing is left of a run
        np.testing.assert_array_equal(two[name], array)


def test_a_buffer_that_is_held_is_neither_an_input_nor_an_output(
    worker: Client, write: Write, tmp_path: Path
) -> None:
    made = export(worker, write(STREAMS), [spec("x", 1, 4, 10)], states=False)
    assert [item["name"] for item in made["inputs"]] == ["x"]
    assert [item["name"] for item in made["outputs"]] == ["output"] and made["states"] == []
    told = " ".join(made["warnings"])
    assert "STATE IS HELD" in told and "stream_cache (starts at 0.0), stream_gain (starts" in told
    assert "no output depends on" in told and "stream.calls" in told
    outputs = check_equal(worker, made)
    kept = eager(worker, tmp_path, make_feeds(made["inputs"]))
    for name, array in outputs.items():  # nor did the source keep anything
        np.testing.assert_allclose(kept[name], array, 1e-4, 1e-5)


def test_what_no_graph_keeps_is_refused(worker: Client, write: Write) -> None:
    kept = """
class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.before = torch.zeros(1, 4)

    def forward(self, x):
        x = x + self.before
        self.before = x
        return x
"""
    text = kept + network("return self.inner(x)", "self.inner = Inner()")
    says = (
        "keeps state between calls",
        "inner.before",
        "Register such tensors as buffers of one size",
    )
    refused(worker, write(text), [spec("x", 1, 4)], *says, kind="unsupported")
    noted = text.replace("x = x + self.before", "x = x * 2")  # looked at by nobody
    check_equal(worker, export(worker, write(noted), [spec("x", 1, 4)]))
    growing = """
        self.seen = torch.cat([self.seen, x], 0)
        return self.seen.sum(0)"""
    text = network(growing, 'self.register_buffer("seen", torch.zeros(1, 4))')
    says = ("keeps state between calls: forward changes seen", "of one size")
    refused(worker, write(text), [spec("x", 1, 4)], *says, kind="unsupported")
    lazily = """
        if self.places is None:
            self.places = torch.arange(4.0)
        return x + self.places"""
    text = network(lazily, 'self.register_buffer("places", None)')
    check_equal(worker, export(worker, write(text), [spec("x", 1, 4)]))
