"""Small files that ask for much: refused before it is made, or ended, with the right code."""

import os
import shlex
import signal
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import psutil
import pytest
from onnx import helper

from converter.errors import ModelError
from converter.ir import constant_size
from converter.ir.model import TensorSpec
from converter.runtime import memory
from converter.samples.table import TableSamples
from converter.text.words import middle, printable
from tests.acceptance.cli import small_cnn, written
from tests.hostile.broken import calling, chain, parsed
from tests.hostile.watching import MB, Took, watched

SMALL = 700 * MB
"""More than a command needs that has loaded its libraries and read a small model."""

GROWING = """grow (float[1] x) => (float[n, 1] y) {
    last, y = Loop (count, go, x) <body = body (int64 i, bool before, float[1] a)
        => (bool after, float[1] b, float[1] c) {
        after = Identity (before) b = Identity (a) c = Add (a, a) }> }"""
ENDLESS = """wait (float[1] x) => (float[1] y) {
    y = Loop (count, go, x) <body = body (int64 i, bool before, float[1] a)
        => (bool after, float[1] b) { after = Identity (before) b = Neg (a) }> }"""


def refused(folder: Path, code: int, line: str, says: str, seconds: int = 20) -> None:
    """Makes sure that a command is, soon and in little memory."""
    took = watched(*line.split(), cwd=folder)
    assert took.code == code and says in took.err, took.err
    assert took.seconds < seconds and took.peak < SMALL


RELU = "g (float[batch, 4] x) => (float[batch, 4] y) { y = Relu (x) }"


def _loop(path: Path, text: str) -> Path:
    """A Loop of a billion rounds."""
    return written(path, text, count=np.array(10**9), go=np.array(True))


# -- refused before anything is made -------------------------------------------------------


@pytest.mark.parametrize("command", ["inspect", "convert"])
def test_functions_that_call_each_other_twice(tmp_path: Path, command: str) -> None:
    onnx.save(parsed(chain(30, 2)), tmp_path / "m.onnx")
    refused(tmp_path, 3, f"{command} m.onnx", "30 functions have 2,147,483,647 nodes")
    assert {item.name for item in tmp_path.iterdir()} == {"m.onnx", ".said", ".temporary"}


IN_A_CIRCLE = calling(*(f"b = f.{other} (a)" for other in ("F1", "F2", "F1")))


@pytest.mark.parametrize(("text", "says"), [
    (IN_A_CIRCLE, "functions call themselves: F1 -> F2"),
    (chain(5000), "5001 calls deep"),
], ids=["in a circle", "deep"])  # fmt: skip
def test_functions_without_an_end(tmp_path: Path, text: str, says: str) -> None:
    onnx.save(parsed(text), tmp_path / "m.onnx")
    refused(tmp_path, 3, "inspect m.onnx", says)


def test_functions_as_exporters_write_them_are_taken(tmp_path: Path) -> None:
    onnx.save(parsed(chain(8, 2)), tmp_path / "m.onnx")
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
    refused(tmp_path, 2, "run r.yaml", "it has more than 100,000 values")


@pytest.mark.parametrize(("text", "says"), [
    ("x: [" + "1," * 10**6 + "]\n", "it has more than 100,000 values"),
    ("x:\n" + "- 1\n" * 10**6, "it has more than 100,000 values"),
    ("x: [" + "1," * 4 * 10**6 + "]\n", "has more than 4,194,304 bytes"),
], ids=["a million", "a million lines", "four million"])  # fmt: skip
def test_millions_of_numbers_in_a_recipe(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "r.yaml").write_text(text)
    refused(tmp_path, 2, "run r.yaml --dry-run", says, 60)


def test_a_few_aliases_are_taken(tmp_path: Path) -> None:
    small_cnn(tmp_path / "m.onnx")
    (tmp_path / "r.yaml").write_text("source: m.onnx\nbench: &no false\nstrict: *no\n")
    assert watched("run", "r.yaml", "--dry-run", cwd=tmp_path).code == 0


EXPANDED = """g (float[batch, 4] x) => (float[batch, 4] y)
    <float[1, 1] one = {1}, int64[2] sizes = {60000, 60000}> {
    e = Expand (one, sizes) r = ReduceSum <keepdims = 0> (e) y = Add (x, r) }"""
DOUBLED = f"""g (float[batch, 4] x) => (float[batch, 4] y) <TYPE[1] t0 = {{1}}> {{
    {" ".join(f"t{i + 1} = Concat <axis = 0> (t{i}, t{i})" for i in range(41))}
    r = ReduceMax <keepdims = 0> (t41) f = Cast <to = 1> (r) y = Add (x, f) }}"""
TURNED = """g (float[batch, 4] x) => (float[batch, 4] y) <int64[2] sizes = {60000, 60000}> {
    a = Neg (sizes) b = Neg (a) c = ConstantOfShape (b) r = ReduceSum <keepdims = 0> (c)
    y = Add (x, r) }"""
OVERFLOWING = f"g (float[{1 << 33}, {1 << 33}] x) => (float[1, 1] y) {{ y = ReduceSum (x) }}"


@pytest.mark.parametrize(("text", "says"), [
    (EXPANDED, "Expand (e): [60000,60000] is 14,400,000,000 bytes"),
    (DOUBLED.replace("TYPE", "float"), "expands 4 bytes of weights"),
    (DOUBLED.replace("TYPE", "int64"), "expands 8 bytes of weights"),
    (TURNED, "ConstantOfShape (c): [60000,60000] is 14,400,000,000 bytes"),
    (OVERFLOWING, "[8589934592, 8589934592], more numbers than memory has addresses"),
], ids=["a constant", "Concats", "Concats of integers", "what inference can't follow",
        "an input"])  # fmt: skip
def test_gigabytes_out_of_little(tmp_path: Path, text: str, says: str) -> None:
    written(tmp_path / "m.onnx", text)
    refused(tmp_path, 3, "convert m.onnx", says)


def test_weights_in_constants_may_be_dequantized(monkeypatch: pytest.MonkeyPatch) -> None:
    """600 kB in a Constant, 2.4 MB as float32: no more than a few times what the file holds."""
    monkeypatch.setattr(constant_size, "LARGEST", 1 << 20)
    rows = 600 << 10
    proto = parsed(f"""g (float[1, {rows}] x) => (float[1, 1] y) <int64[2] many = {{1, 100}}> {{
        scale = Constant <value_float = 0.5> () q = Constant ()
        w = DequantizeLinear (q, scale) y = MatMul (x, w) t = Tile (w, many) }}""")
    weights = onnx.numpy_helper.from_array(np.zeros((rows, 1), np.int8))
    proto.graph.node[1].attribute.append(helper.make_attribute("value", weights))
    with pytest.raises(ModelError, match="expands 614,416 bytes of weights"):
        constant_size.require_modest_constants(onnx_ir.from_proto(proto))
    proto.graph.node.pop()
    constant_size.require_modest_constants(onnx_ir.from_proto(proto))


def _zeros(path: Path, rows: int, *, stored: int) -> None:
    """An .npz of rows of four zeros in Fortran's order, or of as many bytes as are ``stored``."""
    header = {"descr": "<f4", "fortran_order": True, "shape": (rows, 4)}
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("x.npy", "w", force_zip64=True) as entry,
    ):
        np.lib.format.write_array_header_1_0(entry, header)
        for start in range(0, stored, 1 << 24):
            entry.write(bytes(min(1 << 24, stored - start)))


@pytest.mark.slow
def test_an_npz_in_fortran_order(tmp_path: Path) -> None:
    written(tmp_path / "m.onnx", RELU)
    rows = 140_000_000
    _zeros(tmp_path / "s.npz", rows, stored=rows * 16)
    assert (tmp_path / "s.npz").stat().st_size < 12 * MB
    refused(tmp_path, 2, "convert m.onnx --samples s.npz", "2,240,000,000 bytes", 30)


def test_an_npz_that_claims_more_than_it_holds(tmp_path: Path) -> None:
    written(tmp_path / "m.onnx", RELU)
    _zeros(tmp_path / "s.npz", 1 << 40, stored=1 << 20)
    refused(tmp_path, 2, "convert m.onnx --samples s.npz", "found 1048576")


@pytest.mark.slow
def test_an_npy_in_fortran_order_is_mapped(tmp_path: Path) -> None:
    written(tmp_path / "m.onnx", RELU)
    values = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    np.save(tmp_path / "s.npy", np.asfortranarray(values))
    took = watched("convert", "m.onnx", "--samples", "s.npy", "--out", "o", cwd=tmp_path)
    assert took.code == 0, took.err


@pytest.mark.parametrize("line", [
    "inspect p.onnx", "convert m.onnx --samples p.npz", "run p.yaml",
    "check p.onnx --against m.onnx", "inspect folder",
])  # fmt: skip
def test_a_pipe_is_refused(tmp_path: Path, line: str) -> None:
    small_cnn(tmp_path / "m.onnx")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "saved_model.pb").write_bytes(b"")
    for name in ("p.onnx", "p.npz", "p.yaml", "folder/fingerprint.pb"):
        os.mkfifo(tmp_path / name)
    refused(tmp_path, 2, line, "is a pipe (FIFO), not a file")


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
    model = parsed("g (float[4] v0) => (float[4] v1000000) { }")
    model.graph.node.extend(
        onnx.NodeProto(op_type="Neg", input=[f"v{i}"], output=[f"v{i + 1}"]) for i in range(10**6)
    )
    onnx.save(model, tmp_path / "m.onnx")
    took = watched("inspect", "m.onnx", cwd=tmp_path)
    assert took.code == 3
    assert "m.onnx has 1,000,000 nodes; the limit is 200,000" in took.err
    assert took.seconds < 20


@pytest.mark.parametrize("kind", ["initializers", "Constants", "Constants of a function"])
def test_a_hundred_thousand_weights(tmp_path: Path, kind: str) -> None:
    model = parsed(RELU if kind != "Constants of a function" else calling("b = Relu (a)"))
    values = ({"name": f"w{i}", "data_type": 1, "raw_data": bytes(4)} for i in range(10**5))
    if kind == "initializers":
        model.graph.initializer.extend(onnx.TensorProto(**value) for value in values)
    else:
        made = (
            helper.make_node("Constant", [], [f"w{i}"], value=onnx.TensorProto(**value))
            for i, value in enumerate(values)
        )
        (model.graph if kind == "Constants" else model.functions[0]).node.extend(made)
    onnx.save(model, tmp_path / "m.onnx")
    says = "100,000 initializers and Constants; the limit is 20,000"
    refused(tmp_path, 3, "inspect m.onnx", says)


@pytest.mark.slow
def test_thousands_of_inputs_and_outputs(tmp_path: Path) -> None:
    """Time grows as they do."""
    many = range(500)
    text = "g (INPUTS) => (OUTPUTS) { NODES }"
    kinds = {
        "INPUTS": ", ".join(f"float[batch, 4] x{i}" for i in many),
        "OUTPUTS": ", ".join(f"float[batch, 4] y{i}" for i in many),
        "NODES": " ".join(f"y{i} = Relu (x{i})" for i in many),
    }
    for word, items in kinds.items():
        text = text.replace(word, items)
    written(tmp_path / "m.onnx", text)
    took = watched("convert", "m.onnx", "--no-bench", "--no-cache", "--out", "o", cwd=tmp_path)
    assert took.code == 0, took.err
    assert took.seconds < 60 and took.peak < SMALL


# -- ended ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_memory_ends_at_the_limit(tmp_path: Path) -> None:
    _loop(tmp_path / "m.onnx", GROWING)
    took = watched("convert", "m.onnx", "--out", "o", cwd=tmp_path, limit="1500M")
    assert took.code == 6, took.err
    assert "of the 1.5 GB of memory that it may take" in took.err
    assert took.peak < 1700 * MB
    assert not (tmp_path / "o").exists()
    assert not [item for item in tmp_path.iterdir() if "staging" in item.name]


@pytest.mark.slow
def test_memory_of_its_children_counts(tmp_path: Path) -> None:
    small_cnn(tmp_path / "m.onnx")
    code = "import numpy as np, time\ndef f():\n    a = np.ones(1 << 28)\n    time.sleep(60)\n"
    (tmp_path / "s.py").write_text(code)
    took = watched("convert", "m.onnx", "--samples", "s.py:f", cwd=tmp_path, limit="1500M")
    assert took.code == 6, took.err
    assert "ended, because it had taken" in took.err
    assert took.seconds < 40


def looping(
    folder: Path,
    act: Callable[[psutil.Process, psutil.Process], object],
    command: str = "check m.onnx --against m.onnx",
) -> Took:
    """What becomes of a command whose child is in a loop for hours, in native code, where no signal
    of Python's reaches it: something is done once to the command, or to its child."""
    _loop(folder / "m.onnx", ENDLESS)
    done: list[float] = []

    def meanwhile(process: psutil.Process) -> None:
        busy = [child for child in process.children() if child.cpu_times().user > 3]
        if busy and not done:
            act(process, busy[0])
            done.append(time.monotonic())

    line = shlex.split(command)
    took = watched(*line, cwd=folder, meanwhile=meanwhile)
    assert time.monotonic() - done[0] < 20
    return took


@pytest.mark.slow
@pytest.mark.smoke
def test_sigterm_where_native_code_runs(tmp_path: Path) -> None:
    took = looping(tmp_path, lambda process, child: process.send_signal(signal.SIGTERM))
    assert took.code == 143, took.err


@pytest.mark.slow
@pytest.mark.parametrize("kill", [False, True])
def test_a_run_that_is_ended_leaves_no_staging_folder(tmp_path: Path, kill: bool) -> None:
    def act(process: psutil.Process, child: psutil.Process) -> None:
        assert (tmp_path / ".o.modelyard-staging").exists()
        child.kill() if kill else process.terminate()

    took = looping(tmp_path, act, "convert m.onnx --out o --no-bench")
    assert took.code == (6 if kill else 143), took.err
    assert {item.name for item in tmp_path.iterdir()} == {".said", ".temporary", "m.onnx"}


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL])
def test_a_crash_is_an_answer(tmp_path: Path, number: signal.Signals) -> None:
    took = looping(tmp_path, lambda process, child: child.send_signal(number))
    assert took.code == 6
    assert f"killed by {number.name}" in took.err


@pytest.mark.slow
def test_nothing_goes_on_where_the_command_is_killed(tmp_path: Path) -> None:
    assert looping(tmp_path, lambda process, child: process.kill()).code == -9


def test_inspecting_has_a_time_limit(tmp_path: Path) -> None:
    nodes = "".join(f"v{i + 1} = Neg (v{i}) " for i in range(30_000))
    written(tmp_path / "m.onnx", f"g (float[4] v0) => (float[4] v30000) {{ {nodes} }}")
    took = watched("inspect", "m.onnx", "--time-limit", "2", cwd=tmp_path)
    assert took.code == 6
    assert "it took longer than its time limit" in took.err
    assert took.seconds < 15
    assert not list((tmp_path / ".temporary").iterdir())


# -- how much there is ---------------------------------------------------------------------


def test_a_limit_that_is_no_size(tmp_path: Path) -> None:
    took = watched("doctor", cwd=tmp_path, limit="much")
    assert took.code == 2 and "MODELYARD_MEMORY_LIMIT: 'much' isn't a size" in took.err


def test_sizes() -> None:
    texts = {"1500M": 1500 << 20, "8G": 8 << 30, "0.5 GiB": 1 << 29, "77": 77}
    assert {text: memory.size(text) for text in texts} == texts


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


# -- names ---------------------------------------------------------------------------------

LONG = "n" * 2_000_000


@pytest.mark.parametrize("command", ["inspect", "convert"])
def test_a_name_of_megabytes_is_cut(tmp_path: Path, command: str) -> None:
    written(tmp_path / "m.onnx", RELU.replace(" x", f" {LONG}").replace("(x)", f"({LONG})"))
    took = watched(command, "m.onnx", "--no-bench" if command == "convert" else "--json",
                   cwd=tmp_path)  # fmt: skip
    assert took.code == (3 if command == "convert" else 0) and len(took.err) < 3000
    assert command == "inspect" or "a name of 2,000,000 characters, of at most 10,000" in took.err
    assert took.peak < SMALL


def test_what_is_shown_of_a_long_text() -> None:
    assert printable(f"a {LONG} b") == f"a {middle(LONG, 1000)} b"
    assert len(printable("name " * 10**6)) == 20_000
    assert printable("a " * 4000) == "a " * 4000
