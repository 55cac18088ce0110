"""Chromium without a window, told over a pipe what to do (the Chrome DevTools Protocol)."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

PROGRAM = shutil.which("chromium") or shutil.which("google-chrome")

needs_browser = pytest.mark.skipif(PROGRAM is None, reason="Chromium isn't installed")

_FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--disable-extensions", "--hide-scrollbars", "--mute-audio"),
)


class Browser:
    """A Chromium of its own, with an empty profile."""

    def __init__(self, folder: Path, *more: str) -> None:
        folder.mkdir(exist_ok=True)
        ours, theirs = os.pipe(), os.pipe()
        line = f'exec "$0" "$@" 3<&{ours[0]} 4>&{theirs[1]}'
        flags = [*_FLAGS, *more, f"--user-data-dir={folder}", "about:blank"]
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                ["bash", "-c", line, str(PROGRAM), *flags],
                pass_fds=(ours[0], theirs[1]),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        os.close(ours[0])
        os.close(theirs[1])
        self._write, self._read, self._held = ours[1], theirs[0], b""
        self._number, self.events = 0, list[dict[str, Any]]()
        self.call("Target.setAutoAttach", **_ATTACH)

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """What a method gives; events that come meanwhile are kept."""
        number = self._send(method, session, params)
        while True:
            said = self._next(time.monotonic() + 60)
            assert said is not None, f"{method} wasn't answered"
            if said.get("id") == number:
                assert "error" not in said, said["error"]
                return dict(said["result"])

    def _send(self, method: str, session: str | None, params: Any) -> int:
        self._number += 1
        wanted = {"id": self._number, "method": method, "params": params}
        text = json.dumps({**wanted, **({"sessionId": session} if session else {})})
        os.write(self._write, text.encode() + b"\0")
        return self._number

    def _next(self, deadline: float) -> dict[str, Any] | None:
        """The next message; None where none comes until then."""
        while b"\0" not in self._held:
            if not select.select([self._read], [], [], max(0, deadline - time.monotonic()))[0]:
                return None
            piece = os.read(self._read, 1 << 20)
            assert piece, "Chromium ended"
            self._held += piece
        text, _, self._held = self._held.partition(b"\0")
        said: dict[str, Any] = json.loads(text)
        if "method" in said:
            self.events.append(said)
            if said["method"] == "Target.attachedToTarget":  # workers are looked at, too
                session = said["params"]["sessionId"]
                for method, params in (("Network.enable", {}), ("Runtime.enable", {}),
                                       ("Target.setAutoAttach", _ATTACH)):  # fmt: skip
                    self._send(method, session, params)
                self._send("Runtime.runIfWaitingForDebugger", session, {})
        return said

    def listen(self, seconds: float) -> None:
        """Takes what comes in that time."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self._next(deadline):
            pass

    @property
    def asked(self) -> list[str]:
        """The URLs that pages and workers asked for, over a network."""
        found = (e["params"] for e in self.events if e["method"] == "Network.requestWillBeSent")
        urls = (str(params["request"]["url"]) for params in found)
        return [url for url in urls if url.startswith(("http", "ws", "ftp"))]

    @property
    def troubles(self) -> list[str]:
        """Errors in consoles, and exceptions."""
        found = []
        for event in self.events:
            params = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(json.dumps(params["exceptionDetails"]))
            elif event["method"] == "Runtime.consoleAPICalled" and params["type"] == "error":
                found.append(" ".join(str(one.get("value", one)) for one in params["args"]))
            elif event["method"] == "Log.entryAdded" and params["entry"]["level"] == "error":
                found.append(params["entry"]["text"])  # what the page's policy forbids, too
        return found

    def page(self, url: str, width: int = 1400, height: int = 900, dark: bool = False) -> Page:
        """A page of that width, opened."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.listen(0.2)
        attached = (e["params"] for e in self.events if e["method"] == "Target.attachedToTarget")
        sessions = {p["targetInfo"]["targetId"]: p["sessionId"] for p in attached}
        page = Page(self, sessions[target])
        for domain in ("Page", "Log", "DOM", "CSS"):
            page.call(f"{domain}.enable")
        page.resize(width, height, dark)
        page.call("Page.navigate", url=url)
        return page

    def close(self) -> None:
        """Ends it, and what it started."""
        os.close(self._write)
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        os.close(self._read)


_ATTACH = {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True}


class Page:
    """A page of a browser."""

    def __init__(self, browser: Browser, session: str) -> None:
        self.browser, self._session = browser, session

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """As :meth:`Browser.call`, of this page."""
        return self.browser.call(method, self._session, **params)

    def resize(self, width: int, height: int, dark: bool = False) -> None:
        """Another width and height."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def open(
        self, file: Path, width: int = 1400, *, dark: bool = False, scripts: bool = True
    ) -> None:
        """Opens a file, and waits until it is loaded."""
        self.resize(width, 900, dark)
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        before = self._loads()
        self.call("Page.navigate", url=file.resolve().as_uri())
        deadline = time.monotonic() + 60
        while self._loads() == before:
            assert time.monotonic() < deadline, f"{file.name} wasn't loaded"
            self.browser.listen(0.02)

    def _loads(self) -> int:
        events = self.browser.events
        return sum(event["method"] == "Page.loadEventFired" for event in events)

    def evaluate(self, script: str) -> Any:
        """The value of an expression, which may be a promise."""
        asked = {"expression": script, "awaitPromise": True, "returnByValue": True}
        said = self.call("Runtime.evaluate", **asked)
        assert "exceptionDetails" not in said, said["exceptionDetails"]
        return said["result"].get("value")

    def wait(self, script: str, seconds: float = 60) -> Any:
        """The value of an expression, once it is true."""
        deadline = time.monotonic() + seconds
        while not (value := self.evaluate(script)):
            text = self.evaluate("document.body?.innerText")
            assert time.monotonic() < deadline, f"{script}: never true; {text}"
            self.browser.listen(0.05)
        return value

    def choose(self, selector: str, file: Path) -> None:
        """Chooses a file in an input."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=node, files=[str(file)])

    def press(self, key: str) -> None:
        """Presses a key: ``Tab``."""
        said = {"key": key, "code": key, "windowsVirtualKeyCode": {"Tab": 9}[key]}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, **said)

    def shows(self, selector: str) -> bool:
        """Whether the page has an element, and shows it; without scripts, too."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        style = self.call("CSS.getComputedStyleForNode", nodeId=node) if node else {}
        shown = {item["name"]: item["value"] for item in style.get("computedStyle", ())}
        return bool(node) and shown["display"] != "none"

    def overflow(self) -> int:
        """Pixels by which the page is wider than its window."""
        width = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        return int(self.evaluate(width))

    def picture(self, file: Path) -> None:
        """A screenshot of all of the page."""
        said = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(said["data"]))


@contextmanager
def browser(folder: Path, *flags: str) -> Iterator[Browser]:
    """A browser for as long as the block lasts, with flags of its own."""
    made = Browser(folder, *flags)
    try:
        yield made
    finally:
        made.close()
