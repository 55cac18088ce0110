"""What a model is traced on: the user's first sample where there is one, else made-up values."""

# zip() knows no strict= before Python 3.10.
# ruff: noqa: B905

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from ...worker.errors import WorkerError
from .tensors import Spec, example, torch_dtype

_MOST_SIZES = 4


class Examples:
    """Example inputs, of any size of their symbols.

    Integers that are made up are 0. Where the model doesn't run on that, `settle` looks for others:
    one that counts (a length, of one axis or none) may have to be as large as an axis is.
    """

    def __init__(self, specs: Sequence[Spec], given: Mapping[str, torch.Tensor]) -> None:
        self._specs = list(specs)
        self._given = {spec.name: given[spec.name] for spec in specs if spec.name in given}
        self._fills: dict[str, int] = {}
        self._settled = False

    def extended(self, more: Mapping[Spec, torch.Tensor]) -> Examples:
        """These, and further inputs with their values."""
        made = Examples([*self._specs, *more], {})
        made._given = {**self._given, **{spec.name: value for spec, value in more.items()}}
        made._fills, made._settled = self._fills, self._settled
        return made

    def sizes(self) -> dict[str, int]:
        """The sizes of symbols in what was given."""
        found: dict[str, int] = {}
        for spec in self._specs:
            if spec.name in self._given:
                for dim, size in zip(spec.shape, self._given[spec.name].shape):
                    if isinstance(dim, str):
                        found.setdefault(dim, int(size))
        return found

    def tensors(self, sizes: Mapping[str, int]) -> tuple[torch.Tensor, ...]:
        """One for each input, in order."""
        return tuple(self._tensor(spec, sizes) for spec in self._specs)

    def _tensor(self, spec: Spec, sizes: Mapping[str, int]) -> torch.Tensor:
        if spec.name not in self._given:
            made = example(spec, dict(sizes))
            fill = self._fills.get(spec.name)
            return made if fill is None else torch.full_like(made, fill)
        tensor = self._given[spec.name].to(torch_dtype(spec.dtype))
        for axis, dim in enumerate(spec.shape):
            size = sizes[dim] if isinstance(dim, str) else dim
            if size != tensor.shape[axis]:  # begun anew at its end
                places = torch.arange(size) % max(tensor.shape[axis], 1)
                tensor = tensor.index_select(axis, places)
        return tensor.clone()

    def settle(self, run: Callable[..., Any], sizes: Mapping[str, int]) -> None:
        """Looks, once, for integers that the model runs on, where it doesn't on 0."""
        counts = self._counts()
        if self._settled or not counts:
            return
        self._settled = True
        for fills in self._candidates(counts, sizes):
            self._fills = fills
            try:
                run(*self.tensors(sizes))
                return
            except WorkerError:  # it ran, and gave what can't be exported
                return
            except Exception:  # the user's code may raise anything on values that it can't take
                self._fills = {}

    def _counts(self) -> list[Spec]:
        whole = [spec for spec in self._specs if spec.dtype.startswith(("int", "uint"))]
        return [spec for spec in whole if spec.name not in self._given and len(spec.shape) < 2]

    def _candidates(
        self, counts: Sequence[Spec], sizes: Mapping[str, int]
    ) -> Iterator[dict[str, int]]:
        yield {}
        others = [spec for spec in self._specs if spec not in counts]
        dims = sorted((d for s in others for d in s.shape[1:]), key=lambda d: isinstance(d, int))
        found = [sizes[dim] if isinstance(dim, str) else dim for dim in dims]  # free ones first
        for size in [*list(dict.fromkeys(found))[:_MOST_SIZES], 1]:
            yield {spec.name: size for spec in counts}

    def told(self) -> str:
        """The values, in words."""
        if len(self._given) == len(self._specs):
            return "the first sample's values"
        told = [f"{spec.name} {self._value(spec)}" for spec in self._specs]
        return ", ".join(told) + "; --samples gives it values of yours"

    def _value(self, spec: Spec) -> str:
        if spec.name in self._given:
            return "as given"
        if spec.dtype == "bool":
            return "true"
        whole = spec.dtype.startswith(("int", "uint"))
        return f"all {self._fills.get(spec.name, 0)}" if whole else "normal noise"
