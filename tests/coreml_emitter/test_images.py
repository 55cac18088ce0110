"""Image inputs, and classifiers with names."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter.errors import UsageError
from converter.ir.model import Model
from converter.samples.images import ImagePlan
from emitters.coreml.declared import declared, read_description
from emitters.coreml.emitter import SWIFT, CoremlEmitter
from tests.coreml_emitter.running import agree, emitted, kinds, main_block, request, run_package
from tests.coreml_emitter.test_file import net
from tests.operators.cases import numbers, parsed

IMAGENET: dict[str, Any] = {
    "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225],
}  # fmt: skip


def pictures(model: Model, *, seed: int = 0, **options: Any) -> dict[str, Any]:
    """A picture's pixels, prepared as samples are: by the table that samples are made with."""
    (spec,) = model.inputs
    plan = ImagePlan((spec,), request(**options), {"h": 6, "w": 6})
    table = np.asarray(plan.options()["table"])
    sizes = spec.sized({"batch": 1, "h": 6, "w": 6})
    pixels = np.random.default_rng(seed).integers(0, 256, sizes)
    axis = (
        sizes.index(len(table)) if len(table) == 3 else (1 if plan.picture.layout == "CHW" else -1)
    )
    made = np.empty(sizes, np.float64)
    for channel in range(len(table)):
        place = [slice(None)] * len(sizes)
        place[axis] = slice(channel, channel + 1)
        made[tuple(place)] = table[channel][pixels[tuple(place)]]
    return {spec.name: made.astype(spec.dtype)}


def image_type(path: Path) -> Any:
    """The package's first input."""
    return read_description(path).input[0].type.imageType


def test_pixels_are_prepared_in_the_program(tmp_path: Path) -> None:
    """Scale and bias by channel, as the samples' own preparation has them."""
    options = {**IMAGENET, "coreml_images": ["x"]}
    agree(net(), pictures(net(), **IMAGENET), tmp_path, atol=1e-4, **options)
    path = tmp_path / "model.mlpackage"
    image = image_type(path)
    assert (image.height, image.width, image.colorSpace) == (8, 8, image.RGB)
    assert kinds(path)[:2] == ["mul", "add"]
    assert "x: CGImage" in (tmp_path / SWIFT).read_text()


def test_a_batch_goes_one_by_one(tmp_path: Path) -> None:
    """Core ML takes one image at a time; the session takes what the model does."""
    feeds = [pictures(net(), seed=seed)["x"] for seed in range(3)]
    agree(net(), {"x": np.concatenate(feeds)}, tmp_path, coreml_images=["x"], atol=1e-4)
    assert declared(read_description(tmp_path / "model.mlpackage").input)["x"].ranges[0] == (1, 1)


@pytest.mark.parametrize(("text", "options", "color"), [
    ("float[1, 6, 6, 3] x) => (float[1, 6, 6, 3]", IMAGENET, "RGB"),
    ("float[3, 6, 6] x) => (float[3, 6, 6]", {"image_color": "bgr"}, "BGR"),
    ("uint8[1, 3, 6, 6] x) => (uint8[1, 3, 6, 6]", {}, "RGB"),
    ("float[1, 1, 6, 6] x) => (float[1, 1, 6, 6]", {"image_scale": 0.5}, "GRAYSCALE"),
    ("float[batch, h, w, 3] x) => (float[batch, h, w, 3]", {"image_layout": "nhwc"}, "RGB"),
])  # fmt: skip
def test_layouts_colours_and_types(text: str, options: Any, color: str, tmp_path: Path) -> None:
    """Channels last, no batch, whole numbers, gray, free sizes."""
    model = parsed(f"g ({text} y) {{ y = Identity(x) }}")
    agree(model, pictures(model, **options), tmp_path, coreml_images=["x"], **options)
    image = image_type(tmp_path / "model.mlpackage")
    assert image.colorSpace == getattr(image, color)


def test_sizes_of_images_may_be_free(tmp_path: Path) -> None:
    """A range for each side, or a list."""
    model = parsed("g (float[batch, 3, h, w] x) => (float[batch, 3, h, w] y) { y = Relu(x) }")
    path = emitted(model, tmp_path, coreml_images=["x"], shapes=["x:1x3x4x4,1x3x6x6,1x3x9x8"])
    assert declared(read_description(path).input)["x"].ranges == ((1, 1), (3, 3), (4, 9), (4, 8))
    path = emitted(model, tmp_path, coreml_images=["x"], coreml_shapes=["x:1x3x6x6,1x3x4x8"])
    assert set(declared(read_description(path).input)["x"].listed) == {(1, 3, 6, 6), (1, 3, 4, 8)}


@pytest.mark.parametrize(("options", "said"), [
    ({"coreml_images": ["q"]}, "no such input"),
    ({"coreml_images": ["x"], "image_scale": 0.0}, "turns every image into zeros"),
    ({"coreml_images": ["x"], "image_color": "gray"}, "3 channels"),
    ({"coreml_images": ["x"], "fixed": True}, "one image at a time"),
    ({"coreml_classifier": True}, "needs the class names"),
])  # fmt: skip
def test_what_is_no_image_or_classifier_is_refused(options: Any, said: str) -> None:
    fixed = parsed("g (float[4, 3, 6, 6] x) => (float[4, 3, 6, 6] y) { y = Relu(x) }")
    model = fixed if options.pop("fixed", False) else net()
    with pytest.raises(UsageError, match=said):
        CoremlEmitter().unsupported(model, request(**options))


# -- classifiers -------------------------------------------------------------------------

NAMES = ["circle", "square", "triangle", "star", "ring"]


def classify_of(path: Path) -> tuple[list[str], str, list[str]]:
    """The names of the classes, what their scores are, and the program's outputs."""
    block = main_block(path)
    by_type = {op.type: op for op in block.operations}
    made, copied = by_type["classify"], by_type.get("identity") or by_type["softmax"]
    assert made.inputs["probabilities"].arguments[0].name == copied.outputs[0].name
    values = made.inputs["classes"].arguments[0].value.immediateValue.list.values
    names = [item.immediateValue.tensor.strings.values[0] for item in values]
    return names, copied.inputs["x"].arguments[0].name, list(block.outputs)


def test_classes_have_names(tmp_path: Path) -> None:
    """The name of the class and scores by name, and the scores themselves as before."""
    model = net()
    model.describe("scores", labels=NAMES)
    agree(model, {"x": numbers(1, 3, 8, 8)}, tmp_path, coreml_classifier=True)
    path = tmp_path / "model.mlpackage"
    told = read_description(path)
    assert told.predictedFeatureName == "classLabel"
    assert told.predictedProbabilitiesName == "classLabel_probs"
    assert {feature.name for feature in told.output} == {"classLabel", "classLabel_probs", "scores"}
    names, scores, outputs = classify_of(path)
    assert (names, scores) == (NAMES, "scores")
    assert set(outputs) == {"classLabel", "classLabel_probs", "scores"}
    swift = (tmp_path / SWIFT).read_text()
    assert "(classLabel: String, classLabelProbs: [AnyHashable: NSNumber], scores: " in swift


def test_logits_get_a_softmax_for_the_classifier(tmp_path: Path) -> None:
    """Their scores stay as they are; probabilities are copied."""
    for text, op in (("scores = Identity(x)", "softmax"), ("scores = Softmax(x)", "identity")):
        graph = f"g (float[batch, 5] x) => (float[batch, 5] scores) {{ {text} }}"
        model = parsed(graph)
        model.describe("scores", labels=NAMES)
        folder = tmp_path / op
        folder.mkdir()
        path = emitted(model, folder, coreml_classifier=True)
        (made,) = (item for item in main_block(path).operations if item.type == "classify")
        scores = made.inputs["probabilities"].arguments[0].name
        (maker,) = (i for i in main_block(path).operations if i.outputs[0].name == scores)
        assert maker.type == op


def test_names_from_a_file(tmp_path: Path) -> None:
    """Where no samples brought them; a batch of several gives no one class."""
    names = tmp_path / "names.txt"
    names.write_text("\n".join(NAMES))
    path = emitted(net(), tmp_path, coreml_classifier=True, label_names=str(names))
    assert run_package(path, {"x": numbers(2, 3, 8, 8)})["scores"].shape == (2, 5)
    assert declared(read_description(path).input)["x"].ranges[0] == (1, 1)


def test_classes_of_one_name_are_told_apart(tmp_path: Path) -> None:
    """Scores by name would lose one of them."""
    model = net()
    model.describe("scores", labels=["crane", "ring", "crane", "star", "sun"])
    path = emitted(model, tmp_path, coreml_classifier=True)
    assert classify_of(path)[0] == ["crane (0)", "ring", "crane (2)", "star", "sun"]
