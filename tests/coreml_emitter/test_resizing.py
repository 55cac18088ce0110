"""Resize, in its many modes; GridSample, AffineGrid, RoiAlign; DepthToSpace and SpaceToDepth."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.coreml_emitter.nodes import Inputs, Node, agree_all, joined, one
from tests.coreml_emitter.running import (
    Array,
    agree,
    emitted,
    kinds,
    numbers,
    parsed,
    refusals,
    run_package,
)

COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
)
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
FREE = ({"n": 1, "h": 5, "w": 6}, {"n": 2, "h": 8, "w": 3}, {"n": 1, "h": 1, "w": 7})


def _scaled(dims: tuple[int | str, ...], *factors: float) -> Inputs:
    whole = np.asarray([1.0] * (len(dims) - len(factors)) + list(factors), np.float32)
    return {"x": dims, "roi": None, "scales": whole}


def _sized(dims: tuple[int | str, ...], *sizes: int) -> Inputs:
    whole = np.asarray([*dims[: len(dims) - len(sizes)], *sizes], np.int64)
    return {"x": dims, "roi": None, "scales": None, "sizes": whole}


def _nodes(given: list[Inputs], *ways: dict[str, Any]) -> list[Node]:
    return [Node("Resize", inputs, way) for inputs in given for way in ways]


def _named(**several: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Every combination of attributes' values."""
    return [dict(zip(several, values, strict=True)) for values in product(*several.values())]


# -- known sizes -------------------------------------------------------------------------


@pytest.mark.parametrize("target", [15, 17])
def test_linear(target: int) -> None:
    dims = (1, 2, 5, 6)
    given = [_scaled(dims, 2, 2), _scaled(dims, 1.7, 0.6), _sized(dims, 8, 1), _sized(dims, 10, 3)]
    ways = _named(mode=("linear",), coordinate_transformation_mode=COORDINATES)
    agree_all(_nodes(given, *ways), target=target)


def test_nearest() -> None:
    dims = (1, 2, 5, 6)
    ways = _named(
        mode=("nearest",), coordinate_transformation_mode=COORDINATES, nearest_mode=ROUNDINGS
    )
    nodes = _nodes([_scaled(dims, 1.7, 0.6)], *ways)
    agree_all(nodes + _nodes([_scaled(dims, 2, 3), _sized(dims, 8, 4)], *ways[::5]))


def test_cubic_and_antialias() -> None:
    dims = (1, 2, 7, 6)
    given = [_scaled(dims, 2, 1.3), _scaled(dims, 0.6, 0.8), _sized(dims, 3, 9)]
    ways = _named(mode=("cubic",), exclude_outside=(0, 1), cubic_coeff_a=(-0.5,))
    ways += _named(mode=("cubic", "linear"), antialias=(1,))
    agree_all(_nodes(given, *ways))


def test_axes_and_regions() -> None:
    region = np.asarray([0.1, 0.2, 1.3, 0.8], np.float32)
    sizes = np.asarray([6, 8], np.int64)
    cut: Inputs = {"x": (2, 3, 5, 4), "roi": region, "scales": None, "sizes": sizes}
    cropped = {"axes": [2, 3], "coordinate_transformation_mode": "tf_crop_and_resize"}
    whole: Inputs = {"x": (2, 3, 5, 4), "roi": None, "scales": None, "sizes": sizes}
    nodes = [
        Node("Resize", cut, {**cropped, "mode": mode, "extrapolation_value": 2.5})
        for mode in ("linear", "nearest", "cubic")
    ]
    nodes += [
        Node("Resize", whole, {"axes": [1, 2], "mode": mode}) for mode in ("linear", "nearest")
    ]
    nodes += [
        Node(
            "Resize", whole, {"axes": [3, 2], "mode": "linear", "keep_aspect_ratio_policy": policy}
        )
        for policy in ("not_larger", "not_smaller")
    ]
    agree_all(nodes)


def test_other_numbers_of_axes() -> None:
    given = [_scaled((3, 5), 2.0, 1.5), _scaled((1, 2, 3, 4, 3), 2, 1.5, 2)]
    nodes = _nodes(given, {"mode": "linear"}, {"mode": "nearest"})
    agree_all([*nodes, Node("Resize", _scaled((5,), 2.0), {"mode": "nearest"})])


def test_half_precision() -> None:
    given = [_scaled((1, 2, 5, 6), 2, 2), _scaled((1, 2, 5, 6), 1.7, 0.6)]
    ways: list[dict[str, Any]] = [{"mode": mode} for mode in ("linear", "nearest", "cubic")]
    agree_all(_nodes(given, *ways), dtype="float16", rtol=5e-3, atol=5e-3)


def test_integers() -> None:
    x = np.arange(24, dtype=np.int32).reshape(1, 1, 4, 6) * 100_000_007 % (1 << 30)
    agree(one("Resize", _scaled(x.shape, 1.5, 2), dtype="int32", mode="nearest"), {"x": x})
    refused = refusals(one("Resize", _scaled(x.shape, 1.5, 2), dtype="int32", mode="linear"))
    assert "blends" in refused[0].reason


# -- free sizes --------------------------------------------------------------------------


def test_scales_of_free_sizes() -> None:
    dims = ("n", 2, "h", "w")
    ways = _named(mode=("linear",), coordinate_transformation_mode=COORDINATES)
    nodes = _nodes([_scaled(dims, 1.5, 2)], *ways, {"mode": "nearest"}, {"mode": "cubic"})
    nodes += _nodes([_scaled(dims, 2, 3)], ways[0], ways[3], ways[4], {"mode": "nearest"})
    ways = _named(
        mode=("nearest",), coordinate_transformation_mode=("asymmetric",), nearest_mode=ROUNDINGS
    )
    agree_all(nodes + _nodes([_scaled(dims, 1, 2.5)], *ways), FREE)


@pytest.mark.parametrize(
    ("how", "target"),
    [("linear", 15), ("linear", 17), ("nearest", 17), ("cubic", 17), ("align_corners", 17)],
)
def test_sizes_that_are_computed(how: str, target: int) -> None:
    way: dict[str, Any] = {"mode": how}
    if how == "align_corners":
        way = {"mode": "linear", "coordinate_transformation_mode": how}
    inputs: dict[str, Any] = {"x": (1, 2, "h", "w"), "roi": None, "scales": None, "sizes": (4,)}
    model = one("Resize", inputs, dtypes={"sizes": "int64"}, **way)
    feeds = [
        {"x": numbers(1, 2, *size), "sizes": np.asarray([1, 2, *out])}
        for size, out in (((5, 6), (8, 3)), ((4, 7), (1, 14)), ((1, 3), (3, 3)))
    ]
    agree(model, feeds, target=target)


def test_scales_that_are_computed() -> None:
    inputs: dict[str, Any] = {"x": (1, 2, "h", 6), "roi": None, "scales": (4,)}
    model = one("Resize", inputs, mode="linear")
    scales = np.asarray([1, 1, 1.7, 2.3], np.float32)
    agree(model, [{"x": numbers(1, 2, h, 6), "scales": scales} for h in (4, 9)])


@pytest.mark.parametrize(
    ("inputs", "way", "kind"),
    [
        (_scaled(("n", 3, "h", "w"), 2, 2), {"mode": "nearest"}, "upsample_nearest_neighbor"),
        (_scaled(("n", 3, "h", "w"), 2, 2), {"mode": "linear"}, "upsample_bilinear"),
        (_sized((1, 3, 8, 9), 20, 11), {"mode": "linear"}, "resize_bilinear"),
        (
            _scaled((1, 3, 8, 9), 2, 2),
            {
                "mode": "nearest",
                "coordinate_transformation_mode": "asymmetric",
                "nearest_mode": "floor",
            },
            "upsample_nearest_neighbor",
        ),
    ],
)
def test_what_is_one_operation(
    inputs: Inputs, way: dict[str, Any], kind: str, tmp_path: Path
) -> None:
    assert kinds(emitted(one("Resize", inputs, **way), tmp_path)) == [kind]


# -- GridSample, AffineGrid, RoiAlign ----------------------------------------------------


def _grids(*dims: int, axes: int) -> Array:
    """Places within, on and outside the image."""
    return np.random.default_rng(3).uniform(-1.7, 1.7, (*dims, axes)).astype(np.float32)


def _grid_samples(free: bool) -> list[Node]:
    ways = [
        *product(("linear",), ("zeros", "border", "reflection"), (0, 1)),
        ("nearest", "zeros", 0), ("nearest", "reflection", 0), ("cubic", "reflection", 1),
    ]  # fmt: skip
    flat: dict[str, Any] = {"x": (2, 3, 5, 6), "grid": (2, 4, 3, 2)}
    deep: dict[str, Any] = {"x": (2, 2, 3, 4, 5), "grid": (2, 3, 2, 2, 3)}
    if free:
        ways = [("linear", "zeros", 0), ("nearest", "border", 1)]
        flat["x"], deep["x"] = ("n", 3, "h", "w"), ("n", 2, 3, "h", "w")
        flat["grid"], deep["grid"] = ("n", "v", 3, 2), ("n", "v", 2, 2, 3)
    deeper = [("linear", "reflection", 1), ("nearest", "zeros", 0)]
    found = [(flat, way) for way in ways] + [(deep, way) for way in deeper]
    names = ("mode", "padding_mode", "align_corners")
    return [Node("GridSample", inputs, dict(zip(names, way, strict=True))) for inputs, way in found]


@pytest.mark.parametrize("free", [False, True])
def test_grid_sample(free: bool) -> None:
    nodes = _grid_samples(free)
    feeds = {}
    for number, node in enumerate(nodes):
        deep = len(node.inputs["x"] or ()) == 5
        feeds[f"{number}_x"] = numbers(*((2, 2, 3, 4, 5) if deep else (2, 3, 5, 6)))
        feeds[f"{number}_grid"] = _grids(2, *((3, 2, 2) if deep else (4, 3)), axes=2 + deep)
    agree(joined(nodes), feeds, rtol=1e-4, atol=1e-4)


def test_grid_sample_half_way_between_pixels() -> None:
    x, halves = numbers(1, 1, 4, 4), np.asarray([-1.0, -0.5, 0.0, 0.5, 1.0], np.float32)
    grid = np.stack(np.meshgrid(halves, halves), axis=-1)[None]
    model = one("GridSample", {"x": x.shape, "grid": grid.shape}, mode="nearest")
    agree(model, {"x": x, "grid": grid})


def test_affine_grid() -> None:
    nodes = [
        Node("AffineGrid", {"t": ("n", 2, 3), "size": np.asarray([2, 3, 4, 5])}, {}),
        Node(
            "AffineGrid", {"t": ("n", 2, 3), "size": np.asarray([2, 3, 4, 5])}, {"align_corners": 1}
        ),
        Node("AffineGrid", {"t": ("n", 3, 4), "size": np.asarray([2, 3, 4, 5, 2])}, {}),
    ]
    agree_all(nodes, [{"n": 2}])


def test_affine_grid_of_a_shape() -> None:
    model = parsed(
        "g (float[n, 2, 3] t, float[n, 3, 5, 6] x) => (float[n, 3, 5, 6] y)"
        " { s = Shape(x)  g = AffineGrid(t, s)  y = GridSample(x, g) }"
    )
    agree(model, {"t": numbers(2, 2, 3), "x": numbers(2, 3, 5, 6)}, rtol=1e-4, atol=1e-4)


def test_roi_align() -> None:
    boxes = np.asarray([[0, 0, 9, 9], [-3, 1, 5, 30], [4.5, 3.2, 4.6, 3.3]], np.float32)
    modes = _named(
        mode=("avg", "max"), coordinate_transformation_mode=("half_pixel", "output_half_pixel")
    )
    nodes = [
        Node(
            "RoiAlign",
            {"x": ("n", 3, "h", 8), "rois": boxes, "at": np.asarray([0, 1, 1])},
            {
                **way,
                "sampling_ratio": 3,
                "output_height": 2,
                "output_width": 4,
                "spatial_scale": 0.5,
            },
        )
        for way in modes
    ]
    agree_all(nodes, [{"n": 2, "h": 7}, {"n": 3, "h": 10}])


# -- blocks ------------------------------------------------------------------------------


def test_blocks(tmp_path: Path) -> None:
    nodes = [
        Node("DepthToSpace", {"x": ("n", 12, "h", 3)}, {"blocksize": 2, "mode": "DCR"}),
        Node("DepthToSpace", {"x": ("n", 18, "h", 3)}, {"blocksize": 3, "mode": "CRD"}),
        Node("SpaceToDepth", {"x": ("n", 3, 6, "w")}, {"blocksize": 2}),
    ]
    sizes = [(2, 12, 2, 3), (2, 18, 2, 3), (2, 3, 6, 4)]
    feeds = {
        f"{number}_x": np.random.default_rng(number).integers(-99, 99, size).astype(np.float32)
        for number, size in enumerate(sizes)
    }
    moved = agree(joined(nodes), feeds)
    whole = emitted(joined(nodes, "int32"), tmp_path)  # which ONNX Runtime doesn't take
    made = run_package(whole, {name: array.astype(np.int32) for name, array in feeds.items()})
    for name, array in moved.items():
        np.testing.assert_array_equal(made[name], array.astype(np.int32), err_msg=name)
