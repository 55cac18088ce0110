"""The recipes that come with modelyard: a dry run of all of them, and what each makes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from converter.options.trust import code_in
from converter.plugins import available
from tests.acceptance.cli import command, modelyard
from tests.docs.running import ROOT
from zoo import catalogue
from zoo.recipe_page import Recipe, page, shipped

RECIPES = {recipe.name: recipe for recipe in shipped()}
LEFT_OUT = {"mindspore", "mindspore-serving", "torchscript"}
"""Targets, and a server, that no model of the zoo converts to with Modelyard alone."""


def can_run(recipe: Recipe) -> bool:
    """Whether this machine has what it needs; pages in a browser need npm."""
    return "web" not in recipe.values.get("serve", ()) or shutil.which("npm") is not None


def named(key: str) -> set[str]:
    """What all recipes say of an option that is a list."""
    return {value for recipe in RECIPES.values() for value in recipe.values.get(key, ())}


def test_each_model_target_and_server_has_one() -> None:
    assert {model for recipe in RECIPES.values() for model in recipe.models} == {
        *catalogue.entries()
    }
    assert named("to") == {*available("emitters")} - LEFT_OUT
    assert named("serve") == {*available("servers")} - LEFT_OUT
    assert named("deploy") == {*available("deployments")}


def test_the_page_is_up_to_date() -> None:
    assert (ROOT / "docs/ready-recipes.md").read_text("utf-8") == page()


def test_no_recipe_is_in_another_s_way() -> None:
    """Outputs are apart, and none names code, so that each runs without --trust-recipe."""
    outs = [recipe.values.get("out", f"build/{name}") for name, recipe in RECIPES.items()]
    assert len(outs) == len({*outs})
    assert not [name for name, recipe in RECIPES.items() if code_in(recipe.values)]


def test_a_dry_run_of_all(tmp_path: Path) -> None:
    names = [name for name, recipe in RECIPES.items() if can_run(recipe)]
    said = command("run", *names, "--dry-run", "--json", cwd=tmp_path, code=0).json["recipes"]
    assert [item["recipe"] for item in said] == names
    assert all(item["steps"] for item in said)
    assert not any(tmp_path.iterdir())


def test_a_recipe_can_be_swept(tmp_path: Path) -> None:
    axes = ("to=onnx,ort", "precision=fp32,fp16")
    said = command("sweep", "hear-alexa-ort", *axes, "--dry-run", cwd=tmp_path, code=0).out
    assert "ort-fp16" in said


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_it_makes_what_it_names(name: str, tmp_path: Path) -> None:
    recipe = RECIPES[name]
    if not can_run(recipe):
        pytest.skip("npm isn't installed")
    said = modelyard("run", name, "--no-bench", "--out", "out", "--json", cwd=tmp_path, code=0)
    report = json.loads(said.out)["report"]
    made = {(item["target"], item["precision"]) for item in report["artifacts"]}
    to, precisions = recipe.values["to"], recipe.values["precision"]
    assert made == {(target, precision) for target in to for precision in precisions}
    for server in recipe.values.get("serve", ()):
        assert any((tmp_path / "out/serving" / server).iterdir())
    for deployment in recipe.values.get("deploy", ()):
        assert any((tmp_path / "out/deploy" / deployment).iterdir())
