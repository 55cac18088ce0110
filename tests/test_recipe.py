"""Requests and recipes: types, unknown keys, paths."""

from pathlib import Path

import pytest

from converter.errors import UsageError
from converter.options.recipe import find_recipe, load_recipe, make_request
from converter.options.request import all_fields, option_of


@pytest.mark.parametrize(("values", "says"), [
    ({"source": "a", "precison": ["fp32"]}, "did you mean precision?"),
    ({"source": "a", "max_batch": "many"}, "max_batch"),
    ({"to": ["onnx"]}, "source: missing"),
    ({"source": "a", "image_crop": "middle"}, "center, none"),
    ({"source": "a", "dims": {"n": "x"}}, "dims.n"),
])  # fmt: skip
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
    (tmp_path / "acc.py").touch()
    recipe = tmp_path / "r.yaml"
    recipe.write_text(
        "source: net.py:Net\nsamples: photos\nweights: missing.pth\nout: build/x\n"
        "metric: top1,acc.py:f1\ncalibration-samples: photos\n"
    )
    values = load_recipe(recipe)
    assert values == {
        "source": f"{tmp_path}/net.py:Net",
        "samples": f"{tmp_path}/photos",
        "weights": "missing.pth",
        "out": "build/x",
        "metric": ["top1", f"{tmp_path}/acc.py:f1"],
        "calibration_samples": f"{tmp_path}/photos",
    }


@pytest.mark.parametrize("text", ["a: [", "- a\n- b\n", "", "1: 2", "!!python/object:os.system x"])
def test_what_is_not_a_recipe_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "r.yaml").write_text(text)
    with pytest.raises(UsageError):
        load_recipe(tmp_path / "r.yaml")


@pytest.mark.parametrize(("text", "field", "value"), [
    ("to: onnx,tflite", "to", ["onnx", "tflite"]),
    ("precision: int8", "precision", ["int8"]),
    ("input: x:1x3x4x4", "inputs", ["x:1x3x4x4"]),
    ("inputs: [x:1x3x4x4, 'm:int64:1x4']", "inputs", ["x:1x3x4x4", "m:int64:1x4"]),
    ("bench-batch: 1,8", "bench_batches", [1, 8]),
    ("bench_batch: 4", "bench_batches", [4]),
    ("bench-batches: [1, 8]", "bench_batches", [1, 8]),
    ("image-mean: 0.5,0.5,0.5", "image_mean", [0.5, 0.5, 0.5]),
    ("image-mean: imagenet", "image_mean", [0.485, 0.456, 0.406]),
    ("image-std: [half]", "image_std", [0.5]),
    ("dim: seq=16", "dims", {"seq": 16}),
    ("dim: [seq=16, high=8]", "dims", {"seq": 16, "high": 8}),
    ("dims: {seq: 16}", "dims", {"seq": 16}),
    ("metadata: {version: 1.5}", "metadata", {"version": "1.5"}),
    ("batch: 4", "batch", "4"),
    ("image-size: 224", "image_size", "224"),
    ("compute-capability: 8.6", "compute_capabilities", ["8.6"]),
    ("no-bench: true", "bench", False),
    ("--no-check: true", "check", False),
    ("skip-pass: onnxsim", "skip_passes", ["onnxsim"]),
    ("arg: [10, depth=3]", "args", [10, "depth=3"]),
    ("arg: 10", "args", [10]),
])  # fmt: skip
def test_options_as_in_commands(tmp_path: Path, text: str, field: str, value: object) -> None:
    (tmp_path / "r.yaml").write_text(f"source: net.py\n{text}\n")
    assert make_request(load_recipe(tmp_path / "r.yaml")).value(field) == value


@pytest.mark.parametrize(("text", "says"), [
    ("bench-batch: many", "bench-batch.0: "),
    ("image-crop: middle", "image-crop: 'middle' isn't one of center, none"),
    ("bench-bach: 1", "bench-bach: no such key; did you mean bench-batch?"),
    ("input: x:1\ninputs: [x:2]", "input and inputs, which are the same option"),
    ("dim: seq", "dim: "),
    ("no-bench: maybe", "no-bench: "),
])  # fmt: skip
def test_an_error_names_the_key_as_it_was_written(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "r.yaml").write_text(f"source: net.py\n{text}\n")
    with pytest.raises(UsageError) as refusal:
        load_recipe(tmp_path / "r.yaml")
    assert says in str(refusal.value)
    assert "r.yaml" in str(refusal.value)


def test_every_name_means_one_option_which_has_help() -> None:
    """A field is never called like another's flag."""
    found: dict[str, str] = {}
    for item in all_fields():
        option = option_of(item.name) if "option" in item.metadata else None
        flags = option.flags if option else ()
        names = [name.removeprefix("--") for flag in flags for name in flag.split("/")]
        for name in {item.name.replace("_", "-"), *names}:
            assert found.setdefault(name, item.name) == item.name
        assert option is None or (option.help.endswith(".") and option.group)


def test_recipes_that_come_along_are_right_and_found_by_name() -> None:
    path = find_recipe("efficientnet-lite0-triton")
    for recipe in path.parent.glob("*.yaml"):
        values = load_recipe(recipe)
        parts = values.pop("parts", {"": {}})
        for own in parts.values():
            make_request({**values, **own})
    with pytest.raises(UsageError, match="efficientnet-lite0-triton"):
        find_recipe("nothing")


def test_the_page_of_options_is_up_to_date() -> None:
    from converter.cli.reference import options_page

    page = Path(__file__).parent.parent / "docs" / "options.md"
    assert page.read_text() == options_page()
