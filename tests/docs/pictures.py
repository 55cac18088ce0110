"""``python -m tests.docs.pictures``: the pictures of README.md, in docs/pictures.

Carries out one conversion. ``terminal.svg`` is what it shows, ``report.png`` the top of its report
in Chromium.
"""

from __future__ import annotations

import base64
import io
import os
import re
import shlex
import subprocess
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tests.acceptance.cli import COMMAND
from tests.browser import browser
from tests.docs.running import ROOT

FOLDER = ROOT / "docs" / "pictures"
LINE = (
    "modelyard convert zoo:ccexam-mnist --to onnx,tflite --precision fp32,int8"
    " --serve triton --out build/digits"
)
_COLUMNS = 100
_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""Rich's own, which are fetched from a third host."""


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        line = [COMMAND, *shlex.split(LINE)[1:]]
        shown = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(_COLUMNS)}
        done = subprocess.run(line, cwd=folder, env=shown, capture_output=True, check=True)
        (FOLDER / "terminal.svg").write_text(terminal(done.stdout.decode()), encoding="utf-8")
        with browser(folder / "browser") as chromium:
            page = chromium.page("about:blank")
            page.open(folder / "build/digits/report.html", width=1100)
            area = {"x": 0, "y": 0, "width": 1100, "height": 800, "scale": 1}
            said = page.call("Page.captureScreenshot", clip=area)
            (FOLDER / "report.png").write_bytes(base64.b64decode(said["data"]))


def terminal(said: str) -> str:
    """A drawing of a terminal that shows the line, and what it says."""
    console = Console(record=True, width=_COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text(f"$ {LINE}", "bold"))
    console.print(Text.from_ansi(said), end="")
    return _FONTS.sub("", console.export_svg(title="modelyard", unique_id="terminal"))


if __name__ == "__main__":
    main()
