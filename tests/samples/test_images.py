"""Samples from images. What is expected is computed here with numpy alone where that can be."""

import shutil
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from converter.ir.model import TensorSpec
from converter.options.request import Request
from converter.samples import images, load_samples
from tests.samples.conftest import Load, Refuse, spec

NCHW = spec("image", "batch", 3, 8, 6)
NHWC = spec("image", "batch", 8, 6, 3)
RNG = np.random.default_rng(3)


def pixels(height: int = 8, width: int = 6, channels: int = 3) -> np.ndarray:
    shape = (height, width, channels) if channels > 1 else (height, width)
    return RNG.integers(0, 256, shape, dtype=np.uint8)


def save(path: Path | str, array: np.ndarray, mode: str | None = None) -> np.ndarray:
    image = Image.fromarray(array)
    (image.convert(mode) if mode else image).save(path)
    return array


def only(samples: object) -> np.ndarray:
    (sample,) = samples  # type: ignore[misc]
    return next(iter(sample.feeds.values()))


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_preprocessing_agrees_with_numpy(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Layout, colour order, scale, mean, deviation, dtype and crop, in any combination: in
    float64, rounded once."""
    height, width = data.draw(st.integers(5, 12)), data.draw(st.integers(5, 12))
    crop_h, crop_w = data.draw(st.integers(5, height)), data.draw(st.integers(5, width))
    nchw, bgr = data.draw(st.booleans()), data.draw(st.booleans())
    dtype = data.draw(st.sampled_from(["float32", "float16", "float64"]))
    number = st.floats(0.125, 4)
    mean, std = (data.draw(st.lists(number, min_size=3, max_size=3)) for _ in range(2))
    scale = data.draw(st.none() | number)
    folder = tmp_path_factory.mktemp("any")
    array = save(folder / "a.png", pixels(height, width))
    options: dict[str, Any] = {"image_mean": mean, "image_std": std, "image_scale": scale}
    color, size = "bgr" if bgr else "rgb", f"{height}x{width}"
    request = Request("net", samples=str(folder), image_resize=size, image_color=color, **options)
    shape = ("batch", 3, crop_h, crop_w) if nchw else ("batch", crop_h, crop_w, 3)
    found = only(load_samples(request, (TensorSpec("i", dtype, shape),), {}))

    top, left = round((height - crop_h) / 2), round((width - crop_w) / 2)
    expected = array[top : top + crop_h, left : left + crop_w].astype(np.float64)
    expected = expected[..., ::-1] if bgr else expected
    expected = expected / 255 if scale is None else expected * scale
    expected = ((expected - mean) / std).astype(dtype)
    expected = expected.transpose(2, 0, 1) if nchw else expected
    np.testing.assert_array_equal(found[0], expected)
    assert found.dtype == dtype and not found.flags.writeable


@pytest.mark.parametrize("size", [(37, 30), (30, 37), (33, 33), (17, 64)])
@pytest.mark.parametrize("interpolation", ["nearest", "bilinear", "bicubic", "lanczos"])
def test_resizing_the_shorter_side_then_cutting(
    load: Load, size: tuple[int, int], interpolation: str
) -> None:
    array = save("a.png", pixels(*size))
    found = only(load(".", NHWC, image_resize="12", image_interpolation=interpolation))
    height, width = size
    resized = (12, int(12 * height / width)) if width < height else (int(12 * width / height), 12)
    image = Image.fromarray(array).resize(resized, Image.Resampling[interpolation.upper()])
    left, top = round((resized[0] - 6) / 2), round((resized[1] - 8) / 2)
    expected = np.asarray(image)[top : top + 8, left : left + 6] / 255
    np.testing.assert_array_equal(found[0], expected.astype(np.float32))


def test_without_options_the_image_is_resized_to_the_models_size(
    load: Load, refuse: Refuse
) -> None:
    array = save("a.png", pixels(40, 30))
    expected = np.asarray(Image.fromarray(array).resize((6, 8), Image.Resampling.BILINEAR))
    found = only(load("a.png", spec("i", "batch", 8, 6, 3, dtype="uint8")))
    np.testing.assert_array_equal(found[0], expected)
    refuse(".", NHWC, image_resize="12", image_crop="none", says=("is 16x12 after", "8x6"))
    refuse(".", NHWC, image_resize="4x4", says="doesn't fit into")


def test_real_photos(photos: Path, load: Load) -> None:
    samples = load(photos, spec("image", "batch", 3, 224, 224), image_resize="256")
    assert len(samples) == 20
    assert not samples.labelled  # a name like imagenet_00_243.jpg is no reason to guess
    assert samples.origin == "20 images of data/"
    labelled = load(photos, spec("image", "batch", 3, 224, 224), labels="filename")
    assert [s.label for s in labelled][:3] == [243, 559, 438]
    with Image.open(photos / "imagenet_00_243.jpg") as image:
        assert image.size == (512, 512)
        pixels = np.asarray(image.resize((256, 256), Image.Resampling.BILINEAR))[16:240, 16:240]
    found = next(iter(samples)).feeds["image"][0]
    np.testing.assert_array_equal(found, (pixels / 255).astype(np.float32).transpose(2, 0, 1))


def test_exif_orientation_is_honoured(load: Load) -> None:
    array = pixels(6, 8)
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees clockwise to see it upright
    Image.fromarray(array).save("a.png", exif=exif)
    found = only(load(".", spec("i", "batch", 8, 6, 3, dtype="uint8")))
    np.testing.assert_array_equal(found[0], np.rot90(array, -1))


def test_gray_palette_and_opaque_images(load: Load) -> None:
    byte = spec("i", "batch", 8, 6, 3, dtype="uint8")
    gray = save("gray.png", pixels(channels=1))
    opaque, flat = pixels(channels=4), np.zeros((8, 6, 3), np.uint8)
    opaque[..., 3], flat[:4] = 255, (255, 0, 0)
    save("opaque.png", opaque)
    save("palette.png", flat, "P")
    expected = np.repeat(gray[..., None], 3, -1), opaque[..., :3], flat
    for sample, array in zip(load(".", byte), expected, strict=True):
        np.testing.assert_array_equal(sample.feeds["i"][0], array)
    one = only(load("gray.png", spec("i", "batch", 1, 8, 6, dtype="uint8")))
    np.testing.assert_array_equal(one[0, 0], gray)


def test_four_channels_keep_transparency(load: Load, refuse: Refuse) -> None:
    array = save("a.png", pixels(channels=4))
    four = spec("i", "batch", 8, 6, 4, dtype="uint8")
    np.testing.assert_array_equal(only(load(".", four))[0], array)
    turned = only(load(".", four, image_color="bgr"))[0]
    np.testing.assert_array_equal(turned, array[..., [2, 1, 0, 3]])
    refuse(".", NCHW, says="a.png has transparent pixels")


def test_what_eight_bits_can_not_hold_is_refused(refuse: Refuse) -> None:
    Image.fromarray(np.full((8, 6), 4000, np.uint16)).save("deep.png")
    Image.fromarray(np.full((8, 6), 0.5, np.float32)).save("deep.tif")
    Path("deep_rgb.png").write_bytes(sixteen_bit_png())
    for name in ("deep.png", "deep.tif", "deep_rgb.png"):
        refuse(name, NCHW, says=f"{name} has more than 8 bits")
    save("print.jpg", pixels(), "CMYK")
    refuse("print.jpg", NCHW, says="colour space CMYK")
    frames = [Image.fromarray(pixels()) for _ in range(3)]
    frames[0].save("moves.gif", save_all=True, append_images=frames[1:])
    refuse("moves.gif", NCHW, says="holds 3 frames")


def sixteen_bit_png() -> bytes:
    """A PNG of 6x8 pixels with 16 bits a channel, which Pillow can't write."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checksum = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)

    head = struct.pack(">IIBBBBB", 6, 8, 16, 2, 0, 0, 0)
    rows = zlib.compress((b"\0" + b"\x12\x34" * 18) * 8)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def test_a_phones_photo_with_a_second_picture_in_it(load: Load) -> None:
    frames = [Image.fromarray(pixels(16, 16)) for _ in range(2)]
    frames[0].save("a.jpg", format="MPO", save_all=True, append_images=frames[1:])
    with Image.open("a.jpg") as image:
        assert image.format == "MPO"
        expected = np.asarray(image)
    found = only(load(".", spec("i", "batch", 16, 16, 3, dtype="uint8")))
    np.testing.assert_array_equal(found[0], expected)


@pytest.mark.parametrize("keep", [0, 3, 500, -4000])
def test_a_truncated_image_is_named(photos: Path, refuse: Refuse, keep: int) -> None:
    data = (photos / "imagenet_00_243.jpg").read_bytes()
    shutil.copy(photos / "imagenet_01_559.jpg", ".")
    Path("broken.jpg").write_bytes(data[:keep])
    refuse(".", NCHW, says="broken.jpg can't be read: it is cut short, or isn't an image")


def test_an_eps_called_png_does_not_reach_ghostscript(refuse: Refuse) -> None:
    Path("a.png").write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 6\n(x) show\n%%EOF\n")
    refuse(".", NCHW, says=("a.png can't be read", "isn't an image of these kinds: JPEG, PNG"))


def test_a_strip_is_not_blown_up(refuse: Refuse) -> None:
    save("a.png", np.zeros((1, 60_000, 3), np.uint8))
    refuse(
        ".", NCHW, says="a.png of 1x60000 would be 224x13440000 when resized", image_resize="224"
    )


def test_other_files_in_the_folder(load: Load, refuse: Refuse) -> None:
    refuse(".", NCHW, says="holds no images, no sounds and no .npz files")
    Path("cats").mkdir()
    for name in ("b.png", "a.PNG", "cats/c.png", ".hidden.png"):
        save(name, pixels())
    Path("readme.txt").write_text("photos")
    assert [s.name for s in load(".", NCHW)] == ["a.PNG", "b.png", "cats/c.png"]
    np.savez("a.npz", x=np.zeros(3))
    refuse(".", NCHW, says=("1 .npz files and 3 images", "--samples-pattern"))
    assert len(load(".", NCHW, samples_pattern="*.png")) == 2


def test_free_sizes(load: Load, refuse: Refuse) -> None:
    free = spec("i", "batch", 3, "height", "width")
    save("a.png", pixels(9, 7))
    save("b.png", pixels(5, 7))
    shapes = [s.feeds["i"].shape for s in load(".", free)]
    assert shapes == [(1, 3, 9, 7), (1, 3, 5, 7)]
    samples = load(".", free, sizes={"height": 4, "width": 6})
    assert {s.feeds["i"].shape for s in samples} == {(1, 3, 4, 6)}
    assert {s.feeds["i"].shape for s in load(".", free, image_size="5x5")} == {(1, 3, 5, 5)}
    refuse(".", NCHW, image_size="5x5", says=("--image-size 5x5 doesn't fit", "8"))
    fixed = spec("i", 2, 3, "height", "width")
    refuse(".", fixed, says="differ in size")


def test_a_fixed_batch_takes_several_images(load: Load, refuse: Refuse) -> None:
    for index in range(4):
        save(f"img_{index}.png", pixels())
    fixed = spec("i", 2, 3, 8, 6)
    first, second = load(".", fixed, labels="filename")
    assert first.feeds["i"].shape == (2, 3, 8, 6)
    assert first.label.tolist() == [0, 1]
    assert second.name == "img_2.png..img_3.png"
    refuse(".", spec("i", 3, 3, 8, 6), says=("4 images aren't a multiple", "--samples-limit 3"))
    assert len(load(".", spec("i", 3, 3, 8, 6), samples_limit=3)) == 1


@pytest.mark.parametrize(("specs", "options", "says"), [
    ([NCHW, spec("b", 1)], {}, "images need a model with one input"),
    ([spec("x", "batch", 10)], {}, "which isn't an image"),
    ([spec("x", "batch", 5, 8, 6)], {}, "holds the channels"),
    ([spec("x", "batch", 3, 8, 3)], {}, "--image-layout nchw or nhwc"),
    ([spec("x", "batch", 5, 8, 6)], {"image_layout": "nchw"}, "it has 5 channels"),
    ([NCHW], {"image_color": "gray"}, "--image-color gray doesn't fit"),
    ([spec("x", "batch", 1, 8, 6)], {"image_color": "bgr"}, "--image-color bgr doesn't fit"),
    ([NCHW], {"image_mean": [1.0, 2.0]}, "--image-mean has 2 values"),
    ([NCHW], {"image_std": [0.0]}, "--image-std can't be 0"),
    ([NCHW], {"image_size": "8"}, "--image-size 8: expected HEIGHTxWIDTH"),
    ([NCHW], {"image_resize": "0"}, "--image-resize 0: expected"),
    ([spec("x", "batch", 3, 8, 6, dtype="uint8")], {"image_mean": [1.0]}, "which x (uint8)"),
    ([spec("x", "batch", 3, 8, 6, dtype="float16")], {"image_scale": 1e6}, "float16"),
])  # fmt: skip
def test_what_does_not_fit(
    refuse: Refuse, specs: list[TensorSpec], options: dict[str, object], says: str
) -> None:
    save("a.png", pixels())
    refuse(".", *specs, says=(says,), **options)


def test_layouts(load: Load) -> None:
    array = save("a.png", pixels(3, 3))
    shape = "batch", 3, 3, 3
    unclear = spec("x", *shape, dtype="uint8")
    shifted = spec("x", *shape, dtype="int8", layout="NHWC")
    known = spec("x", *shape, dtype="uint8", layout="NCHW")
    bare = spec("x", 3, 3, 3, dtype="uint8", layout="HWC")
    for found, expected in (
        (only(load(".", unclear, image_layout="nhwc"))[0], array),
        (only(load(".", known))[0], array.transpose(2, 0, 1)),
        (only(load(".", bare)), array),
        (only(load(".", shifted, image_mean=[128.0]))[0], array.astype(int) - 128),
    ):
        np.testing.assert_array_equal(found, expected)


def test_labels_of_images(load: Load, refuse: Refuse) -> None:
    Path("in").mkdir()
    for name in ("cat_1.png", "dog.png", "in/eel_07.png"):
        save(name, pixels())
    refuse(".", NCHW, labels="filename", says=("1 of 3 files have no label", "dog.png"))
    Path("names.txt").write_text("cat\ndog\neel\n\n")
    header = "file,label\ncat_1.png,0\ndog.png,dog\nin/eel_07.png, 2\nother.png,1\n"
    Path("truth.csv").write_text(header)
    samples = load(".", NCHW, labels="truth.csv", label_names="names.txt")
    assert samples.label_names == ("cat", "dog", "eel")
    assert [s.label for s in samples] == [0, 1, 2]
    Path("truth.csv").write_text("eel_07.png,2\ncat_1.png,0.5\ndog.png,hound\n")  # no header
    assert [s.label for s in load(".", NCHW, labels="truth.csv")] == [0.5, "hound", 2]
    for row, says in (("0", "2 of 3 files have no label"), ("0,9", "line 1: expected file,label")):
        Path("truth.csv").write_text(f"cat_1.png,{row}\n")
        refuse(".", NCHW, labels="truth.csv", says=says)
    refuse(".", NCHW, labels="nothing", says=("there is no such file", "'filename'"))
    Path("dog.png").unlink()
    given = {"labels": "filename", "label_names": "names.txt"}
    refuse(".", NCHW, **given, says="label 7 is not among")
    refuse(".", NCHW, label_names="gone", says="reading --label-names")


def test_images_are_decoded_once_while_they_fit(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    read = images.picture_array

    def counting(picture: object, file: Path, name: str, *rest: object) -> np.ndarray:
        calls.append(name)
        return read(picture, file, name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(images, "picture_array", counting)
    for index in range(4):
        save(f"{index}.png", pixels())
    first = [s.feeds["image"] for s in load(".", NCHW)]
    assert calls == ["0.png", "1.png", "2.png", "3.png"]
    monkeypatch.setattr(images, "KEEP_BELOW", 2 * first[0].nbytes)
    samples = load(".", NCHW)
    again = [s.feeds["image"] for s in samples]
    assert calls[4:] == ["0.png", "1.png", "2.png", "3.png", "2.png", "3.png"]
    np.testing.assert_array_equal(np.stack(first), np.stack(again))


def test_the_digest_follows_contents_names_labels_and_options(load: Load) -> None:
    array = pixels()
    for folder in ("one", "two", "other"):
        Path(folder).mkdir()
        save(f"{folder}/a_1.png", array[::-1] if folder == "other" else array)
    digest = load("one", NCHW).digest
    assert load("two", NCHW).digest == digest
    options: list[dict[str, Any]] = [
        *({"labels": "filename"}, {"image_mean": [0.5]}, {"image_interpolation": "bicubic"})
    ]
    others = [load("one", NCHW, **more).digest for more in options]
    others += [load("one", NHWC).digest, load("other", NCHW).digest]
    assert len({digest, *others}) == 6


def test_an_input_of_quantized_integers_is_fed_the_nearest(load: Load) -> None:
    """Scale 1/128 and zero point -3: the real numbers are the same as a float input's."""
    array = save("a.png", pixels())
    quantized = spec("x", "batch", 8, 6, 3, dtype="int8", scale=1 / 128, zero_point=-3)
    found = only(load(".", quantized, image_mean=[0.5], image_std=[0.5]))
    real = (array / 255.0 - 0.5) / 0.5
    assert found.dtype == np.int8
    np.testing.assert_array_equal(found[0], np.clip(np.rint(real * 128) - 3, -128, 127))


def test_pictures_that_are_much_smaller_than_the_input_are_told(load: Load) -> None:
    for name, size in (("a", (4, 3)), ("b", (3, 6)), ("c", (2, 2)), ("d", (80, 60))):
        save(f"{name}.png", pixels(*size))
    (note,) = load(".", NCHW).notes
    assert note == (
        "PICTURES ARE ENLARGED: 2 of 4 to more than 2 times their height or width. "
        "The smallest is 2x2 pixels, and the model's input is 8x6"
    )
    assert not load("a.png", NCHW).notes  # half of each side
    free = spec("image", "batch", 3, "height", "width")
    assert not load("c.png", free).notes
    (note,) = load("c.png", free, image_resize="5", image_crop="none").notes
    assert note.endswith("The smallest is 2x2 pixels, and the model's input is 5x5")
