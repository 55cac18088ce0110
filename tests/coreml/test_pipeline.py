"""Core ML pipelines: their models become one graph, joined by the names of features."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import modelyard
from converter.errors import ModelError, UnsupportedError
from modelyard.containers.coreml import coremltools
from parsers.coreml.importer import read
from tests.acceptance.cli import typed
from tests.coreml.running import run, write

RNG = np.random.default_rng(0)


def program(folder: Path, body: Callable[..., Any], names: list[str], **inputs: Any) -> Any:
    """coremltools' model of a program whose outputs have these names."""
    folder.mkdir(parents=True, exist_ok=True)
    ct = coremltools()
    path = write(folder, body, inputs)
    spec = ct.models.MLModel(str(path), skip_model_load=True).get_spec()
    for old, new in zip([item.name for item in spec.description.output], names, strict=True):
        ct.utils.rename_feature(spec, old, new)
    weights = path / "Data/com.apple.CoreML/weights"
    return ct.models.MLModel(spec, weights_dir=str(weights), skip_model_load=True)


def small(fill: Callable[[Any], None], inputs: dict[str, Any], outputs: list[str]) -> Any:
    """A model's message: its inputs by name, with their sizes (() for a number)."""
    coremltools()
    from coremltools.proto import Model_pb2

    spec = Model_pb2.Model(specificationVersion=4)
    for name, shape in inputs.items():
        feature = spec.description.input.add(name=name)
        array(feature, shape)
    for name in outputs:
        array(spec.description.output.add(name=name), None)
    fill(spec)
    return spec


def array(feature: Any, shape: Any) -> None:
    if shape == ():
        feature.type.doubleType.SetInParent()
        return
    feature.type.multiArrayType.shape.extend(shape or ())
    feature.type.multiArrayType.dataType = 65600  # DOUBLE


def pipeline(
    path: Path, specs: list[Any], inputs: list[Any], outputs: list[Any], weights: str = ""
) -> Path:
    """A pipeline of messages, with features of theirs; a package where there are weights."""
    from coremltools.proto import Model_pb2

    spec = Model_pb2.Model(specificationVersion=8)
    spec.pipeline.SetInParent()
    for feature in inputs:
        spec.description.input.add().CopyFrom(feature)
    for feature in outputs:
        spec.description.output.add().CopyFrom(feature)
    for one in specs:
        spec.pipeline.models.add().CopyFrom(one)
    if weights:
        coremltools().models.MLModel(spec, weights_dir=weights, skip_model_load=True).save(
            str(path)
        )
    else:
        path.write_bytes(spec.SerializeToString())
    return path


def test_programs_with_weights_become_one_graph(tmp_path: Path) -> None:
    """By coremltools' own make_pipeline. Names that both have stay apart."""
    first, second = (RNG.standard_normal((32, 32)).astype(np.float32) for _ in range(2))
    x = RNG.standard_normal((1, 32)).astype(np.float32)
    models = [
        program(tmp_path / "1", lambda mb, x: mb.relu(x=mb.matmul(x=x, y=first)), ["h"], x=x),
        program(tmp_path / "2", lambda mb, h: mb.tanh(x=mb.matmul(x=h, y=second)), ["y"], h=x),
    ]
    coremltools().utils.make_pipeline(*models).save(str(tmp_path / "p.mlpackage"))
    typed("convert p.mlpackage --to onnx --no-bench --out out", tmp_path)
    right = np.tanh(np.maximum(x @ first, 0) @ second)
    with modelyard.load(tmp_path / "out") as net:
        assert [spec.name for spec in net.inputs + net.outputs] == ["x", "y"]
        np.testing.assert_allclose(net(x)["y"], right, atol=1e-5)
    told = typed("inspect p.mlpackage --json", tmp_path).json
    assert "Core ML pipeline of 2 models" in json.dumps(told)


def image_classifier(path: Path) -> Path:
    """An image's mean by channel, and a classifier of that: networks, as in iOS 13."""
    ct = coremltools()
    from coremltools.models import datatypes
    from coremltools.models.neural_network import NeuralNetworkBuilder

    first = NeuralNetworkBuilder([("image", datatypes.Array(3, 8, 8))],
                                 [("means", datatypes.Array(3, 1, 1))])  # fmt: skip
    first.add_pooling("mean", 1, 1, 1, 1, "AVERAGE", "VALID", "image", "means", is_global=True)
    first.set_pre_processing_parameters(image_input_names=["image"], is_bgr=True)
    second = NeuralNetworkBuilder([("means", datatypes.Array(3))],
                                  [("scores", datatypes.Array(3))], mode="classifier")  # fmt: skip
    second.add_softmax("soft", "means", "scores")
    second.set_class_labels(["blue", "green", "red"], "label", "scores")
    outputs = list(second.spec.description.output)
    pipeline(path, [first.spec, second.spec], list(first.spec.description.input), outputs)
    assert ct.models.MLModel(str(path), skip_model_load=True)
    return path


def test_an_image_goes_through_a_classifier_s_pipeline(tmp_path: Path) -> None:
    image_classifier(tmp_path / "p.mlmodel")
    typed("convert p.mlmodel --to onnx,coreml --no-bench --out out", tmp_path)
    Image.new("RGB", (8, 8), (3, 2, 1)).save(tmp_path / "red.png")
    with modelyard.load(tmp_path / "out", artifact="onnx") as net:
        answer = net(tmp_path / "red.png")
    assert answer.label == "red"
    scores = np.exp([1, 2, 3]) / np.exp([1, 2, 3]).sum()
    np.testing.assert_allclose([item.score for item in answer.classes], scores[::-1], atol=1e-5)


@pytest.mark.parametrize(("per_class", "rows"), [(True, 0), (False, 4)])
def test_boxes_are_suppressed_and_declared(tmp_path: Path, per_class: bool, rows: int) -> None:
    """A detector, as YOLO's exports are: an image, thresholds that may be given; as many rows as
    its outputs tell."""
    places = np.array([[0.5, 0.5, 0.4, 0.4], [0.52, 0.5, 0.4, 0.4], [0.5, 0.5, 0.42, 0.4],
                       [0.2, 0.2, 0.1, 0.1], [0.8, 0.2, 0.1, 0.1]])  # fmt: skip
    scores = np.array([[0.7, 0.1], [0.8, 0.2], [0.1, 0.6], [0.2, 0.3], [0.1, 0.25]])

    def body(mb: Any, x: Any) -> Any:
        zero = mb.mul(x=mb.reduce_sum(x=x, axes=[0, 1, 2, 3]), y=np.float32(0))
        given = (scores.astype(np.float32), places.astype(np.float32))
        return [mb.add(x=array, y=zero) for array in given]

    def fill(spec: Any) -> None:
        nms = spec.nonMaximumSuppression
        nms.pickTop.perClass, nms.iouThreshold, nms.confidenceThreshold = per_class, 0.5, 0.3
        nms.confidenceInputFeatureName, nms.coordinatesInputFeatureName = "raw", "boxes"
        nms.confidenceOutputFeatureName = "confidence"
        nms.coordinatesOutputFeatureName = "coordinates"
        nms.iouThresholdInputFeatureName = "iou"
        nms.stringClassLabels.vector.extend(["cat", "dog"])

    x = np.zeros((1, 3, 20, 40), np.float32)
    made = program(tmp_path / "1", body, ["raw", "boxes"], x=x)
    found = made.get_spec()
    wanted = {"raw": (5, 2), "boxes": (5, 4), "iou": ()}
    last = small(fill, wanted, ["confidence", "coordinates"])
    last.description.output[0].type.multiArrayType.shape.extend([rows, 2] if rows else [])
    image = found.description.input[0].type.imageType
    image.width, image.height, image.colorSpace = 40, 20, 20
    pipeline(tmp_path / "p.mlpackage", [found, last],
             [found.description.input[0], last.description.input[2]],
             list(last.description.output), made.weights_dir)  # fmt: skip
    said = typed("convert p.mlpackage --to onnx --no-bench --out out", tmp_path)
    assert "THRESHOLDS ARE FIXED" in said.out + said.err
    Image.new("RGB", (400, 200)).save(tmp_path / "a.png")
    with modelyard.load(tmp_path / "out") as net:
        answer = net(tmp_path / "a.png")
    boxes = answer.boxes
    assert answer["coordinates"].shape == (rows or 3, 4)
    kept = [("cat", 0.8, [128, 60, 288, 140]), ("dog", 0.6, [116, 60, 284, 140]),
            ("dog", 0.3, [60, 30, 100, 50])]  # fmt: skip
    kept = kept if per_class else [kept[0], kept[2]]
    assert [box["label"] for box in boxes] == [label for label, _, _ in kept]
    np.testing.assert_allclose([box["score"] for box in boxes], [s for _, s, _ in kept], atol=1e-6)
    np.testing.assert_allclose([box["box"] for box in boxes], [b for _, _, b in kept], atol=0.02)


def linear(spec: Any) -> None:
    spec.glmClassifier.weights.add().value.extend([0.5, -1.0])
    spec.glmClassifier.offset.append(0.25)
    spec.glmClassifier.int64ClassLabels.vector.extend([3, 7])
    spec.description.predictedProbabilitiesName = "p"


def regression(spec: Any) -> None:
    spec.glmRegressor.weights.add().value.extend([0.5, -1.0])
    spec.glmRegressor.offset.append(0.25)


@pytest.mark.parametrize("classifies", [True, False])
def test_columns_are_joined_scaled_and_weighed(tmp_path: Path, classifies: bool) -> None:
    def vector(spec: Any) -> None:
        for name, size in (("age", 1), ("more", 2)):
            spec.featureVectorizer.inputList.add(inputColumn=name, inputDimensions=size)

    def scale(spec: Any) -> None:
        spec.scaler.shiftValue.extend([-1, -2])
        spec.scaler.scaleValue.extend([0.5, 4])

    specs = [
        small(vector, {"age": (), "more": (2,)}, ["all"]),
        small(lambda spec: spec.arrayFeatureExtractor.extractIndex.extend([2, 0]),
              {"all": (3,)}, ["some"]),
        small(scale, {"some": (2,)}, ["some"]),
        small(linear if classifies else regression, {"some": (2,)}, ["p"]),
    ]  # fmt: skip
    path = pipeline(tmp_path / "p.mlmodel", specs, list(specs[0].description.input),
                    list(specs[-1].description.output))  # fmt: skip
    model = read(path)
    (found,) = run(model, {"age": np.float32([5]), "more": np.float32([9, 3])})
    y = 0.5 * (3 - 1) * 0.5 - (5 - 2) * 4 + 0.25
    p = 1 / (1 + np.exp(-y))
    np.testing.assert_allclose(found, [[1 - p, p]] if classifies else [y], atol=1e-6)


MODES = {"BranchOnValueLessThanEqual": np.less_equal, "BranchOnValueLessThan": np.less,
         "BranchOnValueGreaterThanEqual": np.greater_equal,
         "BranchOnValueGreaterThan": np.greater}  # fmt: skip


def forest(builder: Any, depth: int, sums: int) -> Callable[[Any], Any]:
    """Trees of random splits; gives what they come to for a row."""
    trees = []
    for tree in range(5):
        nodes: list[tuple[Any, ...]] = []
        for node in range(2**depth - 1):
            mode = list(MODES)[int(RNG.integers(4))]
            split = (int(RNG.integers(3)), float(RNG.choice([0.1, 0.3, 0.7])), mode)
            builder.add_branch_node(tree, node, *split, 2 * node + 1, 2 * node + 2)
            nodes.append(split)
        for node in range(2**depth - 1, 2 ** (depth + 1) - 1):
            values = RNG.standard_normal(sums).tolist()
            builder.add_leaf_node(tree, node, values if sums > 1 else values[0])
            nodes.append((values,))
        trees.append(nodes)

    def walk(row: Any) -> Any:
        total = np.zeros(sums)
        for nodes in trees:
            at = 0
            while len(nodes[at]) > 1:
                feature, value, mode = nodes[at]
                at = 2 * at + (1 if MODES[mode](row[feature], value) else 2)
            total += nodes[at][0]
        return total

    return walk


def rows() -> Any:
    """Some lie where a tree splits: .1 as float32 is above .1, .7 below."""
    return [*RNG.random((20, 3)), *[[v] * 3 for v in (0.1, 0.3, 0.7)]]


@pytest.mark.parametrize(("labels", "sums", "transform"), [
    (None, 1, None), (None, 2, "Regression_Logistic"), (3, 3, "Classification_SoftMax"),
    (2, 1, "Classification_SoftMaxWithZeroClassReference"), (2, 2, None),
    (2, 1, "Regression_Logistic"),
])  # fmt: skip
def test_trees_split_as_they_do_there(
    tmp_path: Path, labels: int | None, sums: int, transform: str | None
) -> None:
    from coremltools.models import datatypes, tree_ensemble

    features = [("x", datatypes.Array(3))]
    if labels is None:
        builder = tree_ensemble.TreeEnsembleRegressor(features, "y")
    else:
        named = [f"c{number}" for number in range(labels)]
        outputs = [("label", datatypes.String()), ("p", datatypes.Dictionary(datatypes.String()))]
        builder = tree_ensemble.TreeEnsembleClassifier(features, named, outputs)
    builder.tree_parameters.numPredictionDimensions = sums
    walk = forest(builder, 3, sums)
    builder.set_default_prediction_value([0.25] * sums if sums > 1 else 0.25)
    if transform:
        builder.set_post_evaluation_transform(transform)
    path = tmp_path / "trees.mlmodel"
    path.write_bytes(builder.spec.SerializeToString())
    model = read(path)
    for row in np.float32(rows()):
        (found,) = run(model, {"x": row})
        y = walk(row.astype(np.float64)) + 0.25
        odds = np.exp(y) if sums == labels else np.exp([0, *y])
        if transform == "Regression_Logistic":
            p = 1 / (1 + np.exp(-y))
            y = p if labels is None else [1 - p[0], p[0]]
        elif transform:
            y = odds / odds.sum()
        np.testing.assert_allclose(found.reshape(-1), np.reshape(y, -1), atol=1e-5)


def test_a_forest_of_a_table_is_asked_by_its_columns(tmp_path: Path) -> None:
    """As coremltools writes scikit-learn's: columns to a vector, then trees."""
    from coremltools.models import datatypes, tree_ensemble

    def vector(spec: Any) -> None:
        for name in ("height", "width", "age"):
            spec.featureVectorizer.inputList.add(inputColumn=name, inputDimensions=1)

    first = small(vector, {"height": (), "width": (), "age": ()}, ["x"])
    builder = tree_ensemble.TreeEnsembleRegressor([("x", datatypes.Array(3))], "price")
    builder.tree_parameters.numPredictionDimensions = 1
    walk = forest(builder, 2, 1)
    pipeline(tmp_path / "p.mlmodel", [first, builder.spec], list(first.description.input),
             list(builder.spec.description.output))  # fmt: skip
    typed("convert p.mlmodel --to onnx --no-bench --out out", tmp_path)
    with modelyard.load(tmp_path / "out") as net:
        found = net({"height": [0.2], "width": [0.5], "age": [0.9]})["price"]
    np.testing.assert_allclose(found, walk([0.2, 0.5, 0.9]), atol=1e-5)
    assert "treeEnsembleRegressor" in typed("inspect p.mlmodel", tmp_path).out


def plain(name: str, shape: tuple[int, ...], gives: str) -> Any:
    def fill(spec: Any) -> None:
        spec.scaler.scaleValue.append(2)

    return small(fill, {name: shape}, [gives])


@pytest.mark.parametrize(("change", "error", "told"), [
    (lambda specs: specs[1].oneHotEncoder.SetInParent(), UnsupportedError, "not all"),
    (lambda specs: specs[1].description.input[0].ClearField("name"), ModelError, "nothing gives"),
    (lambda specs: specs.clear(), UnsupportedError, "0 models"),
    (lambda specs: specs[1].description.output[0].ClearField("name"), ModelError,
     "no model gives its output z"),
])  # fmt: skip
def test_pipelines_that_can_t_be_read(
    tmp_path: Path, change: Callable[[Any], Any], error: type[Exception], told: str
) -> None:
    specs = [plain("x", (3,), "y"), plain("y", (3,), "z")]
    ends = [list(specs[0].description.input), list(specs[1].description.output)]
    ends = [[type(item).FromString(item.SerializeToString()) for item in end] for end in ends]
    change(specs)
    with pytest.raises(error, match=told):
        read(pipeline(tmp_path / "p.mlmodel", specs, *ends))


def test_what_one_gives_and_the_next_can_t_take(tmp_path: Path) -> None:
    from coremltools.models import datatypes
    from coremltools.models.neural_network import NeuralNetworkBuilder

    def copies(name: str, shape: tuple[int, ...], gives: str) -> Any:
        made = NeuralNetworkBuilder([(name, datatypes.Array(*shape))], [(gives, None)])
        made.add_activation("same", "LINEAR", name, gives, [2, 0])
        return made

    for shape, image, why in (
        ((3, 4, 4), False, "gets 1x3x2x2"),
        ((3, 2, 2), True, "an image"),
    ):
        first, second = copies("x", (3, 2, 2), "y"), copies("y", shape, "z")
        if image:
            second.set_pre_processing_parameters(image_input_names=["y"])
        path = pipeline(tmp_path / "p.mlmodel", [first.spec, second.spec],
                        list(first.spec.description.input),
                        list(second.spec.description.output))  # fmt: skip
        with pytest.raises(UnsupportedError) as caught:
            read(path)
        assert [item.node for item in caught.value.items] == ["1"]
        assert why in caught.value.items[0].reason
