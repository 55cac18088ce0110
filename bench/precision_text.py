"""Lines of text for ``bench.precision``: rendered, and what a recognizer reads in them.

Letters are drawn in the fonts that the matplotlib package carries, dark on light and the other way
round, a little blurred and noisy, as a scan has them. Lines that are judged aren't among those that
models are calibrated on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from zoo.packages import fetch_package_file

Array = np.ndarray[Any, Any]

MODEL = (
    "rapidocr-onnxruntime",
    "1.4.4",
    "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
    "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
)

HEIGHT, WIDTH = 48, 320

CALIBRATION_LINES = (
    "Invoice No. 20418-B", "the quick brown fox jumps", "TOTAL: 1,284.50 EUR",
    "Platform 9, Gate C", "fragile - handle with care", "Opening hours 8:00-17:30",
    "ISBN 978-3-16-148410-0", "Net weight 250 g", "Please keep this door shut",
    "Room 314 (2nd floor)", "Dr. Jane Whitfield", "49 Elm Street, Boston",
    "Flight KL 0857 boarding", "best before 12/2027", "PULL IN EMERGENCY", "x = 3.1416 * r^2",
)  # fmt: skip
JUDGED_LINES = (
    "Receipt #77310 / Cashier 4", "lazy dogs sleep all day", "SUBTOTAL 96.75 USD",
    "Track 12, Car 6",
    "Do not bend or fold", "Closed on Sundays", "Order ID: QX-55172-Z", "Volume 1.5 liters",
    "Mind the gap between", "Suite 208, West Wing", "Prof. Oliver Hartmann", "1600 Market Avenue",
    "Bus 42 to Harbour Bridge", "expires 03/2029", "EXIT ONLY", "f(t) = 0.5 * g * t^2",
)  # fmt: skip

_FONTS = {
    "DejaVuSans.ttf": "3fdf69cabf06049ea70a00b5919340e2ce1e6d02b0cc3c4b44fb6801bd1e0d22",
    "DejaVuSerif.ttf": "107244956e9962b9e96faccdc551825e0ae0898ae13737133e1b921a2fd35ffa",
    "DejaVuSansMono.ttf": "602ec86b8948cfcd956482fe64f94c36c867770149ef2f791d4613f443bcecb3",
    "DejaVuSans-Bold.ttf": "b184b89e3c1075f22f6b71575b6fc20d4972b3cfd3b23322ca6fd596dcaef167",
}


def calibration_lines(folder: Path) -> Path:
    """32 lines, as a file of float32 (lines, 3, 48, 320)."""
    return _stored(folder / "calibration-lines.npz", CALIBRATION_LINES, seed=1)


def judged_lines(folder: Path) -> Path:
    """32 other lines."""
    return _stored(folder / "judged-lines.npz", JUDGED_LINES, seed=2)


def _stored(path: Path, lines: tuple[str, ...], seed: int) -> Path:
    if not path.exists():
        rng = np.random.default_rng(seed)
        images = [line_image(text, number, rng) for number in (0, 1) for text in lines]
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, x=np.stack(images))
    return path


def line_image(text: str, number: int, rng: np.random.Generator) -> Array:
    """A line of text as the recognizer takes it.

    Args:
        text: The line.
        number: Its place in the set: every fourth is light on dark.
        rng: What font, ink, paper, blur and noise are drawn from.

    Returns:
        [3, 48, 320], float32, in [-1, 1]; 0 behind the text.
    """
    font = ImageFont.truetype(str(_font(list(_FONTS)[int(rng.integers(len(_FONTS)))])), 30)
    box = font.getbbox(text)
    ink, paper = (rng.integers(0, 70, 3), rng.integers(190, 256, 3))
    if number % 4 == 1:
        ink, paper = paper, ink
    page = Image.new("RGB", (int(box[2]) + 16, 44), tuple(int(c) for c in paper))
    ImageDraw.Draw(page).text((8, 4), text, tuple(int(c) for c in ink), font)
    page = page.filter(ImageFilter.GaussianBlur(float(rng.uniform(0.0, 0.3))))
    width = min(WIDTH, round(page.width * HEIGHT / page.height))
    pixels = np.asarray(page.resize((width, HEIGHT), Image.Resampling.BILINEAR), np.float32)
    pixels = np.clip(pixels + rng.normal(0, 2, pixels.shape), 0, 255)
    image = np.zeros((3, HEIGHT, WIDTH), np.float32)
    image[:, :, :width] = pixels.transpose(2, 0, 1) / 127.5 - 1
    return image


def read(scores: Array) -> list[str]:
    """What the recognizer's output says, greedily (CTC: repeats are one, 0 is nothing).

    Args:
        scores: float32 (lines, steps, 6625): blank, the file's characters, a space.
    """
    characters = ["", *alphabet(), " "]
    texts = []
    for best in scores.argmax(axis=2):
        changed = np.concatenate([[True], best[1:] != best[:-1]])
        texts.append("".join(characters[index] for index in best[changed]))
    return texts


def alphabet() -> list[str]:
    """The characters that the recognizer knows, in its order, from its file's metadata."""
    proto = onnx.load(fetch_package_file(*MODEL), load_external_data=False)
    stored = {entry.key: entry.value for entry in proto.metadata_props}
    return stored["character"].splitlines()


def _font(name: str) -> Path:
    member = f"matplotlib/mpl-data/fonts/ttf/{name}"
    return fetch_package_file("matplotlib", "3.10.8", member, _FONTS[name])
