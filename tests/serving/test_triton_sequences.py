"""Sequences whose state Triton keeps: the message, the refusals, and the real server.

The server's core batches the sequences, gives their states what they start at, and refuses what
belongs to none; keeping a state between requests is the stand-in backend's, in the compiled one's
place.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.http
from tritonclient.utils import InferenceServerException

from converter.errors import UsageError
from converter.ir.model import Model
from emitters.serving.triton.config import read_config
from emitters.serving.triton.validate import validate_folder
from tests.acceptance.cli import command
from tests.serving.models import Array, MemorySamples, package, text_model
from tests.tflite.build import counter
from tests.tflite.litert import Stepped
from tests.triton.server import TritonServer

CUMULATIVE = """g (float[batch, 3] x, float[batch, 3] h, float[batch, 1] fresh) =>
    (float[batch, 3] y, float[batch, 3] h_next) {
    h_next = Add(h, x) ten = Constant<value_float = 10.0>() first = Mul(fresh, ten)
    y = Add(h_next, first) }"""
"""The running sum, and ten more where the sequence starts."""

START = """control_input { name: "fresh"
    control { kind: CONTROL_SEQUENCE_START fp32_false_true: [0, 1] } }"""


def cumulative(*names: str) -> Model:
    text = CUMULATIVE
    for name in names:
        text = text.replace(*name.split("="))
    return text_model(text)


def samples(count: int = 5) -> MemorySamples:
    rng = np.random.default_rng(3)
    ones = {"h": np.zeros((1, 3), np.float32), "fresh": np.ones((1, 1), np.float32)}
    return MemorySamples(
        [{"x": rng.standard_normal((1, 3), np.float32), **ones} for _ in range(count)]
    )


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A TFLite file that keeps its state, and a model that takes batches and a control."""
    folder = tmp_path_factory.mktemp("sequences")
    (folder / "counter.tflite").write_bytes(counter((5.0, 7.0))[0].content())
    line = "convert counter.tflite --to onnx --serve triton --sequence --out out --no-bench"
    command(*line.split(), cwd=folder, code=0)
    made = folder / "repository"
    made.mkdir()
    shutil.copytree(folder / "out/serving/triton/counter", made / "counter")
    package(
        cumulative(), folder, samples(), name="batched", max_batch=4, states=["h=h_next"],
        sequence_batching=f"direct {{ }} {START}",
    )  # fmt: skip
    return made


@pytest.mark.parametrize("asking", ["check", "bench"])
def test_what_asks_no_sequences_says_what_does(repository: Path, asking: str) -> None:
    """Of the package, and of the output folder that it lies in; no server has to be there."""
    output = repository.parent / "out"
    for named in (output / "serving/triton/counter", output):
        said = command(asking, named, "--server", "http://127.0.0.1:9", code=2)
        assert "keeps states over sequences of requests" in said.err
        assert f"python {output / 'serving/triton/counter/selftest.py'} --url URL" in " ".join(
            said.err.split()
        )


@pytest.fixture(scope="module")
def server(repository: Path) -> Iterator[TritonServer]:
    with TritonServer(repository, log_verbose=1) as running:
        yield running


def ask(
    server: TritonServer, model: str, array: Array, number: int, start: bool, end: bool
) -> Array:
    client = tritonclient.http.InferenceServerClient(server.http_url)
    tensor = tritonclient.http.InferInput("x", list(array.shape), "FP32")
    tensor.set_data_from_numpy(array)
    reply = client.infer(
        model, [tensor], sequence_id=number, sequence_start=start, sequence_end=end
    )
    found: Array = reply.as_numpy("y")
    return found


def test_the_message(repository: Path) -> None:
    config = read_config(repository / "counter/config.pbtxt")
    (state,) = config.sequence_batching.state
    assert (state.input_name, state.output_name) == ("running_total", "running_total_out")
    assert list(state.dims) == list(state.initial_state[0].dims) == [1, 2]
    assert [entry.name for entry in (*config.input, *config.output)] == ["x", "y"]
    assert config.sequence_batching.oldest.max_candidate_sequences > 1
    assert not config.HasField("dynamic_batching") and not config.model_warmup
    stored = repository / "counter/initial_state" / state.initial_state[0].data_file
    np.testing.assert_array_equal(np.fromfile(stored, "<f4"), [5.0, 7.0])
    batched = read_config(repository / "batched/config.pbtxt")
    assert list(batched.sequence_batching.state[0].dims) == [3]
    assert batched.sequence_batching.state[0].initial_state[0].zero_data
    assert [entry.name for entry in batched.input] == ["x"]
    assert not validate_folder(repository / "counter") and not validate_folder(
        repository / "batched"
    )


def test_a_state_that_is_not_the_models_is_seen(repository: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(repository / "counter", tmp_path / "counter")
    file = folder / "config.pbtxt"
    file.write_text(file.read_text().replace("running_total_out", "y"))
    (folder / "initial_state/state1.bin").write_bytes(bytes(4))
    said = " ".join(validate_folder(folder))
    assert "running_total_out: in the model, 0 times" in said
    assert "state1.bin isn't a file of 8 bytes" in said


@pytest.mark.slow
@pytest.mark.smoke
def test_its_answers_are_those_of_the_file_that_keeps_its_state(server: TritonServer) -> None:
    """Two sequences that take turns, each against LiteRT on the file as it was."""
    file, graph = counter((5.0, 7.0))
    (x,), (y,) = graph.raw.inputs, graph.raw.outputs
    originals = {1: Stepped(file.content()), 2: Stepped(file.content())}
    rng = np.random.default_rng(0)
    for step in range(5):
        for number, original in originals.items():
            values = rng.standard_normal((1, 2), np.float32)
            original.run({int(x): values})
            found = ask(server, "counter", values, number, step == 0, step == 4)
            np.testing.assert_array_equal(found, original.get(int(y)))
    again = ask(server, "counter", np.zeros((1, 2), np.float32), 1, True, True)
    np.testing.assert_array_equal(again, [[5.0, 7.0]])  # a new one starts where the file says


@pytest.mark.slow
def test_what_belongs_to_no_sequence_is_refused(server: TritonServer) -> None:
    values = np.zeros((1, 2), np.float32)
    with pytest.raises(InferenceServerException, match="correlation ID"):
        ask(server, "counter", values, 0, False, False)
    with pytest.raises(InferenceServerException, match="START flag"):
        ask(server, "counter", values, 77, False, False)


@pytest.mark.slow
def test_sequences_in_batches(server: TritonServer) -> None:
    """Several at once, in the slots of one instance; each keeps its own sum."""

    def sums(number: int) -> list[Array]:
        values = np.full((1, 3), number, np.float32)
        flags = [(step == 0, step == 9) for step in range(10)]
        return [ask(server, "batched", values, number, *flag) for flag in flags]

    with ThreadPoolExecutor(4) as pool:
        for number, found in zip(range(101, 105), pool.map(sums, range(101, 105)), strict=True):
            wanted = [number * (step + 1) + (10 if step == 0 else 0) for step in range(10)]
            assert [float(array[0, 0]) for array in found] == wanted


@pytest.mark.slow
def test_what_is_in_the_folder_asks_in_sequences(repository: Path, server: TritonServer) -> None:
    folder, http = repository / "counter", f"http://{server.http_url}"
    facts = json.loads((folder / "modelyard.json").read_text())
    steps = [(item["sequence"]["id"], item["sequence"]["start"], item["sequence"]["end"])
             for item in facts["samples"]]  # fmt: skip
    assert steps[:2] == [(1, True, False), (2, True, False)] and steps[-1] == (2, False, True)
    assert run(folder / "selftest.py", "--url", http) == (0, "")
    for line in (
        ["client.py", "--url", server.grpc_url],
        ["client.py", "--protocol", "http", "--url", server.http_url],
        ["client_requests.py", "--url", http],
        ["client_grpc.py", "--url", server.grpc_url],
    ):
        done = subprocess.run(
            [sys.executable, str(folder / line[0]), *line[1:]],
            text=True, capture_output=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        numbers = [text.split() for text in done.stdout.splitlines() if text.startswith("  ")]
        wanted = [np.load(folder / item["expected"]["y"]["file"]) for item in facts["samples"][::2]]
        np.testing.assert_allclose(np.array(numbers, float), np.concatenate(wanted), rtol=1e-6)


@pytest.mark.slow
def test_states_that_are_lost_fail_the_test_of_the_folder(
    repository: Path, server: TritonServer, tmp_path: Path
) -> None:
    """Each request starts its sequence anew: the first answers are right, the later ones aren't."""
    folder = shutil.copytree(repository / "counter", tmp_path / "counter")
    facts = json.loads((folder / "modelyard.json").read_text())
    for item in facts["samples"]:
        item["sequence"]["start"] = True
    (folder / "modelyard.json").write_text(json.dumps(facts))
    code, said = run(folder / "selftest.py", "--url", f"http://{server.http_url}")
    assert code == 1 and "MISSED" in said


@pytest.mark.slow
def test_a_real_model_whose_state_is_named(tmp_path: Path) -> None:
    """Silero's, [2, batch, 128]: no batches, and an output whose sizes nobody knows."""
    line = "convert zoo:silero-vad-half --to onnx --serve triton --state state=stateN --out out"
    command(*line.split(), "--no-bench", cwd=tmp_path, code=0)
    (folder,) = (tmp_path / "out/serving/triton").iterdir()
    (state,) = read_config(folder / "config.pbtxt").sequence_batching.state
    assert list(state.dims) == [2, -1, 128]
    assert list(state.initial_state[0].dims) == [2, 1, 128] and state.initial_state[0].zero_data
    with TritonServer(folder.parent) as running:
        assert run(folder / "selftest.py", "--url", f"http://{running.http_url}") == (0, "")


@pytest.mark.slow
def test_an_engine_and_what_it_is_built_of_have_the_same_states(tmp_path: Path) -> None:
    """Parsed, not run: no GPU. The script that builds the engine compares single steps."""
    (tmp_path / "counter.tflite").write_bytes(counter((5.0, 7.0))[0].content())
    line = "convert counter.tflite --to tensorrt --serve triton --sequence --out out --no-bench"
    command(*line.split(), cwd=tmp_path, code=0)
    folder = tmp_path / "out/serving/triton/counter"
    now, later = (read_config(folder / name) for name in ("config.pbtxt", "1/config.engine.pbtxt"))
    assert later.platform == "tensorrt_plan" and later.sequence_batching.state
    assert later.sequence_batching == now.sequence_batching
    lock = json.loads((folder / "1/engine.lock.json").read_text())
    assert set(lock["samples"]["items"][0]["feeds"]) == {"x", "running_total"}


def run(script: Path, *args: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-I", str(script), *args],
        text=True, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    return done.returncode, done.stderr


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "nothing recorded": ({"sequence": True}, "recorded no states"),
    "no such output": ({"states": ["h=nothing"]}, "INPUT=OUTPUT"),
    "named twice": ({"states": ["h=h_next", "h=y"]}, "named twice"),
    "another shape": ({"states": ["fresh=y"]}, "the input is float32"),
    "a cache": ({"states": ["h=h_next"], "response_cache": True}, "--response-cache"),
    "no message": ({"states": ["h=h_next"], "sequence_batching": "eldest { }"}, "eldest"),
    "a state in it": (
        {"states": ["h=h_next"], "sequence_batching": "state { }"},
        "name states with --state",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_before_anything_is_converted(name: str) -> None:
    from emitters.serving.triton.server import TritonServer as Plugin
    from tests.serving.models import make_request

    fields, says = REFUSED[name]
    with pytest.raises(UsageError, match=says):
        Plugin().check(cumulative(), make_request(**fields))


@pytest.mark.parametrize(
    ("batching", "says"),
    [
        (START.replace("fp32", "int32"), "is one int32"),
        (START.replace('"fresh"', '"stale"'), "isn't an input of the model"),
        ('control_input { name: "fresh" control { kind: CONTROL_SEQUENCE_CORRID '
         "data_type: TYPE_UINT64 } }", "correlation ids"),
        ("oldest { preferred_batch_size: 8 }", "above the largest"),
    ],
)  # fmt: skip
def test_refused_against_the_model(tmp_path: Path, batching: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        package(
            cumulative(), tmp_path, samples(), max_batch=4, states=["h=h_next"],
            sequence_batching=batching,
        )  # fmt: skip


def test_pairs_that_the_core_would_exchange_are_refused(tmp_path: Path) -> None:
    """It takes the first input by name for the first output by name."""
    model = text_model("""g (float[batch, 3] x, float[batch, 3] a, float[batch, 3] b) =>
        (float[batch, 3] y, float[batch, 3] p, float[batch, 3] q) {
        y = Add(a, b) p = Add(a, x) q = Mul(b, x) }""")
    feeds = {name: np.ones((1, 3), np.float32) for name in "xab"}
    fields = {"samples": MemorySamples([feeds]), "max_batch": 4}
    with pytest.raises(UsageError, match="would give a the value of p in place of q"):
        package(model, tmp_path, **fields, states=["a=q", "b=p"])
    made = package(model, tmp_path, **fields, states=["b=q", "a=p"])
    states = read_config(made.path / "config.pbtxt").sequence_batching.state
    assert [(state.input_name, state.output_name) for state in states] == [("a", "p"), ("b", "q")]
