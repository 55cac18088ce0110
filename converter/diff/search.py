"""Finds the earliest tensor at which two models part.

Tensors that both models have under one name are compared. In a large graph only few are: at a
place where all that flows from one node to the next is known in both models, either all of it
agrees and the models part later, or some doesn't and they part before. That is halved (in
eighths, for opening a session costs more than a tensor) until few nodes are left, and there every
tensor is compared.

A name may have outlived its meaning: a Conv's output in one model is the Conv before its
BatchNormalization, in the other the two folded. Such a tensor differs while all that follows it
agrees, or holds what another tensor of the other model holds; it is told apart from a real
difference by that, and paired with what it equals. Where neither names nor contents tell, tensors
are paired that the same operator makes of paired tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from converter.analysis.intermediate_outputs import chunked
from converter.diff.contents import pair_alike, same_contents
from converter.diff.side import Side
from converter.diff.tensors import PairComparer, TensorError
from converter.runtime.session import Progress
from converter.samples import Sample

SMALL = 256
"""Pairs of tensors up to which all are compared."""

SECTIONS = 8
FRONTIER = 16
"""Most tensors that may flow across a cut."""

LONG = 12
"""Tensors without a counterpart, around the place where models part, from which on they are also
paired by how they are made."""

ROUNDS = 100
"""How often a name that outlived its meaning is put aside before the search gives up."""


@dataclass
class Search:
    """The search; :meth:`first` carries it out.

    Args:
        a, b: The models.
        samples: What they are run on.
        tolerance: The largest error of tensors that agree.
        outputs: The outputs of A by name, each with its counterpart in B.
        small: See :data:`SMALL`.
        progress: Told what is being done.

    Attributes:
        pairs: Tensors of A with their counterparts in B.
        errors: What was measured, by the tensor's name in A.
        misnamed: Tensors that share a name and differ, though what follows agrees.
    """

    a: Side
    b: Side
    samples: Sequence[Sample]
    tolerance: float
    outputs: dict[str, str]
    small: int = SMALL
    progress: Progress = lambda text: None
    pairs: dict[str, str] = field(default_factory=dict)
    errors: dict[str, TensorError] = field(default_factory=dict)
    misnamed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        named = {name: name for name in self.a.values if name in self.b.values}
        self.pairs = named | {k: v for k, v in self.outputs.items() if k in self.a.values}

    def first(self) -> str | None:
        """The earliest tensor of A at which the models part on the way to an output that
        differs; None where no output does."""
        self.progress("comparing the outputs")
        self.measure(self.outputs)
        if not any(self.parted(name) for name in self.outputs):
            self._look_around()
            return None
        for _ in range(ROUNDS):
            found = self._origin_small() if len(self.pairs) <= self.small else self._bisected()
            if found is None or not (self._heals(found) or self._renamed(found)):
                break
        self._sort_out()
        return found

    def parted(self, name: str) -> bool:
        """Whether the models part at a tensor that was measured."""
        return name in self.errors and self.errors[name].parts(self.tolerance)

    def measure(self, names: Iterable[str]) -> None:
        """Compares those of the tensors that weren't yet."""
        todo = [name for name in names if name not in self.errors]
        todo.sort(key=lambda name: self.a.place.get(name, -1))
        for piece in chunked(self.a.model.graph, todo):
            comparers = {name: PairComparer(name, self._other(name)) for name in piece}
            theirs = list(dict.fromkeys(self._other(name) for name in piece))
            runs = zip(
                self.samples,
                self.a.run(piece, self.samples),
                self.b.run(theirs, self.samples),
                strict=True,
            )
            for sample, ours, others in runs:
                for name, comparer in comparers.items():
                    comparer.add(ours[name], others[self._other(name)], sample.name)
            self.errors |= {name: comparer.result() for name, comparer in comparers.items()}

    def _other(self, name: str) -> str:
        return self.pairs.get(name) or self.outputs[name]

    # -- where they part ---------------------------------------------------------------

    def _origin_small(self) -> str | None:
        self.progress(f"comparing {len(self.pairs)} tensors")
        self.measure(self.pairs)
        return self._origin(self.pairs, self.outputs)

    def _origin(self, names: Iterable[str], ends: Iterable[str]) -> str | None:
        """The earliest of ``names`` that parts, from which each next tensor on some way to one
        of ``ends`` parts as well."""
        within = set(names)
        carrying = {name for name in ends if self.parted(name) and name in self.a.values}
        ordered = sorted(within, key=self.a.place.__getitem__)
        for name in reversed(ordered):
            if self.parted(name) and name not in carrying:
                following, _ = self.a.nearest(name, self.pairs, self.a.children)
                if any(item in carrying for item in following):
                    carrying.add(name)
        for name in ordered:
            if name in carrying:
                before, _ = self.a.nearest(name, self.pairs, self.a.parents)
                if not any(item in carrying for item in before):
                    return name
        return None

    def _bisected(self) -> str | None:
        cuts = self.a.frontiers(self.pairs, FRONTIER)
        places = sorted(cuts)
        low, high = -1, len(places)  # at low all agrees, at high something doesn't
        while high - low > 1:
            step = max(1, (high - low) // SECTIONS)
            tried = list(range(low + step, high, step))[:SECTIONS]
            self.progress(f"comparing at {len(tried)} of {high - low - 1} places")
            self.measure({name for index in tried for name in cuts[places[index]]})
            parting = [i for i in tried if any(map(self.parted, cuts[places[i]]))]
            if parting:
                high = parting[0]
                low = max([low, *(i for i in tried if i < high)])
            else:
                low = tried[-1]
        start = places[low] if low >= 0 else -1
        end = places[high] if high < len(places) else len(self.a.model.graph.graph)
        region = [name for name in self.pairs if start < self.a.place[name] <= end]
        self.progress(f"comparing the {len(region)} tensors of the last stretch")
        self.measure(region)
        ends = cuts[places[high]] if high < len(places) else tuple(self.outputs)
        return self._origin({*region, *(n for n in ends if n in self.a.values)}, ends)

    def _look_around(self) -> None:
        """Where no output differs: some inner tensors, for the plot."""
        if len(self.pairs) <= self.small:
            self.measure(self.pairs)
            return
        names = sorted(self.pairs, key=self.a.place.__getitem__)
        self.measure(names[:: -(-len(names) // self.small)])

    # -- names that outlived their meaning ----------------------------------------------

    def _heals(self, name: str) -> bool:
        """Whether all that follows a tensor agrees; it is put aside then."""
        following, _ = self.a.nearest(name, self.pairs, self.a.children)
        self.measure(following)
        if name in self.outputs or not following or any(map(self.parted, following)):
            return False
        self._put_aside(name)
        return True

    def _renamed(self, name: str) -> bool:
        """Looks for what the tensors around ``name`` are called in the other model.

        Returns:
            Whether something was found that may move the place where the models part.
        """
        ours, theirs = self._around(self.a, name), self._around(self.b, self.pairs[name])
        found = same_contents(self.a, ours, self.b, theirs, self.samples, self.tolerance)
        changed = False
        for one, other in found:
            counterpart = self.pairs.get(name)
            ours_moved = (one == name) != (other == counterpart)  # one end fits another tensor
            if ours_moved and counterpart is not None and name not in self.outputs:
                self._put_aside(name)
                changed = True
            if one not in self.pairs and other not in self.pairs.values():
                self.pairs[one] = other
                self.errors.pop(one, None)
                changed = True
        self.measure(one for one, _ in found if one in self.pairs)
        if not changed and min(len(ours), len(theirs)) > LONG:
            changed = pair_alike(self.a, ours, self.b, self.pairs)
        return changed

    def _around(self, side: Side, name: str) -> list[str]:
        """A tensor, and those without a counterpart before and after it, up to the nearest that
        have one."""
        known = set(self.pairs if side is self.a else self.pairs.values()) - {name}
        _, before = side.nearest(name, known, side.parents)
        _, after = side.nearest(name, known, side.children)
        return [*before, name, *after]

    def _sort_out(self) -> None:
        """Notes the other tensors that part and after which all that was compared agrees."""
        for name in [name for name in self.errors if self.parted(name)]:
            following, _ = self.a.nearest(name, self.pairs, self.a.children)
            known = [item in self.errors for item in following]
            if name in self.outputs or not known or not all(known):
                continue
            if not any(map(self.parted, following)):
                self.misnamed.append(name)

    def _put_aside(self, name: str) -> None:
        self.pairs.pop(name)
        self.errors.pop(name, None)
        self.misnamed.append(name)
