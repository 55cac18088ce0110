"""Made-up samples: seeded random values, for where the user has none."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cached_property

import numpy as np

from converter.errors import ModelError, UsageError
from converter.files.digest import digest_of
from converter.ir.model import BATCH, TensorSpec
from converter.ir.possible import impossible
from converter.samples.base import Array, Sample, Samples
from converter.samples.fit import numpy_dtype
from converter.samples.stored import LARGEST


class RandomSamples(Samples):
    """Random values by dtype, the same for the same seed.

    | dtype | without a value range | within one |
    |---|---|---|
    | float, complex | normal, mean 0, deviation 1 | uniform |
    | integer | 0 or 1 | uniform, both ends included |
    | quantized integer | any value of its dtype | uniform, both ends included |
    | bool | either | either |

    Args:
        count: How many.
        inputs: The model's inputs. A ``batch`` is 1, every other free dimension as in ``sizes``.
        sizes: Sizes of free dimensions.
        seed: Where the values start.
        origin: Where they came from, for the report.

    Raises:
        UsageError: A free dimension has no size, an input takes text, or is given too large a size.
        ModelError: An input of fixed sizes is too large.
    """

    random = True

    def __init__(
        self,
        count: int,
        inputs: tuple[TensorSpec, ...],
        sizes: Mapping[str, int],
        seed: int,
        origin: str,
    ) -> None:
        self.origin = origin
        self.inputs = inputs
        self._count = count
        self._seed = seed
        _check_sizes(inputs, sizes)
        self._shapes = {spec.name: spec.sized({**sizes, BATCH: 1}) for spec in inputs}
        _check_bytes(inputs, self._shapes)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Sample]:
        for index in range(self._count):
            generator = np.random.default_rng([self._seed, index])
            feeds = {
                spec.name: random_values(generator, spec, self._shapes[spec.name])
                for spec in self.inputs
            }
            yield Sample(f"random[{index}]", feeds)

    @cached_property
    def digest(self) -> str:
        """The sha256 over all that the values follow from."""
        specs = [
            [spec.name, spec.dtype, self._shapes[spec.name], spec.value_range]
            for spec in self.inputs
        ]
        return digest_of({"random": specs, "seed": self._seed, "count": self._count})

    @property
    def labelled(self) -> bool:
        """Made-up samples have no labels."""
        return False


def _check_sizes(inputs: tuple[TensorSpec, ...], sizes: Mapping[str, int]) -> None:
    problems = []
    for spec in inputs:
        if spec.shape is None:
            problems.append(f"{spec.name}: even the number of its dimensions is unknown")
        elif why := impossible(tuple(sizes.get(str(dim), dim) for dim in spec.shape)):
            problems.append(f"{spec.name}: {why}")
        if spec.dtype == "string":
            problems.append(f"{spec.name}: text can't be made up")
        for dim in spec.shape or ():
            if isinstance(dim, str) and dim != BATCH and dim not in sizes:
                problems.append(f"{spec.name}: {dim} of {spec.describe()} has no size")
    if problems:
        raise UsageError(
            "random samples can't be made for this model",
            code="size-unknown",
            details=problems,
            hint="Give each free dimension a size with --dim NAME=SIZE, or give --samples. "
            "--input NAME:DIMxDIM fixes the sizes in the model.",
        )


def _check_bytes(inputs: tuple[TensorSpec, ...], shapes: Mapping[str, tuple[int, ...]]) -> None:
    sizes = {spec: math.prod(shapes[spec.name]) * numpy_dtype(spec).itemsize for spec in inputs}
    large = [spec for spec, size in sizes.items() if size > LARGEST]
    if not large:
        return
    message = "random samples can't be made for this model"
    details = [
        f"{spec.name}: {spec.describe()} has {sizes[spec]:,} bytes; at most {LARGEST:,} are made up"
        for spec in large
    ]
    if all(isinstance(dim, int) for spec in large for dim in spec.shape or ()):
        raise ModelError(message, code="model-too-large", details=details)
    raise UsageError(
        message, code="option-value", details=details, hint="Give smaller sizes: --dim NAME=SIZE."
    )


def random_values(
    generator: np.random.Generator, spec: TensorSpec, shape: tuple[int, ...]
) -> Array:
    """Values as :class:`RandomSamples` has them.

    Args:
        generator: The same state gives the same values.
        spec: Dtype and range of the values; floats without a range are normal, of mean 0 and
            deviation 1.
        shape: The array's.
    """
    dtype = numpy_dtype(spec)
    values: Array
    if spec.dtype == "bool":
        values = generator.integers(0, 2, shape).astype(bool)
    elif not spec.is_float and not spec.dtype.startswith("complex"):
        low, high = spec.value_range or (0, 1)
        if spec.scale is not None and spec.value_range is None:
            low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        values = generator.integers(int(low), int(high), shape, endpoint=True).astype(dtype)
    elif spec.value_range:
        values = generator.uniform(*spec.value_range, shape).astype(dtype)
    else:
        values = generator.standard_normal(shape, np.float32).astype(dtype)
    values = np.asarray(values)  # numpy gives a scalar for the shape ()
    values.setflags(write=False)
    return values
