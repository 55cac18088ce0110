"""A random case from a seed."""

from contextlib import suppress

import numpy as np

from tests.fuzz import elementwise, idioms, layers, moving, reducing
from tests.fuzz.case import Case
from tests.fuzz.grow import Grower, Maker
from tests.fuzz.values import Rejected

_MAKERS: tuple[tuple[float, tuple[Maker, ...]], ...] = (
    *((0.24, elementwise.MAKERS), (0.22, layers.MAKERS), (0.26, moving.MAKERS)),
    *((0.13, reducing.MAKERS), (0.15, idioms.MAKERS)),
)
"""Families, each with the share of tries that it gets; a maker is called after what it puts."""

_SHAPES = (
    *((0.40, (1, 3, 8, 8)), (0.12, (2, 4, 6, 5)), (0.12, (2, 6, 12)), (0.14, (2, 7, 8))),
    *((0.12, (2, 8)), (0.07, (1, 2, 4, 5, 4)), (0.03, (9,))),
)
"""Shapes of the first input, each with its share."""


def generate(seed: int, transposes: float = 0.0) -> Case:
    """The case of a seed: 5 to 25 nodes, always the same.

    Args:
        seed: Decides everything.
        transposes: Share of tries that is a Transpose, beside those of the families.
    """
    random = np.random.default_rng(seed)
    grower = Grower(random)
    _inputs(grower)
    wanted = int(random.integers(5, 26))
    families = [makers for _, makers in _MAKERS]
    shares = np.asarray([share for share, _ in _MAKERS])
    for _ in range(30 * wanted):
        if len(grower.nodes) >= wanted:
            break
        if transposes and grower.chance(transposes):
            grower.grow(moving.transpose)
            continue
        makers = families[int(random.choice(len(families), p=shares / shares.sum()))]
        grower.grow(grower.pick(makers))
    return grower.case(f"seed{seed}", _outputs(grower))


def _inputs(grower: Grower) -> None:
    shares = np.asarray([share for share, _ in _SHAPES])
    index = int(grower.random.choice(len(_SHAPES), p=shares / shares.sum()))
    shape: list[int | str] = list(_SHAPES[index][1])
    freedom = grower.random.random()
    if freedom > 0.45:
        shape[0] = "batch"
    if freedom > 0.8 and len(shape) > 2:
        shape[2:4] = ["height", "width"][: len(shape) - 2][:2]
    grower.add_input("x", "float32", shape)
    if grower.chance(0.35):
        second = shape if grower.chance(0.6) else [shape[0], *shape[2:]]
        grower.add_input("other", "float32", second)
    if grower.chance(0.2):
        size = shape[0] if grower.chance(0.6) else 3
        grower.add_input("indices", str(grower.pick(["int64", "int32"])), [size])
    if grower.chance(0.1):
        grower.add_input("flag", "bool", [])


def _outputs(grower: Grower) -> list[str]:
    """The last value, most of those that nothing uses, some that nodes use, seldom an input."""
    used = {name for node in grower.nodes for name in node.input}
    made = [name for node in grower.nodes for name in node.output if name in grower.pool]
    constant = {node.output[0] for node in grower.nodes if node.op_type == "Constant"}
    fitting = [name for name in made if name not in constant]
    outputs = [name for name in fitting if grower.chance(0.06 if name in used else 0.6)]
    if made[-1] not in outputs:
        outputs.append(made[-1])
    outputs = outputs[-5:]
    if grower.chance(0.04):
        outputs.append(next(iter(grower.inputs)))
    if grower.chance(0.06):
        with suppress(Rejected):
            outputs.append(grower.put("Identity", [outputs[0]]))
    return outputs
