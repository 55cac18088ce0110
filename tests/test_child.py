"""Children: answers, errors, death on either side."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import psutil
import pytest

from converter.errors import MachineError
from converter.runtime.child import Child, ChildError, changed_environment, worker_env

SCRIPT = """
import ctypes, json, os, subprocess, sys, time
for line in sys.stdin:
    request = json.loads(line)
    method, number = request["method"], request["id"]
    if method == "die":
        print("last words", file=sys.stderr, flush=True)
        os.kill(os.getpid(), 9)
    if method == "fork and die":
        if os.fork() == 0:
            time.sleep(20)
        os.kill(os.getpid(), 9)
    if method == "crash":
        ctypes.string_at(0)
    if method == "hang":
        time.sleep(60)
    if method == "start another and go on":
        other = subprocess.Popen(["sleep", "60"])
        print(json.dumps({"id": number, "result": {"pid": other.pid}}), flush=True)
        continue
    if method == "close":
        os.close(1)
        time.sleep(60)
    if method == "chatter":
        print("hello from a library\\n[1, 2]\\n")
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


def test_it_answers_and_tells_and_what_something_else_prints_is_no_answer(
    child: Child, told: list[str]
) -> None:
    assert child.call("echo", x=[1, 2]) == {"x": [1, 2]}
    assert told == ["half", "careful"]
    assert child.call("chatter", x=1) == {"x": 1}
    assert "hello from a library" in child.log_tail(5)


def test_its_error_comes_with_everything_it_said(child: Child) -> None:
    with pytest.raises(ChildError) as error:
        child.call("fail")
    assert (error.value.kind, error.value.message) == ("usage", "no")
    assert error.value.details == ["a", "b"]
    assert error.value.fields["more"] == 1
    assert child.call("echo") == {}


@pytest.mark.parametrize(("method", "says", "details"), [
    ("die", "SIGKILL", "last words"),
    ("fork and die", "SIGKILL", ""),  # what it started lives on
    ("crash", "was killed by SIGSEGV", "string_at"),  # native code says where
    ("close", "closed its pipe", ""),
])  # fmt: skip
def test_its_end_is_said(child: Child, method: str, says: str, details: str) -> None:
    start = time.monotonic()
    with pytest.raises(MachineError, match=says) as error:
        child.call(method)
    assert time.monotonic() - start < 5
    assert details in "".join(error.value.details) + error.value.message
    assert method != "crash" or "native code" in error.value.hint
    with pytest.raises(MachineError):
        child.call("echo")
    assert method != "close" or not psutil.pid_exists(child.pid)


def test_it_is_ended_while_it_hangs(child: Child) -> None:
    """As on Ctrl-C: one thread waits for an answer that another one ends."""
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(child.call, "hang")
        time.sleep(0.3)
        start = time.monotonic()
        child.close()
        assert isinstance(waiting.exception(5), MachineError)
        assert time.monotonic() - start < 5


def test_what_it_started_ends_with_it(child: Child) -> None:
    other = child.call("start another and go on")["pid"]
    assert psutil.pid_exists(other)
    child.close()
    require_gone(other)


def require_gone(pid: int) -> None:
    """Waits for a process's end."""
    deadline = time.monotonic() + 5
    with suppress(psutil.NoSuchProcess):
        while psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_a_variable_can_be_taken_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOES", "1")
    changed = changed_environment({"GOES": None, "COMES": "2"})
    assert "GOES" not in changed and changed["COMES"] == "2"


PARENT = """
import sys, time
from converter.runtime.child import Child
child = Child([sys.executable, "-c", sys.argv[1]], what="c")
child.call("echo")
print(child.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_when_its_parent_is_killed(number: int) -> None:
    command = [sys.executable, "-c", PARENT, SCRIPT]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    assert psutil.pid_exists(pid)
    os.kill(process.pid, number)
    process.wait()
    process.stdout.close()
    require_gone(pid)
