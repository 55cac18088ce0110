"""Finds tensors of two models that are the same under different names, by contents or making.

What a tensor holds is known by its shape and a fixed choice of its values on every sample.
Tensors with a single value throughout are left out: they prove nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from converter.analysis.intermediate_outputs import chunked
from converter.check.sums import is_float
from converter.diff.side import Side
from converter.samples import Sample

Array = np.ndarray[Any, Any]

VALUES = 4096
"""Most values of a tensor and sample to know it by."""


def same_contents(
    a: Side,
    names_a: Sequence[str],
    b: Side,
    names_b: Sequence[str],
    samples: Sequence[Sample],
    tolerance: float,
) -> list[tuple[str, str]]:
    """Pairs of tensors that hold nearly the same.

    Each tensor is in one pair at most; of several that fit, the closest is taken, then the first.

    Args:
        a: The first model, which runs the samples.
        names_a: Its tensors that are looked at.
        b: The second model.
        names_b: Its tensors that are looked at.
        samples: What both run on.
        tolerance: How far apart values may be, as a share of the tensor's largest.

    Returns:
        Names of ``names_a`` with those of ``names_b``.
    """
    if not names_a or not names_b:
        return []
    known_b = _by_shape(_contents(b, names_b, samples))
    found = []
    for name, shapes, values in _contents(a, names_a, samples):
        largest = float(np.max(np.abs(values)))
        best: tuple[float, str] | None = None
        for other, theirs in known_b.get(shapes, {}).items():
            error = float(np.max(np.abs(values - theirs)))
            if error <= tolerance * largest and (best is None or error < best[0]):
                best = error, other
        if best is not None:
            del known_b[shapes][best[1]]
            found.append((name, best[1]))
    return found


def pair_alike(a: Side, names_a: Sequence[str], b: Side, pairs: dict[str, str]) -> bool:
    """Pairs tensors that the same operator makes of paired inputs.

    A pair needs a counterpart that is the only one.

    Args:
        a: The first model.
        names_a: Its tensors, in the graph's order; those that have a counterpart already are passed
            over.
        b: The second model.
        pairs: Names of A's tensors with those of B's; what is found is added.

    Returns:
        Whether any was added.
    """
    count = len(pairs)
    taken = set(pairs.values())
    for name in names_a:
        if name in pairs:
            continue
        making = _making(a, name, {**b.feeding, **pairs})
        same = {item: item for item in (*b.values, *b.feeding.values())}
        alike = [
            other
            for other in _following(b, making)
            if other not in taken and _making(b, other, same) == making
        ]
        if len(alike) == 1:
            pairs[name] = alike[0]
            taken.add(alike[0])
    return len(pairs) > count


def _making(side: Side, name: str, called: Mapping[str, str]) -> Making | None:
    """Operator, output and inputs of the node that makes a tensor; an input by what it is called
    in B, a weight by its shape. None where an input isn't known there."""
    node = side.producer(name)
    inputs: list[object] = []
    for value in node.inputs:
        if value is not None and (value.name or "") in called:
            inputs.append(called[value.name or ""])
        elif value is None or value.is_initializer():
            inputs.append(None if value is None else tuple(value.shape or ()))
        else:
            return None
    return node.op_type, node.outputs.index(side.values[name]), tuple(inputs)


def _following(b: Side, making: Making | None) -> list[str]:
    """The tensors of B that are made from an input of ``making``."""
    if making is None:
        return []
    names = [item for item in making[2] if isinstance(item, str)]
    return b.read_by.get(names[0], []) if names else []


Making = tuple[str, int, tuple[object, ...]]
Known = tuple[str, tuple[Any, ...], Array]


def _by_shape(known: Iterator[Known]) -> dict[tuple[Any, ...], dict[str, Array]]:
    found: dict[tuple[Any, ...], dict[str, Array]] = {}
    for name, shapes, values in known:
        found.setdefault(shapes, {})[name] = values
    return found


def _contents(side: Side, names: Sequence[str], samples: Sequence[Sample]) -> Iterator[Known]:
    """Name, shapes on each sample, and the chosen values of all samples, for float tensors."""
    for piece in chunked(side.model.graph, names):
        seen: dict[str, list[tuple[tuple[int, ...], Array]]] = {name: [] for name in piece}
        for outputs in side.run(piece, samples):
            for name, array in outputs.items():
                if is_float(array.dtype) and array.dtype.kind != "c":
                    seen[name].append((array.shape, _chosen(array)))
        for name, parts in seen.items():
            values = np.concatenate([values for _, values in parts]) if parts else np.zeros(0)
            if values.size and np.isfinite(values).all() and np.ptp(values) > 0:
                yield name, tuple(shape for shape, _ in parts), values


def _chosen(array: Array) -> Array:
    flat = array.reshape(-1)
    if flat.size > VALUES:
        flat = flat[np.linspace(0, flat.size - 1, VALUES).astype(np.int64)]
    return flat.astype(np.float64)
