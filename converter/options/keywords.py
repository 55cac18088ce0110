"""The fields of :class:`converter.options.request.Request`, as keywords of Python calls.

Written by ``python -m converter.cli.keywords``; editors and type checkers read it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

if TYPE_CHECKING:
    import numpy as np

    Text: TypeAlias = str | PathLike[str]
    Arrays: TypeAlias = Mapping[str, Any] | np.ndarray[Any, Any]
    Declared: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any] | str]


class Keywords(TypedDict, total=False):
    """Options; docs/options.md says what each does."""

    weights: Text | None
    weights_key: Text | None
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    inputs: Text | Sequence[Text]
    outputs: Text | Sequence[Text]
    dims: Mapping[str, int]
    batch: Text | int | None
    search_paths: Text | Sequence[Text]
    trust_source: bool
    signature: Text | None
    fix: Text | Sequence[Text]
    random_as_input: bool
    state_as_inputs: bool
    layout: Literal["nchw", "nhwc"] | None
    python: Text | None
    name: Text | None
    to: Text | Sequence[Text]
    precision: Text | Sequence[Text]
    serve: Text | Sequence[Text]
    deploy: Text | Sequence[Text]
    out: Text | None
    overwrite: bool
    keep_going: bool
    repository: Text | None
    one_name: bool
    shapes: Text | Sequence[Text]
    external_data: bool
    keep_steps: bool
    simplify: bool
    skip_passes: Text | Sequence[Text]
    description: Text | None
    author: Text | None
    license: Text | None
    model_version: Text | None
    samples: Text | Arrays | None
    samples_limit: int | None
    samples_pattern: Text | None
    labels: Text | None
    label_names: Text | None
    answer: Declared
    flow: Sequence[Any]
    prepare: Literal["graph", "server"] | Declared | None
    image_size: Text | None
    image_resize: Text | None
    image_crop: Literal["center", "none"]
    image_scale: float | None
    image_mean: Text | float | Sequence[float]
    image_std: Text | float | Sequence[float]
    image_color: Literal["rgb", "bgr", "gray"]
    image_layout: Literal["nchw", "nhwc"] | None
    image_interpolation: Literal["nearest", "bilinear", "bicubic", "lanczos"]
    skip_bad: bool
    seed: int
    calibration_samples: Text | Arrays | None
    calibration_limit: int | None
    few_samples: bool
    calibration: Literal["auto", "minmax", "moving", "percentile", "entropy", "mse"]
    weight_methods: Text | Sequence[Text]
    keep_float: Text | Sequence[Text]
    palette_bits: int
    io_dtype: Literal["float32", "float16", "bfloat16", "int8", "uint8"]
    search_evaluations: int | None
    search_seconds: float | None
    check: bool
    probes: bool
    metric: Text | Sequence[Text]
    min_cosine: float | None
    max_abs_error: float | None
    max_drop: float | Mapping[str, float] | None
    max_latency: float | None
    max_memory: Text | None
    strict: bool
    bench: bool
    bench_batches: Text | int | Sequence[int]
    bench_concurrency: Text | int | Sequence[int]
    bench_seconds: float
    profile: bool
    threads: int | None
    providers: Text | Sequence[Text]
    cuda_graph: bool
    max_batch: int | None
    dynamic_batching: bool
    preferred_batch: Text | int | Sequence[int]
    queue_delay: int
    instances: int
    max_instances: int | None
    request_timeout: int
    instance_kind: Literal["auto", "cpu", "gpu"] | None
    version: int
    version_label: Text | None
    warmup: int
    parameters: Mapping[str, str]
    version_policy: Text
    response_cache: bool
    optimization: Literal["none", "basic", "extended", "all"] | None
    instance_groups: Text | Sequence[Text]
    priority_levels: Text | None
    queue_policies: Text | Sequence[Text]
    sequence: bool
    states: Text | Sequence[Text]
    sequence_batching: Text | None
    ragged: Text | Sequence[Text]
    optimization_level: int | None
    workspace: int | None
    timing_cache: bool
    version_compatible: bool
    hardware_compatible: Literal["ampere+", "same-compute-capability"] | None
    strip_weights: bool
    refit: bool
    weight_streaming: bool
    sparsity: bool
    tf32: bool
    compute_capabilities: Text | Sequence[Text]
    plugins: Text | Sequence[Text]
    replica_cpus: float
    target_ongoing_requests: int
    submodule: Text | None
    ort_optimization: Literal["basic", "extended", "all"]
    reduce_range: bool
    ort_extensions: bool
    mindspore_python: Text | None
    task: Text | None
    registry: Text | None
    base_image: Text | None
    try_image: bool
    port: int | None
    model_from: Text
    replicas: Text | int | Sequence[int]
    memory_limit: int | None
    canary: int | None
    metadata: Mapping[str, str]
    coreml_target: Literal["iOS15", "iOS16", "iOS17", "iOS18", "iOS26"]
    compute_units: Literal["all", "cpu-and-ne", "cpu-and-gpu", "cpu-only"] | None
    coreml_shapes: Text | Sequence[Text]
    coreml_images: Text | Sequence[Text]
    coreml_classifier: bool
    trainable: bool
    dry_run: bool
    offline: bool
    cache: bool | Text
    reuse_source: bool
