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
        "The target formats, separated by commas.",
        ["onnx"],
        metavar="FORMAT",
        split=True,
        usual=True,
        values="emitters",
        affects=("plan",),
    )
    precision: list[str] = _target(
        "--precision",
        "The precisions, separated by commas. fp16+int4-weights computes in fp16 and stores "
        "weights in 4 bits; other pairs likewise.",
        ["fp32"],
        metavar="PRECISION",
        split=True,
        usual=True,
        values="precisions",
        affects=("plan",),
    )
    serve: list[str] = _target(
        "--serve",
        "The servers to package for, separated by commas.",
        [],
        metavar="SERVER",
        split=True,
        usual=True,
        values="servers",
        affects=("plan",),
    )
    deploy: list[str] = _target(
        "--deploy",
        "Write files that deploy the packages of --serve. Separate several by commas.",
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
        "Replace the output folder if Modelyard made it and nobody has changed it.",
        False,
        usual=True,
        affects=("results",),
    )
    keep_going: bool = _target(
        "--keep-going",
        "Leave out the targets and precisions that can't be made and the artifacts that miss a "
        "gate, and write the others. If a gate was missed, the exit code is still 4.",
        False,
        usual=True,
        affects=("plan", "results"),
    )
    repository: str | None = _target(
        "--repository",
        "Also add the package to this model repository, as the model's next version: a folder, or "
        "its URL (s3://BUCKET/FOLDER).",
        metavar="DIR",
        affects=("results",),
    )
    one_name: bool = _target(
        "--one-name",
        "Serve every precision under the model's own name, each in its own folder. In a "
        "--repository they become versions, in the order of --precision.",
        False,
        needs="precisions",
        affects=("package",),
    )
    shapes: list[str] = _target(
        "--shapes",
        "The smallest, the best and the largest shape of an input. Repeat the option for more "
        "profiles. Default: from the samples and --max-batch.",
        [],
        metavar="NAME:MIN,OPT,MAX",
    )
    external_data: bool = _target(
        "--external-data",
        "Keep the weights in a file beside the .onnx file. Above 2 GB they always are.",
        False,
    )
    keep_steps: bool = _target(
        "--keep-steps",
        "Also write the model after each step (read, simplified, in each precision, legalized) "
        "for modelyard diff, and verify each simplifying pass on its own.",
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
        "Leave out this pass.",
        [],
        metavar="PASS",
        values="passes",
        needs="simplify",
        affects=("simplify",),
    )

    description: str | None = _target(
        "--description",
        "What the model does. It goes into the artifact's metadata.",
        metavar="TEXT",
    )
    author: str | None = _target(
        "--author", "The model's author, for the metadata.", metavar="NAME"
    )
    license: str | None = _target(
        "--license", "The model's licence, for the metadata.", metavar="TEXT"
    )
    model_version: str | None = _target(
        "--model-version", "The model's version, for the metadata.", metavar="TEXT"
    )


@dataclass
class PrecisionOptions:
    """How a model is brought to a lower precision."""

    calibration_samples: str | None = _precision(
        "--calibration-samples",
        "The samples that calibration measures value ranges on, in the form of --samples. "
        "Default: --samples.",
        metavar="PATH|FILE:FUNCTION|random:N",
        needs="quantize",
        affects=("calibrate", "quantize"),
    )
    calibration_limit: int | None = _precision(
        "--calibration-limit",
        "Use only the first N calibration samples.",
        metavar="N",
        needs="quantize",
        affects=("calibrate", "quantize"),
    )
    few_samples: bool = _precision(
        "--few-samples",
        "Allow calibration on fewer samples than recommended.",
        False,
        needs="measured",
        affects=("calibrate", "quantize"),
    )
    calibration: str = _precision(
        "--calibration",
        "How a range is chosen from the measured values. auto takes mse, and tries minmax if "
        "mse misses a gate and no budget is set.",
        "auto",
        choices=("auto", "minmax", "moving", "percentile", "entropy", "mse"),
        needs="integers",
    )
    weight_methods: list[str] = _precision(
        "--weight-methods",
        "What quantization does to weights, separated by commas. equalize is for schemes with "
        "one scale for each weight.",
        ["rounding", "bias"],
        metavar="METHOD",
        split=True,
        values="weight methods",
        needs="weights",
    )
    keep_float: list[str] = _precision(
        "--keep-float",
        "Leave these nodes in float32: a name or an operator; * stands for any text.",
        [],
        metavar="PATTERN",
        needs="quantize",
    )
    palette_bits: int = _precision(
        "--palette-bits",
        "The bits of each weight in palettized artifacts: 1, 2, 4, 6 or 8.",
        6,
        metavar="N",
        needs="palettes",
    )
    io_dtype: str = _precision(
        "--io-dtype",
        "The type of inputs and outputs that are float32 in the source. fp16 artifacts can have"
        " float16, bf16 artifacts bfloat16, and int8 artifacts int8 or uint8 with a scale.",
        "float32",
        choices=("float32", "float16", "bfloat16", "int8", "uint8"),
        affects=("quantize", "emit", "check", "bench"),
    )
    search_evaluations: int | None = _precision(
        "--search-evaluations",
        "The most models to try in the search for layers that must stay in float32. Default: by"
        " the model's size, about two minutes' worth.",
        metavar="N",
    )
    search_seconds: float | None = _precision(
        "--search-seconds",
        "Also end that search after this time. Its result then depends on the machine.",
        metavar="S",
        needs="search",
    )
