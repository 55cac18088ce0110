"""docs/prepare.md: every recipe in it is read, its kinds are all there are, its limits hold."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from converter.errors import UsageError
from converter.options.recipe import load_recipe, make_request
from converter.options.request import Request
from converter.preparation import stages
from converter.preparation.declared import Limits
from converter.preparation.written import ANSWER, PREPARE, require_written

TEXT = (Path(__file__).parents[1] / "docs/prepare.md").read_text(encoding="utf-8")
RECIPES = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)


def read(text: str, folder: Path) -> Request:
    (folder / "r.yaml").write_text(text, encoding="utf-8")
    values: dict[str, Any] = load_recipe(folder / "r.yaml")
    return make_request(values)


@pytest.mark.parametrize("text", RECIPES, ids=lambda text: text.split("\n")[0][8:])
def test_a_recipe_of_the_page_is_right(text: str, tmp_path: Path) -> None:
    request = read(text, tmp_path)
    assert request.preparation or request.answer
    require_written(request.preparation, request.answer)
    for item in (*request.preparation, *request.answer):  # nothing that is needed is left out
        side = PREPARE if item in request.preparation else ANSWER
        sole = {"input": "x", "output": "y", "layout": "CHW", "color": "rgb", "shape": (1,)}
        known = {
            key: value for key, value in sole.items() if key in side[item["kind"]].model_fields
        }
        side[item["kind"]].model_validate({**known, **item})


def test_each_kind_has_its_recipe(tmp_path: Path) -> None:
    requests = [read(text, tmp_path) for text in RECIPES]
    kinds = {item["kind"] for request in requests for item in request.preparation}
    assert kinds == {*PREPARE} - {"text"}  # which a tokenizer alone says
    assert {item["kind"] for request in requests for item in request.answer} == {*ANSWER}


def test_a_typing_error_would_be_found(tmp_path: Path) -> None:
    request = read(RECIPES[0].replace("interpolation", "interpolate"), tmp_path)
    with pytest.raises(UsageError, match="picture") as caught:
        require_written(request.preparation, request.answer)
    assert "did you mean interpolation?" in str(caught.value)


def test_limits_are_those_of_the_code() -> None:
    limits = Limits()
    words = " ".join(TEXT.split())
    for said in (f"{stages.MOST_PIXELS:,} pixels", f"{limits.bytes >> 20} MiB",
                 f"{limits.pixels // 1_000_000} million pixels", f"{limits.letters:,} letters",
                 f"{limits.rows:,} rows"):  # fmt: skip
        assert said in words
    assert limits.seconds == 3600 and "an hour of sound" in words
