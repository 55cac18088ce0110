"""Every command, as a user types it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from converter.cli import COMMANDS
from converter.commands.progress import Progress
from converter.pipeline.plan import Plan, Step
from tests.acceptance.cli import (
    COMMAND,
    command,
    images,
    modelyard,
    on_a_terminal,
    small_cnn,
    typed,
)


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    return images(tmp_path / "samples.npz")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str) -> None:
    said = modelyard(name, "--help", code=0)  # a process for each
    assert COMMANDS[name].rstrip(".").split()[0].lower() in said.out.lower()


HEAVY = ("numpy", "onnx", "onnxruntime", "pydantic", "rich", "yaml")


@pytest.mark.parametrize(("code", "heavy"), [
    ("import converter, converter.cli, converter.api, converter.pipeline.steps",
     ("torch", "tensorflow", "keras", "onnxsim")),
    ("sys.argv = ['modelyard', '--help']\nfrom converter.cli import main\n"
     "try: main()\nexcept SystemExit: pass", HEAVY),
    ("import os\nos.environ |= {'_MODELYARD_COMPLETE': 'bash_complete', "
     "'COMP_WORDS': 'modelyard convert x --to '}\nfrom converter.cli import main\n"
     "sys.argv = ['modelyard']\ntry: main()\nexcept SystemExit: pass", HEAVY),
], ids=["api", "help", "completion"])  # fmt: skip
def test_nothing_heavy_is_imported(code: str, heavy: tuple[str, ...]) -> None:
    text = f"import sys\n{code}\nprint('heavy:', [m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert "heavy: []" in done.stdout
    assert ("tflite" in done.stdout) == ("COMP_WORDS" in code)


def test_convert_with_labels_and_everything(model: Path, samples: Path) -> None:
    said = modelyard(
        "convert", model.name, "--samples", samples.name, "--serve", "triton", "--metric", "top1",
        "--bench-seconds", "0.3", "--bench-batch", "1,4", "--json", cwd=model.parent, code=0,
    )  # fmt: skip
    report = said.json["report"]
    assert report["verdict"] == "passed"
    assert report["samples"]["count"] == 12
    assert report["samples"]["labelled"] is True
    (artifact,) = report["artifacts"]
    assert artifact["metrics"][0]["name"] == "top1"
    assert {point["batch"] for point in artifact["latency"]} == {1, 4}
    assert [step["step"] for step in artifact["steps"]] == ["read", "simplified", "onnx fp32"]
    assert report["packages"][0]["path"] == "serving/triton/model"
    stored = json.loads((model.parent / "build/model/report.json").read_text())
    assert stored["artifacts"][0]["sha256"] == artifact["sha256"]


def test_dry_run_prints_the_plan_and_makes_nothing(model: Path) -> None:
    said = typed("convert model.onnx --serve triton --dry-run", model.parent)
    for step in ("parse", "simplify", "emit:onnx:fp32", "package:triton:onnx:fp32"):
        assert step in said.out
    assert [path.name for path in model.parent.iterdir()] == ["model.onnx"]


def test_check_passes_and_fails(model: Path, samples: Path) -> None:
    folder = model.parent
    typed("convert model.onnx --no-bench", folder)
    checked = "check build/model/onnx/fp32/model.onnx --samples samples.npz --against"
    good = typed(f"{checked} model.onnx --json", folder)
    assert good.json["accuracy"]["comparison"]["samples"] == 12
    small_cnn(folder / "other.onnx", channels=16)
    alone = typed("check model.onnx --against other.onnx", folder, None)
    assert "give --precision of a lower one" in alone.err
    bad = typed(f"{checked} other.onnx", folder, 4)
    assert "onnx fp32" in bad.err, "what the folder's manifest says"
    assert "cosine: " in bad.err and ", limit 0.9999; " in bad.err


def test_nothing_is_reported_to_anyone(model: Path, tmp_path: Path) -> None:
    """ONNX Runtime keeps what it would send to its maker in a database; there is none."""
    home = tmp_path / "home"
    home.mkdir()
    places = {key: str(home) for key in ("HOME", "MODELYARD_CACHE", "XDG_CACHE_HOME", "TMPDIR")}
    env = {**places, "ORT_DISABLE_TELEMETRY": ""}
    modelyard("convert", model, "--out", tmp_path / "out", "--no-bench", env=env, code=0)
    found = {file.name for file in home.rglob("*") if file.is_file()}
    assert not found & {"deviceid", "onnxruntime.db", ".ses"}


# -- what a terminal, a pipe or a program gets -------------------------------------------


def test_json_holds_errors_in_the_command_line_too(model: Path) -> None:
    said = typed("convert nothing.onnx --json", model.parent, 2)
    assert (said.json["error"], said.json["exit_code"]) == ("usage", 2)
    said = typed("convert model.onnx --json --outt x", model.parent, 2)
    assert said.json["error"] == "usage" and "--outt" in said.json["message"]
    assert "Usage:" in said.err
    assert "convert" in command("convrt", code=2).err, "the nearest"


def test_a_terminal_without_unicode_is_no_bug(model: Path) -> None:
    env = {"PYTHONIOENCODING": "ascii"}
    said = modelyard("convert", model.name, "--no-bench", cwd=model.parent, env=env, code=0)
    assert "report: " in said.out and said.out.isascii()


def test_a_reader_that_leaves_is_no_bug() -> None:
    with subprocess.Popen(
        [COMMAND, "zoo", "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_no_color_is_kept_to_on_a_terminal() -> None:
    line = [COMMAND, "inspect", "nothing.onnx"]
    coloured = on_a_terminal(line, NO_COLOR="", TERM="xterm")
    assert "\x1b[31m" in coloured and "there is no nothing.onnx" in coloured
    assert "\x1b[31m" not in on_a_terminal(line, NO_COLOR="1", TERM="xterm")
    assert "\x1b" not in on_a_terminal(line, NO_COLOR="", TERM="dumb")


def test_a_log_gets_a_line_for_what_took_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = (
        Step("parse", "reading"),
        Step("check", "checking onnx int8", target="onnx", precision="int8"),
    )
    line = "  \u2713 [2/2] checking onnx int8  1 min 1 s\n"
    for asked, shown in (([], line), (["--quiet"], "")):
        monkeypatch.setattr("sys.argv", ["modelyard", "convert", "x", *asked])
        with Progress() as progress:
            progress.planned(Plan(steps))
            progress.finished(steps[0], 0.5, False)
            progress.finished(steps[1], 61.0, False)
        assert capsys.readouterr().err == shown
