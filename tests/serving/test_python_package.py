"""Packages of the Python servers as written: the same bytes, files that their readers take, and the
handler core alone in a plain Python."""

import ast
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from converter import plugins
from converter.errors import UnsupportedError, UsageError
from converter.ir.model import Model
from converter.protocols.emitter import Artifact
from converter.protocols.server import Packaged
from emitters.serving.python.inference import InputError, Interface, finish, tensor
from emitters.serving.python.inference import Model as Loaded
from emitters.serving.python.pages import FOLDER, pages
from emitters.tflite.emitter import TfliteEmitter
from tests.acceptance.cli import command, converted_cnn, tree
from tests.serving.models import adder, emit, identity, make_request, samples_for, text_model

SERVERS = ("bentoml", "kserve", "litserve", "mlserver", "rayserve", "torchserve")

TWO = text_model(
    """g (float[batch, width] x, int64[batch, 2] ids)
    => (float[batch, width] y, int64[batch, 2] same, int64[batch] rows) <int64[1] two = {2}> {
    n = Shape<start = 0, end = 1>(x) large = Max(n, two) rows = Expand(large, n)
    y = Add(x, x) same = Identity(ids) }"""
)
"""Two inputs of two types, a free size, and an output that tells how large the batch was: at 1 and
2 alike, for that is where a run tries whether elements depend on their batch."""


def package(server_: str, model: Model, folder: Path, target: str = "onnx",
            **fields: Any) -> Packaged:  # fmt: skip
    """A model as a server's package, outside of a run: without samples."""
    request = make_request(serve=[server_], to=[target], **fields)
    server = plugins.load("servers", server_)
    artifact = emit(model, folder, request) if target == "onnx" else tflite(model, folder)
    server.check(model, request)
    samples = samples_for(model)
    made: Packaged = server.package(artifact, model, samples, request, folder / "served")
    return made


def tflite(model: Model, folder: Path) -> Artifact:
    return TfliteEmitter().emit(model, folder / "tflite", "fp32", make_request())


def loaded(model: Model, folder: Path, **fields: Any) -> Loaded:
    return Loaded.load(package("litserve", model, folder, **fields).path)


# -- files -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SERVERS)
def test_the_same_bytes_twice_in_one_line(name: str, tmp_path: Path) -> None:
    options = {"instances": 2, "max_instances": 3, "queue_delay": 700, "max_batch": 4}
    one, two = (tree(package(name, TWO, tmp_path / n, **options).path) for n in ("a", "b"))
    assert one == two
    for file, data in one.items():
        assert str(tmp_path).encode() not in data
        if file.endswith(".py"):
            ast.parse(data)
            assert max(map(len, data.decode().splitlines())) <= 100, file
        elif file.endswith(".json"):
            json.loads(data)
        elif file.endswith(".yaml"):
            yaml.safe_load(data)


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize("batched", [True, False])
def test_written_code_is_clean(name: str, batched: bool, tmp_path: Path) -> None:
    """As our own linter has it, whether the server joins requests or not."""
    path = package(name, TWO, tmp_path, dynamic_batching=batched).path
    ruff = Path(sys.executable).with_name("ruff")
    line = [str(ruff), "check", "--isolated", "--select", "E,F,W,I,B", "--line-length", "100"]
    done = subprocess.run([*line, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_a_mar_is_a_zip_with_a_manifest(tmp_path: Path) -> None:
    path = package("torchserve", adder(), tmp_path, instances=2, max_instances=3, version=4).path
    with zipfile.ZipFile(path / "model_store" / "tiny.mar") as archive:
        assert archive.testzip() is None
        manifest = json.loads(archive.read("MAR-INF/MANIFEST.json"))
        config = yaml.safe_load(archive.read(manifest["model"]["configFile"]))
        names = set(archive.namelist())
    assert {"handler.py", "inference.py", "model.json", "model.onnx"} <= names
    assert manifest["model"]["modelVersion"] == "4.0"
    assert (config["minWorkers"], config["maxWorkers"], config["batchSize"]) == (2, 3, 8)
    assert config["maxBatchDelay"] == 1  # 100 us, in whole milliseconds
    assert not (path / "model.onnx").exists()  # it is in the archive


def test_ray_scales_between_the_instances(tmp_path: Path) -> None:
    fields = {"instances": 1, "max_instances": 4, "target_ongoing_requests": 3}
    for number, options in enumerate(({}, fields)):
        path = package("rayserve", adder(), tmp_path / str(number), **options).path
        (application,) = yaml.safe_load((path / "serve.yaml").read_text())["applications"]
        (deployment,) = application["deployments"]
        scaling = deployment.get("autoscaling_config")
        assert (scaling is None) == (not options) == ("num_replicas" in deployment)
    assert scaling == {"min_replicas": 1, "max_replicas": 4, "target_ongoing_requests": 3}


def test_mlserver_knows_the_interface(tmp_path: Path) -> None:
    path = package("mlserver", TWO, tmp_path, version=2).path
    settings = json.loads((path / "model-settings.json").read_text())
    assert settings["inputs"][1] == {"name": "ids", "datatype": "INT64", "shape": [-1, 2]}
    assert settings["parameters"] == {"uri": "./model.onnx", "version": "2"}


def test_what_cannot_be_served_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="can't serve this model") as caught:
        package("kserve", identity("bfloat16"), tmp_path)
    assert "input (x): kserve has no bfloat16" in str(caught.value.items[0])
    for options, message in (
        ({"instances": 0}, "--instances 0: the value has to be at least 1"),
        ({"instances": 2, "max_instances": 1}, "--max-instances 1 is below"),
        ({"name": "///"}, "can't be the name of a served model"),
    ):
        with pytest.raises(UsageError, match=message):
            package("rayserve", adder(), tmp_path, **options)


def test_a_package_knows_its_own(tmp_path: Path) -> None:
    """Each folder is one server's, which says what it needs; the other servers leave it alone."""
    for name in SERVERS:
        path = package(name, adder(), tmp_path / name).path
        holders = [other for other in SERVERS if plugins.load("servers", other).holds(path)]
        assert holders == [name]
        environment = plugins.load("servers", name).environment(path)
        assert (path / "requirements.txt").read_text().split() == list(environment.requirements)
        head, *pins = (path / "requirements.lock").read_text().splitlines()
        assert environment.constraints == "\n".join((head, *pins, ""))
        assert f" about {environment.megabytes} MB " in head and environment.megabytes > 50
        assert all(re.fullmatch(r"[a-z0-9-]+==[\da-z.]+", pin) for pin in pins), pins
        plain = {re.sub(r"\[\w+]", "", need) for need in environment.requirements}
        assert plain < set(pins)


def test_pages_are_of_the_declarations() -> None:
    """docs/servers, made anew by ``python -m emitters.serving.python.pages docs``."""
    folder = Path(__file__).parents[2] / "docs" / FOLDER
    assert {path.name: path.read_text("utf-8") for path in folder.iterdir()} == pages()


# -- the core ---------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["onnx", "tflite"])
def test_requests_share_batches_and_part_again(target: str, tmp_path: Path) -> None:
    model = loaded(TWO, tmp_path, target=target, max_batch=4, dims={"width": 3})
    rng = np.random.default_rng(3)
    sizes = [(1, 3), (2, 3), (1, 5), (1, 3), (4, 3), (1, 5)]
    asked = [
        {"x": rng.normal(size=size).tolist(), "ids": rng.integers(0, 9, (size[0], 2)).tolist()}
        for size in sizes
    ]
    answers = [finish(outputs) for outputs in model.run([model.prepare(item) for item in asked])]
    assert [answer["rows"] for answer in answers] == [[4], [4, 4], [2], [4], [4] * 4, [2]]
    for item, answer in zip(asked, answers, strict=True):
        np.testing.assert_allclose(answer["y"], 2 * np.array(item["x"]), rtol=1e-6)
        assert answer["same"] == item["ids"]


GOOD: dict[str, Any] = {"x": [[1, 2.5]], "ids": [[1, 2]]}


@pytest.mark.parametrize(("request_", "message"), [
    ([1], "a request is an object with the inputs' names as keys: x, ids"),
    (b"[1]", "a request is an object with the inputs' names as keys: x, ids"),
    (b"{nope", "the request isn't JSON: Expecting property name"),
    (b"\xff", "the request isn't JSON"),
    ("[" * 100_000, "the request isn't JSON: maximum recursion"),
    ({"x": [[1]]}, "missing: ids; the inputs are x, ids"),
    ({**GOOD, "z": 1}, "no such input: z"),
    ({**GOOD, "z" * 9999: 1}, r"^no such input: z{380,400}\.\.\.$"),
    ({**GOOD, "x": [[1], [1, 2]]}, "its lists are of several lengths"),
    ({**GOOD, "x": [["a"]]}, "x holds text values, but the model takes float32"),
    ({**GOOD, "x": [["NaN"]]}, "x holds text values"),
    ({**GOOD, "x": [["NaN", 1.0]]}, "x holds values of several types: number, text"),
    ({**GOOD, "x": [[True]]}, "x holds bool values"),
    ({**GOOD, "x": [[True, 1.0]]}, "x holds values of several types: bool, number"),
    ({**GOOD, "x": None}, "x holds null or NaN, which the model can't answer"),
    ({**GOOD, "x": [[None, 1.0]]}, "x holds null or NaN"),
    (b'{"x": [[NaN]], "ids": [[1, 2]]}', "x holds null or NaN"),
    ({**GOOD, "x": [[10**40]]}, "x holds numbers of over 64 bits"),
    ({**GOOD, "x": [[1e39]]}, "x holds numbers that float32 doesn't have"),
    ({**GOOD, "x": [[{}]]}, "x holds dict values"),
    (b"null", "a request is an object"),
    (b"true", "a request is an object"),
    ({**GOOD, "x": [1, 2]}, r"x has the shape \[2\], but the model takes \[batch, width\]"),
    ({**GOOD, "x": [[]]}, r"x has the shape \[1, 0\]"),
    ({**GOOD, "ids": [[1, 2], [3, 4]]}, r"ids has the shape \[2, 2\], .* takes \[1, 2\]"),
    ({**GOOD, "ids": [[1.5, 2]]}, "ids holds float64 values, but the model takes int64"),
    ({**GOOD, "ids": [[2**63] * 2]}, "ids holds numbers that int64 doesn't have"),
    ({"x": [[1]] * 9, "ids": [[1, 2]] * 9},
     "x holds a batch of 9, but the largest batch is 8 .this package's --max-batch.: send fewer"),
    ({**GOOD, "x": np.ones((1, 2))}, "x holds float64 values"),
])  # fmt: skip
def test_a_bad_request_is_told_what_is_wrong(request_: Any, message: str,
                                             tmp_path: Path) -> None:  # fmt: skip
    interface = Interface(package("litserve", TWO, tmp_path, dims={"width": 3}).path)
    for good in (GOOD, json.dumps(GOOD).encode()):
        assert interface.prepare(good)["x"].dtype == np.float32
    assert interface.choose_outputs(["same"]) == ["same"]
    assert interface.choose_outputs([]) == ["y", "same", "rows"]
    with pytest.raises(InputError, match="no such output: z; there are y, same, rows"):
        interface.choose_outputs(["y", "z"])
    with pytest.raises(InputError, match=message):
        interface.prepare(request_)


@pytest.mark.parametrize(("datatype", "shape", "data", "message"), [
    ("FP32", [-1, 2], [1, 2], r"x has the shape \[-1, 2\], but sizes are whole numbers"),
    ("FP32", [True, 2], [1, 2], "x has the shape"),
    ("FP32", [1 << 31, 2], [1, 2], r"x holds 2 values, but its shape \[2147483648, 2\] 4294967296"),
    ("FP32", [1, 2], ["NaN", 1], "x holds values of several types: number, text"),
    ("FP32", [1, 2], [True, 1], "x holds values of several types: bool, number"),
    ("FP32", [1, 2], [None, 1], "x holds null or NaN"),
    ("INT64", [1, 2], [1.5, 2], "x holds float64 values, but its datatype is INT64"),
    ("FP8", [1, 2], [1, 2], "x: there is no datatype FP8; use BOOL, INT8"),
])  # fmt: skip
def test_a_tensor_is_what_it_says(
    datatype: str, shape: list[int], data: list[Any], message: str
) -> None:
    item = {"name": "x", "dtype": "float32"}
    assert tensor(item, "FP32", [1, 2], [1, 2]).tolist() == [[1, 2]]
    assert tensor(item, "FP64", [2, 1], [[1], [2.5]]).dtype == np.float64
    assert tensor({"name": "t"}, "BYTES", [2], [b"a\0", "b"]).tolist() == ["a\0", "b"]
    with pytest.raises(InputError, match=message):
        tensor(item, datatype, shape, data)


def test_texts_and_models_without_batches(tmp_path: Path) -> None:
    texts = loaded(identity("string"), tmp_path / "texts")
    [outputs] = texts.run([texts.prepare({"x": [["a", "b", "\N{MICRO SIGN}"]]})])
    assert finish(outputs) == {"y": [["a", "b", "\N{MICRO SIGN}"]]}
    fixed = loaded(adder((2, 3)), tmp_path / "fixed")
    ones = fixed.prepare({"x": np.ones((2, 3), np.float32)})
    assert [finish(item)["y"] for item in fixed.run([ones, ones])] == [[[2.0] * 3] * 2] * 2


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run's packages, with samples, for every server."""
    options = f"--serve {','.join(SERVERS)} --out out"
    return converted_cnn(tmp_path_factory.mktemp("run"), options) / "out" / "serving"


def test_the_core_runs_the_samples_in_a_plain_python(converted: Path) -> None:
    """Nothing of ours on its path: the folder, NumPy and ONNX Runtime."""
    program = """if True:
        import json, numpy as np
        from inference import Model, finish
        model = Model.load()
        for sample in json.load(open("modelyard.json"))["samples"]:
            feeds = {n: np.load(f["file"]) for n, f in sample["feeds"].items()}
            [found] = model.run([model.prepare(feeds)])
            for name, item in sample["expected"].items():
                np.testing.assert_allclose(found[name], np.load(item["file"]), atol=1e-5)
            [again] = model.run([model.prepare({n: a.tolist() for n, a in feeds.items()})])
            assert finish(again) == finish(found)
        print(len(model.facts["warmup"]), "converter" in __import__("sys").modules)"""
    done = subprocess.run([sys.executable, "-c", program], cwd=converted / "litserve" / "cnn",
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert (done.stdout, done.stderr) == ("1 False\n", "")


def test_what_goes_along(converted: Path) -> None:
    for name in SERVERS:
        files = set(tree(converted / name / "cnn"))
        assert {"selftest.py", "README.md", "client_requests.py", "modelyard.json"} <= files
        readme = (converted / name / "cnn" / "README.md").read_text()
        assert "## Start" in readme and "## TLS" in readme
    with zipfile.ZipFile(converted / "torchserve" / "cnn" / "model_store" / "cnn.mar") as archive:
        facts = json.loads(archive.read("model.json"))
        assert set(facts["warmup"][0].values()) <= set(archive.namelist())


def test_a_selftest_without_the_server_says_what_to_install(converted: Path) -> None:
    folder = converted / "litserve" / "cnn"
    done = subprocess.run([sys.executable, "selftest.py"], cwd=folder,
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert "No module named 'litserve'; install what it needs: pip install litserve" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_largest_request_is_said(tmp_path: Path) -> None:
    TWO.save(tmp_path / "two.onnx")
    line = ("two.onnx", "--serve", "litserve", "--max-batch", "4", "--dim", "width=3", "--no-bench")
    said = command("convert", *line, "--no-simplify", "--out", "out", cwd=tmp_path, code=0)
    assert "serving/litserve/two (requests of at most 4 rows: --max-batch)" in said.out
    readme = (tmp_path / "out/serving/litserve/two/README.md").read_text()
    assert "- a request holds at most 4 rows: --max-batch" in readme


def test_a_column_of_a_table_is_a_list_in_which_null_is_a_missing_value(tmp_path: Path) -> None:
    model = text_model(
        """g (float[batch, 1] age, string[batch, 1] class) => (float[batch, 1] same,
        string[batch, 1] text) { same = Identity(age) text = Identity(class) }"""
    )
    model.describe("age", missing=(0,))
    core = loaded(model, tmp_path)
    feeds = core.prepare({"age": [1, None, 3], "class": ["a", "", "c"]})
    assert feeds["age"].dtype == np.float32 and feeds["age"].shape == (3, 1)
    assert np.isnan(feeds["age"]).ravel().tolist() == [False, True, False]
    assert finish(core.run([feeds])[0])["text"] == [["a"], [""], ["c"]]
    with pytest.raises(InputError, match="class holds null or NaN, which the model can't answer"):
        core.prepare({"age": [1, 2, 3], "class": [["a"], [None], ["c"]]})
