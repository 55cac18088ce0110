"""A page in headless Chromium, over its DevTools protocol on a pipe (``--remote-debugging-pipe``).

https://chromedevtools.github.io/devtools-protocol
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
                None)  # fmt: skip

_PHONE = 700
"""Pixels of width below which the page is a phone's."""


class Browser:
    """A tab.

    Attributes:
        problems: What was written to the console as an error or a warning, exceptions, what the
            page's policy kept from it, and requests for anything but files.
    """

    def __init__(self, to: int, back: int) -> None:
        self._to, self._back, self._left = to, back, b""
        self._number = 0
        self._session: str | None = None
        self.problems: list[str] = []
        self._loaded = False
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network", "DOM", "CSS"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> Any:
        """Calls a method, and waits for its answer."""
        self._number += 1
        asked: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            asked["sessionId"] = self._session
        os.write(self._to, json.dumps(asked).encode() + b"\0")
        while True:
            told = self._next()
            if told.get("id") == self._number:
                assert "error" not in told, told["error"]
                return told["result"]

    def _next(self) -> Any:
        """The next message; what it says of the page is noted."""
        while b"\0" not in self._left:
            piece = os.read(self._back, 1 << 16)
            assert piece, "Chromium has ended"
            self._left += piece
        text, _, self._left = self._left.partition(b"\0")
        told = json.loads(text)
        method, params = told.get("method"), told.get("params", {})
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.problems.append(str(params["args"]))
        elif method == "Runtime.exceptionThrown":
            self.problems.append(str(params["exceptionDetails"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.problems.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            url = params["request"]["url"]
            if not url.startswith(("file:", "about:")):
                self.problems.append(url)
        return told

    def open(
        self, page: Path, width: int = 1400, *, dark: bool = False, scripts: bool = True
    ) -> None:
        """Opens a page, and waits until it is loaded."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900,
                  deviceScaleFactor=1, mobile=width < _PHONE)  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self._loaded = False
        self.call("Page.navigate", url=page.resolve().as_uri())
        while not self._loaded:
            self._next()

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        told = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def press(self, key: str) -> None:
        """Presses a key: ``Tab``, ``Enter``."""
        code = {"Tab": 9, "Enter": 13}[key]
        told = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        text = {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **told, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **told)

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
        return int(self.run(width))

    def shoot(self, path: Path) -> None:
        """A picture of the whole page."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))


@contextmanager
def browser() -> Iterator[Browser]:
    """A tab of a Chromium of its own, which ends with the block."""
    assert CHROMIUM is not None
    theirs, to = os.pipe()
    back, from_them = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        line = [
            CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
            "--remote-debugging-pipe", f"--user-data-dir={profile}",
        ]  # fmt: skip
        # the pipe's ends are 3 and 4 in Chromium, which only a shell can promise
        shell = f'exec "$@" 3<&{theirs} 4>&{from_them}'
        process = subprocess.Popen(
            ["bash", "-c", shell, "bash", *line], pass_fds=(theirs, from_them),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs)
        os.close(from_them)
        try:
            yield Browser(to, back)
        finally:
            os.close(to)
            os.close(back)
            process.terminate()
            process.wait(20)
