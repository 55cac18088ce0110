"""Finds the order of axes for each node in which the fewest Transposes are left.

Tensors that differ by Transposes alone are one *family*: the tensor that a node (or the caller)
gives, its root, and what Transposes make of it. Each user wants a member of the family in the
order of axes that its rule says; each order that is wanted and isn't the root's costs a
Transpose. What is searched for is a label for each rule that makes the sum least.

From a label that would save a Transpose follow the labels of its neighbours, theirs from
those, and so on: which of all those changes to make is a minimum cut. That estimate is never
believed: a change is made only if the exact cost falls, so the search ends, and always at
the same place.
"""

from __future__ import annotations

from collections import ChainMap, deque
from collections.abc import Iterable

import onnx_ir

from converter.ir.edit import is_constant
from converter.ir.min_cut import ENDLESS, MinCut
from converter.passes.transposes.families import NODE, Family, Labels, Use, transpose_perm
from converter.passes.transposes.perm import Perm, after, identity, inverse
from converter.passes.transposes.rules import Rule
from converter.passes.transposes.table import rule_of

REGION = 4000
"""Most nodes that one change may reach."""


class Search:
    """The families of one graph, and labels for its rules.

    Attributes:
        joined: The Transposes that make a member of their input's family. One whose input has no
            known rank is a node as any other, though what it gives may have a rank, and a family.
    """

    def __init__(self, graph: onnx_ir.Graph) -> None:
        self.graph = graph
        self.rules: dict[onnx_ir.Node, Rule] = {}
        self.families: dict[onnx_ir.Value, Family] = {}
        self.member: dict[onnx_ir.Value, tuple[Family, Perm]] = {}
        self.joined: set[onnx_ir.Node] = set()
        self._of: dict[Rule, list[Family]] = {}
        for node in graph:
            if not self._joins(node):
                self._add(node)
        for value in graph.outputs:
            self._use(value, Use(()))
        for node in graph:
            for value in node.outputs:
                if any(use.node.graph is not graph for use in value.uses()):
                    self._use(value, Use(()))
        for family in self.families.values():
            rules = [use.rule for use in family.uses if use.rule is not None]
            for rule in dict.fromkeys([*rules, *([family.maker] if family.maker else [])]):
                self._of.setdefault(rule, []).append(family)
        self.labels: Labels = {rule: rule.rest for rule in self.rules.values()}

    # -- families --------------------------------------------------------------------

    def _joins(self, node: onnx_ir.Node) -> bool:
        """Whether ``node`` is a Transpose, which makes a member of its input's family."""
        perm = transpose_perm(node)
        if perm is None or node.inputs[0] is None:
            return False
        found = self._find(node.inputs[0])
        if found is None:
            return False
        family, offset = found
        self.member[node.outputs[0]] = (family, after(offset, perm))
        self.joined.add(node)
        return True

    def _find(self, value: onnx_ir.Value) -> tuple[Family, Perm] | None:
        """The family of a value and its place in it; None where its rank isn't known."""
        if value not in self.member:
            if value.shape is None:
                return None
            dims = [dim if isinstance(dim, int) else dim.value for dim in value.shape]
            family = Family(value, dims, constant=is_constant(value))
            self.families[value] = family
            self.member[value] = (family, identity(len(dims)))
        return self.member[value]

    def _add(self, node: onnx_ir.Node) -> None:
        """Notes what a node uses and makes."""
        rule = rule_of(node)
        if rule is not None and any(
            value is None or self._find(value) is None
            for value in (
                *(node.inputs[index] for index in rule.inputs),
                *(node.outputs[index] for index in rule.outputs if node.outputs[index].name),
            )
        ):
            rule = None
        if rule is not None:
            self.rules[node] = rule
        for index, value in enumerate(node.inputs):
            if value is None:
                continue
            permuted = rule is not None and index in rule.inputs
            self._use(value, Use((), rule if permuted else None, index))
        for index in rule.outputs if rule is not None else ():
            if node.outputs[index].name:
                family, _ = self.member[node.outputs[index]]
                family.maker, family.index = rule, index

    def _use(self, value: onnx_ir.Value, use: Use) -> None:
        found = self._find(value)
        if found is not None:
            family, use.offset = found
            family.uses.append(use)

    # -- cost ------------------------------------------------------------------------

    def cost(self) -> int:
        """What all Transposes and small nodes cost."""
        return self._cost(self.families.values(), self.rules.values(), self.labels)

    def _cost(self, families: Iterable[Family], rules: Iterable[Rule], labels: Labels) -> int:
        made = sum(family.cost(labels) for family in families)
        return made + NODE * sum(rule.extra(labels[rule]) for rule in rules)

    # -- search ----------------------------------------------------------------------

    def run(self) -> None:
        """Changes labels for as long as that makes the cost less."""
        improved = True
        while improved:
            improved = False
            for family in self.families.values():
                while self._improve(family):
                    improved = True

    def _improve(self, family: Family) -> bool:
        """Makes one change that saves a Transpose of ``family``, if there is one."""
        made = family.made(self.labels)
        wanted = dict.fromkeys(use.wants(self.labels) for use in family.uses)
        for want in wanted:
            if want == made or family.constant:
                continue
            users = [use for use in family.uses if use.wants(self.labels) == want]
            for seed in (self._users_as(users, made), self._maker_as(family, want)):
                if seed and self._change(self._spread(seed)):
                    return True
        return False

    def _users_as(self, uses: Iterable[Use], root: Perm) -> Labels:
        """Labels with which users take a family's root as ``root``."""
        labels: Labels = {}
        for use in uses:
            if use.rule is None or use.rule in labels:
                continue
            label = use.rule.by_input(use.index, after(inverse(use.offset), root))
            if label is not None and label != self.labels[use.rule]:
                labels[use.rule] = label
        return labels

    def _maker_as(self, family: Family, root: Perm) -> Labels:
        """The label with which a family's root is made as ``root``."""
        if family.maker is None:
            return {}
        label = family.maker.by_output(family.index, root)
        if label is None or label == self.labels[family.maker]:
            return {}
        return {family.maker: label}

    def _spread(self, region: Labels) -> Labels:
        """The labels that follow from those of a seed, wherever they lead."""
        queue = deque(region)
        while queue and len(region) < REGION:
            rule = queue.popleft()
            label = region[rule]
            for family in self._of.get(rule, ()):
                if family.constant:
                    continue
                roots = [
                    after(use.offset, rule.input_perm(label, use.index))
                    for use in family.uses
                    if use.rule is rule
                ]
                if family.maker is rule:
                    roots.append(rule.output_perm(label, family.index))
                follow = {
                    **self._maker_as(family, roots[0]),
                    **self._users_as(family.uses, roots[0]),
                }
                for other, its in follow.items():
                    if other not in region:
                        region[other] = its
                        queue.append(other)
        return region

    def _change(self, region: Labels) -> bool:
        """Makes the changes of a region that pay together; says whether any do."""
        touched = list(dict.fromkeys(f for rule in region for f in self._of.get(rule, ())))
        chosen = self._cut(region, touched)
        if not chosen:
            return False
        new = ChainMap({rule: region[rule] for rule in chosen}, self.labels)
        before = self._cost(touched, region, self.labels)
        if self._cost(touched, region, new) >= before:
            return False
        self.labels.update(new.maps[0])
        return True

    def _cut(self, region: Labels, families: Iterable[Family]) -> list[Rule]:
        """The rules of a region to change, as a minimum cut says."""
        cut = MinCut()
        variables = {rule: cut.variable() for rule in region}
        for rule, variable in variables.items():
            cut.one(variable, NODE * rule.extra(region[rule]))
            cut.zero(variable, NODE * rule.extra(self.labels[rule]))
        new = ChainMap(region, self.labels)
        for family in families:
            _weigh(cut, variables, family, self.labels, new)
        ones = cut.solve()
        return [rule for rule, variable in variables.items() if variable in ones]


def _weigh(
    cut: MinCut, variables: dict[Rule, int], family: Family, old: Labels, new: Labels
) -> None:
    """Adds what a family costs, where users and maker take old or new labels."""
    maker = variables.get(family.maker) if family.maker is not None else None
    made = family.made(old), family.made(new)
    always: dict[Perm, None] = {}
    rising: dict[Perm, set[int]] = {}
    falling: dict[Perm, set[int]] = {}
    for use in family.uses:
        was, becomes = use.wants(old), use.wants(new)
        if was == becomes or use.rule is None:
            always[was] = None
            continue
        variable = variables[use.rule]
        falling.setdefault(was, set()).add(variable)
        rising.setdefault(becomes, set()).add(variable)
    for want in dict.fromkeys([*always, *rising, *falling]):
        zero, one = family.change(made[0], want), family.change(made[1], want)
        if want in always:
            if maker is not None:
                cut.zero(maker, zero)
                cut.one(maker, one)
            continue
        _weigh_any(cut, maker, rising.get(want), zero, one, rises=True)
        _weigh_any(cut, maker, falling.get(want), zero, one, rises=False)


def _weigh_any(
    cut: MinCut, maker: int | None, users: set[int] | None, zero: int, one: int, *, rises: bool
) -> None:
    """Adds what it costs that any of ``users`` is 1 (``rises``) or 0: ``zero`` where the maker
    is 0, ``one`` where it is 1. What no cut can say is counted at its highest."""
    if not users:
        return
    any_of = cut.variable()
    for user in sorted(users):
        cut.pair(*((any_of, user) if rises else (user, any_of)), ENDLESS)
    single = cut.one if rises else cut.zero
    if maker is None:
        single(any_of, zero)
    elif rises:
        single(any_of, one)
        cut.pair(maker, any_of, zero - one)
    else:
        single(any_of, zero)
        cut.pair(any_of, maker, one - zero)
