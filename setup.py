"""The package's page, README.md with its links made absolute, and constraints.txt, which install
lines name, inside of the package. All else is in pyproject.toml."""

import re
import tomllib
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).parent
PROJECT = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
FILES = f"{PROJECT['urls']['Repository']}/blob/main/"


class Build(build_py):
    """Puts the tested versions into the package; an editable one has them beside it."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            self.copy_file("constraints.txt", str(Path(self.build_lib, "modelyard")))


setup(
    cmdclass={"build_py": Build},
    long_description=re.sub(r"\]\((?!https?:|#)", f"]({FILES}", (HERE / "README.md").read_text()),
    long_description_content_type="text/markdown",
)
