"""The package's page, README.md with its links made absolute, and constraints.txt, which install
lines name, inside of the package. All else is in pyproject.toml."""

import re
import tomllib
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).parent
PROJECT = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
REPOSITORY = PROJECT["urls"]["Repository"]


class Build(build_py):
    """Puts the tested versions into the package; an editable one has them beside it."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            self.copy_file("constraints.txt", str(Path(self.build_lib, "modelyard")))


def page() -> str:
    """README.md with links to files of the repository, and to pictures as they are."""
    text = (HERE / "README.md").read_text()
    text = re.sub(r"(!\[[^]]*\]\()(?!https?:)", rf"\1{REPOSITORY}/raw/main/", text)
    return re.sub(r"\]\((?!https?:|#)", f"]({REPOSITORY}/blob/main/", text)


setup(
    cmdclass={"build_py": Build},
    long_description=page(),
    long_description_content_type="text/markdown",
)
