"""Models on disk: what is read is what was written, complete or not at all."""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest

from converter.errors import ModelError, UsageError
from converter.files.digest import file_digest
from converter.ir.external import allow_links, check_weights
from converter.ir.fingerprint import model_digest
from converter.ir.listing import ModelListing
from converter.ir.mapped import Mapped
from converter.ir.model import (
    BATCH,
    METADATA_KEY,
    Model,
    PassRecord,
    TensorSpec,
    dtype_from_name,
    dtype_name,
    spec_of,
)
from converter.runtime.ort import OrtSession
from tests.passes.models import HEADER, text_model

ROWS, COLUMNS = 64, 32


def make(seed: int = 0, shape: tuple[Any, ...] = ("batch", ROWS)) -> Model:
    """y = x @ W + b."""
    rng = np.random.default_rng(seed)
    values = {
        "W": rng.standard_normal((ROWS, COLUMNS), np.float32),
        "b": rng.standard_normal(COLUMNS, np.float32),
    }
    dims = ", ".join(map(str, shape))
    interface = f"(float[{dims}] x) => (float[{shape[0]}, {COLUMNS}] y)"
    return text_model(f"linear {interface} {{ h = MatMul(x, W) y = Add(h, b) }}", **values)


def weights(model: Model) -> dict[str, np.ndarray[Any, Any]]:
    return {str(v.name): v.const_value.numpy().copy() for v in model.initializers()}  # type: ignore[union-attr]


def assert_equal(one: Model, other: Model) -> None:
    assert weights(one).keys() == weights(other).keys()
    for name, array in weights(one).items():
        np.testing.assert_array_equal(array, weights(other)[name])


def test_types_specs_and_symbols() -> None:
    them = ["float32", "float64", "float16", "bfloat16", "int8", "int64", "uint8", "bool", "string"]
    for name in them:
        assert dtype_name(dtype_from_name(name)) == name
    assert dtype_name(None) == "undefined"
    with pytest.raises(KeyError):
        dtype_from_name("float31")
    model = make(shape=("batch", "tokens"))
    assert model.inputs == (TensorSpec("x", "float32", ("batch", "tokens")),)
    assert model.symbols == ("batch", "tokens")
    assert model.has_batch
    assert model.inputs[0].sized({"batch": 2, "tokens": 7}) == (2, 7)
    assert model.inputs[0].describe() == "float32[batch, tokens]"
    assert not make(shape=(1, ROWS)).has_batch
    value = onnx_ir.Value(name="v", type=onnx_ir.TensorType(onnx_ir.DataType.FLOAT))
    assert spec_of(value).shape is None
    assert spec_of(value).describe() == "float32[?]"


def test_counts_and_initializers_that_are_inputs_too() -> None:
    model = make()
    assert model.node_count() == 2
    assert model.weight_bytes() == 4 * (ROWS + 1) * COLUMNS
    assert ModelListing(model).parameters() == (ROWS + 1) * COLUMNS
    model.graph.graph.inputs.append(model.graph.graph.initializers["W"])
    assert [spec.name for spec in model.inputs] == ["x"]


def test_the_other_spelling_of_the_default_domain() -> None:
    proto = make().to_proto()
    proto.opset_import[0].domain = "ai.onnx"
    assert Model.wrap(onnx_ir.from_proto(proto)).opset == 20


def test_metadata_survives(tmp_path: Path) -> None:
    model = make()
    model.describe("x", layout="NC", meaning="features", value_range=[0.0, 1.0])
    model.describe("y", labels=["a", "b"])
    model.source = {"format": "onnx", "opset": 17}
    model.history.append(PassRecord("merge", "changed", 5, 2, "took away 3", 1.0, 0.0, 0.1))
    model.save(tmp_path / "m.onnx")
    again = Model.load(tmp_path / "m.onnx")
    assert again.inputs == model.inputs
    assert again.outputs == model.outputs
    assert again.inputs[0].value_range == (0.0, 1.0)
    assert again.outputs[0].labels == ("a", "b")
    assert again.source == model.source
    assert [(r.name, r.status, r.nodes_after) for r in again.history] == [("merge", "changed", 2)]
    assert METADATA_KEY not in again.graph.metadata_props
    onnx.checker.check_model(tmp_path / "m.onnx", full_check=True)


@pytest.mark.parametrize("external", [False, True])
def test_saving_twice_gives_the_same_bytes(tmp_path: Path, external: bool) -> None:
    digests = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        model = make()
        model.describe("y", meaning="scores", layout="NC")
        files = model.save(folder / "m.onnx", external=external)
        assert [file.name for file in files] == ["m.onnx", "m.onnx.data"][: 1 + external]
        assert sorted(p.name for p in folder.iterdir()) == sorted(f.name for f in files)
        model.save(folder / "m.onnx", external=external)
        digests.append(file_digest(folder))
    assert digests[0] == digests[1]


TYPES = ["float32", "float64", "float16", "bfloat16", "int8", "int64", "int4", "bool", "string"]


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("held", ["file", "mapped", "array"])
def test_what_is_written_is_what_protobuf_writes(tmp_path: Path, held: str, large: bool) -> None:
    """Weights of every type, large ones apart from their messages."""
    model = make()
    for number, name in enumerate(TYPES):
        values, label = np.arange((1 << 19 if large else 64) + number) % 7, f"t{number}"
        tensor: onnx_ir.TensorProtocol
        if name == "string":
            words = np.array([b"%d" % value for value in values], object)
            tensor = onnx_ir.StringTensor(words, name=label)
        else:
            made = values.astype(np.float32).astype(dtype_from_name(name).numpy())
            tensor = onnx_ir.tensor(made, name=label, doc_string="said")
        model.graph.graph.register_initializer(onnx_ir.Value(name=f"t{number}", const_value=tensor))
    if held != "array":
        model.save(tmp_path / "m.onnx", external=held == "mapped")
        model = Model.load(tmp_path / "m.onnx")
    (path,) = model.save(tmp_path / "written.onnx", external=False)
    inside = onnx.load(path)
    assert path.read_bytes() == inside.SerializeToString(deterministic=True)
    onnx.checker.check_model(inside)
    if held != "mapped":
        assert inside == model.to_proto()
    assert_equal(Model.load(path), model)
    mapped = Model.written(path)
    assert_equal(mapped, model)
    assert (mapped.mapped_bytes() > 0) == large


def test_weights_in_the_run_s_own_files_are_linked(tmp_path: Path) -> None:
    own, kept, copied = (tmp_path / name for name in ("own", "kept", "copied"))
    for folder in (own, kept, copied):
        folder.mkdir()
    make().save(own / "m.onnx", external=True)
    model = Model.load(own / "m.onnx")
    allow_links(model.graph, own)
    path, link = model.save(kept / "m.onnx", own=own)
    assert link.samefile(own / "m.onnx.data")
    with pytest.raises(ModelError) as refused:
        Model.load(path)
    assert "2 hard links" in refused.value.details[0]
    found = Model.load(path, linked=True)
    assert found.mapped_bytes() and found.mapped_bytes() == model.mapped_bytes()
    assert_equal(found, make())
    assert found.save(copied / "m.onnx", own=own) == [copied / "m.onnx"]  # not of this run


def test_others_may_read_a_model_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two targets write the one simplified model side by side."""
    model = text_model(
        "large (float[n, 256] x) => (float[n, 256] y) { y = MatMul(x, W) }",
        W=np.ones((256, 256), np.float32),
    )
    before, to_proto, seen = weights(model), onnx_ir.to_proto, []

    def looked(graph: Any) -> Any:
        seen.append(weights(model))
        return to_proto(graph)

    monkeypatch.setattr("onnx_ir.to_proto", looked)
    model.save(tmp_path / "m.onnx")
    assert seen
    for found in seen:
        np.testing.assert_array_equal(found["W"], before["W"])


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("second", [False, True])
def test_weights_in_and_out_of_their_own_file(tmp_path: Path, first: bool, second: bool) -> None:
    model = make()
    model.save(tmp_path / "one.onnx", external=first)
    other = Model.load(tmp_path / "one.onnx")
    (tmp_path / "sub").mkdir()
    files = other.save(tmp_path / "sub" / "two.onnx", external=second)
    for left in tmp_path.glob("one.*"):
        left.unlink()
    assert len(files) == 1 + second
    assert_equal(Model.load(files[0]), model)
    x = np.ones((3, ROWS), np.float32)
    expected = x @ weights(model)["W"] + weights(model)["b"]
    np.testing.assert_allclose(OrtSession(files[0]).run({"x": x})["y"], expected, rtol=1e-4)


def test_small_weights_stay_inside_and_the_model_as_it_was(tmp_path: Path) -> None:
    model = make()
    model.save(tmp_path / "m.onnx", external=True)
    kept = [value.const_value for value in Model.load(tmp_path / "m.onnx").initializers()]
    assert [each.name for each in kept if isinstance(each, onnx_ir.ExternalTensor)] == ["W"]
    values = [value.const_value for value in model.initializers()]
    assert not any(isinstance(value, onnx_ir.ExternalTensor) for value in values)


def test_saving_over_the_file_that_weights_are_mapped_from(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    original = make()
    original.save(path, external=True)
    model = Model.load(path)
    stale = model.copy()
    main = model.graph.graph
    extra = onnx_ir.tensor(np.full((40, 40), 7, np.float32), name="first")
    kept = dict(main.initializers)
    main.initializers.clear()
    main.register_initializer(onnx_ir.Value(name="first", const_value=extra))
    for value in kept.values():  # which moves W to another offset
        main.register_initializer(value)
    model.save(path, external=True)
    for checked in (model, Model.load(path)):
        np.testing.assert_array_equal(weights(checked)["W"], weights(original)["W"])
        assert (weights(checked)["first"] == 7).all()
    model.save(path, external=True)
    np.testing.assert_array_equal(weights(Model.load(path))["W"], weights(original)["W"])
    with pytest.raises(ValueError, match="invalidated"):
        weights(stale)


def test_weights_that_changed_meanwhile_are_not_written(tmp_path: Path) -> None:
    path, data = tmp_path / "m.onnx", tmp_path / "m.onnx.data"
    make().save(path, external=True)
    model = Model.load(path)
    check_weights(model.graph)
    os.truncate(data, 100)
    with pytest.raises(ModelError, match="was changed") as caught:
        model.save(tmp_path / "other.onnx")
    assert caught.value.details == ("m.onnx.data",)
    assert not (tmp_path / "other.onnx").exists()
    data.unlink()
    with pytest.raises(ModelError, match="was changed"):
        check_weights(model.graph)


def test_external_attributes_are_read(tmp_path: Path) -> None:
    values = np.arange(400, dtype=np.float32)
    text = "g () => (float[400] y) { y = Constant<value = float[1] {0}>() }"
    proto = onnx.parser.parse_model(HEADER + text)
    proto.graph.node[0].attribute[0].t.CopyFrom(onnx.numpy_helper.from_array(values, "c"))
    outside = {"save_as_external_data": True, "location": "c.bin", "convert_attribute": True}
    onnx.save(proto, tmp_path / "m.onnx", size_threshold=0, **outside)
    Model.load(tmp_path / "m.onnx").save(tmp_path / "n.onnx")
    (tmp_path / "c.bin").unlink()
    np.testing.assert_array_equal(OrtSession(tmp_path / "n.onnx").run({})["y"], values)


def test_copies_share_weights_and_nothing_else() -> None:
    model = make()
    copy = model.copy()
    copy.describe("x", layout="NC")
    copy.graph.graph.inputs[0].shape = onnx_ir.Shape([5, ROWS])
    assert model.inputs[0].layout is None
    assert model.inputs[0].shape == (BATCH, ROWS)
    tensor = model.graph.graph.initializers["W"].const_value
    assert copy.graph.graph.initializers["W"].const_value is tensor


# -- full disks ----------------------------------------------------------------------------

LIMITED = """
import resource, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from converter.errors import MachineError
from tests.test_ir import make
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))
try:
    make(seed=1).save(Path(sys.argv[1]), external=sys.argv[2] == "True")
except MachineError as error:
    print(error)
    sys.exit(error.exit_code)
"""


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize(("external", "limit"), [(False, 2000), (True, 2000), (True, 100)])
def test_no_room_changes_nothing(tmp_path: Path, there: bool, external: bool, limit: int) -> None:
    path = tmp_path / "m.onnx"
    if there:
        make().save(path, external=external)
    before = file_digest(tmp_path)
    argv = [sys.executable, "-c", LIMITED, str(path), str(external), str(limit)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 6, done.stderr
    said = "2048 requested and [0-9]+ written" if external else "File too large"  # numpy's words
    assert re.search(f"writing m.onnx: {said}", done.stdout)
    assert file_digest(tmp_path) == before


def test_no_folder_is_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"writing m\.onnx"):
        make().save(tmp_path / "missing" / "m.onnx")


@pytest.mark.slow
def test_large_weights_are_never_in_memory_all_at_once(tmp_path: Path) -> None:
    count, rows = 8, 1 << 20
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(count * rows * 64 * 4)  # 2 GiB, sparse
    place = '["location": "w.bin", "offset": "{}", "length": "{}"]'
    stored = ", ".join(
        f"float[{rows}, 64] w{i} = {place.format(i * rows * 256, rows * 256)}" for i in range(count)
    )
    text = f"g (int64[n] i) => (float[n, 64] y) <{stored}> {{ y = Gather(w0, i) }}"
    proto = onnx.parser.parse_model(HEADER + text)
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    code = (
        "import sys; from pathlib import Path; from converter.ir.model import Model\n"
        "print([p.name for p in Model.load(Path(sys.argv[1])).save(Path(sys.argv[2]))])\n"
        "text = Path('/proc/self/status').read_text()\n"
        "print(next(l.split()[1] for l in text.splitlines() if l.startswith('VmHWM')))"
    )
    argv = [sys.executable, "-c", code, str(tmp_path / "m.onnx"), str(tmp_path / "o.onnx")]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    files, peak = done.stdout.splitlines()
    assert files == "['o.onnx', 'o.onnx.data']"
    assert int(peak) < 700_000, "kilobytes at most, the libraries included"
    assert (tmp_path / "o.onnx.data").stat().st_size == count * rows * 256
    for left in tmp_path.iterdir():
        left.unlink()


def test_the_digest_is_of_all_that_a_file_would_hold(tmp_path: Path) -> None:
    plain = model_digest(make())
    make().save(tmp_path / "inside.onnx")
    make().save(tmp_path / "outside.onnx", external=True)
    for name in ("inside", "outside"):  # wherever the weights lie
        assert model_digest(Model.load(tmp_path / f"{name}.onnx")) == plain
    weight, meaning, source = make(), make(), make()
    values = weights(weight)["b"]
    values[-1] = np.nextafter(values[-1], np.float32(9))
    weight.graph.graph.initializers["b"].const_value = onnx_ir.tensor(values, name="b")
    meaning.describe("x", layout="NCHW")
    source.source["sha256"] = "0"
    others = {model_digest(model) for model in (weight, meaning, source, make(seed=1))}
    assert len(others | {plain}) == 5
    assert model_digest(make()) == plain


def test_threads_may_look_at_one_weight(tmp_path: Path) -> None:
    """A step and the cache do, at a time."""
    array = np.arange(64, dtype=np.float32)
    (tmp_path / "w.bin").write_bytes(array.tobytes())
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            for _ in range(300):
                where = ("w.bin", 0, array.nbytes, onnx_ir.DataType.FLOAT)
                shape = onnx_ir.Shape([64])
                weight = Mapped(*where, shape=shape, name="w", base_dir=str(tmp_path))
                found = [pool.submit(look) for look in (weight.numpy, weight.tobytes) * 2]
                assert [bytes(item.result()) for item in found] == [array.tobytes()] * 4
    finally:
        sys.setswitchinterval(interval)
