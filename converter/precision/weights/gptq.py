"""GPTQ: weights on a grid, one input after the other, each error passed on to those still free.

Frantar et al. 2022, "GPTQ", section 3: the inverse Hessian's Cholesky factor, inputs with most
variance first (its "act-order"), errors passed on in blocks. The Hessian of a layer's squared error
is twice its inputs' covariance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

Array = np.ndarray[Any, Any]

DAMPING = 0.01
"""What is added to the covariance's diagonal, as a share of its mean: directions that no sample
went."""

_BLOCK = 128
"""Inputs between which errors are passed on one by one; to those behind them, all at once."""


class Grid(Protocol):
    """The numbers that weights may have."""

    def ordered(self, order: Array) -> Grid:
        """With a group's inputs in this order, (groups, inputs)."""

    def place(self, at: int, values: Array) -> tuple[Array, Array]:
        """The nearest to (groups, outputs) weights of an input: what is stored, and the number."""


@dataclass(frozen=True)
class Steps:
    """Multiples of scales (groups, outputs, inputs)."""

    scales: Array
    low: int
    high: int

    def ordered(self, order: Array) -> Steps:
        """As :class:`Grid` has it."""
        return replace(self, scales=np.take_along_axis(self.scales, order[:, None, :], axis=2))

    def place(self, at: int, values: Array) -> tuple[Array, Array]:
        """As :class:`Grid` has it."""
        scale = self.scales[:, :, at]
        stored = np.clip(np.rint(values / scale), self.low, self.high)
        return stored, stored * scale


@dataclass(frozen=True)
class Tables:
    """Entries of tables, ascending (tables, entries); ``which`` (groups, outputs) is whose."""

    tables: Array
    which: Array

    def ordered(self, order: Array) -> Tables:
        """As :class:`Grid` has it."""
        return self

    def place(self, at: int, values: Array) -> tuple[Array, Array]:
        """As :class:`Grid` has it."""
        stored = np.empty(values.shape, np.int64)
        for number, table in enumerate(self.tables):
            own = self.which == number
            stored[own] = np.searchsorted((table[1:] + table[:-1]) / 2, values[own])
        return stored, self.tables[self.which, stored]


def gptq(weights: Array, covariance: Array, grid: Grid) -> Array:
    """Stored numbers, each error passed on to the weights that are still free.

    Args:
        weights: float64 (groups, outputs, inputs).
        covariance: float64 (groups, inputs, inputs).
        grid: What they may be.

    Returns:
        Whole numbers, float64, shaped as ``weights``.
    """
    order = np.argsort(-np.einsum("gii->gi", covariance), axis=1, kind="stable")
    factor, grid = inverse_factor(covariance, order), grid.ordered(order)
    free = np.take_along_axis(weights, order[:, None, :], axis=2)
    stored = np.empty_like(free)
    for start in range(0, free.shape[2], _BLOCK):
        stop = min(start + _BLOCK, free.shape[2])
        errors = np.empty((*free.shape[:2], stop - start))
        for at in range(start, stop):
            stored[:, :, at], near = grid.place(at, free[:, :, at])
            error = (free[:, :, at] - near) / factor[:, at, at][:, None]
            errors[:, :, at - start] = error
            free[:, :, at + 1 : stop] -= error[:, :, None] * factor[:, None, at, at + 1 : stop]
        free[:, :, stop:] -= np.matmul(errors, factor[:, start:stop, stop:])
    result = np.empty_like(stored)
    np.put_along_axis(result, order[:, None, :], stored, axis=2)
    return result


def inverse_factor(covariance: Array, order: Array) -> Array:
    """Upper triangular U with U^T U the inverse of the covariance, damped, its inputs in
    ``order``: with the covariance R R^T, R upper triangular, U is R's inverse."""
    inputs = np.arange(covariance.shape[1])
    mean = np.einsum("gii->gi", covariance).mean(axis=1, keepdims=True)
    damped = covariance.copy()
    damped[:, inputs, inputs] += np.where(mean > 0, DAMPING * mean, 1.0)
    backwards = order[:, ::-1]
    rows = np.take_along_axis(damped, backwards[:, :, None], axis=1)
    lower = np.linalg.cholesky(np.take_along_axis(rows, backwards[:, None, :], axis=2))
    factor: Array = np.linalg.inv(lower[:, ::-1, ::-1])
    return factor
