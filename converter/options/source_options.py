"""The options of sources and of samples."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from converter.options.option import declared

_source = partial(declared, "Source", affects=("parse",))
_samples = partial(declared, "Samples", affects=("samples", "calibrate"))
_IMAGE_STEPS = ("samples", "calibrate", "emit", "pack", "package")
_images = partial(declared, "Samples", needs="images", affects=_IMAGE_STEPS)


@dataclass
class SourceOptions:
    """What is read, and how."""

    source: str

    weights: str | None = _source(
        "--weights",
        "Weights for a model class: .pth, .pt or .safetensors; for a .meta graph, the checkpoint.",
        metavar="FILE",
        usual=True,
    )
    weights_key: str | None = _source(
        "--weights-key", "Where in the checkpoint the state_dict is.", metavar="KEY"
    )
    args: list[Any] = _source(
        "--arg",
        "Constructor argument, as JSON or text; NAME=VALUE for a keyword, or for a placeholder of "
        "a TensorFlow graph.",
        [],
        metavar="[NAME=]VALUE",
    )
    kwargs: dict[str, Any] = field(default_factory=dict, metadata={"affects": ("parse",)})
    inputs: list[str] = _source(
        "--input",
        "An input: name, dtype (float32 if left out) and dimensions, each a number, or a name that "
        "leaves it free (batchx3x224x224). Of a model that says itself what it takes: an input's "
        "new name, or sizes for its free dimensions.",
        [],
        metavar="NAME[:DTYPE]:DIMxDIM",
        usual=True,
    )
    outputs: list[str] = _source("--output", "Name of an output, in order.", [], metavar="NAME")
    dims: dict[str, int] = _source(
        "--dim",
        "Size of a free dimension, for samples and checks. Above 1, it settles what hangs on it "
        "being 1, where a target needs that.",
        {},
        metavar="NAME=SIZE",
        usual=True,
        affects=("parse", "samples", "simplify", "masks", "emit", "package"),
    )
    batch: str | None = _source(
        "--batch",
        "dynamic (free), or a number, whatever --input or the source has first; or keep. Default: "
        "as they have it.",
        metavar="dynamic|keep|N",
        usual=True,
        affects=("parse", "simplify"),
    )
    search_paths: list[str] = _source(
        "--search-path",
        "Folder to import the model's code from.",
        [],
        metavar="DIR",
        affects=("parse", "samples"),
    )
    trust_source: bool = _source(
        "--trust-source",
        "Let the model file run code of its own (pickles, TorchScript, .pt2).",
        False,
        affects=("parse", "emit", "check", "bench"),
    )
    signature: str | None = _source(
        "--signature",
        "Which signature of a SavedModel or .tflite, or function of an ML program. "
        "Default: serving_default, or the only one.",
        metavar="NAME",
    )
    fix: list[str] = _source(
        "--fix",
        "An input that has one value for good, and is no input then: sr=16000.",
        [],
        metavar="NAME=VALUE",
    )
    random_as_input: bool = _source(
        "--random-as-input",
        "Give the model of an ONNX file an input for each node that draws random numbers.",
        False,
    )
    state_as_inputs: bool = _source(
        "--state-as-inputs/--no-state",
        "Make each state that the source keeps between calls an input and an output, or hold it as "
        "it is stored in every call.",
        True,
    )
    layout: str | None = _source(
        "--layout",
        "Layout of image inputs and outputs. Default: as the source has it.",
        choices=("nchw", "nhwc"),
    )
    python: str | None = _source(
        "--python",
        "Interpreter to run the framework in; nothing is installed there. Default: this one.",
        metavar="PATH",
    )
    name: str | None = _source(
        "--name",
        "The model's name. Default: from the source.",
        metavar="NAME",
        affects=("emit", "pack", "package", "results"),
    )


@dataclass
class SampleOptions:
    """What the model is run on."""

    samples: str | None = _samples(
        "--samples",
        "Inputs for checks and warm-up: .npz, .npy, .csv (numbers, or texts for a model with a "
        "tokenizer), a folder of images, sounds or .npz, "
        "FILE.py:FUNCTION, or random:N.",
        metavar="PATH|FILE:FUNCTION|random:N",
        usual=True,
        affects=("samples", "calibrate", "quantize"),
    )
    samples_limit: int | None = _samples(
        "--samples-limit", "Use only the first N samples.", metavar="N"
    )
    samples_pattern: str | None = _samples(
        "--samples-pattern",
        "Only the files of the folder that match, as in imagenet_*.",
        metavar="GLOB",
    )
    labels: str | None = _samples(
        "--labels",
        "Labels: 'filename' (the last number in it), 'folder' (one a class, by their names or "
        "numbers), a CSV of file,label, COCO's JSON of boxes, a folder of masks (PNG), a key of "
        "the .npz, a CSV's column, or 'none'.",
        metavar="filename|folder|CSV|JSON|MASKS|KEY|none",
        usual=True,
        needs="samples",
    )
    label_names: str | None = _samples(
        "--label-names",
        "Names of the classes, one a line.",
        metavar="FILE",
        affects=_IMAGE_STEPS,
    )
    preparation: list[dict[str, Any]] = field(
        default_factory=list, metadata={"affects": _IMAGE_STEPS}
    )
    answer: list[dict[str, Any]] = field(
        default_factory=list, metadata={"affects": ("quantize", "emit", "check", "pack", "package")}
    )
    layers: dict[str, Any] = field(
        default_factory=dict, metadata={"affects": (*_IMAGE_STEPS, "quantize", "check")}
    )
    flow: list[Any] = field(default_factory=list, metadata={"affects": ("results",)})
    prepare: str | None = declared(
        "Samples",
        "--prepare",
        "Where users' files become inputs, and outputs answers: in the graph, as far as operators "
        "can, or in the server. Default: in the client.",
        choices=("graph", "server"),
        needs="prepares",
        affects=("plan", "simplify", "package"),
    )
    image_size: str | None = _images(
        "--image-size", "Height x width fed to the model. Default: the model's.", metavar="HxW"
    )
    image_resize: str | None = _images(
        "--image-resize",
        "Resize first: the shorter side's length, or HxW. Default: straight to size.",
        metavar="N|HxW",
    )
    image_crop: str = _images(
        "--image-crop", "How a resized image is cut to size.", "center", choices=("center", "none")
    )
    image_scale: float | None = _images(
        "--image-scale",
        "Multiplied with pixels of 0..255 first. Default: 1/255 for float inputs.",
        metavar="X",
    )
    image_mean: list[float] = _images(
        "--image-mean",
        "Subtracted, by channel, after the scale: numbers, or imagenet, clip, half.",
        [],
        metavar="R,G,B|NAME",
        split=True,
        usual=True,
        named={
            "imagenet": (0.485, 0.456, 0.406),
            "clip": (0.48145466, 0.4578275, 0.40821073),
            "half": (0.5,),
        },
    )
    image_std: list[float] = _images(
        "--image-std",
        "Divided by, by channel: numbers, or imagenet, clip, half.",
        [],
        metavar="R,G,B|NAME",
        split=True,
        usual=True,
        named={
            "imagenet": (0.229, 0.224, 0.225),
            "clip": (0.26862954, 0.26130258, 0.27577711),
            "half": (0.5,),
        },
    )
    image_color: str = _images(
        "--image-color", "Colour order.", "rgb", choices=("rgb", "bgr", "gray")
    )
    image_layout: str | None = _images(
        "--image-layout", "Layout. Default: from the input's shape.", choices=("nchw", "nhwc")
    )
    image_interpolation: str = _images(
        "--image-interpolation",
        "How images are resized.",
        "bilinear",
        choices=("nearest", "bilinear", "bicubic", "lanczos"),
    )
    skip_bad: bool = _samples(
        "--skip-bad", "Leave out samples that can't be read, and name them.", False
    )
    seed: int = _samples(
        "--seed",
        "Seed of random samples.",
        0,
        metavar="N",
        affects=("samples", "calibrate", "check"),
    )
