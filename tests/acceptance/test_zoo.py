"""``modelyard zoo``, and models converted by name."""

from pathlib import Path

import pytest

from tests.acceptance.cli import command

NARROW = {"COLUMNS": "80"}


def test_list(tmp_path: Path) -> None:
    said = command("zoo", "list", cwd=tmp_path, env=NARROW, code=0)
    lines = said.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "face-detection-full-range-sparse  tflite       face-detection" in said.out
    assert any("bert-base-random" in line and "random" in line.split()[-1] for line in lines)
    short = command("zoo", "list", "--task", "voice-activity-detection", "--json", cwd=tmp_path)
    assert "silero-vad" in short.json
    assert {entry["task"] for entry in short.json.values()} == {"voice-activity-detection"}
    none = command("zoo", "list", "--framework", "mxnet", cwd=tmp_path, code=2)
    assert "pytorch" in none.err


def test_show(tmp_path: Path) -> None:
    empty = {**NARROW, "MODELYARD_CACHE": str(tmp_path / "cache")}
    said = command("zoo", "show", "silero-vad-jit", cwd=tmp_path, env=empty, code=0)
    assert "not fetched" in said.out
    assert "vouched for by its sha256" in said.out
    assert "--submodule _model" in said.out and "random" not in said.out
    facts = command("zoo", "show", "resnet50-random", "--json", cwd=tmp_path).json
    assert facts["weights"] == "random"
    assert "for speed" in command("zoo", "show", "resnet50-random", cwd=tmp_path).out
    assert "expected" not in facts
    wrong = command("zoo", "show", "silero", cwd=tmp_path, code=2)
    assert "Did you mean silero-vad" in wrong.err


def test_the_shown_line_does_the_same(tmp_path: Path) -> None:
    """The options of the line, as the command reads them, are those of the catalogue."""
    import shlex

    from click.testing import CliRunner

    from converter import api
    from converter.cli import cli
    from zoo import catalogue

    seen: list[dict[str, object]] = []

    def convert(source: str, *, listener: object, **options: object) -> None:
        seen.append({"source": source, **options})
        raise SystemExit(0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api, "convert", convert)
        for name in ("efficientnet-lite0", "ccexam-mnist", "minilm-int8"):
            line = command("zoo", "show", name, "--json", cwd=tmp_path).json["line"]
            words = shlex.split(line.replace("\\\n", ""))
            CliRunner().invoke(cli, words[1:], catch_exceptions=False)
            expected = catalogue.resolve(name)
            kwargs = expected.pop("kwargs", {})
            keywords = [f"{key}={value}" for key, value in kwargs.items()]
            expected |= {"args": [*expected.get("args", []), *keywords]}
            found = {key: value for key, value in seen.pop().items() if value not in (None, [])}
            assert found == {key: value for key, value in expected.items() if value != []}


def test_fetch(tmp_path: Path) -> None:
    command("zoo", "fetch", "fer", "wakeword-alexa", "--out", "z", cwd=tmp_path, code=0)
    assert (tmp_path / "z/fer/emotion_model.hdf5").is_file()
    assert (tmp_path / "z/wakeword-alexa/alexa.tflite").is_file()
    empty = {"MODELYARD_CACHE": str(tmp_path / "cache")}
    command("zoo", "fetch", "fer", "--offline", cwd=tmp_path, env=empty, code=5)
    command("zoo", "fetch", "fer", "zzz", cwd=tmp_path, env=empty, code=2)
    assert not (tmp_path / "cache").exists()


@pytest.mark.slow
def test_a_torchscript_file_that_the_catalogue_vouches_for(tmp_path: Path) -> None:
    said = command(
        "convert", "zoo:silero-vad-jit", "--no-bench", "--out", "out", "--json", cwd=tmp_path,
        code=0,
    )  # fmt: skip
    assert said.json["report"]["verdict"] == "passed"
