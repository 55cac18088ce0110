"""How pictures, sounds, texts and a table's rows become a model's inputs, as data; see
:mod:`converter.preparation.declared`."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from converter.preparation.data import Code, Data


class Picture(Data):
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


class TextInput(Data):
    """An input of tokens: which part of an encoding it takes, its type, what fills it up."""

    name: str
    of: str
    dtype: str
    fill: int | None = None


class Sentence(Data):
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


class Spectrum(Data):
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


class Sound(Data):
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


class Cells(Data):
    """An input of columns: their names in order, and its type."""

    name: str
    columns: tuple[str, ...]
    dtype: str


class Row(Data):
    """A table's lines (CSV with a header) become the model's inputs, a row each.

    Attributes:
        inputs: The model's inputs.
    """

    kind: Literal["row"] = "row"
    inputs: tuple[Cells, ...]


class Constant(Data):
    """An input that is the same for every file: a state at its start, say."""

    kind: Literal["constant"] = "constant"
    input: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    value: float = 0.0


class State(Data):
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


class Step(Code):
    """A function of the user's makes the model's inputs: of a file's bytes, or of a text or a
    table as ``str``, arrays by the inputs' names, with the batch first. A ``ValueError`` says what
    is wrong with a file.

    Attributes:
        takes: The kind of files.
    """

    takes: Literal["picture", "sound", "text", "row"] = "picture"


Prepare = Annotated[
    Picture | Sentence | Sound | Row | Constant | State | Step, Field(discriminator="kind")
]


def file_kind(item: Prepare) -> str:
    """The kind of files that it takes; ``constant`` where it takes none."""
    return item.takes if isinstance(item, Step) else item.kind
