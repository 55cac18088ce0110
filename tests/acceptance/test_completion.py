"""Completion in bash, zsh and fish, in the shells themselves."""

import os
import pty
import re
import select
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.acceptance.cli import COMMAND, modelyard

TYPED = {
    "con": "convert",
    "convert --prec": "convert --precision",
    "convert mod": "convert model.onnx",
    "convert net.py:Ne": "convert net.py:Net",
    "convert zo": "convert zoo:",
    "convert zoo:efficientnet-li": "convert zoo:efficientnet-lite0",
    "convert model.onnx --to tfl": "convert model.onnx --to tflite",
    "convert model.onnx --to onnx,tfl": "convert model.onnx --to onnx,tflite",
    "convert model.onnx --to=onnx,tfl": "convert model.onnx --to=onnx,tflite",
    "convert --precision fp32,int16": "convert --precision fp32,int16x8",
    "convert --serve tri": "convert --serve triton",
    "convert --metric ms": "convert --metric mse",
    "convert --samples pho": "convert --samples photos/",
    "convert --labels filen": "convert --labels filename",
    "convert --weights wei": "convert --weights weights.pth",
    "convert --out bui": "convert --out build/",
    "convert --out=bui": "convert --out=build/",
    "check bui": "check build/",
    "zoo show efficientnet-li": "zoo show efficientnet-lite0",
    "run efficientnet-lite0-tri": "run efficientnet-lite0-triton",
}
"""What is typed behind ``modelyard`` before TAB, and what stands there then."""

_RC = {
    "bash": 'PS1="$ "; bind "set bell-style none"; eval "$(modelyard completion bash)"\n',
    "zsh": 'PS1="$ "; autoload -Uz compinit; compinit -u -D; bindkey -e; '
    'unset zle_bracketed_paste; unsetopt prompt_sp; eval "$(modelyard completion zsh)"\n',
}
_SAY = 'say() { shift; echo "<""<$*>"">"; }\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("photos", "build"):
        (tmp_path / name).mkdir()
    for name in ("model.onnx", "weights.pth"):
        (tmp_path / name).touch()
    (tmp_path / "net.py").write_text("class Net:\n    def forward(self): ...\n\ndef other(): ...\n")
    return tmp_path


def _environment(folder: Path) -> dict[str, str]:
    path = f"{COMMAND.parent}:{os.environ['PATH']}"
    home = {"HOME": str(folder), "ZDOTDIR": str(folder), "XDG_CONFIG_HOME": str(folder / ".config")}
    return {**os.environ, **home, "PATH": path, "TERM": "dumb"}


def _interactive(shell: str, folder: Path) -> list[str]:
    """What the lines of TYPED become in an interactive shell: TAB, then ``say`` before the line."""
    rc = {"bash": ".bashrc", "zsh": ".zshrc"}[shell]
    (folder / rc).write_text(_SAY + _RC[shell])
    keys = "".join(f"modelyard {text}\t\x01say \x05\r" for text in TYPED) + "exit\r"
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execvpe(shell, [shell, "-i"], _environment(folder))
    said = b""
    try:
        waiting, deadline = keys.encode(), time.monotonic() + 60
        while time.monotonic() < deadline:
            if said.rstrip().endswith(b"$") and waiting:  # a prompt: the next line
                line, _, waiting = waiting.partition(b"\r")
                os.write(terminal, line + b"\r")
                said += b"\n"
            if select.select([terminal], [], [], 0.2)[0]:
                read = os.read(terminal, 65536)
                if not read:
                    break
                said += read
    except OSError:  # the shell has gone
        pass
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)
    return re.findall(r"<<(.*?)>>", said.decode(errors="replace"))


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_tab_completes(shell: str, folder: Path) -> None:
    if shell != "bash" and not shutil.which(shell):
        pytest.skip(f"{shell} isn't installed")
    found = _interactive(shell, folder)
    wanted = {typed: becomes.rstrip("/") for typed, becomes in TYPED.items()}  # zsh takes it away
    assert dict(zip(TYPED, (text.strip(" /") for text in found), strict=False)) == wanted


@pytest.mark.slow
def test_fish_completes(folder: Path) -> None:
    if not shutil.which("fish"):
        pytest.skip("fish isn't installed")
    script = modelyard("completion", "fish").out
    for typed, becomes in TYPED.items():
        asked = f"{script}\ncomplete -C 'modelyard {typed}'"
        done = subprocess.run(["fish", "-N", "-c", asked], cwd=folder, env=_environment(folder),
                              capture_output=True, text=True, check=True)  # fmt: skip
        offers = [line.split("\t")[0] for line in done.stdout.splitlines()]
        assert becomes.rpartition(" ")[2] in offers, (typed, done.stdout, done.stderr)


def _offers(line: str, folder: Path) -> list[str]:
    env = {"_MODELYARD_COMPLETE": "bash_complete", "COMP_WORDS": f"modelyard {line}"}
    said = modelyard(env=env, cwd=folder)
    return [line.split("\t")[2] for line in said.out.splitlines()]


@pytest.mark.parametrize(("line", "offers"), [
    ("convert x --serve ", ["triton"]),
    ("convert x --to tflite,", ["tflite,coreml", "tflite,onnx"]),
    ("convert x --metric ", ["mse", "top1", "top5"]),
    ("convert x --layout ", ["nchw", "nhwc"]),
    ("convert x --weight-methods rou", ["rounding"]),
    ("convert x --batch ", ["dynamic", "keep"]),
    ("convert x --samples ran", ["random:"]),
])  # fmt: skip
def test_values_are_offered(line: str, offers: list[str], folder: Path) -> None:
    found = _offers(line, folder)
    assert set(offers) <= set(found)
    assert "tflite,tflite" not in found


def test_names_are_the_catalogue_s() -> None:
    from zoo import catalogue
    from zoo.names import names

    assert sorted(names()) == sorted({**catalogue.entries(), **catalogue.joined()})
