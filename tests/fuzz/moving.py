"""Makers of nodes that move values: shapes, slices, parts, indices."""

import numpy as np

from tests.fuzz.grow import Grower
from tests.fuzz.values import Value

_ANY = ("float32", "float32", "float32", "int64", "bool")


def transpose(grow: Grower) -> None:
    x = grow.value(*_ANY, low=2)
    if grow.chance(0.08):
        grow.put("Transpose", [x.name])
        return
    perm = [int(axis) for axis in grow.random.permutation(x.rank)]
    if grow.chance(0.55) and x.rank > 2:
        first = [0, *range(2, x.rank), 1]
        perm = first if grow.chance(0.5) else [0, x.rank - 1, *range(1, x.rank - 1)]
    grow.put("Transpose", [x.name], perm=perm)


def reshape(grow: Grower) -> None:
    x = grow.value(*_ANY, low=1)
    target = _joined(grow, x) if grow.chance(0.5) and x.rank > 1 else _parted(grow, x)
    grow.refuse(len(target) > 5, "many axes")
    grow.put("Reshape", [x.name, grow.ints(*target)])


def _joined(grow: Grower, x: Value) -> list[int]:
    start = grow.below(x.rank - 1)
    end = grow.below(x.rank + 1, start + 2)
    sizes = [0 if grow.chance(0.5) or a in x.free else n for a, n in enumerate(x.shape)]
    unknown = any(axis in x.free for axis in range(start, end)) or grow.chance(0.5)
    middle = -1 if unknown else int(np.prod(x.shape[start:end]))
    after = [n if axis not in x.free else 0 for axis, n in enumerate(x.shape)][end:]
    return [*sizes[:start], middle, *after]


def _parted(grow: Grower, x: Value) -> list[int]:
    axis = grow.below(x.rank)
    factor = grow.pick([n for n in (2, 3, 4) if x.shape[axis] % n == 0] or [1])
    rest = x.shape[axis] // factor if axis not in x.free and grow.chance(0.5) else -1
    parts = [factor, rest] if grow.chance(0.5) and rest != -1 else [rest, factor]
    kept = [a in x.free or (grow.chance(0.4) and a < axis) for a in range(x.rank)]
    sizes = [0 if keep else n for keep, n in zip(kept, x.shape, strict=True)]
    return [*sizes[:axis], *parts, *sizes[axis + 1 :]]


def flat(grow: Grower) -> None:
    x = grow.value(low=2)
    grow.put("Reshape", [x.name, grow.ints(*grow.pick([(0, -1), (-1,), (-1, 1), (1, -1)]))])


def flatten(grow: Grower) -> None:
    x = grow.value(low=1)
    grow.put("Flatten", [x.name], **({"axis": grow.axis(x)} if grow.chance(0.5) else {}))


def squeeze(grow: Grower) -> None:
    x = grow.value(*_ANY, low=1)
    axes = [a for a, n in enumerate(x.shape) if n == 1 and a not in x.free]
    chosen = axes if grow.chance(0.5) else [grow.pick(axes)]
    grow.refuse(not chosen, "no axis of one element")
    if grow.chance(0.15) and len(chosen) == len(axes):
        grow.put("Squeeze", [x.name])
    else:
        signed = [a - x.rank if grow.chance(0.3) else a for a in chosen]
        grow.put("Squeeze", [x.name, grow.ints(*signed)])


def unsqueeze(grow: Grower) -> None:
    x = grow.value(*_ANY)
    count = 1 if grow.chance(0.75) else 2
    grow.refuse(x.rank + count > 5, "many axes")
    axes = [int(a) for a in grow.random.choice(x.rank + count, count, replace=False)]
    if grow.chance(0.4):
        axes = [axis - x.rank - count for axis in axes]
    grow.put("Unsqueeze", [x.name, grow.ints(*axes)])


def slice_(grow: Grower) -> None:
    x = grow.value(*_ANY, low=1)
    count = 1 if x.rank == 1 or grow.chance(0.65) else 2
    axes = [int(a) for a in grow.random.choice(x.rank, count, replace=False)]
    starts, ends, steps = [], [], []
    for axis in axes:
        size, step = x.shape[axis], grow.pick([1, 1, 1, 2, -1, -2])
        if axis in x.free:  # at any size something has to be left
            start, end = (0, grow.pick([-1, 2**63 - 1])) if step > 0 else (-1, -(2**31))
        elif step > 0:
            start, end = grow.below(max(1, size - 1)), grow.pick([size, size - 1, -1, 2**63 - 1])
        else:
            start, end = grow.pick([-1, size - 1, -2, 2**31]), grow.pick([-(2**31), 0, -size])
        counted = grow.chance(0.2) and 0 <= start < size and axis not in x.free
        starts.append(start - size if counted else start)
        ends.append(end)
        steps.append(step)
    signed = [a - x.rank if grow.chance(0.3) else a for a in axes]
    names = [x.name, grow.ints(*starts), grow.ints(*ends), grow.ints(*signed)]
    if any(step != 1 for step in steps) or grow.chance(0.3):
        names.append(grow.ints(*steps))
    grow.put("Slice", names)


def concat(grow: Grower) -> None:
    x = grow.value(*_ANY, low=1)
    axis = grow.axis(x)
    fitting = [v for v in grow.pool.values() if v.kind == x.kind and _alike(v, x, axis)]
    names = [x.name, *(grow.pick(fitting).name for _ in range(grow.below(3)))]
    if x.is_float and not x.free and grow.chance(0.15):
        names.insert(grow.below(2), grow.noise(*x.shape))
    grow.put("Concat", names, axis=axis)


def split(grow: Grower) -> None:
    x = grow.value(low=1)
    axis = grow.axis(x)
    size = x.shape[axis]
    grow.refuse(size < 2 or axis % x.rank in x.free, "nothing to split")
    names = [grow.name("v") for _ in range(2)]
    if grow.chance(0.4):
        grow.put("Split", [x.name], *names, axis=axis, num_outputs=2)
        return
    first = grow.below(size, 1)
    grow.put("Split", [x.name, grow.ints(first, size - first)], *names, axis=axis)


def pad(grow: Grower) -> None:
    x = grow.value(low=1)
    mode = grow.pick(["constant", "constant", "constant", "reflect", "edge", "wrap"])
    axes = list(range(x.rank))
    names = [x.name]
    if grow.chance(0.3):
        axes = sorted(int(a) for a in grow.random.choice(x.rank, grow.below(x.rank) + 1, False))
    low = -1 if grow.chance(0.1) and mode == "constant" else 0
    spatial = grow.chance(0.6) and x.rank > 2
    pads = [0 if spatial and a < 2 else grow.below(3, low) for a in (*axes, *axes)]
    names.append(grow.ints(*pads))
    if mode == "constant" and grow.chance(0.5):
        names.append(grow.number(grow.pick([0.0, 1.5, -2.0])))
    if axes != list(range(x.rank)) or grow.chance(0.1):
        names += [""] * (3 - len(names))
        names.append(grow.ints(*axes))
    grow.put("Pad", names, **({} if mode == "constant" and grow.chance(0.5) else {"mode": mode}))


def gather(grow: Grower) -> None:
    x = grow.value(*_ANY, low=1)
    axis = grow.axis(x)
    size = min(array.shape[axis] for array in x.exact)
    kind = np.dtype(grow.pick(["int64", "int64", "int32"]))
    shape = grow.pick([(), (), (1,), (2,), (3,), (2, 2)])
    grow.refuse(x.rank - 1 + len(shape) > 5, "many axes")
    indices = grow.const(grow.random.integers(-size, size, shape).astype(kind))
    inputs = [v for v in grow.pool.values() if v.kind in ("int64", "int32") and v.rank <= 2]
    if inputs and grow.chance(0.3):
        indices = grow.pick(inputs).name
    grow.put("Gather", [x.name, indices], axis=axis)


def gather_elements(grow: Grower) -> None:
    x = grow.value(low=1)
    grow.refuse(x.free, "free sizes")
    axis = grow.axis(x)
    indices = grow.random.integers(-x.shape[axis], x.shape[axis], x.shape).astype(np.int64)
    grow.put("GatherElements", [x.name, grow.const(indices)], axis=axis)


def gather_nd(grow: Grower) -> None:
    x = grow.value(low=2)
    grow.refuse(0 in x.free or 1 in x.free, "free sizes")
    depth = grow.pick([1, 2])
    limits = np.asarray(x.shape[:depth])
    indices = grow.random.integers(0, limits, (2, depth)).astype(np.int64)
    grow.put("GatherND", [x.name, grow.const(indices)])


def expand(grow: Grower) -> None:
    x = grow.value(*_ANY)
    sizes = []
    for axis, n in enumerate(x.shape):
        one = axis in x.free or (n > 1 and grow.chance(0.5))
        sizes.append(1 if one else n if n > 1 else grow.pick([1, 2, 3]))
    if grow.chance(0.3) and x.rank < 5:
        sizes = [grow.pick([1, 2]), *sizes]
    grow.put("Expand", [x.name, grow.ints(*sizes)])


def tile(grow: Grower) -> None:
    x = grow.value(low=1)
    grow.put("Tile", [x.name, grow.ints(*(grow.pick([1, 1, 2]) for _ in range(x.rank)))])


def depth_to_space(grow: Grower) -> None:
    x = grow.value(rank=4)
    if grow.chance(0.5):
        grow.put("SpaceToDepth", [x.name], blocksize=2)
    else:
        grow.put("DepthToSpace", [x.name], blocksize=2, mode=grow.pick(["DCR", "CRD"]))


def shape(grow: Grower) -> None:
    x = grow.value(low=1)
    if grow.chance(0.2):
        grow.put("Size", [x.name])
    elif grow.chance(0.3):
        start = grow.below(x.rank)
        grow.put("Shape", [x.name], start=start, end=grow.pick([start + 1, x.rank, -1]))
    else:
        grow.put("Shape", [x.name])


def one_hot(grow: Grower) -> None:
    x = grow.value("int64", "int32")
    grow.refuse(x.rank > 3, "many axes")
    values = grow.const(np.asarray([0, 1], np.float32), shake=False)
    grow.put("OneHot", [x.name, grow.scalar(5), values], axis=grow.pick([-1, 0]))


def trilu(grow: Grower) -> None:
    x = grow.value(low=2)
    grow.put("Trilu", [x.name, grow.scalar(grow.pick([0, 1, -1]))], upper=grow.below(2))


def _alike(one: Value, other: Value, axis: int) -> bool:
    if one.rank != other.rank:
        return False
    axis %= one.rank
    return all(
        a.shape[:axis] + a.shape[axis + 1 :] == b.shape[:axis] + b.shape[axis + 1 :]
        for a, b in zip(one.exact, other.exact, strict=True)
    )


MAKERS = (
    *(transpose, transpose, transpose, transpose, transpose, reshape, reshape, reshape, flat),
    *(flatten, squeeze, squeeze, unsqueeze, unsqueeze, slice_, slice_, slice_, concat, concat),
    *(concat, split, split, pad, pad, gather, gather, gather_elements, gather_nd, expand, tile),
    *(depth_to_space, shape, one_hot, trilu),
)
