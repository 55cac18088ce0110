"""The options of targets, and of lower precisions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from converter.options.option import declared

_target = partial(declared, "Targets", affects=("emit",))
_precision = partial(declared, "Precision", affects=("quantize",))


@dataclass
class TargetOptions:
    """What is written, and what it says of itself."""

    to: list[str] = _target(
        "--to",
        "Target formats, by comma.",
        ["onnx"],
        metavar="FORMAT",
        split=True,
        usual=True,
        values="emitters",
        affects=("plan",),
    )
    precision: list[str] = _target(
        "--precision",
        "Precisions, by comma. fp16+int4-weights (and its like) computes in fp16 beside weights in "
        "fewer bits.",
        ["fp32"],
        metavar="PRECISION",
        split=True,
        usual=True,
        values="precisions",
        affects=("plan",),
    )
    serve: list[str] = _target(
        "--serve",
        "Servers to package for, by comma.",
        [],
        metavar="SERVER",
        split=True,
        usual=True,
        values="servers",
        affects=("plan",),
    )
    deploy: list[str] = _target(
        "--deploy",
        "Where the packages of --serve are deployed, by comma.",
        [],
        metavar="NAME",
        split=True,
        values="deployments",
        affects=("results",),
    )
    out: str | None = _target(
        "--out",
        "The output folder. Default: build/NAME.",
        metavar="DIR",
        usual=True,
        affects=("results",),
    )
    overwrite: bool = _target(
        "--overwrite",
        "Replace an output folder that modelyard made and nobody changed since.",
        False,
        usual=True,
        affects=("results",),
    )
    keep_going: bool = _target(
        "--keep-going",
        "Leave out targets and precisions that can't be, and artifacts that miss a gate, and give "
        "the others; exit code 4 all the same where a gate was missed.",
        False,
        usual=True,
        affects=("plan", "results"),
    )
    repository: str | None = _target(
        "--repository",
        "Also add the served model, at its next version, to this model repository: a folder, or a "
        "URL of one (s3://BUCKET/FOLDER).",
        metavar="DIR",
        affects=("results",),
    )
    one_name: bool = _target(
        "--one-name",
        "Serve every precision under the model's own name, each in a folder of its own; in a "
        "--repository they are versions, in the order of --precision.",
        False,
        needs="precisions",
        affects=("package",),
    )
    shapes: list[str] = _target(
        "--shapes",
        "Smallest, best and largest shape of an input; again for the next profile. Default: from "
        "the samples and --max-batch.",
        [],
        metavar="NAME:MIN,OPT,MAX",
    )
    external_data: bool = _target(
        "--external-data", "Keep weights in a file beside the .onnx (always so above 2 GB).", False
    )
    keep_steps: bool = _target(
        "--keep-steps",
        "Also write the model as read, simplified, in each precision and in what a target has, for "
        "modelyard diff, and compare each simplifying pass by itself.",
        False,
        affects=("plan", "results", "simplify"),
    )
    simplify: bool = _target(
        "--simplify/--no-simplify",
        "Run the simplifying passes.",
        True,
        affects=("simplify", "emit"),
    )
    skip_passes: list[str] = _target(
        "--skip-pass",
        "A pass to leave out.",
        [],
        metavar="PASS",
        values="passes",
        needs="simplify",
        affects=("simplify",),
    )

    description: str | None = _target(
        "--description", "What the model does, for an artifact's metadata.", metavar="TEXT"
    )
    author: str | None = _target("--author", "Who made it, for metadata.", metavar="NAME")
    license: str | None = _target("--license", "Its licence, for metadata.", metavar="TEXT")
    model_version: str | None = _target(
        "--model-version", "Its version, for metadata.", metavar="TEXT"
    )


@dataclass
class PrecisionOptions:
    """How a model is brought to a lower precision."""

    calibration_samples: str | None = _precision(
        "--calibration-samples",
        "Samples to measure value ranges on, as --samples. Default: --samples.",
        metavar="PATH|FILE:FUNCTION|random:N",
        needs="quantize",
        affects=("calibrate", "quantize"),
    )
    calibration_limit: int | None = _precision(
        "--calibration-limit",
        "Use only the first N of them.",
        metavar="N",
        needs="quantize",
        affects=("calibrate", "quantize"),
    )
    few_samples: bool = _precision(
        "--few-samples",
        "Calibrate on fewer samples than are needed.",
        False,
        needs="measured",
        affects=("calibrate", "quantize"),
    )
    calibration: str = _precision(
        "--calibration",
        "How a range is taken from what was measured; auto: mse, and minmax where that misses a "
        "gate and there is no budget.",
        "auto",
        choices=("auto", "minmax", "moving", "percentile", "entropy", "mse"),
        needs="integers",
    )
    weight_methods: list[str] = _precision(
        "--weight-methods",
        "What int8, and weights alone in fewer bits, do to weights, by comma (equalize is for "
        "schemes with one scale a weight).",
        ["rounding", "bias"],
        metavar="METHOD",
        split=True,
        values="weight methods",
        needs="weights",
    )
    keep_float: list[str] = _precision(
        "--keep-float",
        "Nodes to leave in float32: a name or an operator, * for any text.",
        [],
        metavar="PATTERN",
        needs="quantize",
    )
    palette_bits: int = _precision(
        "--palette-bits",
        "Bits of a weight in palettized artifacts: 1, 2, 4, 6 or 8.",
        6,
        metavar="N",
        needs="palettes",
    )
    io_dtype: str = _precision(
        "--io-dtype",
        "Type of float32 inputs and outputs: float16 in fp16 artifacts, bfloat16 in bf16 ones, "
        "int8 or uint8 with a scale in int8 ones.",
        "float32",
        choices=("float32", "float16", "bfloat16", "int8", "uint8"),
        affects=("quantize", "emit", "check", "bench"),
    )
    search_evaluations: int | None = _precision(
        "--search-evaluations",
        "Most models that are tried where layers are looked for that have to stay in float32. "
        "Default: by the model's size, for about two minutes.",
        metavar="N",
    )
    search_seconds: float | None = _precision(
        "--search-seconds",
        "End that search by the clock, too: what it finds then depends on the machine.",
        metavar="S",
        needs="search",
    )
