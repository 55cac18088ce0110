"""Models that are joined: from a picture to what is in each of its boxes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image, ImageDraw, ImageFont

import modelyard
import recipes
from converter.check.agreements import agreements
from tests.acceptance.cli import typed, written
from tests.acceptance.test_prepare import detector
from zoo import catalogue

COLORS = """g (float[batch, 3, 8, 8] x) => (float[batch, 3] y) {
    m = GlobalAveragePool(x) y = Flatten(m) }"""
RECIPE = """
bench: false
parts:
  find:
    source: net.onnx
    samples: photos
    prepare: {kind: picture, fill: 114}
    answer: {kind: boxes, output: boxes, transposed: true, scores: scores, format: cxcywh,
             labels: [cat, dog], iou: 0.5}
  color:
    source: color.onnx
    prepare: {kind: picture}
    answer: {kind: classes, output: y, labels: [red, green, blue], top: 1}
flow:
  - find
  - {part: color, each: find.boxes, name: paint}
"""


@pytest.fixture
def made(tmp_path: Path) -> Path:
    flow_files(tmp_path)
    return tmp_path


def flow_files(tmp_path: Path) -> None:
    """What finds two boxes, what says the colour of a picture, and a page."""
    detector(tmp_path / "net.onnx")
    written(tmp_path / "color.onnx", COLORS)
    picture = np.zeros((100, 200, 3), np.uint8)
    picture[:, :100, 0] = 200  # where the first box is
    picture[37:63, 137:163, 2] = 200  # and the second
    (tmp_path / "photos").mkdir()
    for file in ("page.png", "photos/page.png"):
        Image.fromarray(picture).save(tmp_path / file)
    (tmp_path / "r.yaml").write_text(RECIPE)


@pytest.mark.parametrize("target", ["onnx", "tflite"])
def test_each_box_is_cut_out_and_asked_about(made: Path, target: str) -> None:
    (made / "r.yaml").write_text(f"to: {target}\n{RECIPE}")
    typed("run r.yaml --out out", made)
    report = json.loads((made / "out/report.json").read_text())
    gates = [{gate["name"]: gate["why"] for gate in item["gates"]} for item in report["artifacts"]]
    assert len(gates) == 2
    for gate in gates:
        assert gate["flow"] == "2 of 2 answers to 1 file are those of the sources"
    with modelyard.load(made / "out") as flow:
        told = flow(made / "page.png")
        first, second = told["find"]["boxes"]
        assert (first["label"], first["paint"]["classes"][0]["label"]) == ("cat", "red")
        assert (second["label"], second["paint"]["classes"][0]["label"]) == ("dog", "blue")
        assert flow([(made / "page.png").read_bytes()]) == [told]
        with pytest.raises(modelyard.UsageError, match="can't be read"):
            flow(b"no picture")
    with modelyard.load(made / "out/color") as color:
        assert color(made / "page.png").label == "red"


def test_a_step_may_be_for_some_boxes_alone(made: Path) -> None:
    recipe = RECIPE.replace("name: paint}", "name: paint, when: {sort: red}}")
    recipe = recipe.replace("- find\n", "- find\n  - {part: color, each: find.boxes, name: sort}\n")
    (made / "r.yaml").write_text(recipe)
    typed("run r.yaml --out out", made)
    with modelyard.load(made / "out") as flow:
        first, second = flow(made / "page.png")["find"]["boxes"]
    assert "paint" in first and "paint" not in second and "sort" in second
    page = (made / "out/report.html").read_text()
    told = "find, then sort (color) for each of find.boxes, then paint (color) for each of"
    assert f"{told} find.boxes where sort is red" in page


@pytest.mark.parametrize(("flow", "told"), [
    ("[find, {part: colour, each: find.boxes}]", "step 2: there is no part colour"),
    ("[{part: color, each: find.boxes}, find]",
     "r.yaml, line 14, step 1: it needs find, which is a later step"),
    ("[find, {part: color, each: color.boxes}]", "step 2: it needs color, which is itself"),
    ("[find, {part: color, each: find.classes}]", "it is one of find.boxes"),
    ("[find, find, color]", "an earlier step is called find, too"),
    ("[find]", "no step has the part color"),
    ("\n  - find\n  - part: color\n    when: {color: red}", "line 16, step 2: it needs color"),
    ("[find, {part: color, when: {paint: red}}]", "when names paint, which isn't an earlier step"),
    ("[find, {part: color, every: find.boxes}]", "every: Extra inputs are not permitted"),
    ("[find, {part: color, when: {find: {most: 1}}}]", "Extra inputs are not permitted"),
    ("[find, {part: color, when: {find: {}}}]", "give a label, above or below"),
    ("[color, {part: find, each: color.boxes}]",
     "line 14, step 2: each is color.boxes, and color gives classes: write its answer"),
    ("[color, {part: find, each: color.segments}]", "segments are cut out of a sound"),
    ("[color, {part: find, when: {color: mauve}}]", "when asks for mauve, and color has no such"),
    ("[find, {part: color, when: {find: cat}}]", "when asks for a class of find, which gives"),
    ("[find, {part: color, when: {find: {above: 3}}}]", "a score or number of find, which gives"),
    ("[find, {part: color, each: find.boxes, when: {find: cow}}]", "find has no such class"),
])  # fmt: skip
def test_a_flow_that_is_wrong_is_refused_before_anything_runs(
    made: Path, flow: str, told: str
) -> None:
    recipe = RECIPE[: RECIPE.index("flow:")] + f"flow: {flow}\n"
    (made / "r.yaml").write_text(recipe)
    assert told in " ".join(typed("run r.yaml --dry-run", made, code=2).err.split())


def test_a_part_that_takes_something_else_is_refused_with_file_and_line(made: Path) -> None:
    """What a recipe says is looked at first; what models' files say, before one is converted."""
    sound = "prepare: {kind: sound, rate: 8000, input: x, length: 64}"
    text, step = "prepare: {kind: text}", "{part: color, each: find.boxes}"
    for kind, each, told in (
        (sound, step, "boxes are cut out of a picture, and color takes a sound"),
        (text, step, "boxes are cut out of a picture, and color takes a text"),
        (sound, "color", "color takes a sound, and the file is a picture"),
    ):
        other = RECIPE.replace("prepare: {kind: picture}", kind)
        recipe = other[: other.index("flow:")] + f"flow:\n  - find\n  - {each}\n"
        (made / "r.yaml").write_text(recipe)
        said = typed("run r.yaml --dry-run", made, code=2).err
        assert f"r.yaml, line 16, step 2: {told}" in " ".join(said.split())
    (made / "r.yaml").write_text(RECIPE.replace("    prepare: {kind: picture}\n", ""))
    said = typed("run r.yaml --out out", made, code=2).err
    told = (
        "r.yaml, line 15, step 2: there is no description of how a file becomes the input of color"
    )
    assert told in " ".join(said.split()) and not (made / "out").exists()


def test_steps_hang_on_classes_scores_and_numbers(made: Path) -> None:
    """A classifier behind a detector, asked about cats alone; what it says is asked of, too."""
    sort = "{part: color, each: find.boxes, when: {find: cat}, name: cats}"
    sure = "{part: color, each: find.boxes, when: {find: {above: 0.5}}, name: sure}"
    weak = "{part: color, each: find.boxes, when: {find: {label: dog, below: 0.5}}, name: weak}"
    red = "{part: color, each: find.boxes, when: {cats: {label: red, above: 0.1}}, name: red}"
    size = "{part: size, each: find.boxes, when: {cats: red}}"
    far = "{part: color, each: find.boxes, when: {size: {below: 0.7}}, name: never}"
    near = "{part: color, each: find.boxes, when: {size: {number: red, above: 0.1}}, name: near}"
    more = (
        "  size:\n    source: color.onnx\n    prepare: {kind: picture}\n    answer: {kind: numbers,"
    )
    recipe = (
        RECIPE[: RECIPE.index("flow:")] + more + " output: y, names: [red, green, blue]}\nflow:\n"
    )
    steps = ("find", sort, sure, weak, red, size, far, near)
    (made / "r.yaml").write_text(recipe + "".join(f"  - {step}\n" for step in steps))
    typed("run r.yaml --out out", made)
    with modelyard.load(made / "out") as flow:
        cat, dog = flow(made / "page.png")["find"]["boxes"]
    assert {"cats", "sure", "red", "size", "near"} <= {*cat} and not {"weak", "never"} & {*cat}
    assert ("weak" in dog) == (dog["score"] < 0.5) != ("sure" in dog)
    assert not {"cats", "red", "size", "near"} & {*dog}
    page = (made / "out/report.html").read_text()
    assert "where find is dog below 0.5" in page and "size is red above 0.1" in page


def test_parts_that_nothing_joins_are_loaded_by_name(made: Path) -> None:
    (made / "r.yaml").write_text(RECIPE[: RECIPE.index("flow:")])
    typed("run r.yaml --out out", made)
    with pytest.raises(modelyard.UsageError, match="no flow joins them"):
        modelyard.load(made / "out")
    said = typed("convert net.onnx --out one --no-bench", made)
    (made / "r.yaml").write_text("source: net.onnx\nflow: [net]\n")
    assert "a flow joins parts" in typed("run r.yaml", made, code=2).err and said


@pytest.mark.slow
def test_a_rendered_page_is_read(tmp_path: Path) -> None:
    """By PP-OCRv4's detector and recognizer, as the recipe that comes along joins them."""
    lines = [(40, 30, "Modelyard converts models"), (40, 110, "once and checks them"),
             (60, 190, "INVOICE 2026-11-27"), (40, 260, "thank you")]  # fmt: skip
    page = Image.new("RGB", (640, 320), "white")
    font = ImageFont.load_default(28)
    for x, y, text in lines:
        ImageDraw.Draw(page).text((x, y), text, fill="black", font=font)
    page.save(tmp_path / "page.png")
    typed("convert zoo:pp-ocrv4-read --to onnx --out out", tmp_path)
    with modelyard.load(tmp_path / "out") as flow:
        found = flow(tmp_path / "page.png")["detect"]["boxes"]
    read = [box["read"]["text"].replace(" ", "") for box in found]  # a narrow space may be missed
    assert read == [text.replace(" ", "") for _, _, text in lines]
    for box, (x, y, _) in zip(found, lines, strict=True):
        left, top, right, bottom = box["box"]
        assert left <= x + 8 and top <= y + 14 <= bottom and right > x + 100


@pytest.mark.parametrize(("line", "told"), [
    ("convert zoo:pp-ocrv4-read --image-size 64x64", "image-size can't be given for several"),
    ("convert zoo:pp-ocrv4-read --samples photos", "detect (zoo:pp-ocrv4-det) and read"),
    ("inspect zoo:pp-ocrv4-read", "is 2 models, and the command needs one: detect"),
])  # fmt: skip
def test_what_can_t_be_said_of_several_models(made: Path, line: str, told: str) -> None:
    assert told in " ".join(typed(line, made, code=2).err.split())


def test_the_zoo_has_several_models_that_a_recipe_joins(tmp_path: Path) -> None:
    """Its entry names the recipe's own sources, and converting it is carrying that out."""
    entry = catalogue.joined()["pp-ocrv4-read"]
    recipe = yaml.safe_load((Path(recipes.__file__).parent / f"{entry.recipe}.yaml").read_text())
    sources = {part: said["source"] for part, said in recipe["parts"].items()}
    assert sources == {part: f"zoo:{name}" for part, name in entry.parts.items()}
    for name in entry.parts.values():
        model = catalogue.entries()[name]
        assert (model.framework, model.licence) == (entry.framework, entry.licence)
    listed = typed("zoo list --json", tmp_path).json["pp-ocrv4-read"]
    assert listed["parts"] == entry.parts
    assert "modelyard run pp-ocrv4-read" in typed("zoo show pp-ocrv4-read", tmp_path).out
    said = typed("convert zoo:pp-ocrv4-read --to onnx --name page --dry-run --json", tmp_path).json
    run = typed("run pp-ocrv4-read --dry-run --json", tmp_path).json
    assert said["name"] == "page" and run["name"] == "pp-ocrv4-read"
    assert {step["id"].split("/")[0] for step in said["steps"]} == {"detect", "read"}
    assert len(said["steps"]) == len(run["steps"])
    assert set(typed("zoo fetch pp-ocrv4-read --json", tmp_path).json) == set(entry.parts.values())


def test_what_only_the_whole_shows_is_a_missed_gate(made: Path) -> None:
    """In float16 a tiny box lies elsewhere: cosine 1, and another picture for the next part."""
    detector(made / "net.onnx", first=(62.015, 32.015, 0.05, 0.05))
    (made / "r.yaml").write_text(f"precision: fp16\nfew-samples: true\n{RECIPE}")
    said = typed("run r.yaml --out out", made, code=4).err
    assert "flow: 0.3333, limit 0.999; 1 of 3 answers to 1 file are those of the sources" in said
    assert "cosine:" not in said and not (made / "out").exists()


def test_with_keep_going_a_flow_is_given_in_the_precisions_that_keep_their_gates(
    made: Path,
) -> None:
    detector(made / "net.onnx", first=(62.015, 32.015, 0.05, 0.05))
    options = "precision: fp32,fp16\nkeep-going: true\nfew-samples: true"
    asked = "name: page\nserve: triton,litserve\nprepare: server"
    (made / "r.yaml").write_text(f"{options}\n{asked}\n{RECIPE}")
    said = typed("run r.yaml --out out", made, code=4)
    given = {item.name for item in (made / "out/serving/triton").iterdir()}
    asked_too = {"find_fp32_model", "color_fp32_model"}  # and none of float16
    assert given == {"find_fp32", "color_fp32", "page_fp32", *asked_too}, said.err
    packages = json.loads((made / "out/manifest.json").read_text())["packages"]
    assert [item["path"] for item in packages if not item["part"]] == [
        "serving/triton/page_fp32", "serving/litserve/page_fp32"]  # fmt: skip
    beside = {item.name for item in (made / "out/serving/litserve").iterdir()}
    assert beside == {"find_fp32", "color_fp32", "page_fp32"}


def test_answers_that_agree() -> None:
    box = {"box": [0, 0, 10, 10], "score": 0.9, "read": {"text": "a", "score": 0.8}}
    near = {"box": [0, 0.2, 10, 10], "score": 0.89, "read": {"text": "a", "score": 0.5}}
    other = {**box, "read": {"text": "b", "score": 0.8}}
    far = {**box, "box": [3, 0, 13, 10]}
    for found, right in ((near, [True]), (other, [False, False]), (far, [False, False])):
        assert list(agreements({"boxes": [found]}, {"boxes": [box]})) == right
    assert list(agreements({"boxes": []}, {"boxes": [box]})) == [False]
    classes = [{"index": 1, "score": 0.5}, {"index": 0, "score": 0.4}]
    told = {"sort": {"classes": classes}, "text": "x"}
    assert list(agreements(told, told)) == [True, True]
    assert list(agreements({"sort": {"classes": classes[::-1]}}, told)) == [False, False]


def test_numbers_agree_as_far_as_scores_do() -> None:
    said = {"speech": {"rate": 2, "values": [0.5, 1.0]}, "numbers": {"kg": 7.0}, "vector": [1, 2]}
    near = {"speech": {"rate": 2, "values": [0.51, 1.0]}, "numbers": {"kg": 7.1}, "vector": [1, 2]}
    far = {"speech": {"rate": 2, "values": [0.53, 1.0]}, "numbers": {"kg": 7.2}, "vector": [1]}
    assert all(agreements(near, said)) and list(agreements(far, said)) == [True, *[False] * 3]
    assert list(agreements({"speech": {"rate": "2"}}, said)).count(False) == 4
    segment = {"segments": [{"start": 1.0, "end": 2.0, "score": 0.9}]}
    for start, same in ((1.05, True), (1.2, False)):
        found = {"segments": [{"start": start, "end": 2.0, "score": 0.9}]}
        assert all(agreements(found, segment)) == same


def test_a_manifest_that_says_no_flow(made: Path) -> None:
    typed("run r.yaml --out out", made)
    file = made / "out/manifest.json"
    for said in ('"flow": 3', '"flow": [{"part": "../find"}]', '"flow": [[]]'):
        text = json.dumps({**json.loads(file.read_text()), "flow": []})
        file.write_text(text.replace('"flow": []', said))
        with pytest.raises(modelyard.UsageError, match="has a flow that isn't right"):
            modelyard.load(made / "out")
