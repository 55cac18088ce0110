"""Runs the command line as a user does, or in this process: its exit code and what it says."""

from __future__ import annotations

import json
import os
import pty
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import chdir, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

from converter.cli import main

COMMAND = Path(sys.executable).parent / "modelyard"


@dataclass(frozen=True)
class Said:
    """What a command gave back."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its standard output, read as JSON."""
        return json.loads(self.out)

    def no_traceback(self) -> Said:
        """Itself, after making sure that no traceback was shown."""
        assert "Traceback" not in self.err + self.out, self.err
        return self

    def ended(self, code: int | None) -> Said:
        """Itself, after making sure of its code, where one is named, and that no traceback was
        shown."""
        assert code in (None, self.code), self.err
        return self if code is None else self.no_traceback()


def modelyard(
    *args: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None,
    before: Callable[[], None] | None = None, timeout: float = 300, name: str = "modelyard",
    code: int | None = None,
) -> Said:  # fmt: skip
    """Runs ``modelyard ARGS`` to its end, or another command of ours; ``code`` is how it has to
    end."""
    done = subprocess.run(
        [str(COMMAND.with_name(name)), *map(str, args)], cwd=cwd, env={**os.environ, **(env or {})},
        capture_output=True, text=True, timeout=timeout, preexec_fn=before, check=False,
    )  # fmt: skip
    return Said(done.returncode, done.stdout, done.stderr).ended(code)


def on_a_terminal(
    line: list[str | Path], cwd: Path | None = None, answers: str = "", **env: str
) -> str:
    """What a command shows on a terminal, on either of its outputs, where ``answers`` are typed."""
    ours, theirs = pty.openpty()
    os.write(ours, answers.encode())
    shown, streams = b"", {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    with subprocess.Popen(line, cwd=cwd, env={**os.environ, **env}, **streams):  # type: ignore[call-overload]
        os.close(theirs)
        with suppress(OSError):  # Linux: nobody has the other end any more
            while piece := os.read(ours, 1 << 16):
                shown += piece
    os.close(ours)
    return shown.decode(errors="replace")


class _Main:
    """What click's runner calls: the installed command's own ``main``, with its way with errors."""

    name = "modelyard"

    def main(self, args: list[str], prog_name: str) -> None:
        """Runs it as the command line would."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", [prog_name, *args])
            main()


def command(*args: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None,
            code: int | None = None) -> Said:  # fmt: skip
    """Runs ``modelyard ARGS`` in this process: for what is asked of messages, codes and files, and
    neither of signals, terminals, imports nor modules of a user's. ``code`` is how it has to end.
    """
    handler = signal.getsignal(signal.SIGTERM)
    try:
        with chdir(cwd or Path.cwd()):
            done = CliRunner().invoke(_Main(), list(map(str, args)), env=env)  # type: ignore[arg-type]
    finally:
        signal.signal(signal.SIGTERM, handler)
    return Said(done.exit_code, done.stdout, done.stderr).ended(code)


def typed(line: str, cwd: Path, code: int | None = 0) -> Said:
    """The same in ``cwd``, of a line as it is typed behind ``modelyard``."""
    return command(*shlex.split(line), cwd=cwd, code=code)


def refused(code: int, says: str, folder: Path, *args: str | Path) -> Said:
    """A conversion in ``folder`` that has to fail so, and leave the folder as it was."""
    before = sorted(folder.rglob("*"))
    return failed(code, says, folder, before, command("convert", *args, "--no-bench", cwd=folder))


def failed(code: int, says: str, folder: Path, before: list[Path], said: Said) -> Said:
    """What was said, after making sure of its code, its one error and the folder's files."""
    assert said.no_traceback().code == code, said.err
    assert says.lower() in said.err.lower(), said.err
    assert said.err.count("error[") == 1
    assert sorted(folder.rglob("*")) == before
    return said


def written(path: Path, graph: str, opset: int = 17, **weights: np.ndarray[Any, Any]) -> Path:
    """A model of ONNX's text, at ``path``; its initializers by name have ``weights`` for values."""
    others = ', "com.microsoft" : 1' if "com.microsoft." in graph else ""
    head = f'<ir_version: 8, opset_import: ["" : {opset}{others}]>'
    model = onnx.parser.parse_model(f"{head} {graph}")
    for name, values in weights.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
    onnx.save(model, path)
    return path


def names(folder: Path) -> list[str]:
    """What lies in a folder."""
    return sorted(path.name for path in folder.iterdir())


def tree(folder: Path) -> dict[str, bytes]:
    """Every file under ``folder``, hidden ones included, by relative name."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def small_cnn(path: Path, *, channels: int = 8) -> Path:
    """A small image classifier with a free batch, seeded weights, and a residual."""
    rng, weights = np.random.default_rng(0), {}
    for name, shape in (("w0", (channels, 3, 3, 3)), ("w1", (channels, channels, 3, 3)),
                        ("w2", (10, channels))):  # fmt: skip
        values = rng.standard_normal(shape).astype(np.float32) / np.sqrt(np.prod(shape[1:]))
        weights[name] = values.astype(np.float32)
    text = """cnn (float[batch, 3, 16, 16] image) => (float[batch, 10] scores) {
        [conv0] a = Conv<pads = [1, 1, 1, 1]>(image, w0) [relu0] b = Relu(a)
        [conv1] c = Conv<pads = [1, 1, 1, 1]>(b, w1) [identity] skip = Identity(b)
        [add] d = Add(c, skip) [pool] e = GlobalAveragePool(d) [flatten] f = Flatten(e)
        [fc] scores = Gemm<transB = 1>(f, w2) }"""
    return written(path, text, **weights)


def converted_cnn(folder: Path, options: str) -> Path:
    """``folder`` with ``small_cnn`` and its samples, converted as ``options`` say."""
    small_cnn(folder / "cnn.onnx")
    images(folder / "samples.npz")
    typed(f"convert cnn.onnx --samples samples.npz --no-bench {options}", folder)
    return folder


def images(path: Path, count: int = 12) -> Path:
    """Samples for it, labelled."""
    values = np.random.default_rng(3).standard_normal((count, 3, 16, 16)).astype(np.float32)
    np.savez(path, image=values, label=np.arange(count) % 10)
    return path
