"""States that the stand-in backend keeps of sequences, without a server.

What of the server's process the backend's file imports is left out: keeping states asks nothing of
it.
"""

from __future__ import annotations

import importlib
import sys
import time
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import pytest

START, END = 1, 2


@dataclass
class Request:
    """A request of a sequence, as the core hands it over."""

    number: int
    flag: int = 0

    def correlation_id(self) -> int:
        return self.number

    def flags(self) -> int:
        return self.flag


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setitem(
        sys.modules, "triton_python_backend_utils", ModuleType("triton_python_backend_utils")
    )
    return importlib.import_module("emitters.serving.triton.onnxruntime_backend.model")


def sequences(backend: Any, microseconds: int) -> Any:
    batching = {
        "max_sequence_idle_microseconds": str(microseconds),  # 64 bits are text in JSON
        "state": [{"input_name": "h", "output_name": "h_next"}],
    }
    return backend.Sequences({"sequence_batching": batching})


def state(found: Any, number: int) -> float:
    return float(found.continued(Request(number), {})["h"][0])


def test_what_the_core_gave_up_is_dropped(backend: Any) -> None:
    """Not a sequence that goes on, however long ago it began."""
    found = sequences(backend, 300_000)
    for number in range(1, 100):
        found.keep(Request(number, START), {"h_next": np.array([float(number)])})
    for _ in range(3):
        time.sleep(0.25)
        assert state(found, 7) == 7
        found.keep(Request(7), {"h_next": np.array([7.0])})
    found.keep(Request(100, START | END), {"h_next": np.array([0.0])})
    assert state(found, 7) == 7 and len(found._kept) == 1
    with pytest.raises(backend.ConfigError, match="no state of sequence 8"):
        state(found, 8)


def test_what_the_core_may_still_continue_stays(backend: Any) -> None:
    found = sequences(backend, 60_000_000)
    for number in (1, 2, 3):
        found.keep(Request(number, START), {"h_next": np.array([float(number)])})
    time.sleep(0.02)
    found.keep(Request(2, END), {"h_next": np.array([0.0])})
    assert [state(found, number) for number in (1, 3)] == [1, 3]
    with pytest.raises(backend.ConfigError, match="no state of sequence 2"):
        state(found, 2)
