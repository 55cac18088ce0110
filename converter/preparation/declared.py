"""What stands between a user's file and a model, as data.

``prepare`` says how a picture, a sound, a text or a table's rows become the model's inputs,
``answer`` what its outputs mean. One declaration serves samples, servers, clients and
:func:`modelyard.load`, and lies in ``manifest.json``. :mod:`converter.preparation.stages` does what
it says. It is of the model as it was converted, whatever types an artifact stores: where an
artifact's inputs are integers that stand for real numbers, the real numbers are prepared.

People write the same in YAML: ``prepare:`` and ``answer:`` of a recipe, a list of these or one; a
kind stands in ``kind:``, and what has a default may be left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from converter.ir.model import TensorSpec

IN_GRAPH = "in_graph"
"""The key in :attr:`Model.source` of what was put into the graph of preparation and answers
(:mod:`converter.pipeline.in_graph`), by nodes whose names have one of :data:`NAMES`."""

NAMES = ("/prepare/", "/answer/")

_OF = {"tokens": "ids", "mask": "attention_mask", "segments": "type_ids"}
"""What of an ``Encoding`` of a tokenizer's an input takes, by what the input means."""


class _Data(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, json_schema_serialization_defaults_required=True
    )


class Picture(_Data):
    """An image file becomes an input, in this order: decoded to 8 bits a channel, turned upright
    (EXIF), resized, cut, its channels put in order, each value ``(v * scale - mean) / std``.

    Attributes:
        input: The model's input.
        layout: ``CHW`` or ``HWC``; a batch comes before it.
        color: The order of channels.
        height, width: What the model takes; None where it takes any.
        resize: The shorter side's length, or height and width; None for straight to ``height`` and
            ``width``.
        longest: The longer side's length, which nothing is made larger for; None for none.
        multiple: What both sides are a multiple of then, the nearest.
        crop: Whether what is larger than these after resizing is cut out of the middle.
        interpolation: Pillow's filter, antialiased where the picture gets smaller.
        fill: The grey, 0..255, that a picture is filled up with in the middle of ``height`` and
            ``width`` (letterboxed), resized to the largest that fits; None for none.
        scale: Of the values 0..255, all channels alike.
        mean, std: By channel.
        fused: What of it the graph does itself, of what was declared of the model before: the
            fields say what is left to do.
    """

    kind: Literal["picture"] = "picture"
    input: str
    layout: Literal["CHW", "HWC"]
    color: Literal["gray", "rgb", "bgr", "rgba", "bgra"]
    height: int | None = None
    width: int | None = None
    resize: int | tuple[int, int] | None = None
    longest: int | None = Field(default=None, gt=0)
    multiple: int = Field(default=1, gt=0)
    crop: bool = True
    interpolation: Literal["nearest", "bilinear", "bicubic", "lanczos"] = "bilinear"
    fill: int | None = Field(default=None, ge=0, le=255)
    scale: float = 1.0
    mean: tuple[float, ...]
    std: tuple[float, ...]
    fused: tuple[str, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _one_for_all(cls, said: Any) -> Any:
        """A mean or deviation that is one number is that of each channel."""
        if not isinstance(said, dict):
            return said
        channels = {"gray": 1, "rgba": 4, "bgra": 4}.get(said.get("color", ""), 3)
        one = (key for key in ("mean", "std") if isinstance(said.get(key), int | float))
        return {**said, **{key: (said[key],) * channels for key in one}}


class TextInput(_Data):
    """An input of tokens: which part of an encoding it takes, its type, what fills it up."""

    name: str
    of: str
    dtype: str
    fill: int | None = None


class Sentence(_Data):
    """A text, or two, become the model's inputs by its own tokenizer.

    Attributes:
        file: The tokenizer's, in the output's folder.
        longest: How many tokens a text is cut to; None for none.
        length: How many it is filled up to; None where the model takes any number.
        inputs: The model's inputs.
    """

    kind: Literal["text"] = "text"
    file: str
    longest: int | None = None
    length: int | None = None
    inputs: list[TextInput]


class Spectrum(_Data):
    """What a window of a sound becomes: its short-time Fourier transform's magnitudes, [bins,
    frames], as they are, as energies of mel bands, or as their logarithms.

    Attributes:
        size: Samples of a frame.
        hop: Samples from one frame's start to the next's.
        window: What a frame is multiplied with, periodic.
        center: Whether frame k has sample ``k * hop`` in its middle; the sound is mirrored at its
            ends. Else it begins there.
        power: Of the magnitudes.
        mels: Bands; None for the transform's own bins.
        low, high: Where the lowest band begins and the highest ends, in Hz; None: half the rate.
        scale: Of the bands' places: Slaney's, linear below 1 kHz, or HTK's.
        norm: Whether each band is divided by its width (Slaney's).
        log: Whose logarithm is taken: ``log10``, ``ln`` or ``db`` (10 log10); none where empty.
        floor: The smallest value whose logarithm is taken.
        span: How far below the largest of a window values go, after the logarithm; None: as far as
            they do.
        shift, gain: The last step: ``(v + shift) * gain``.
        drop_last: Whether the last frame is left out, as Whisper does.
        frames_first: Whether it is [frames, bins].
    """

    size: int = Field(gt=0)
    hop: int = Field(gt=0)
    window: Literal["hann", "hamming", "ones"] = "hann"
    center: bool = True
    power: float = 2.0
    mels: int | None = Field(default=None, gt=0)
    low: float = Field(default=0.0, ge=0)
    high: float | None = None
    scale: Literal["slaney", "htk"] = "slaney"
    norm: bool = True
    log: Literal["", "log10", "ln", "db"] = ""
    floor: float = Field(default=1e-10, gt=0)
    span: float | None = None
    shift: float = 0.0
    gain: float = 1.0
    drop_last: bool = False
    frames_first: bool = False


class Sound(_Data):
    """A sound file becomes an input: decoded, mixed to one channel, resampled (soxr, HQ), cut into
    windows, which are the batch.

    Attributes:
        input: The model's input, of [windows, samples].
        channel: Where it has an axis for its one channel besides: ``first`` for [windows, 1,
            samples], ``last`` for [windows, samples, 1].
        mask: The input, of [windows, samples], that says which samples are sound (1) and which
            silence that fills up (0); None where the model has none.
        rate: Samples a second.
        normalize: Whether it is brought to mean 0 and variance 1, as Wav2Vec2 wants it.
        length: Samples of a window; None for the whole sound in one row.
        hop: Samples from one window's start to the next's; None for one window, cut or filled up.
        before, after: Samples of silence that windows hold before and behind the sound.
        spectrum: What a window becomes; None where the model takes samples.
        fused: What of it the graph does itself, of what was declared of the model before: the
            fields say what is left to do.
    """

    kind: Literal["sound"] = "sound"
    input: str
    channel: Literal["", "first", "last"] = ""
    mask: str | None = None
    rate: int = Field(gt=0)
    normalize: bool = False
    length: int | None = Field(default=None, gt=0)
    hop: int | None = Field(default=None, gt=0)
    before: int = Field(default=0, ge=0)
    after: int = Field(default=0, ge=0)
    spectrum: Spectrum | None = None
    fused: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _windows_have_a_length(self) -> Self:
        if self.length is None and (self.hop or self.before or self.after):
            raise ValueError("hop, before and after are of windows: give their length")
        return self


class Cells(_Data):
    """An input of columns: their names in order, and its type."""

    name: str
    columns: tuple[str, ...]
    dtype: str


class Row(_Data):
    """A table's lines (CSV with a header) become the model's inputs, a row each.

    Attributes:
        inputs: The model's inputs.
    """

    kind: Literal["row"] = "row"
    inputs: tuple[Cells, ...]


class Constant(_Data):
    """An input that is the same for every file: a state at its start, say."""

    kind: Literal["constant"] = "constant"
    input: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    value: float = 0.0


class State(_Data):
    """An input that goes from window to window of a sound: the first gets what it is at the start,
    each other what the model gave for the window before. Windows run one by one then, in order.

    Attributes:
        input: The model's input.
        next: The output that is the next window's.
        shape, dtype, value: What it is at the start.
    """

    kind: Literal["state"] = "state"
    input: str
    next: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    value: float = 0.0


class _Code(_Data):
    """A function of the user's.

    Attributes:
        step: ``FILE.py:FUNCTION``.
        requires: What pip installs for it.
        code: The file's text; empty where the file lies beside what does it.
    """

    kind: Literal["step"] = "step"
    step: str = Field(pattern=r"\.py:\w+$")
    requires: tuple[str, ...] = ()
    code: str = ""


class Step(_Code):
    """A function of the user's makes the model's inputs: of a file's bytes, or of a text or a
    table as ``str``, arrays by the inputs' names, with the batch first. A ``ValueError`` says what
    is wrong with a file.

    Attributes:
        takes: The kind of files.
    """

    takes: Literal["picture", "sound", "text", "row"] = "picture"


class Meant(_Code):
    """A function of the user's makes an answer, as JSON has it: of the outputs by name, and of what
    was seen of the file (:class:`stages.Seen`)."""


def file_kind(item: Prepare) -> str:
    """The kind of files that it takes; ``constant`` where it takes none."""
    return item.takes if isinstance(item, Step) else item.kind


class Classes(_Data):
    """An output's last axis has a value for each class.

    Attributes:
        output: The model's output.
        labels: The classes' names, in order; empty where they have none.
        activation: What makes probabilities of the values; empty where they are such, or nobody
            knows.
        top: How many are told, the best first.
        fused: What of it the graph does itself, of what was declared of the model before: the
            fields say what is left to do.
    """

    kind: Literal["classes"] = "classes"
    output: str
    labels: tuple[str, ...] = ()
    activation: Literal["", "softmax", "sigmoid"] = ""
    top: int = Field(default=5, ge=1)
    fused: tuple[str, ...] = ()


class Boxes(_Data):
    """Outputs are boxes with scores; told in the picture's own pixels, as x0, y0, x1, y1.

    Attributes:
        output: The boxes' output, of [1, n, 4]; or of [1, n, 4 + classes] with the scores behind.
        transposed: Whether it is [1, 4 + classes, n].
        scores: The output of [1, n] or [1, n, classes]; None where they stand behind the boxes.
        classes: The output that says each box's class; None where the best score says it.
        format: Of a box, in that order; ``c`` is the middle, ``w`` and ``h`` are sizes.
        relative: Whether places are shares of the model's picture, and not its pixels.
        objectness: Whether the first score is that of any object, which the others are times.
        background: Whether the last class stands for none.
        activation: What makes probabilities of scores.
        labels: The classes' names.
        threshold: The smallest score that is told.
        iou: The overlap from which the worse of two boxes of a class is left out; None where the
            model has done that.
        most: How many are told.
        outside: Whether it is left to whoever asks, with ``--prepare graph`` too.
        fused: What of it the graph does itself, of what was declared of the model before: the
            fields say what is left to do.
    """

    kind: Literal["boxes"] = "boxes"
    output: str
    transposed: bool = False
    scores: str | None = None
    classes: str | None = None
    format: Literal["xyxy", "yxyx", "xywh", "cxcywh"] = "xyxy"
    relative: bool = False
    objectness: bool = False
    background: bool = False
    activation: Literal["", "softmax", "sigmoid"] = ""
    labels: tuple[str, ...] = ()
    threshold: float = 0.25
    iou: float | None = None
    most: int = Field(default=100, ge=1)
    outside: bool = False
    fused: tuple[str, ...] = ()


class Regions(_Data):
    """An output has each pixel's probability to be of what is looked for, text say; each region of
    high ones is a box in the picture's own pixels, from the top left to the bottom right.

    Boxes are made as DB's post-processing makes them (Liao et al., "Real-time Scene Text Detection
    with Differentiable Binarization"), but upright.

    Attributes:
        output: The model's output, of [1, 1, height, width].
        threshold: The probability from which a pixel is of a region.
        score: The smallest mean probability in a region's box.
        grow: By which share of area over perimeter a box grows on each side: the network finds
            text shrunk.
        least: The shorter side, in the output's pixels, that a region has at least.
        most: How many are told.
    """

    kind: Literal["regions"] = "regions"
    output: str
    threshold: float = 0.3
    score: float = 0.5
    grow: float = Field(default=1.6, ge=0)
    least: int = 3
    most: int = Field(default=1000, ge=1)


class Numbers(_Data):
    """An output's values are numbers, by ``names`` where they have some, in a unit."""

    kind: Literal["numbers"] = "numbers"
    output: str
    names: tuple[str, ...] = ()
    unit: str = ""


class Embedding(_Data):
    """An output is a file's vector.

    Attributes:
        output: The model's output: [1, values], or [1, tokens, values] to be pooled.
        pool: How tokens become one: their ``mean``, the ``first``, or none.
        mask: The input that says which tokens count in the mean; None for all.
        normalize: Whether it is brought to length 1.
        fused: What of it the graph does itself, of what was declared of the model before: the
            fields say what is left to do.
    """

    kind: Literal["embedding"] = "embedding"
    output: str
    pool: Literal["none", "mean", "first"] = "none"
    mask: str | None = None
    normalize: bool = False
    fused: tuple[str, ...] = ()


class Spelled(_Data):
    """An output of [1, steps, letters] is a text by CTC's best path.

    Attributes:
        output: The model's output.
        letters: What each index stands for, the blank too.
        blank: Its index.
        activation: What makes probabilities of the values.
        scores: The output of [1, steps] that says what each step scores, where ``output`` is the
            best path itself: of [1, steps], letters' indices, and -1 where there is none.
        outside: Whether it is left to whoever asks, with ``--prepare graph`` too.
        fused: What of it the graph does itself, of what was declared of the model before: the
            fields say what is left to do.
    """

    kind: Literal["text"] = "text"
    output: str
    letters: tuple[str, ...]
    blank: int = 0
    activation: Literal["", "softmax", "sigmoid"] = ""
    scores: str | None = None
    outside: bool = False
    fused: tuple[str, ...] = ()


class Series(_Data):
    """An output has values along a sound: [windows, steps, values], or one a window.

    Attributes:
        output: The model's output.
        name: What an answer calls it.
        rate: Steps a second.
        names: Of the values of a step; empty where there is one.
        trim: Steps at each end of a window that the next one has, too: cut off.
    """

    kind: Literal["series"] = "series"
    output: str
    name: str = "series"
    rate: float = Field(gt=0)
    names: tuple[str, ...] = ()
    trim: int = Field(default=0, ge=0)


class Segments(_Data):
    """Where along a sound a probability is high: segments, in seconds.

    One begins where the probability reaches ``threshold``, and ends where it fell below ``release``
    for ``pause``. Values are along a sound as a :class:`Series` has them. The rules are those of
    Silero VAD's ``get_speech_timestamps``.

    Attributes:
        output: The model's output.
        rate: Steps a second.
        column: Which of a step's values it is.
        activation: What makes probabilities of the values.
        trim: Steps at each end of a window that the next one has, too: cut off.
        threshold: The probability that begins a segment.
        release: The one below which it may end; None for .15 below ``threshold``.
        least: Seconds; what isn't longer is left out.
        pause: Seconds below ``release`` that end a segment.
        pad: Seconds that a segment gets at each end; of two that are nearer, half of the gap.
        longest: Seconds of the longest segment, ``pad`` included: a longer one is cut in its
            longest pause, or there; None for any.
    """

    kind: Literal["segments"] = "segments"
    output: str
    rate: float = Field(gt=0)
    column: int = Field(default=0, ge=0)
    activation: Literal["", "softmax", "sigmoid"] = ""
    trim: int = Field(default=0, ge=0)
    threshold: float = Field(default=0.5, gt=0, le=1)
    release: float | None = Field(default=None, gt=0, le=1)
    least: float = Field(default=0.25, ge=0)
    pause: float = Field(default=0.1, ge=0)
    pad: float = Field(default=0.03, ge=0)
    longest: float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _ends_below_where_it_begins(self) -> Self:
        if self.release is not None and self.release > self.threshold:
            raise ValueError("release is the lower threshold, and larger than threshold")
        if self.longest is not None and self.longest <= 2 * self.pad + 1 / self.rate:
            raise ValueError("longest has no room for a step between its pads")
        return self


class Masks(_Data):
    """An output has a value for each class and pixel, or each pixel's class; told in the picture's
    own size.

    Attributes:
        output: The model's output, of [1, classes, height, width], [1, height, width, classes] or
            [1, height, width].
        labels: The classes' names.
        channels_last: Whether classes are the last axis.
        outside: Whether it is left to whoever asks, with ``--prepare graph`` too.
        fused: What of it the graph does itself, of what was declared of the model before: the
            fields say what is left to do.
    """

    kind: Literal["masks"] = "masks"
    output: str
    labels: tuple[str, ...] = ()
    channels_last: bool = False
    outside: bool = False
    fused: tuple[str, ...] = ()


class Keypoints(_Data):
    """An output has points of a picture; told in its own pixels.

    Attributes:
        output: The model's output, of [1, points, 2] or, with a score, [1, points, 3].
        names: The points' names.
        relative: Whether places are shares of the model's picture, and not its pixels.
        order: Of a point: ``xy`` or ``yx``.
        threshold: The smallest score that is told.
        fused: What of it the graph does itself, of what was declared of the model before: the
            fields say what is left to do.
    """

    kind: Literal["keypoints"] = "keypoints"
    output: str
    names: tuple[str, ...] = ()
    relative: bool = False
    order: Literal["xy", "yx"] = "xy"
    threshold: float = 0.0
    fused: tuple[str, ...] = ()


class Limits(_Data):
    """What a server takes of one request; more is refused.

    Attributes:
        bytes: Of its body.
        pixels: Of a picture.
        seconds: Of a sound.
        letters: Of a text.
        rows: Of a table.
        files: Of a form.
    """

    bytes: int = 64 << 20
    pixels: int = 64_000_000
    seconds: float = 3600.0
    letters: int = 100_000
    rows: int = 10_000
    files: int = 64


Prepare = Annotated[
    Picture | Sentence | Sound | Row | Constant | State | Step, Field(discriminator="kind")
]
Meaning = Annotated[
    Classes
    | Boxes
    | Regions
    | Numbers
    | Embedding
    | Spelled
    | Series
    | Segments
    | Masks
    | Keypoints
    | Meant,
    Field(discriminator="kind"),
]


class Declaration(_Data):
    """How users' files become inputs, and outputs answers.

    Attributes:
        version: Of this schema.
        prepare: What inputs are made of; empty where that isn't known.
        answer: What outputs mean; empty where that isn't known.
        notes: Where what was written in a recipe is other than what is known without it, both
            values; what none of these can say.
    """

    version: Literal[1] = 1
    prepare: tuple[Prepare, ...] = ()
    answer: tuple[Meaning, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def steps(self) -> list[str]:
        """The functions of the user's that it names."""
        return [item.step for item in (*self.prepare, *self.answer) if isinstance(item, _Code)]

    @property
    def requires(self) -> list[str]:
        """What pip installs for these."""
        own = (item for item in (*self.prepare, *self.answer) if isinstance(item, _Code))
        return list(dict.fromkeys(name for item in own for name in item.requires))


IN_TURN = 1200.0
"""Seconds of a sound whose windows run one by one, each some tenths of a millisecond to a few: more
is no answer within a request's time."""


def limits_of(declared: Declaration) -> Limits:
    """What a package that prepares takes of one request, unless it is told otherwise."""
    in_turn = any(isinstance(item, State) for item in declared.prepare)
    return Limits(seconds=IN_TURN) if in_turn else Limits()


def tops_of(declared: Declaration | None) -> dict[str, tuple[str, str]]:
    """The outputs of the best classes that a graph gives itself, their scores and indices, by the
    output whose they are."""
    known = (item for item in declared.answer if isinstance(item, Classes)) if declared else ()
    return {item.output: top_names(item.output) for item in known if "top" in item.fused}


def top_names(output: str) -> tuple[str, str]:
    """The outputs of the best classes of an output: their scores, and which they are."""
    return f"{output}_top", f"{output}_top_index"


def sentence_of(inputs: Sequence[TensorSpec], texts: Mapping[str, Any]) -> Sentence | None:
    """How a text becomes a model's inputs.

    Args:
        inputs: The model's.
        texts: ``file``, the tokenizer's; ``longest`` and ``pad``, how many tokens a text is cut to
            and the one that fills up, or None.

    Returns:
        None where the inputs aren't a text's, or the tokenizer can't fill up.
    """
    shapes = [spec.shape or () for spec in inputs]
    plain = all(
        len(shape) == 2 and (shape[0] == 1 or isinstance(shape[0], str)) for shape in shapes
    )
    if not texts or not plain or any(spec.meaning not in _OF for spec in inputs):
        return None
    last, pad = shapes[0][1], texts["pad"]
    length = last if isinstance(last, int) else None
    if length is not None and pad is None:
        return None
    return Sentence(
        file=texts["file"],
        longest=texts["longest"] if length is None else length,
        length=length,
        inputs=[
            TextInput(
                name=spec.name,
                of=_OF[spec.meaning or ""],
                dtype=spec.dtype,
                fill=pad if spec.meaning == "tokens" else 0,
            )
            for spec in inputs
        ],
    )


def classes_of(outputs: Sequence[TensorSpec]) -> tuple[Classes, ...]:
    """What of a model's outputs are classes: those with names, or with what makes probabilities."""
    return tuple(
        Classes.model_validate(
            {
                "output": spec.name,
                "labels": spec.labels or (),
                "activation": spec.activation or "",
            }
        )
        for spec in outputs
        if spec.is_float and (spec.labels or spec.activation) and spec.shape
    )
