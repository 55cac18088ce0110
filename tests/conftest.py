"""What every test needs."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

ALONE = (
    "acceptance/test_kills.py",
    "acceptance/test_triton.py",
    "check/test_latency.py",
    "foreign/test_bad_installations.py",
    "passes/test_large.py",
    "passes/test_traps.py",
    "quantize/test_sensitivity.py",
    "serving/test_triton_live.py",
    "test_child.py",
    "test_leaks.py",
    "test_run.py",
    "tflite/test_hostile.py",
    "tflite_emitter/test_real.py",
    "tflite_emitter/test_tidy.py",
    "triton/",
    "worker/test_protocol.py",
)
"""Files and folders whose tests measure time or memory, kill processes or start servers: nothing
may run beside them."""


def pytest_configure() -> None:
    """Lets children be interrupted, where whoever started the tests ignores that: a shell does for
    what it runs in the background, and children inherit it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what has to run alone; tests from elsewhere (a library's own) are left as they are."""
    here = Path(__file__).parent
    for item in items:
        ours = item.path.is_relative_to(here)
        if ours and item.path.relative_to(here).as_posix().startswith(ALONE):
            item.add_marker(pytest.mark.alone)
