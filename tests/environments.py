"""Environments for a test: what is installed here, and a distribution of the test's on top."""

import subprocess
import sys
import venv
from pathlib import Path


def installed(source: Path, environment: Path) -> Path:
    """The Python of a new environment with ``source`` in it, beside all that is installed here."""
    venv.create(environment)
    (ours,) = (environment / "lib").glob("python*/site-packages")
    here = [path for path in sys.path if Path(path).name == "site-packages"]
    lines = [f"import site; site.addsitedir({path!r})\n" for path in here]  # with their .pth files
    (ours / "here.pth").write_text("".join(lines))
    python = environment / "bin/python"
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-index")
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", source], check=True)
    return python
