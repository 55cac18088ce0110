"""What a model's outputs mean, as data; see :mod:`converter.preparation.declared`."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from converter.preparation.data import Code, Data


class Classes(Data):
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


class Boxes(Data):
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


class Regions(Data):
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


class Numbers(Data):
    """An output's values are numbers, by ``names`` where they have some, in a unit."""

    kind: Literal["numbers"] = "numbers"
    output: str
    names: tuple[str, ...] = ()
    unit: str = ""


class Embedding(Data):
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


class Spelled(Data):
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


class Series(Data):
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


class Segments(Data):
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


class Masks(Data):
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


class Keypoints(Data):
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


class Meant(Code):
    """A function of the user's makes an answer, as JSON has it: of the outputs by name, and of what
    was seen of the file (:class:`stages.Seen`)."""


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
