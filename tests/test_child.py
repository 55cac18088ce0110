"""Children: answers, errors, death on either side."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from converter.child import Child, ChildError, worker_env
from converter.errors import MachineError

SCRIPT = """
import json, os, sys
for line in sys.stdin:
    request = json.loads(line)
    method, number = request["method"], request["id"]
    if method == "die":
        print("last words", file=sys.stderr, flush=True)
        os.kill(os.getpid(), 9)
    if method == "fork and die":
        if os.fork() == 0:
            import time
            time.sleep(20)
        os.kill(os.getpid(), 9)
    if method == "fail":
        answer = {"error": {"kind": "usage", "message": "no", "details": ["a", "b"], "more": 1}}
    else:
        print(json.dumps({"event": "progress", "text": "half"}), flush=True)
        print(json.dumps({"event": "warning", "text": "careful"}), flush=True)
        answer = {"result": request["params"]}
    print(json.dumps({"id": number, **answer}), flush=True)
"""


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def child(told: list[str]) -> Iterator[Child]:
    made = Child(
        [sys.executable, "-c", SCRIPT],
        what="the test process",
        env=worker_env(),
        progress=told.append,
        warning=told.append,
    )
    yield made
    made.close()
    assert not psutil.pid_exists(made.pid)


def test_it_answers_and_tells(child: Child, told: list[str]) -> None:
    assert child.call("echo", x=[1, 2]) == {"x": [1, 2]}
    assert told == ["half", "careful"]


def test_its_error_comes_with_everything_it_said(child: Child) -> None:
    with pytest.raises(ChildError) as error:
        child.call("fail")
    assert (error.value.kind, error.value.message) == ("usage", "no")
    assert error.value.details == ["a", "b"]
    assert error.value.fields["more"] == 1
    assert child.call("echo") == {}


def test_its_death_is_said_with_its_last_words(child: Child) -> None:
    with pytest.raises(MachineError) as error:
        child.call("die")
    assert "SIGKILL" in str(error.value)
    assert "last words" in str(error.value)
    with pytest.raises(MachineError):
        child.call("echo")


def test_its_death_is_seen_though_what_it_started_lives_on(child: Child) -> None:
    start = time.monotonic()
    with pytest.raises(MachineError):
        child.call("fork and die")
    assert time.monotonic() - start < 5


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_when_its_parent_is_killed(tmp_path: Path, number: int) -> None:
    parent = tmp_path / "parent.py"
    parent.write_text(
        textwrap.dedent("""
        import sys, time
        from converter.child import Child
        child = Child([sys.executable, "-c", sys.argv[1]], what="c")
        child.call("echo")
        print(child.pid, flush=True)
        time.sleep(60)
        """)
    )
    process = subprocess.Popen(
        [sys.executable, str(parent), SCRIPT], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    assert psutil.pid_exists(pid)
    os.kill(process.pid, number)
    process.wait()
    process.stdout.close()
    deadline = time.monotonic() + 5
    while psutil.pid_exists(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not psutil.pid_exists(pid)
