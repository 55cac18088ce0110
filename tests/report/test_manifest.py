"""The manifest: complete, the same bytes, nobody's paths."""

import json
import tempfile
from pathlib import Path

import jsonschema
import pytest

from converter.errors import InternalError
from converter.files import scrub as scrubbing
from converter.files.scrub import assert_no_paths, base_name, scrub
from converter.options.request import Request
from converter.pipeline.manifest import (
    FileRecord,
    Manifest,
    build_manifest,
    describe_request,
    records,
    write_manifest,
)
from converter.pipeline.schemas import schema_text
from converter.report.json_ import as_json
from converter.report.model import StepTiming
from tests.report import build

HOME = str(Path.home())


def made(**changes: object) -> Manifest:
    request = Request("net.py:Net", weights=f"{HOME}/models/net.pth", precision=["fp32", "int8"])
    return build_manifest(request, build.failing(), **changes)  # type: ignore[arg-type]


def test_it_follows_its_schema() -> None:
    manifest = json.loads(as_json(made()))
    jsonschema.validate(manifest, json.loads(schema_text("manifest.schema.json")))
    assert manifest["request"]["weights"] == "net.pth"
    assert manifest["results"]["verdict"] == "failed"
    assert [item["precision"] for item in manifest["artifacts"]] == ["fp32", "int8"]


def test_what_differs_from_run_to_run_is_measured() -> None:
    first, second = build.failing(), build.failing()
    second.timings = [StepTiming(step="parse", seconds=99.0)]
    second.machine = None
    for artifact in second.artifacts:
        artifact.latency = artifact.latency[:2]
    request = Request("net.py:Net")
    a, b = (json.loads(as_json(build_manifest(request, report))) for report in (first, second))
    assert a.pop("measured") != b.pop("measured")
    assert a == b
    names = [gate["name"] for item in a["artifacts"] for gate in item["gates"]]
    assert "cosine" in names and "latency p95" not in names


def test_files_are_hashed_in_order(tmp_path: Path) -> None:
    (tmp_path / "onnx").mkdir()
    (tmp_path / "onnx" / "model.onnx").write_bytes(b"abc")
    (tmp_path / "report.html").write_bytes(b"")
    write_manifest(made(files=records(tmp_path)), tmp_path)
    manifest = Manifest.model_validate_json((tmp_path / "manifest.json").read_bytes())
    files = [*manifest.files, *manifest.measured.files]
    expected = [("onnx/model.onnx", 3), ("report.html", 0)]
    assert [(item.path, item.bytes) for item in files] == expected
    assert [item.path for item in manifest.files] == ["onnx/model.onnx"]  # a report has times
    assert files[0].sha256.startswith("ba7816bf")
    assert records(tmp_path) == files
    assert FileRecord.of(tmp_path / "onnx").bytes == 3


def test_options_without_effect_on_the_output_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    request = Request(
        f"{tmp_path}/net.py:Net", out=f"{tmp_path}/out", overwrite=True,
        samples=str(tmp_path / "photos"), metric=["top1", f"{tmp_path}/m.py:score"],
        search_paths=["../lib"], kwargs={"config": f"{HOME}/x.json", "depth": 3},
    )  # fmt: skip
    assert describe_request(request) == {
        "source": "net.py:Net", "kwargs": {"config": "x.json", "depth": 3}, "search_paths": ["lib"],
        "samples": "photos", "metric": ["top1", "m.py:score"],
    }  # fmt: skip


def test_a_path_left_in_is_a_bug_of_ours(tmp_path: Path) -> None:
    manifest = made()
    manifest.artifacts[0].details["note"] = f"made in {HOME}/x/y"
    with pytest.raises(InternalError) as caught:
        write_manifest(manifest, tmp_path)
    assert caught.value.details[0].startswith("/artifacts/0/details/note")
    assert not (tmp_path / "manifest.json").exists()


@pytest.mark.parametrize(("text", "clean"), [
    (f"reading {HOME}/a/net.py: no", "reading net.py: no"),
    (f"'{Path.cwd()}/a b'", "'a b'"),
    (f"PATH={tempfile.gettempdir()}/x/y:/home/bob/z", "PATH=y:z"),
    (f"file://{HOME}/a/x.onnx", "x.onnx"),
    ("~/models/net.pth", "net.pth"),
    ("C:\\Users\\bob\\net.onnx", "net.onnx"),
    ("/Users/bob/net.onnx", "net.onnx"),
    ("/usr/lib/os-release", "os-release"),
    ("/usr/lib", "lib"),
    ("/usr/lib/nothing/model.onnx", "model.onnx"),
    *((text, text) for text in (
        "/encoder/layer.0/attention/MatMul_1", "/conv1/Conv", "/usr", "/usr/Mul_3",
        "model/home/bar", "https://example.com/home/x", "onnx/fp32/model.onnx", "1/2 and 3 / 4",
        "float32[batch, 3]")),
])  # fmt: skip
def test_scrub(text: str, clean: str) -> None:
    assert scrub(text) == clean
    assert scrub({"a": [text]}) == {"a": [clean]}
    assert_no_paths({"a": (clean, 3)}, "x")
    if text != clean:
        with pytest.raises(InternalError):
            assert_no_paths([text], "x")


@pytest.mark.parametrize(("home", "here", "text", "clean"), [
    ("/elsewhere", "/", "/elsewhere/a/net.py", "net.py"),
    ("/", "/usr", "/usr/a/net.py", "net.py"),
    ("/", "/", "/conv1/Conv", "/conv1/Conv"),
])  # fmt: skip
def test_folders_right_under_the_root(
    home: str, here: str, text: str, clean: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrubbing, "_fixed_roots", scrubbing._fixed_roots.__wrapped__)
    monkeypatch.setenv("HOME", home)
    monkeypatch.chdir(here)
    assert scrub(text) == clean


@pytest.mark.parametrize("value", [{f"{HOME}/a.py": 1}, {1: (2, [f"{HOME}/a.py"])}, f"{HOME}/a.py"])
def test_a_path_is_seen_wherever_it_stands(value: object) -> None:
    with pytest.raises(InternalError):
        assert_no_paths(value, "x")


@pytest.mark.parametrize(("given", "kept"), [
    ("./net.py:Net", "net.py:Net"),
    ("/a/b/net.py:make", "net.py:make"),
    ("~/w.pth", "w.pth"),
    ("C:\\w\\net.onnx", "net.onnx"),
    *((text, text) for text in ("random:8", "org/model", "hf://org/model", "filename")),
])  # fmt: skip
def test_base_names(given: str, kept: str) -> None:
    assert base_name(given) == kept
