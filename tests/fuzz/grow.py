"""Grows a random graph: each node is tried on what its inputs hold, and kept if that is of use."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.fuzz.case import FIXED_WORDS, Case, info
from tests.fuzz.values import Array, Rejected, Value, computed, given

OPSET = 20

Maker = Callable[["Grower"], None]
"""Puts one or several nodes on values of the pool; raises Rejected where it finds none that fit."""

SYMBOLS = ("batch", "height", "width")
SIZES: tuple[tuple[int, ...], ...] = ((2, 3, 1), (5, 4, 2), (6, 7, 3))
"""What each symbol is, with one set of feeds after another."""


@dataclass
class Grower:
    """A graph that grows.

    Attributes:
        random: Decides everything.
        nodes, constants: So far.
        pool: The values that nodes may take, newest last.
        sets: How many sets of feeds there are: several where a dimension is free.
    """

    random: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, Value] = field(default_factory=dict)
    inputs: dict[str, Value] = field(default_factory=dict)
    pool: dict[str, Value] = field(default_factory=dict)
    sets: int = 1
    count: int = 0

    # -- chance ------------------------------------------------------------------------

    def chance(self, share: float) -> bool:
        """True in that share of cases."""
        return bool(self.random.random() < share)

    def pick(self, items: Sequence[Any]) -> Any:
        """One of them; raises Rejected where there is none."""
        self.refuse(not len(items), "nothing to pick from")
        return items[int(self.random.integers(len(items)))]

    def refuse(self, unfit: object, why: str) -> None:
        """Raises Rejected where something doesn't fit."""
        if unfit:
            raise Rejected(why)

    def below(self, limit: int, low: int = 0) -> int:
        """An integer from ``low`` up to ``limit``, without it."""
        return int(self.random.integers(low, limit))

    def axis(self, value: Value, low: int = 0) -> int:
        """An axis of a value, from ``low`` on, counted from the start or from the end."""
        axis = self.below(value.rank, low) if value.rank > low else self.pick([])
        return axis - value.rank if self.chance(0.4) else axis

    # -- values ------------------------------------------------------------------------

    def value(self, *kinds: str, rank: int | Sequence[int] | None = None, low: int = 0) -> Value:
        """One of the pool, newer ones more often.

        Args:
            kinds: Its dtype; float32 where none is said.
            rank: Its rank, or several.
            low: Its least rank.
        """
        ranks = [rank] if isinstance(rank, int) else rank
        typed = [value for value in self.pool.values() if value.kind in (kinds or ("float32",))]
        fitting = [v for v in typed if (ranks is None or v.rank in ranks) and v.rank >= low]
        self.refuse(not fitting, "no such value")
        return fitting[-min(int(self.random.geometric(0.4)), len(fitting))]

    def broadcasting(self, value: Value) -> Value:
        """One of the pool of the same dtype that broadcasts with ``value``."""
        fitting = [o for o in self.pool.values() if o.kind == value.kind and _fits(o, value)]
        other: Value = self.pick(fitting)
        return other

    def const(self, array: Array, shake: bool = True) -> str:
        """The name of a constant: an initializer, or a Constant; now and then one that is there."""
        array = np.asarray(array)
        if self.chance(0.3):
            for name, value in self.constants.items():
                if value.kind == array.dtype.name and np.array_equal(value.exact[0], array):
                    return name
        word = "c" if shake or array.dtype.kind != "f" else FIXED_WORDS[0]
        name = self.name(word)
        self.constants[name] = given(name, [array] * self.sets, shake)
        if self.chance(0.1) and word == "c":
            del self.constants[name]
            return self.put("Constant", [], name, value=numpy_helper.from_array(array, name))
        return name

    def noise(self, *shape: int, scale: float = 1.0) -> str:
        """A constant of normal numbers; now and then one of that shape that is there."""
        alike = [v for v in self.constants.values() if v.is_float and v.shape == shape]
        old = [value.name for value in alike if value.name[0] == "c"]
        if old and self.chance(0.15):
            return str(self.pick(old))
        return self.const((self.random.standard_normal(shape) * scale).astype(np.float32))

    def positive(self, *shape: int) -> str:
        """A constant of numbers between 0.5 and 2."""
        return self.const(self.random.uniform(0.5, 2, shape).astype(np.float32))

    def number(self, number: float) -> str:
        """A float: a scalar, or an array of one element."""
        array = np.float32(number)
        return self.const(np.asarray([array]) if self.chance(0.15) else np.asarray(array))

    def ints(self, *numbers: int) -> str:
        """A constant of int64s, one axis."""
        return self.const(np.asarray(numbers, np.int64))

    def scalar(self, number: int) -> str:
        """A constant int64 without axes."""
        return self.const(np.asarray(number, np.int64))

    def name(self, word: str) -> str:
        """A name that nothing has."""
        self.count += 1
        return f"{word}{self.count}"

    # -- nodes -------------------------------------------------------------------------

    def put(self, op: str, inputs: Sequence[str], *outputs: str, **attributes: Any) -> str:
        """A node, whose outputs join the pool; gives the name of the first one.

        Raises:
            Rejected: It isn't valid, or what it gives is of no use.
        """
        names = list(outputs) or [self.name("v")]
        node = helper.make_node(op, list(inputs), names, name=self.name(op), **attributes)
        known = {**self.constants, **self.pool}
        made = computed(node, known, OPSET, self.sets)
        for value in made:
            value.require_useful()
        self.nodes.append(node)
        self.pool.update((value.name, value) for value in made)
        return names[0]

    def grow(self, maker: Maker) -> bool:
        """Lets a maker put its nodes; takes back what it put where it can't go on."""
        nodes, constants, pool = len(self.nodes), dict(self.constants), dict(self.pool)
        try:
            maker(self)
            return True
        except Rejected:
            del self.nodes[nodes:]
            self.constants, self.pool = constants, pool
            return False

    # -- the whole ---------------------------------------------------------------------

    def add_input(self, name: str, kind: str, dims: Sequence[int | str]) -> None:
        """An input of small integers, booleans or normal floats; free dimensions by symbol."""
        if any(isinstance(dim, str) for dim in dims):
            self.sets = len(SIZES[0])
        arrays: list[Array] = []
        array: Array
        for index in range(self.sets):
            shape = [d if isinstance(d, int) else SIZES[SYMBOLS.index(d)][index] for d in dims]
            if kind == "float32":
                array = np.asarray(self.random.standard_normal(shape))
            else:
                array = np.asarray(self.random.integers(0, 2 if kind == "bool" else 5, shape))
            arrays.append(array.astype(kind))
        self.inputs[name] = self.pool[name] = given(name, arrays)

    def case(self, name: str, outputs: Sequence[str]) -> Case:
        """The graph with these outputs."""
        symbols = symbols_of(self.sets)
        infos = {n: info(self.pool[n], symbols) for n in (*self.inputs, *outputs)}
        constants = [numpy_helper.from_array(v.exact[0], n) for n, v in self.constants.items()]
        ends = [infos[n] for n in self.inputs], [infos[n] for n in outputs]
        graph = helper.make_graph(self.nodes, "random", *ends, constants)
        opsets = [helper.make_opsetid("", OPSET)]
        proto = helper.make_model(graph, opset_imports=opsets, ir_version=9)
        feeds = ({n: v.exact[i] for n, v in self.inputs.items()} for i in range(self.sets))
        return Case(name, proto, tuple(feeds))


def symbols_of(sets: int) -> dict[tuple[int, ...], str]:
    """The symbol of each row of sizes; none where there is one set of feeds."""
    return dict(zip(SIZES, SYMBOLS, strict=True)) if sets > 1 else {}


def _fits(one: Value, other: Value) -> bool:
    try:
        for low, high in zip(one.exact, other.exact, strict=True):
            np.broadcast_shapes(low.shape, high.shape)
    except ValueError:
        return False
    return True
