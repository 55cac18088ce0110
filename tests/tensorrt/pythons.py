"""The oldest Python that ``build_engine.py`` promises to run in, where one is found."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest


def oldest_python() -> str:
    """A Python 3.9, on PATH or among pyenv's; the test is skipped without one."""
    versions = sorted((Path.home() / ".pyenv" / "versions").glob("3.9.*"))
    for found in (shutil.which("python3.9"), *(str(item / "bin" / "python") for item in versions)):
        if found and os.access(found, os.X_OK):
            answer = subprocess.run([found, "-V"], capture_output=True, text=True, check=False)
            if "3.9." in answer.stdout:
                return found
    pytest.skip("there is no Python 3.9 on PATH or among pyenv's")
