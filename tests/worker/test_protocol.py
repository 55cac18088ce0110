"""The process: its messages, its streams, its end."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from parsers.pytorch.spec import PYTORCH

from .client import MAIN, Client, Failure
from .conftest import Write, export, spec


def test_hello_is_cheap_and_imports_no_torch(tmp_path: Path) -> None:
    start = time.perf_counter()
    with Client(cwd=tmp_path) as client:
        hello = client.call("hello")
        elapsed = time.perf_counter() - start
        maps = Path(f"/proc/{client.process.pid}/maps")
        loaded = maps.read_text() if maps.exists() else ""
        assert client.close() == 0
    assert hello["protocol"] == 1
    assert all(hello[name] for name in ("python", "torch", "onnxscript", "onnx", "numpy"))
    assert "libtorch" not in loaded
    assert elapsed < 3


def test_unknown_method_and_bad_line(worker: Client) -> None:
    worker.refuses("usage", ("no method",), "dance")
    assert worker.process.stdin is not None
    worker.process.stdin.write(b"[1, 2\n")
    worker.process.stdin.flush()
    with pytest.raises(Failure, match="not a JSON object"):
        worker.receive(None)


def test_methods_without_a_model(tmp_path: Path) -> None:
    with Client(cwd=tmp_path) as client:
        for method in ("export", "run", "time"):
            with pytest.raises(Failure, match="no model is loaded"):
                client.call(method)
        assert client.call("shutdown") == {}
        assert client.process.wait(5) == 0


def test_prints_of_user_code_do_not_reach_the_channel(worker: Client, write: Write) -> None:
    path = write("""
        import os, sys
        print("module")
        os.write(1, b'{"id": 1, "result": "forged"}\\n')
        assert sys.stdin.read() == ""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                os.system("echo from a child process")
            def forward(self, x):
                print("forward", flush=True)
                return x + 1
    """)
    result = export(worker, path, [spec("x", "batch", 4)])
    assert result["outputs"] == [{"name": "output", "dtype": "float32", "shape": ["batch", 4]}]


def test_progress_is_told(worker: Client, write: Write) -> None:
    path = write("class Net(nn.Identity): pass")
    worker.events.clear()
    export(worker, path, [spec("x", 2, 4)])
    texts = [e["text"] for e in worker.events if e["event"] == "progress"]
    assert texts[0] == "loading the model"
    assert texts[-1] == "writing the ONNX file"


def _gone(pid: int, seconds: float = 5) -> bool:
    """Whether a process ends in time; a zombie has ended."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.02)
    return False


def test_closing_stdin_ends_a_busy_worker(tmp_path: Path, write: Write) -> None:
    path = write("""
        a = torch.ones(3000, 3000)
        while True:
            a = a @ a * 0
    """)
    with Client(cwd=tmp_path) as client:
        client.call("warm")
        client.send("load", source=f"{path}:Net")
        time.sleep(0.3)
        assert client.process.poll() is None
        start = time.monotonic()
        assert client.close() == 0
        assert time.monotonic() - start < 3


def test_interrupt_from_the_terminal_is_left_to_the_parent(tmp_path: Path) -> None:
    with Client(cwd=tmp_path) as client:
        client.call("hello")
        client.process.send_signal(signal.SIGINT)
        assert client.call("hello")["protocol"] == 1


def test_killed_parent_leaves_no_orphan(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("import time\ntime.sleep(600)\n")
    script = """
        import json, subprocess, sys, time
        child = subprocess.Popen([sys.executable, *sys.argv[1:]], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        request = {"id": 1, "method": "load", "params": {"source": "net.py:Net"}}
        child.stdin.write(json.dumps(request).encode() + b"\\n")
        child.stdin.flush()
        for line in child.stdout:
            if b"loading the model" in line:
                print(child.pid, flush=True)
        time.sleep(600)
    """
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), str(MAIN), PYTORCH.backend],
        stdout=subprocess.PIPE, cwd=tmp_path,
    )  # fmt: skip
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert psutil.pid_exists(pid)
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait(5)
    parent.stdout.close()
    assert _gone(pid)
