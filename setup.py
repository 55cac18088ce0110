"""The package's page: README.md with its links made absolute. All else is in pyproject.toml."""

import re
import tomllib
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).parent
PROJECT = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
FILES = f"{PROJECT['urls']['Repository']}/blob/main/"

setup(
    long_description=re.sub(r"\]\((?!https?:|#)", f"]({FILES}", (HERE / "README.md").read_text()),
    long_description_content_type="text/markdown",
)
