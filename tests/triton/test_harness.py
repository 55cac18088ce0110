"""The harness itself: a real Triton server, serving tiny models through the stand-in backend."""

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from tests.serving.models import BATCH_3, Shape, of_one, text_proto
from tests.triton.server import TritonServer, TritonServerError

Serve = Callable[..., None]

TENSORS = """
input [ { name: "x" data_type: TYPE_FP32 dims: [ 3 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 3 ] } ]
"""
CPU = "instance_group [ { kind: KIND_CPU count: 1 } ]\n"
BATCHED = f'backend: "onnxruntime"\n{CPU}max_batch_size: 8\n{TENSORS}'


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("repository")


@pytest.fixture(scope="module")
def server(repository: Path) -> Iterator[TritonServer]:
    """One server for all tests that only load models into it."""
    with TritonServer(repository, "explicit", log_verbose=1) as running:
        yield running


def adder(shape: Shape = BATCH_3) -> bytes:
    """A model of ``y = x + 1``, serialized."""
    proto = text_proto(of_one("Add(x, step)", shape), step=np.array(1, np.float32))
    return bytes(proto.SerializeToString())


def put_model(repository: Path, name: str, config: str, model: bytes) -> None:
    (repository / name / "1").mkdir(parents=True)
    (repository / name / "1" / "model.onnx").write_bytes(model)
    (repository / name / "config.pbtxt").write_text(config)


@pytest.fixture
def serve(repository: Path, server: TritonServer, request: pytest.FixtureRequest) -> Serve:
    """Write a model folder under a name of the test's own and load it."""

    def serve_one(config: str, model: bytes, suffix: str = "",
                  change: tuple[str, str] = ("", "")) -> None:  # fmt: skip
        name = re.sub(r"\W+", "_", request.node.name) + suffix
        put_model(repository, name, f'name: "{name}"\n{config}'.replace(*change, 1), model)
        server.load(name)

    return serve_one


INPUT, OUTPUT = TENSORS.strip().splitlines()
SETTINGS = """
parameters { key: "intra_op_thread_count" value { string_value: "%s" } }
optimization { graph { level: 1 } }
"""


OPEN = adder(("batch", "width"))
REFUSED: dict[str, tuple[str, str, str, str, bytes]] = {
    "input-dim": (INPUT, "[ 3 ]", "[ 4 ]", "tensor 'x'.*specifies", adder()),
    "output-dim": (OUTPUT, "[ 3 ]", "[ 4 ]", "tensor 'y'.*specifies", adder()),
    "input-opened": (INPUT, "[ 3 ]", "[ -1 ]", "tensor 'x'.*specifies", adder()),
    "output-opened": (OUTPUT, "[ 3 ]", "[ -1 ]", "tensor 'y'.*specifies", adder()),
    "output-narrowed": (OUTPUT, "", "", "tensor 'y'", OPEN),
    "input-rank": (INPUT, "[ 3 ]", "[ 3, 1 ]", "expects 2 dimensions", adder()),
    "input-type": (INPUT, "FP32", "FP16", "provides TYPE_FP32", adder()),
    "output-type": (OUTPUT, "FP32", "INT32", "TYPE_FP32", adder()),
    "input-name": (INPUT, '"x"', '"z"', "allowed inputs are: x", adder()),
    "output-name": (OUTPUT, '"y"', '"z"', "outputs are: y", adder()),
    "count": (INPUT, INPUT, INPUT + INPUT.replace('"x"', '"z"'), "expects 2 inputs", adder()),
    "gpu": ("kind: KIND_CPU", "CPU", "GPU", "GPU", adder()),
    "parameter": (OUTPUT, OUTPUT, OUTPUT + SETTINGS % "one", "must be a whole number", adder()),
    "first-dimension": (INPUT, "", "", "first dimension must be -1", adder((8, 3))),
}
"""A line of the configuration, what is replaced in it and by what, the reason, and the model."""


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_configurations_are_refused(case: str, serve: Serve) -> None:
    line, old, new, reason, model = REFUSED[case]
    with pytest.raises(TritonServerError, match=reason):
        serve(BATCHED, model, change=(line, line.replace(old, new, 1)))


def test_what_the_session_takes(serve: Serve) -> None:
    """Parameters and the level of optimization; of inputs narrower dims than the model's."""
    serve(BATCHED + SETTINGS % 1, adder())
    serve(BATCHED.replace(OUTPUT, OUTPUT.replace("[ 3 ]", "[ -1 ]")), OPEN, "_narrowed")


KILLED = """
import signal, sys
from pathlib import Path
from tests.triton.server import TritonServer
from tests.triton.test_harness import _traces
server = TritonServer(Path(sys.argv[1]))
server.start()
print(server.pid, *_traces(server), sep="\\n", flush=True)
signal.pause()
"""


def test_a_killed_test_process_leaves_nothing_behind(tmp_path: Path) -> None:
    put_model(tmp_path, "add", BATCHED, adder())
    root = Path(__file__).resolve().parents[2]
    line = [sys.executable, "-c", KILLED, str(tmp_path)]
    with subprocess.Popen(line, cwd=root, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        process = psutil.Process(int(owner.stdout.readline()))
        family = [process, *process.children(recursive=True)]
        traces = [Path(owner.stdout.readline().strip()) for _ in range(2)]
        assert all(trace.exists() for trace in traces)
        owner.kill()
    _wait_until(lambda: _ended(family) and not any(trace.exists() for trace in traces))


def _ended(family: list[psutil.Process]) -> bool:
    """Whether all of them have; a zombie has."""
    return not any(
        member.is_running() and member.status() != psutil.STATUS_ZOMBIE for member in family
    )


def _traces(server: TritonServer) -> list[Path]:
    """What a server leaves in the file system while it runs: its folder and its shared memory."""
    assert server._folder is not None
    (region,) = Path("/dev/shm").glob(f"{server._shm_prefix}*")
    return [server._folder, region]


def _wait_until(condition: Callable[[], bool], timeout_s: float = 15.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
