"""Nothing that the tool didn't make is ever replaced or removed, and links and folders stay."""

import errno
import json
import os
import shutil
from pathlib import Path

import pytest

from tests.acceptance.cli import Said, command, names, small_cnn, tree, typed

FEW = ("--no-bench", "--samples", "random:2")


def convert(folder: Path, *args: str | Path, code: int = 0) -> Said:
    return command("convert", "model.onnx", *FEW, *args, cwd=folder, code=code)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``model.onnx`` and ``out``, which was made of it; to be copied."""
    folder = tmp_path_factory.mktemp("made")
    small_cnn(folder / "model.onnx")
    convert(folder, "--out", "out", "--serve", "triton")
    return folder


@pytest.fixture
def project(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "project")


def refused(project: Path, *args: str | Path, cwd: Path | None = None) -> str:
    """What is said by a conversion that has to be refused, and that may change nothing."""
    before = tree(project)
    said = command("convert", project / "model.onnx", *FEW, *args, cwd=cwd or project, code=2)
    assert tree(project) == before
    return said.err


# -- what --overwrite replaces -------------------------------------------------------------


def test_what_was_made_is_replaced_with_caches_in_it(project: Path) -> None:
    for name in ("serving/triton/model/__pycache__/client.cpython-311.pyc", ".DS_Store"):
        (project / "out" / name).parent.mkdir(exist_ok=True)
        (project / "out" / name).write_bytes(b"x")
    convert(project, "--out", "out", code=2)
    convert(project, "--out", "out", "--overwrite")
    assert sorted(tree(project / "out")) == [
        "README.md", "manifest.json", "onnx/fp32/model.onnx", "report.html", "report.json"
    ]  # fmt: skip
    assert names(project) == ["model.onnx", "out"]


@pytest.mark.parametrize("out", [".", "..", "project", "home"])
def test_a_folder_of_the_user_s_is_never_replaced(tmp_path: Path, out: str) -> None:
    for name in ("project", "home"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "thesis.tex").write_text("mine")
    small_cnn(tmp_path / "project" / "model.onnx")
    before = tree(tmp_path)
    place = {"project": "../project", "home": tmp_path / "home"}.get(out, out)
    args = ["convert", tmp_path / "project/model.onnx", *FEW, "--out", place]
    for flag in ([], ["--overwrite"]):
        said = command(
            *args, *flag, cwd=tmp_path / "project", env={"HOME": str(tmp_path / "home")}, code=2
        )
        assert "pass --overwrite" not in said.err
    assert tree(tmp_path) == before


def test_files_in_the_way_are_named_and_counted(project: Path) -> None:
    """Links and copies too."""
    shutil.copyfile(project / "out/onnx/fp32/model.onnx", project / "out/onnx/fp32/before.onnx")
    assert "before.onnx" in refused(project, "--out", "out", "--overwrite")
    (project / "out/onnx/fp32/before.onnx").unlink()
    (project / "out" / "data").symlink_to(project)
    assert "data" in refused(project, "--out", "out", "--overwrite")
    for number in range(20):
        (project / "out" / f"notes{number:02}.txt").write_text("mine")
    said = refused(project, "--out", "out", "--overwrite")
    assert "notes00.txt" in said and "more" in said and "notes19.txt" not in said


@pytest.mark.parametrize(
    "name", ["onnx/fp32/model.onnx", "report.html", "report.json", "manifest.json"]
)
def test_a_file_that_was_edited_is_in_the_way(project: Path, name: str) -> None:
    path = project / "out" / name
    path.write_bytes(path.read_bytes().replace(b"relu", b"RELU").replace(b"cosine", b"sine__"))
    if name == "manifest.json":
        path.write_text(path.read_text().replace('"name": "model"', '"name": "mine"', 1))
    assert name in refused(project, "--out", "out", "--overwrite")


def test_a_folder_of_an_earlier_version_is_replaced(project: Path) -> None:
    """Manifests of 0.1.0 don't name the report's files."""
    path = project / "out" / "manifest.json"
    found = json.loads(path.read_text())
    found["measured"] = {k: found["measured"][k] for k in ("machine", "timings", "latency")}
    found.pop("scripts", None)
    path.write_text(json.dumps({**found, "tool": "modelyard 0.1.0"}, indent=2) + "\n")
    (project / "out" / "report.txt").write_text("mine")
    assert "report.txt" in refused(project, "--out", "out", "--overwrite")
    (project / "out" / "report.txt").unlink()
    convert(project, "--out", "out", "--overwrite")


@pytest.mark.parametrize("args", [
    "out/onnx/fp32/model.onnx",
    "model.onnx --label-names out/report.json",
    "model.onnx --samples out/serving/triton/model/client.py:samples",
    "model.onnx --calibration-samples out/serving",
    "model.onnx --search-path out/onnx",
    "model.onnx --metric out/serving/triton/model/client.py:metric",
])  # fmt: skip
def test_what_a_run_reads_is_never_replaced(project: Path, args: str) -> None:
    before = tree(project)
    said = typed(f"convert {args} --no-bench --out out --overwrite", project, 2)
    assert "reads" in said.err and args.split()[-1].split(":")[0] in said.err
    assert tree(project) == before


@pytest.mark.slow
def test_what_build_engine_writes_is_ours(tmp_path: Path) -> None:
    """The engine, the configuration that it turned to, and the ONNX file that it moved."""
    small_cnn(tmp_path / "model.onnx")
    deferred = ("--to", "tensorrt", "--serve", "triton", "--out", "out")
    convert(tmp_path, *deferred)
    model = tmp_path / "out" / "serving" / "triton" / "model"
    if not (model / "1" / "build_engine.py").is_file():
        pytest.skip("there is a GPU, and the engine is built at once")
    (model / "1" / "model.plan").write_bytes(b"engine")
    (tmp_path / "out" / "tensorrt" / "fp32" / "model.plan").write_bytes(b"engine")
    shutil.copyfile(model / "config.pbtxt", model / "config.onnxruntime.pbtxt")
    shutil.copyfile(model / "1" / "config.engine.pbtxt", model / "config.pbtxt")
    (model / "onnx" / "1").mkdir(parents=True)
    (model / "1" / "model.onnx").rename(model / "onnx" / "1" / "model.onnx")
    (model / "config.pbtxt").write_text((model / "config.pbtxt").read_text() + "# mine\n")
    assert "config.pbtxt" in refused(tmp_path, *deferred, "--overwrite")
    shutil.copyfile(model / "1" / "config.engine.pbtxt", model / "config.pbtxt")
    convert(tmp_path, *deferred, "--overwrite")


# -- links, working directories, what fails ------------------------------------------------


def test_a_link_s_target_is_replaced_and_the_link_stays(project: Path) -> None:
    (project / "releases").mkdir()
    (project / "out").rename(project / "releases" / "7")
    (project / "current").symlink_to("releases/7")
    convert(project, "--out", "current", "--overwrite")
    assert str((project / "current").readlink()) == "releases/7"
    assert "serving" not in {path.name for path in (project / "releases/7").iterdir()}
    assert names(project / "releases") == ["7"]


def test_the_working_directory_is_never_replaced(project: Path) -> None:
    for place, cwd in (("../out", "out"), (".", "out"), ("../../out", "out/onnx")):
        said = refused(project, "--out", place, "--overwrite", cwd=project / cwd)
        assert "the working directory" in said
    (project / "empty").mkdir()
    assert "the working directory" in refused(project, "--out", ".", cwd=project / "empty")


def test_a_folder_that_cannot_be_deleted_is_refused_early(project: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root writes everywhere")
    (project / "out" / "onnx").chmod(0o555)
    try:
        assert "onnx" in refused(project, "--out", "out", "--overwrite")
    finally:
        (project / "out" / "onnx").chmod(0o755)


# -- without --overwrite -------------------------------------------------------------------


@pytest.mark.parametrize(("place", "repository"), [
    ("rr", "rr"), ("rr/out", "rr"), (".", "rr"), ("rr.failed", "rr.failed"), ("rr", "rr.failed/m"),
])  # fmt: skip
def test_output_and_repository_are_apart(project: Path, place: str, repository: str) -> None:
    args = ("--out", place, "--serve", "triton", "--repository", repository)
    assert "--repository" in refused(project, *args)


# -- reports of failed runs ----------------------------------------------------------------


@pytest.mark.slow
def test_a_failed_report_that_is_read_stays(project: Path) -> None:
    convert(project, "--out", "keep", "--keep-steps", "--max-abs-error", "-1", code=4)
    read = "keep.failed/steps/read.onnx"
    command("convert", read, *FEW, "--out", "keep", "--name", "n", cwd=project, code=0)
    assert (project / read).is_file()


# -- the cache, repositories, mmconvert ----------------------------------------------------


def test_clearing_the_cache_deletes_what_it_keeps_alone(project: Path) -> None:
    mine = ["photos/a.png", "steps/notes.txt", "steps/ab/notes.txt", "steps/ab/deep/x.txt",
            "logs/mine.log", "packages/wheel.whl", "zoo/animals/panda.jpg"]  # fmt: skip
    for name in mine:
        (project / "home" / name).parent.mkdir(parents=True, exist_ok=True)
        (project / "home" / name).write_text("mine")
    env = {"MODELYARD_CACHE": str(project / "home")}
    args = ("convert", "model.onnx", *FEW, "--out", "b")
    command(*args, cwd=project, env=env, code=0)
    assert len(tree(project / "home")) > len(mine)
    parts = command("cache", "info", "--json", cwd=project, env=env).json["parts"]
    assert parts["steps"]["files"] > 2 and parts["packages"]["bytes"] == len("mine")
    command("cache", "clear", cwd=project, env=env, code=0)
    assert sorted(tree(project / "home")) == sorted(mine)


def test_a_version_without_an_output_is_taken_back(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is added to a repository is there before the output; here the disk is full between."""

    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    args = ("--serve", "triton", "--repository", "models", "--name", "net", "--out")
    for number, out in enumerate(("a", "b")):  # a model that is new there, and a version
        before = tree(project)
        with monkeypatch.context() as patch:
            patch.setattr("converter.pipeline.results.write_manifest", full)
            assert "No space left" in convert(project, *args, out, code=6).err
        assert tree(project) == before
        convert(project, *args, out)
        versions = {item.name for item in (project / "models/net").glob("[0-9]*")}
        assert versions == ({"1", "2"} if number else {"1"})
