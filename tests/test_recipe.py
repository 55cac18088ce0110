"""Requests and recipes: types, unknown keys, paths."""

from dataclasses import fields
from pathlib import Path

import pytest

from converter.errors import UsageError
from converter.recipe import find_recipe, load_recipe, make_request
from converter.request import Request, option_of


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"source": "a", "precison": ["fp32"]}, "did you mean precision?"),
        ({"source": "a", "max_batch": "many"}, "max_batch"),
        ({"to": ["onnx"]}, "source: missing"),
        ({"source": "a", "image_crop": "middle"}, "center, none"),
        ({"source": "a", "dims": {"n": "x"}}, "dims.n"),
    ],
)
def test_a_wrong_request_names_the_field(values: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError) as refusal:
        make_request(values)
    assert says in str(refusal.value)
    assert refusal.value.exit_code == 2


def test_lists_are_not_shared_between_requests() -> None:
    make_request({"source": "a"}).to.append("tflite")
    assert make_request({"source": "a"}).to == ["onnx"]


def test_paths_are_relative_to_the_recipe(tmp_path: Path) -> None:
    (tmp_path / "net.py").touch()
    (tmp_path / "photos").mkdir()
    recipe = tmp_path / "r.yaml"
    recipe.write_text("source: net.py:Net\nsamples: photos\nweights: missing.pth\nout: build/x\n")
    values = load_recipe(recipe)
    assert values["source"] == f"{tmp_path}/net.py:Net"
    assert values["samples"] == f"{tmp_path}/photos"
    assert values["weights"] == "missing.pth"
    assert values["out"] == "build/x"


@pytest.mark.parametrize("text", ["a: [", "- a\n- b\n", "", "1: 2", "!!python/object:os.system x"])
def test_what_is_not_a_recipe_is_refused(tmp_path: Path, text: str) -> None:
    recipe = tmp_path / "r.yaml"
    recipe.write_text(text)
    with pytest.raises(UsageError):
        load_recipe(recipe)


def test_recipes_that_come_along_are_right_and_found_by_name() -> None:
    path = find_recipe("efficientnet-lite0-triton")
    for recipe in path.parent.glob("*.yaml"):
        make_request(load_recipe(recipe))
    with pytest.raises(UsageError, match="efficientnet-lite0-triton"):
        find_recipe("nothing")


def test_every_option_has_help_and_flags_that_no_other_has() -> None:
    options = [option_of(item.name) for item in fields(Request) if "option" in item.metadata]
    flags = [flag for option in options for flag in option.flags]
    assert len(flags) == len(set(flags))
    assert all(option.help.endswith(".") and option.group for option in options)


def test_the_page_of_options_is_up_to_date() -> None:
    from converter.cli.reference import options_page

    page = Path(__file__).parent.parent / "docs" / "options.md"
    assert page.read_text() == options_page()
