"""Small files that ask for much: refused before it is made, or ended, with the right code."""

import os
import signal
import time
import zipfile
from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import psutil
import pytest
from onnx import helper, numpy_helper

from converter.errors import ModelError
from converter.ir import constant_size
from converter.ir.model import TensorSpec
from converter.runtime import memory
from converter.samples.table import TableSamples
from tests.acceptance.cli import small_cnn, written
from tests.hostile.watching import MB, watched

SMALL = 700 * MB
"""More than a command needs that has loaded its libraries and read a small model."""

GROWING = """grow (float[1] x) => (float[n, 1] y) {
    last, y = Loop (count, go, x) <body = body (int64 i, bool before, float[1] a)
        => (bool after, float[1] b, float[1] c) {
        after = Identity (before) b = Identity (a) c = Add (a, a) }> }"""
ENDLESS = """wait (float[1] x) => (float[1] y) {
    y = Loop (count, go, x) <body = body (int64 i, bool before, float[1] a)
        => (bool after, float[1] b) { after = Identity (before) b = Neg (a) }> }"""


CHECK = ("check", "m.onnx", "--against", "m.onnx")
"""What runs the loop as soon as it is read."""


def refused(folder: Path, code: int, line: str, says: str, seconds: int = 20) -> None:
    """Makes sure that a command is, soon and in little memory."""
    took = watched(*line.split(), cwd=folder)
    assert took.code == code and says in took.err, took.err
    assert took.seconds < seconds and took.peak < SMALL


def _calling(path: Path, functions: int, calls: int) -> Path:
    """An ONNX file of functions each of which calls the next ``calls`` times."""
    made = []
    for number in range(functions):
        last = number == functions - 1
        nodes = [
            helper.make_node("Neg" if last else f"F{number + 1}", [f"t{i}"], [f"t{i + 1}"],
                             domain="" if last else "f")
            for i in range(calls)
        ]  # fmt: skip
        imports = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
        made.append(helper.make_function("f", f"F{number}", ["t0"], [f"t{calls}"], nodes, imports))
    return _with_functions(path, made)


def _with_functions(path: Path, functions: list[onnx.FunctionProto]) -> Path:
    graph = helper.make_graph(
        [helper.make_node("F0", ["x"], ["y"], domain="f")],
        "calls",
        [helper.make_tensor_value_info("x", 1, ["batch", 4])],
        [helper.make_tensor_value_info("y", 1, ["batch", 4])],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    model = helper.make_model(graph, functions=functions, opset_imports=imports, ir_version=8)
    onnx.save(model, path)
    return path


def _loop(path: Path, text: str) -> Path:
    """A Loop of a billion rounds."""
    return written(path, text, count=np.array(10**9), go=np.array(True))


# -- refused before anything is made -------------------------------------------------------


@pytest.mark.parametrize("command", ["inspect", "convert"])
def test_functions_that_call_each_other_twice(tmp_path: Path, command: str) -> None:
    _calling(tmp_path / "m.onnx", 30, 2)
    refused(tmp_path, 3, f"{command} m.onnx", "30 functions come to 2,147,483,647 nodes")
    assert {item.name for item in tmp_path.iterdir()} == {"m.onnx", ".said", ".temporary"}


def test_functions_in_a_circle(tmp_path: Path) -> None:
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    made = [
        helper.make_function(
            "f", name, ["a"], ["b"], [helper.make_node(other, ["a"], ["b"], domain="f")], imports
        )
        for name, other in (("F0", "F1"), ("F1", "F2"), ("F2", "F1"))
    ]
    _with_functions(tmp_path / "m.onnx", made)
    refused(tmp_path, 3, "inspect m.onnx", "functions call themselves: F1 -> F2")


def test_functions_too_deep_in_one_another(tmp_path: Path) -> None:
    _calling(tmp_path / "m.onnx", 5000, 1)
    refused(tmp_path, 3, "inspect m.onnx", "5001 calls deep")


def test_functions_as_exporters_write_them_are_taken(tmp_path: Path) -> None:
    _calling(tmp_path / "m.onnx", 8, 2)
    assert watched("inspect", "m.onnx", cwd=tmp_path).code == 0


@pytest.mark.parametrize(
    "text",
    [
        "a0: &a0 [" + ",".join("x" * 9) + "]\n"
        + "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9)),
        "to: &a [*a]\n",
        "a: &a {b: 1}\n" + "c: &c\n  <<: [" + ",".join(["*a"] * 60000) + "]\n",
    ],
    ids=["aliases of aliases", "an alias of itself", "many merges"],
)  # fmt: skip
def test_aliases_in_a_recipe(tmp_path: Path, text: str) -> None:
    (tmp_path / "r.yaml").write_text(text)
    refused(tmp_path, 2, "run r.yaml", "its aliases come to more than 100,000 values")


def test_a_few_aliases_are_taken(tmp_path: Path) -> None:
    small_cnn(tmp_path / "m.onnx")
    text = "source: m.onnx\nbench: &no false\nembed_samples: *no\n"
    (tmp_path / "r.yaml").write_text(text.replace("embed_samples", "strict"))
    assert watched("run", "r.yaml", "--dry-run", cwd=tmp_path).code == 0


def test_an_expand_to_gigabytes(tmp_path: Path) -> None:
    text = """g (float[batch, 4] x) => (float[batch, 4] y) {
        e = Expand (one, sizes) r = ReduceSum <keepdims = 0> (e) y = Add (x, r) }"""
    sizes = np.array([60000, 60000])
    written(tmp_path / "m.onnx", text, sizes=sizes, one=np.ones((1, 1), np.float32))
    says = "Expand (Expand_0): [60000,60000] is 14,400,000,000 bytes"
    refused(tmp_path, 3, "convert m.onnx", says)


def test_an_input_whose_sizes_overflow(tmp_path: Path) -> None:
    text = f"g (float[{1 << 33}, {1 << 33}] x) => (float[1, 1] y) {{ y = ReduceSum (x) }}"
    written(tmp_path / "m.onnx", text)
    says = "[8589934592, 8589934592], more numbers than memory has addresses"
    refused(tmp_path, 3, "convert m.onnx", says)


def test_weights_in_constants_may_be_dequantized(monkeypatch: pytest.MonkeyPatch) -> None:
    """600 kB in a Constant, 2.4 MB as float32: no more than a few times what the file holds."""
    monkeypatch.setattr(constant_size, "LARGEST", 1 << 20)
    rows = 600 << 10
    weights = np.zeros((rows, 1), np.int8)
    nodes = [
        helper.make_node("Constant", [], ["scale"], value_float=0.5),
        helper.make_node("Constant", [], ["q"], value=numpy_helper.from_array(weights)),
        helper.make_node("DequantizeLinear", ["q", "scale"], ["w"]),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    inputs = [helper.make_tensor_value_info("x", 1, [1, rows])]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", 1, [1, 1])])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    constant_size.require_modest_constants(onnx_ir.from_proto(proto))
    tiled = [helper.make_node("Tile", ["w", "many"], ["t"])]
    many = numpy_helper.from_array(np.array([1, 100]), "many")
    proto.graph.node.extend(tiled)
    proto.graph.initializer.append(many)
    with pytest.raises(ModelError, match="bytes out of 614,416 bytes of weights"):
        constant_size.require_modest_constants(onnx_ir.from_proto(proto))


def _zeros(path: Path, shape: tuple[int, ...], *, stored: int, fortran: bool = True) -> Path:
    """An .npz of zeros, or of as many bytes of them as are ``stored``."""
    header = {"descr": "<f4", "fortran_order": fortran, "shape": shape}
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("x.npy", "w", force_zip64=True) as entry,
    ):
        np.lib.format.write_array_header_1_0(entry, header)
        for start in range(0, stored, 1 << 24):
            entry.write(bytes(min(1 << 24, stored - start)))
    return path


@pytest.mark.slow
def test_an_npz_in_fortran_order(tmp_path: Path) -> None:
    written(tmp_path / "m.onnx", "g (float[batch, 4] x) => (float[batch, 4] y) { y = Relu (x) }")
    rows = 140_000_000
    _zeros(tmp_path / "s.npz", (rows, 4), stored=rows * 16)
    assert (tmp_path / "s.npz").stat().st_size < 12 * MB
    refused(tmp_path, 2, "convert m.onnx --samples s.npz", "2,240,000,000 bytes", 30)


def test_an_npz_that_claims_more_than_it_holds(tmp_path: Path) -> None:
    written(tmp_path / "m.onnx", "g (float[batch, 4] x) => (float[batch, 4] y) { y = Relu (x) }")
    _zeros(tmp_path / "s.npz", (1 << 40, 4), stored=1 << 20)
    refused(tmp_path, 2, "convert m.onnx --samples s.npz", "found 1048576")


@pytest.mark.slow
def test_an_npy_in_fortran_order_is_mapped(tmp_path: Path) -> None:
    text = "g (float[batch, 3] x) => (float[batch, 3] y) { y = Relu (x) }"
    written(tmp_path / "m.onnx", text)
    values = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
    np.save(tmp_path / "s.npy", np.asfortranarray(values))
    took = watched("convert", "m.onnx", "--samples", "s.npy", "--out", "o", cwd=tmp_path)
    assert took.code == 0, took.err


@pytest.mark.parametrize("named", ["source", "samples", "recipe", "artifact", "in a folder"])
def test_a_pipe_is_refused(tmp_path: Path, named: str) -> None:
    small_cnn(tmp_path / "m.onnx")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "saved_model.pb").write_bytes(b"")
    for name in ("p.onnx", "p.npz", "p.yaml", "folder/fingerprint.pb"):
        os.mkfifo(tmp_path / name)
    lines = {
        "source": "inspect p.onnx",
        "samples": "convert m.onnx --samples p.npz",
        "recipe": "run p.yaml",
        "artifact": "check p.onnx --against m.onnx",
        "in a folder": "inspect folder",
    }
    refused(tmp_path, 2, lines[named], "is a pipe (FIFO), not a file")


def test_a_device_is_refused(tmp_path: Path) -> None:
    small_cnn(tmp_path / "m.onnx")
    line = "convert m.onnx --label-names /dev/zero"
    refused(tmp_path, 2, line, "/dev/zero is a device, not a file")


# -- merely large --------------------------------------------------------------------------


def test_a_table_of_300_000_columns(tmp_path: Path) -> None:
    width, table = 300_000, tmp_path / "wide.csv"
    names = ",".join(f"x_{i}" for i in range(width))
    table.write_text(names + "\n" + ",".join(["1.5"] * width) + "\n")
    begun = time.monotonic()
    spec = TensorSpec("x", "float32", ("batch", width))
    samples = TableSamples(table, (spec,), {}, labels=None, label_names=None, limit=None)
    assert next(iter(samples)).feeds["x"].shape == (1, width)
    assert time.monotonic() - begun < 15


@pytest.mark.slow
def test_a_million_nodes(tmp_path: Path) -> None:
    graph = onnx.GraphProto(name="g")
    graph.node.extend(
        onnx.NodeProto(op_type="Neg", input=[f"v{i}"], output=[f"v{i + 1}"]) for i in range(10**6)
    )
    graph.input.append(helper.make_tensor_value_info("v0", 1, [4]))
    graph.output.append(helper.make_tensor_value_info("v1000000", 1, [4]))
    imports = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), tmp_path / "m.onnx")
    took = watched("inspect", "m.onnx", cwd=tmp_path)
    assert took.code == 3
    assert "m.onnx has 1,000,000 nodes, and at most 200,000 are taken" in took.err
    assert took.seconds < 20


# -- ended ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_memory_ends_at_the_limit(tmp_path: Path) -> None:
    _loop(tmp_path / "m.onnx", GROWING)
    took = watched("convert", "m.onnx", "--out", "o", cwd=tmp_path, limit="1500M")
    assert took.code == 6, took.err
    assert "of the 1.5 GB of memory that it may take" in took.err
    assert took.peak < 1700 * MB
    assert not (tmp_path / "o").exists()
    small_cnn(tmp_path / "good.onnx")  # what was left there doesn't hinder the next run
    assert watched("convert", "good.onnx", "--no-bench", "--out", "o", cwd=tmp_path).code == 0
    assert not [item for item in tmp_path.iterdir() if "staging" in item.name]


@pytest.mark.slow
def test_memory_of_its_children_counts(tmp_path: Path) -> None:
    small_cnn(tmp_path / "m.onnx")
    code = "import numpy as np, time\ndef f():\n    a = np.ones(1 << 28)\n    time.sleep(60)\n"
    (tmp_path / "s.py").write_text(code)
    took = watched("convert", "m.onnx", "--samples", "s.py:f", cwd=tmp_path, limit="1500M")
    assert took.code == 6, took.err
    assert "ended, since it had taken" in took.err
    assert took.seconds < 40


@pytest.mark.slow
@pytest.mark.smoke
def test_sigterm_where_native_code_runs(tmp_path: Path) -> None:
    """No signal of Python's reaches it: the loop runs for hours."""
    _loop(tmp_path / "m.onnx", ENDLESS)
    sent: list[float] = []

    def end(process: psutil.Process) -> None:
        busy = [child for child in process.children() if child.cpu_times().user > 3]
        if busy and not sent:
            process.send_signal(signal.SIGTERM)
            sent.append(time.monotonic())

    took = watched(*CHECK, cwd=tmp_path, meanwhile=end)
    assert took.code == 143, took.err
    assert time.monotonic() - sent[0] < 20


def test_inspecting_has_a_time_limit(tmp_path: Path) -> None:
    nodes = "".join(f"v{i + 1} = Neg (v{i}) " for i in range(30_000))
    written(tmp_path / "m.onnx", f"g (float[4] v0) => (float[4] v30000) {{ {nodes} }}")
    took = watched("inspect", "m.onnx", "--time-limit", "2", cwd=tmp_path)
    assert took.code == 6
    assert "it took longer than its time limit" in took.err
    assert took.seconds < 15
    assert not list((tmp_path / ".temporary").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize(("number", "says"), [(signal.SIGSEGV, "SIGSEGV"), (signal.SIGKILL, "")])
def test_a_crash_is_an_answer(tmp_path: Path, number: signal.Signals, says: str) -> None:
    _loop(tmp_path / "m.onnx", ENDLESS)

    def crash(process: psutil.Process) -> None:
        for child in process.children():
            if child.cpu_times().user > 3:
                child.send_signal(number)

    took = watched(*CHECK, cwd=tmp_path, meanwhile=crash)
    assert took.code == 6
    assert f"killed by {says or 'SIGKILL'}" in took.err


@pytest.mark.slow
def test_nothing_goes_on_where_the_command_is_killed(tmp_path: Path) -> None:
    _loop(tmp_path / "m.onnx", ENDLESS)

    def kill(process: psutil.Process) -> None:
        if any(child.cpu_times().user > 3 for child in process.children()):
            process.kill()

    assert watched(*CHECK, cwd=tmp_path, meanwhile=kill).code == -9


# -- how much there is ---------------------------------------------------------------------


def test_a_limit_that_is_no_size(tmp_path: Path) -> None:
    took = watched("doctor", cwd=tmp_path, limit="much")
    assert took.code == 2 and "MODELYARD_MEMORY_LIMIT: 'much' is no size" in took.err


@pytest.mark.parametrize(
    ("text", "bytes_"), [("1500M", 1500 << 20), ("8G", 8 << 30), ("0.5 GiB", 1 << 29), ("77", 77)]
)
def test_sizes(text: str, bytes_: int) -> None:
    assert memory.size(text) == bytes_


@pytest.mark.parametrize("version", [1, 2])
def test_the_limit_of_a_control_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """The least on the way up counts, less what is in use and not only cached."""
    names = {1: ("memory.limit_in_bytes", "memory.usage_in_bytes"),
             2: ("memory.max", "memory.current")}[version]  # fmt: skip
    line = {1: "4:memory:/a/b\n", 2: "0::/a/b\n"}[version]
    root = tmp_path / "memory" if version == 1 else tmp_path
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / names[0]).write_text("1000000000\n")
    (root / "a" / names[1]).write_text("700000000\n")
    cached = "total_inactive_file" if version == 1 else "inactive_file"
    (root / "a" / "memory.stat").write_text(f"anon 1\n{cached} 200000000\n")
    (root / "a" / "b" / names[0]).write_text("max\n")
    own = tmp_path / "cgroup"
    own.write_text(line)
    monkeypatch.setattr(memory, "_GROUPS", tmp_path)
    monkeypatch.setattr(memory, "_OWN_GROUPS", own)
    found = memory.Memory.here()
    assert found is not None
    assert found.limit == 1_000_000_000
    reserve = 1_000_000_000 // 16
    assert found.room(100_000_000) == 900_000_000 - reserve
    assert found.room(400_000_000) == 500_000_000 - reserve  # others in the group have 100 MB
