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
        "The weights of a model class (.pth, .pt or .safetensors), or the checkpoint of a .meta"
        " graph.",
        metavar="FILE",
        usual=True,
    )
    weights_key: str | None = _source(
        "--weights-key", "The key of the state_dict in the checkpoint.", metavar="KEY"
    )
    args: list[Any] = _source(
        "--arg",
        "An argument of the model's constructor, as JSON or text. NAME=VALUE is a keyword "
        "argument, or sets a placeholder of a TensorFlow graph.",
        [],
        metavar="[NAME=]VALUE",
    )
    kwargs: dict[str, Any] = field(default_factory=dict, metadata={"affects": ("parse",)})
    inputs: list[str] = _source(
        "--input",
        "An input: its name, dtype (default: float32) and dimensions. A dimension is a number, "
        "or a name if it is free (batchx3x224x224). If the model declares its inputs, this "
        "renames an input, or sets its free dimensions.",
        [],
        metavar="NAME[:DTYPE]:DIMxDIM",
        usual=True,
    )
    outputs: list[str] = _source(
        "--output", "The name of an output. Give one for each output, in order.", [], metavar="NAME"
    )
    dims: dict[str, int] = _source(
        "--dim",
        "The size of a free dimension in samples and checks. With a size above 1, a target may "
        "assume that the dimension is never 1.",
        {},
        metavar="NAME=SIZE",
        usual=True,
        affects=("parse", "samples", "simplify", "masks", "emit", "package"),
    )
    batch: str | None = _source(
        "--batch",
        "The first dimension of the inputs: dynamic (free), a number, or keep. This replaces "
        "what --input or the source says. Default: keep.",
        metavar="dynamic|keep|N",
        usual=True,
        affects=("parse", "simplify"),
    )
    search_paths: list[str] = _source(
        "--search-path",
        "A folder to import the model's code from.",
        [],
        metavar="DIR",
        affects=("parse", "samples"),
    )
    trust_source: bool = _source(
        "--trust-source",
        "Allow the model file to run its own code (pickles, TorchScript, .pt2).",
        False,
        affects=("parse", "emit", "check", "bench"),
    )
    signature: str | None = _source(
        "--signature",
        "The signature of a SavedModel or .tflite file, or the function of an ML program. "
        "Default: serving_default, or the only one.",
        metavar="NAME",
    )
    fix: list[str] = _source(
        "--fix",
        "Give an input a constant value and remove it from the inputs: sr=16000.",
        [],
        metavar="NAME=VALUE",
    )
    random_as_input: bool = _source(
        "--random-as-input",
        "Replace each node of an ONNX file that draws random numbers by an input.",
        False,
    )
    state_as_inputs: bool = _source(
        "--state-as-inputs/--no-state",
        "Turn each state that the source keeps between calls into an input and an output. With "
        "--no-state, every call starts from the stored state.",
        True,
    )
    layout: str | None = _source(
        "--layout",
        "The layout of image inputs and outputs. Default: the source's.",
        choices=("nchw", "nhwc"),
    )
    python: str | None = _source(
        "--python",
        "The Python interpreter that runs the framework. Modelyard installs nothing there. "
        "Default: Modelyard's own.",
        metavar="PATH",
    )
    name: str | None = _source(
        "--name",
        "The model's name. Default: the source's.",
        metavar="NAME",
        affects=("emit", "pack", "package", "results"),
    )


@dataclass
class SampleOptions:
    """What the model is run on."""

    samples: str | None = _samples(
        "--samples",
        "Inputs for checks, calibration and warm-up: .npz, .npy, .csv (numbers, or texts if the"
        " model has a tokenizer), a folder of images, sounds or .npz files, FILE.py:FUNCTION, "
        "or random:N.",
        metavar="PATH|FILE:FUNCTION|random:N",
        usual=True,
        affects=("samples", "calibrate", "quantize"),
    )
    samples_limit: int | None = _samples(
        "--samples-limit", "Use only the first N samples.", metavar="N"
    )
    samples_pattern: str | None = _samples(
        "--samples-pattern",
        "Use only the files of the folder that match this pattern, for example imagenet_*.",
        metavar="GLOB",
    )
    labels: str | None = _samples(
        "--labels",
        "Where labels come from: 'filename' (its last number), 'folder' (one for each class, by "
        "name or number), a CSV of file,label, or 'none'. Also a COCO JSON of boxes, a folder of "
        "masks (PNG), a key of the .npz, or a column of the CSV.",
        metavar="filename|folder|CSV|JSON|MASKS|KEY|none",
        usual=True,
        needs="samples",
    )
    label_names: str | None = _samples(
        "--label-names",
        "A file with the names of the classes, one on each line.",
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
        "Where pictures, sounds and texts become inputs, and outputs become answers: in the "
        "graph (as far as operators can) or in the server. Default: in the client.",
        choices=("graph", "server"),
        needs="prepares",
        affects=("plan", "simplify", "package"),
    )
    image_size: str | None = _images(
        "--image-size",
        "The height and width that the model gets. Default: the model's.",
        metavar="HxW",
    )
    image_resize: str | None = _images(
        "--image-resize",
        "Resize the image to this first: the length of its shorter side, or HxW. Default: "
        "--image-size.",
        metavar="N|HxW",
    )
    image_crop: str = _images(
        "--image-crop",
        "How a resized image is cropped to its size.",
        "center",
        choices=("center", "none"),
    )
    image_scale: float | None = _images(
        "--image-scale",
        "Multiply the pixels (0 to 255) by this first. Default: 1/255 for float inputs.",
        metavar="X",
    )
    image_mean: list[float] = _images(
        "--image-mean",
        "Subtract this from each channel after scaling: numbers, or imagenet, clip, half.",
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
        "Divide each channel by this: numbers, or imagenet, clip, half.",
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
        "--image-color", "The order of colours.", "rgb", choices=("rgb", "bgr", "gray")
    )
    image_layout: str | None = _images(
        "--image-layout",
        "The layout of the image. Default: from the input's shape.",
        choices=("nchw", "nhwc"),
    )
    image_interpolation: str = _images(
        "--image-interpolation",
        "How images are resized.",
        "bilinear",
        choices=("nearest", "bilinear", "bicubic", "lanczos"),
    )
    skip_bad: bool = _samples(
        "--skip-bad", "Leave out samples that can't be read, and list them.", False
    )
    seed: int = _samples(
        "--seed",
        "The seed of random samples.",
        0,
        metavar="N",
        affects=("samples", "calibrate", "check"),
    )
