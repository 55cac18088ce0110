"""``--layout``: images come and go with their channels first, or last, whatever the source has.

The model gets a Transpose at each input and output that changes (the pass ``transposes`` then
cancels them), and the source's own session is wrapped, so that both take the same feeds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from converter.errors import UsageError
from converter.ir.facts import CHANNELS_FIRST
from converter.ir.model import LAYOUT_CHANGES
from converter.protocols.wrapped import WrappedSession, WrappedSource

if TYPE_CHECKING:
    import numpy as np
    import onnx_ir

    from converter.ir.model import Model, TensorSpec
    from converter.passes.transposes.families import Family
    from converter.passes.transposes.search import Search
    from converter.protocols.parser import Source
    from converter.runtime.session import Arrays, Session

    Array = np.ndarray[Any, Any]


_LETTERS = {
    "nchw": {4: "NCHW", 5: "NCDHW"},
    "nhwc": {4: "NHWC", 5: "NDHWC"},
}
_KNOWN = frozenset(letters for ranks in _LETTERS.values() for letters in ranks.values())

Changes = Mapping[str, Sequence[int]]
"""Axis i of an input or output, as it is now, is axis ``changes[name][i]`` of the source's."""


class LaidOut(WrappedSource):
    """A source whose images have the layout that was asked for.

    Args:
        source: The source.
        layout: ``nchw`` or ``nhwc``.

    Attributes:
        changes: What was changed, be it by an earlier run whose model is used again; None before
            that is known.
    """

    def __init__(self, source: Source, layout: str) -> None:
        super().__init__(source)
        self._layout = layout
        self.changes: Changes | None = None

    def parse(self) -> Model:
        """The source's model, changed; raises UsageError where it isn't clear what to change."""
        model = super().parse()
        self.changes = change_layout(model, self._layout)
        return model

    def reference(self) -> Session:
        """The framework, which takes and gives the changed layout."""
        if self.changes is None:
            self.parse()
        session = super().reference()
        return LaidOutSession(session, self.changes) if self.changes else session


class LaidOutSession(WrappedSession):
    """A session that takes and gives images in another layout than its model."""

    def __init__(self, session: Session, changes: Changes) -> None:
        super().__init__(session)
        self._changes = changes

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The inputs, in the layout taken."""
        return tuple(self._spec(spec) for spec in super().inputs)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The outputs, in the layout given."""
        return tuple(self._spec(spec) for spec in super().outputs)

    def run(self, feeds: Arrays) -> dict[str, Array]:
        """Runs the session on the feeds in its own layout."""
        import numpy as np

        return {
            name: np.ascontiguousarray(array.transpose(self._changes[name]))
            if name in self._changes
            else array
            for name, array in super().run(feeds).items()
        }

    def _fed(self, feeds: Arrays) -> Arrays:
        import numpy as np

        return {
            name: np.ascontiguousarray(array.transpose(np.argsort(self._changes[name])))
            if name in self._changes
            else array
            for name, array in feeds.items()
        }

    def _spec(self, spec: TensorSpec) -> TensorSpec:
        perm = self._changes.get(spec.name)
        if perm is None or spec.shape is None:
            return spec
        return replace(spec, shape=tuple(spec.shape[axis] for axis in perm), layout=None)


def change_layout(model: Model, layout: str) -> Changes:
    """Changes the layout of a model's images, in place.

    Inputs and outputs of four axes (or five) are images where the parser said so, or where the
    graph does: what leads from or to a convolution or pooling has its channels where that wants
    them. Names stay.

    Args:
        model: As its parser gave it.
        layout: ``nchw`` or ``nhwc``; five axes are then NCDHW or NDHWC.

    Returns:
        What was changed; it is kept in ``model.source`` too.

    Raises:
        UsageError: No input is known to be an image.
    """
    found = _found(model)
    inputs = [spec.name for spec in model.inputs if spec.name in found]
    if not inputs:
        raise UsageError(
            f"--layout {layout}: none of the inputs is known to be an image: "
            + ", ".join(f"{spec.name} {spec.describe()}" for spec in model.inputs),
            code="option-not-applicable",
            details=[
                "looked for: an input of 4 or 5 axes whose layout the source states",
                "looked for: an input that reaches a convolution or a pooling only through "
                "operators that keep its axes apart",
            ],
            hint="Leave --layout out.",
        )
    changes: dict[str, list[int]] = {}
    graph = model.graph.graph
    for name, letters in found.items():
        wanted = _LETTERS[layout][len(letters)]
        perm = [letters.index(letter) for letter in wanted]
        if letters != wanted:
            changes[name] = perm
            change = _change_input if name in inputs else _change_output
            change(graph, name, perm)
        model.describe(name, layout=wanted)
    model.source[LAYOUT_CHANGES] = changes
    return changes


def _change_input(graph: onnx_ir.Graph, name: str, perm: list[int]) -> None:
    import onnx_ir

    value = next(value for value in graph.inputs if value.name == name)
    back = [perm.index(axis) for axis in range(len(perm))]
    node = onnx_ir.node("Transpose", [value], {"perm": back}, name=_free(graph, f"{name}_layout"))
    inner = node.outputs[0]
    inner.name, inner.type, inner.shape = _free(graph, f"{name}_source"), value.type, value.shape
    uses = [use for use in value.uses() if use.node is not node]
    for use in uses:
        use.node.replace_input_with(use.idx, inner)
    for place, output in enumerate(graph.outputs):
        if output is value:
            graph.outputs[place] = inner
    value.shape = _permuted(value, perm)
    first = next(iter(graph), None)
    if first is None:
        graph.append(node)
    else:
        graph.insert_before(first, node)


def _change_output(graph: onnx_ir.Graph, name: str, perm: list[int]) -> None:
    import onnx_ir

    place = next(i for i, value in enumerate(graph.outputs) if value.name == name)
    value = graph.outputs[place]
    node = onnx_ir.node("Transpose", [value], {"perm": perm}, name=_free(graph, f"{name}_layout"))
    graph.append(node)
    new = node.outputs[0]
    new.type, new.shape = value.type, _permuted(value, perm)
    value.name = _free(graph, f"{name}_source")
    new.name = name
    graph.outputs[place] = new


def _permuted(value: onnx_ir.Value, perm: list[int]) -> onnx_ir.Shape | None:
    import onnx_ir

    if value.shape is None:
        return None
    dims = [dim if isinstance(dim, int) else dim.value for dim in value.shape]
    return onnx_ir.Shape([dims[axis] for axis in perm])


def _free(graph: onnx_ir.Graph, like: str) -> str:
    """A name that nothing in the graph has."""
    import onnx_ir

    taken = {value.name for value in graph.inputs} | set(graph.initializers)
    for node in onnx_ir.traversal.RecursiveGraphIterator(graph):
        taken |= {node.name, *(value.name for value in node.outputs)}
    name, number = like, 0
    while name in taken:
        number += 1
        name = f"{like}_{number}"
    return name


# -- finding out -------------------------------------------------------------------------


def _found(model: Model) -> dict[str, str]:
    """The layouts of the inputs and outputs that are images, in order."""
    specs = [*model.inputs, *model.outputs]
    said = {spec.name: spec.layout for spec in specs if spec.layout in _KNOWN}
    seen = _seen(model)
    found: dict[str, str] = {}
    for spec in specs:
        letters = said.get(spec.name) or seen.get(spec.name)
        if letters is not None and (spec.rank is None or spec.rank == len(letters)):
            found.setdefault(spec.name, letters)
    return found


def _seen(model: Model) -> dict[str, str]:
    """What the graph says of its inputs' and outputs' layouts."""
    from converter import plugins
    from converter.passes.transposes.search import Search

    copy = model.copy()
    for name in ("normalize", "upgrade-opset", "cleanup", "repair-shapes"):
        copy.graph = plugins.load("passes", name)(copy.graph).model
    search = Search(copy.graph.graph)
    letters = _spread(search)
    seen = {}
    for value in (*copy.graph.graph.inputs, *copy.graph.graph.outputs):
        if value in search.member and value.name:
            family, offset = search.member[value]
            known = letters.get(family)
            spelled = "".join(known[axis] for axis in offset) if known else ""
            if spelled in _KNOWN:
                seen[value.name] = spelled
    return seen


def _spread(search: Search) -> dict[Family, str]:
    """What the axes of each family's root are, as far as convolutions tell; "" in dispute."""
    letters: dict[Family, str] = {}
    queue: deque[Family] = deque()

    def say(value: onnx_ir.Value | None, member: str) -> None:
        if value is None or value not in search.member:
            return
        family, offset = search.member[value]
        if len(offset) != len(member):
            return
        root = "".join(member[offset.index(axis)] for axis in range(len(offset)))
        if letters.get(family, root) != root:
            letters[family] = ""
        elif family not in letters:
            letters[family] = root
            queue.append(family)

    for node in search.graph:
        if node.op_type in CHANNELS_FIRST and node.domain in ("", "ai.onnx"):
            for value in (node.inputs[0], node.outputs[0]):
                rank = len(value.shape) if value is not None and value.shape is not None else 0
                if rank in (4, 5):
                    say(value, _LETTERS["nchw"][rank])
    while queue:
        family = queue.popleft()
        known = letters[family]
        rules = [use.rule for use in family.uses if use.rule is not None]
        for rule in dict.fromkeys([*rules, *([family.maker] if family.maker else [])]):
            _through(search, rule, family, known, say)
    return letters


def _through(search: Search, rule: Any, family: Family, known: str, say: Any) -> None:
    """Says of what a node takes and gives what is known of one of them."""
    if not known or not rule.keeps_axes:
        return
    node = rule.node
    values = [node.inputs[index] for index in rule.inputs]
    values += [node.outputs[index] for index in rule.outputs]
    mine = next(v for v in values if v in search.member and search.member[v][0] is family)
    offset = search.member[mine][1]
    member = "".join(known[axis] for axis in offset)
    for value in values:
        say(value, member)
