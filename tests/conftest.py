"""What every test needs: its tier, a cache of its worker's own, and real models converted once.

``make test`` runs what is quick, and of what is ``slow`` what is marked ``smoke``. The others are
marked ``rest`` here, and run in ``make test-all``. Of either, what is ``apart`` runs in workers of
its own, and what is ``alone`` by itself.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from converter.files.cache_root import cache_root
from tests import sweep

if TYPE_CHECKING:
    from tests.artifacts import Made

APART = (
    "acceptance/test_demo.py",
    "acceptance/test_kills.py",
    "acceptance/test_several_recipes.py",
    "acceptance/test_sweeps.py",
    "executors/",
    "foreign/test_bad_installations.py",
    "hostile/test_fuzz.py",
    "passes/test_large.py",
    "serving/test_containers.py",
    "serving/test_serve.py",
    "stores/",
    "test_leaks.py",
    "tflite_emitter/test_real.py",
)
"""Files whose tests fork their process, count what it holds, or kill processes: the workers that
run them have run nothing else."""

ALONE = (
    "check/test_latency.py",
    "hostile/test_bounds.py",
    "passes/test_traps.py",
    "quantize/test_sensitivity.py",
    "test_child.py",
    "test_run.py",
    "tflite/test_hostile.py",
    "tflite_emitter/test_tidy.py",
    "worker/test_protocol.py",
)
"""Files whose tests measure time: nothing may run beside them."""

HERE = Path(__file__).parent


def pytest_configure() -> None:
    """Lets children be interrupted, where whoever started the tests ignores that: a shell does for
    what it runs in the background, and children inherit it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if "PYTEST_XDIST_WORKER" in os.environ:
        _share_cores()


def _share_cores() -> None:
    """Has threads of ONNX Runtime and of OpenMP sleep while they wait: workers that spin take each
    other's cores. Results are the same; what is measured runs alone, where they spin as ever."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    import onnxruntime

    class Sleeping(onnxruntime.SessionOptions):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.add_session_config_entry("session.intra_op.allow_spinning", "0")

    onnxruntime.SessionOptions = Sleeping


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks each test's tier, and takes the share of tests with many cases (tests/sweep.py); tests
    from elsewhere (a library's own) are left as they are."""
    ours = [item for item in items if item.path.is_relative_to(HERE)]
    taken = sweep.share_of([item.nodeid for item in ours])
    left_out = {item for item in ours if item.nodeid not in taken}
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]
    for item in ours:
        slow, smoke = (item.get_closest_marker(name) for name in ("slow", "smoke"))
        if smoke and not slow:
            raise pytest.UsageError(f"{item.nodeid} is marked smoke, and not slow: it runs anyway")
        if slow and not smoke:
            item.add_marker(pytest.mark.rest)
        for name, files in (("apart", APART), ("alone", ALONE)):
            if item.path.relative_to(HERE).as_posix().startswith(files):
                item.add_marker(name)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Reads only files of what runs apart or alone, where nothing else is asked for."""
    files = {"apart": APART, "alone": ALONE}.get(config.option.markexpr.rpartition(" and ")[2])
    if files is None or not collection_path.is_file():
        return None
    if not collection_path.is_relative_to(HERE) or collection_path.name == "__init__.py":
        return None
    return not collection_path.relative_to(HERE).as_posix().startswith(files) or None


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache of this worker's own, empty but for what was fetched: that, all runs share."""
    kept, own = cache_root(), tmp_path_factory.mktemp("cache")
    for part in ("packages", "downloads", "zoo", "conformance", "servers"):
        (kept / part).mkdir(parents=True, exist_ok=True)
        (own / part).symlink_to(kept / part)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MODELYARD_CACHE", str(own))
        yield own


@pytest.fixture(scope="session")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str, str], Made]:
    """``artifact(model, target, precision)``: of tests/artifacts.py; all workers share it."""
    from tests.artifacts import made

    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "artifacts"
    shared.mkdir(exist_ok=True)
    return partial(made, shared)
