"""Pictures become a model's input as its preprocessor's file says, as transformers does it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import modelyard
from parsers.huggingface.pictures import Unsaid, image_options
from parsers.pytorch.pictures import of_size
from tests.huggingface.models import save

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
NORMAL = {"image_mean": MEAN, "image_std": STD}
PROCESSORS: dict[str, tuple[str, dict[str, Any]]] = {
    "vit": ("ViTImageProcessor", {"size": {"height": 32, "width": 32}, **NORMAL}),
    "bicubic": ("ViTImageProcessor", {"size": {"height": 32, "width": 32}, **NORMAL,
                                      "resample": 3}),
    "deit": ("DeiTImageProcessor", {"size": {"height": 40, "width": 36}, "do_center_crop": True,
                                    "crop_size": {"height": 32, "width": 32}, **NORMAL}),
    "clip": ("CLIPImageProcessor", {"size": {"shortest_edge": 36}, "do_center_crop": True,
                                    "crop_size": {"height": 32, "width": 32}, **NORMAL}),
    "convnext": ("ConvNextImageProcessor", {"size": {"shortest_edge": 32}, "crop_pct": 0.8,
                                            **NORMAL}),
    "plain": ("ViTImageProcessor", {"size": {"height": 32, "width": 32}, "do_normalize": False}),
    "raw": ("ViTImageProcessor", {"size": {"height": 32, "width": 32}, "do_rescale": False,
                                  "do_normalize": False}),
}  # fmt: skip


@pytest.fixture(scope="module")
def photo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A picture whose sides less the crops are even: no rule of rounding decides."""
    file = tmp_path_factory.mktemp("photo") / "photo.png"
    ramp = np.linspace(0, 255, 72 * 48 * 3).reshape(48, 72, 3)
    noise = np.random.default_rng(0).integers(-30, 30, ramp.shape)
    Image.fromarray(np.clip(ramp + noise, 0, 255).astype(np.uint8)).save(file)
    return file


@pytest.mark.slow
def test_a_folder_with_a_preprocessor(tmp_path: Path, photo: Path) -> None:
    """The samples, and what a loaded artifact is asked, are prepared alike; options say more."""
    folder = save("resnet", tmp_path / "net")
    kind, settings = PROCESSORS["clip"]
    processor(kind, settings).save_pretrained(folder)
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/a.png").write_bytes(photo.read_bytes())
    options = {"samples": tmp_path / "photos", "bench": False}
    made = modelyard.convert(folder, out=tmp_path / "out", **options)  # type: ignore[arg-type]
    assert made.report is not None and made.report.declared is not None
    assert any("--image-resize 36" in note for note in made.report.notes), made.report.notes
    (picture,) = made.report.declared.prepare
    assert picture.kind == "picture" and (picture.resize, picture.height) == (36, 32)
    with modelyard.load(made.out) as net:
        answer = net(photo)
        right = net(expected(kind, settings, photo))
        assert answer.label in ("cat", "dog", "cow")  # type: ignore[attr-defined]
        for name, array in right.items():
            np.testing.assert_allclose(answer[name], array, atol=1e-5)
    other = modelyard.convert(
        folder,
        out=tmp_path / "other",
        image_mean=[0.5],
        **options,  # type: ignore[arg-type]
    )
    assert other.report is not None and other.report.declared is not None
    (picture,) = other.report.declared.prepare
    assert picture.kind == "picture" and picture.mean == (0.5,) * 3 and picture.std == tuple(STD)


def processor(kind: str, settings: dict[str, Any]) -> Any:
    """One of transformers' own."""
    import transformers

    return getattr(transformers, kind)(**settings)


def expected(kind: str, settings: dict[str, Any], photo: Path) -> np.ndarray:
    """The pixels as transformers' own class prepares them."""
    made = processor(kind, settings)(Image.open(photo), return_tensors="np")["pixel_values"]
    return np.asarray(made, np.float32)


@pytest.mark.parametrize("name", PROCESSORS)
def test_it_is_what_transformers_does(name: str, photo: Path, tmp_path: Path) -> None:
    from converter.ir.model import TensorSpec
    from converter.options.recipe import make_request
    from converter.samples.files import SampleFile
    from converter.samples.images import ImagePlan

    kind, settings = PROCESSORS[name]
    processor(kind, settings).save_pretrained(tmp_path)
    said = json.loads((tmp_path / "preprocessor_config.json").read_text())
    options = image_options(said)
    spec = TensorSpec("pixel_values", "float32", ("batch", 3, 32, 32))
    plan = ImagePlan((spec,), make_request({"source": "", **options}), {})
    found, _ = plan.prepare(SampleFile(photo, "photo"))
    np.testing.assert_allclose(found, expected(kind, settings, photo)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"do_pad": True}, "do_pad"),
        ({"size": {"longest_edge": 8}}, "longest_edge"),
        ({"size": {"shortest_edge": 8}}, "the size depends on the picture"),
        ({"size": 8}, "size: 8"),
        ({"resample": 5}, "resample: 5"),
        ({"resample": None}, "resample: None"),
        ({"image_mean": None}, "image_mean: None"),
        ({"do_resize": False}, "do_resize: false"),
        ({"rescale_offset": True}, "an offset"),
        ({"crop_size": {"height": 8, "width": 8}}, "a crop_size without"),
    ],
)
def test_what_no_option_says_is_named(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(Unsaid, match=says):
        image_options({"size": {"height": 8, "width": 8}, "resample": 2, **NORMAL, **settings})


def test_a_model_of_another_size_is_what_pictures_are_resized_to() -> None:
    options = {"image_size": "32x32", "image_resize": "36", "image_mean": MEAN}
    assert of_size(options, [("batch", 3, 32, 32)]) == options
    assert of_size(options, [("batch", 3, "height", "width")]) == options
    assert of_size(options, [(1, 3, 64, 64), (1, 9)]) == {"image_mean": MEAN}
