"""``--prepare graph``: the model takes pictures as 8-bit pixels, and gives what its outputs mean.

Operators are put around the model where it is read, so that passes, calibration, precisions and
targets see one model. The source's own session is wrapped in what servers and clients run
(:mod:`converter.preparation.stages`: Pillow and numpy), so that each artifact is compared from the
decoded picture to the answer with the source's pipeline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from converter.check.sums import are_best
from converter.errors import ModelError, UsageError
from converter.ir.model import TensorSpec
from converter.pipeline.work import SIZES
from converter.preparation.declared import (
    IN_GRAPH,
    Boxes,
    Classes,
    Declaration,
    Embedding,
    Picture,
    tops_of,
)
from converter.protocols.wrapped import WrappedSession, WrappedSource

if TYPE_CHECKING:
    import numpy as np

    from converter.ir.model import Model
    from converter.options.request import Request
    from converter.protocols.parser import Source
    from converter.runtime.session import Arrays, Session

    Array = np.ndarray[Any, Any]

_ABLE = (Picture, Classes, Boxes, Embedding)
"""What operators do."""

_PLACELESS = ("numbers", "text", "series")
"""Answers made outside that hang on no place in a picture: what does needs it resized there."""

_OUTSIDE = {
    "picture": "decoding pictures and turning them upright (EXIF)",
    "text": "making tokens of texts",
    "sound": "decoding sounds, resampling them and cutting windows",
    "row": "reading tables",
    "constant": "giving inputs that are the same for all files",
}


@dataclass(frozen=True)
class InGraph:
    """What was put into a model's graph.

    Attributes:
        before: How files become the source's inputs, and its outputs answers.
        after: The same of what is left.
        input: The source's input that a picture becomes; None where none does.
        whole: Whether pictures of any size come in.
    """

    before: Declaration
    after: Declaration
    input: TensorSpec | None
    whole: bool

    def noted(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "before": self.before.model_dump(mode="json"),
            "after": self.after.model_dump(mode="json"),
            "input": vars(self.input) if self.input else None,
            "whole": self.whole,
        }

    @classmethod
    def of(cls, model: Model) -> InGraph | None:
        """What a model says of itself."""
        said = model.source.get(IN_GRAPH)
        if said is None:
            return None
        given = said["input"]
        shape = given and given["shape"] and tuple(given["shape"])
        return cls(
            Declaration.model_validate(said["before"]),
            Declaration.model_validate(said["after"]),
            TensorSpec(**{**given, "shape": shape}) if given else None,
            said["whole"],
        )

    @property
    def picture(self) -> Picture | None:
        """How a picture becomes the source's input."""
        return next((item for item in self.before.prepare if isinstance(item, Picture)), None)

    @property
    def told(self) -> list[str]:
        """What the graph does, and what stays outside, a line each."""
        able = (*self.after.prepare, *self.after.answer)
        fused = {item.kind: item.fused for item in able if isinstance(item, _ABLE) and item.fused}
        outside = [_OUTSIDE[item.kind] for item in self.after.prepare]
        if self.picture is not None and not self.whole:
            outside.append("resizing and cutting them to the model's size")
        rest = (item for item in self.after.answer if not isinstance(item, _ABLE))
        outside += (f"making {item.kind} of {item.output}" for item in rest)
        inside = "; ".join(f"{kind}: {', '.join(steps)}" for kind, steps in fused.items())
        lines = [f"in the graph (--prepare graph): {inside}"]
        return [*lines, f"outside of it: {', '.join(outside)}"] if outside else lines


class InGraphSource(WrappedSource):
    """A source whose model has its preparation and answers in its graph.

    Args:
        source: The source.
        request: What was asked for.
        whole: Whether all targets resize pictures of any size.

    Attributes:
        known: What was put there, be it by an earlier run whose model is used again; None before
            that is known.
    """

    def __init__(self, source: Source, request: Request, whole: bool) -> None:
        super().__init__(source)
        self._request, self._whole = request, whole
        self.known: InGraph | None = None

    @property
    def warnings(self) -> Sequence[str]:
        """The source's, and what the graph does and doesn't."""
        return [*super().warnings, *(self.known.told if self.known else ())]

    def parse(self) -> Model:
        """The source's model, changed.

        Raises:
            UsageError: Nothing is declared, or operators can't do it.
        """
        model = super().parse()
        self.known = put_in_graph(model, self._request, whole=self._whole)
        return model

    def read(self, model: Model) -> None:
        """Takes what was put into a model by an earlier reading."""
        self.known = InGraph.of(model)

    def reference(self) -> Session:
        """The framework between stages."""
        if self.known is None:
            self.parse()
        assert self.known is not None
        return StagedSession(super().reference(), self.known)


def put_in_graph(model: Model, request: Request, *, whole: bool) -> InGraph:
    """Puts into a model's graph what operators can do of its preparation and answers, in place.

    Args:
        model: As its parser gave it.
        request: What is declared.
        whole: Whether pictures are resized there.

    Raises:
        UsageError: Nothing is declared that operators can do; or what they can't.
    """
    from converter.passes.opset.upgrade import UpgradeOpset
    from converter.pipeline.declaring import declared_before
    from converter.preparation.answer_graph import put_answers
    from converter.preparation.picture_graph import put_picture

    before = declared_before(request, model)
    picture = next((item for item in before.prepare if isinstance(item, Picture)), None)
    _require_something(before)
    model.graph = UpgradeOpset()(model.graph).model
    spec = next((s for s in model.inputs if picture and s.name == picture.input), None)
    placed = None
    size: tuple[int | None, int | None] = (None, None)
    whole = whole and picture is not None
    whole &= all(isinstance(item, _ABLE) or item.kind in _PLACELESS for item in before.answer)
    if picture is not None and spec is not None:
        size = picture.height, picture.width
        placed = put_picture(model, picture, spec, whole=whole)
    answers = put_answers(model, before.answer, placed, size)
    left = [_left(item, whole) if isinstance(item, Picture) else item for item in before.prepare]
    after = Declaration(prepare=tuple(left), answer=tuple(answers), notes=before.notes)
    made = InGraph(before, after, spec, whole)
    model.source[IN_GRAPH] = made.noted()
    if whole:
        sides = [dim for dim in _shape_of(model, picture) if isinstance(dim, str)]
        sizes = ((size[0] or 64) * 5 // 4, (size[1] or 64) * 3 // 2)
        known = dict(zip(sides[-2:], sizes, strict=True))
        model.source[SIZES] = {**model.source.get(SIZES, {}), **known}
    return made


def _shape_of(model: Model, picture: Picture | None) -> tuple[int | str, ...]:
    return next(s.shape or () for s in model.inputs if picture and s.name == picture.input)


def _require_something(declared: Declaration) -> None:
    if any(isinstance(item, Picture) for item in declared.prepare):
        return
    does = [isinstance(item, Boxes | Embedding) for item in declared.answer]
    if any(does) or any(isinstance(i, Classes) and i.activation for i in declared.answer):
        return
    kinds = ", ".join(item.kind for item in declared.prepare)
    what = f"{kinds} alone is declared, which operators can't prepare" if kinds else (
        "nothing says how pictures become the model's inputs, nor what its outputs mean"
    )  # fmt: skip
    raise UsageError(
        f"--prepare graph: {what}",
        hint="Write prepare: {kind: picture, ...} or answer: in a recipe, or give --image-mean "
        "and --image-std; what is prepared outside of the graph needs no --prepare graph.",
    )


def _left(picture: Picture, whole: bool) -> Picture:
    """What is left to do of a picture: its decoding, and its size where that isn't the graph's."""
    fused = ["color"] if picture.color.startswith("bgr") else []
    fused += ["scale", "normalize", "layout"]
    known: dict[str, Any] = {
        "layout": "HWC",
        "color": picture.color.replace("bgr", "rgb"),
        "scale": 1.0,
        "mean": (0.0,) * len(picture.mean),
        "std": (1.0,) * len(picture.mean),
    }
    if whole:
        fused = ["resize", "fill" if picture.fill is not None else "crop", *fused]
        none = ("height", "width", "resize", "longest", "fill")
        known |= {**dict.fromkeys(none), "multiple": 1}
    return picture.model_copy(update={**known, "fused": tuple(fused)})


class StagedSession(WrappedSession):
    """A session that takes pictures and gives answers, as stages make them outside of it.

    Args:
        session: The framework's.
        known: What is in the graph of its artifacts.
    """

    def __init__(self, session: Session, known: InGraph) -> None:
        super().__init__(session)
        self._known = known
        self._answers = [item.model_dump() for item in known.before.answer]
        self._left = known.after.answer
        self._source: dict[str, TensorSpec] = {spec.name: spec for spec in session.outputs}

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The inputs, pictures as pixels."""
        return tuple(self._pixels(spec) for spec in super().inputs)

    @property
    def runtime(self) -> dict[str, Any]:
        """The framework's; what is resized is rounded to 8 bits."""
        found = super().runtime
        rounds = self._known.whole and not found.get("arithmetic")
        return {**found, "arithmetic": "pixels"} if rounds else found

    def _pixels(self, spec: TensorSpec) -> TensorSpec:
        known, shape = self._known, spec.shape
        if known.input is None or spec.name != known.input.name or shape is None:
            return spec
        picture = known.picture
        assert picture is not None
        rows = shape[-3:] if picture.layout == "HWC" else (*shape[-2:], shape[-3])
        if known.whole:
            rows = ("height", "width", rows[2])
        return TensorSpec(spec.name, "uint8", (*shape[:-3], *rows), meaning="image")

    def run(self, feeds: Arrays) -> dict[str, Array]:
        """The answers to pictures."""
        from converter.preparation.stages import Seen

        fed, seen = self._staged(feeds)
        found = self._session.run(fed)
        for item, left in zip(self._answers, self._left, strict=True):
            found |= self._answered(item, left, found, fed, seen or [Seen()])
        return found

    def _fed(self, feeds: Arrays) -> Arrays:
        return self._staged(feeds)[0]

    def _staged(self, feeds: Arrays) -> tuple[dict[str, Array], list[Any]]:
        """What the session is fed, and what stages saw of each picture."""
        import numpy as np

        from converter.preparation.stages import valued
        from converter.samples.images import table_of

        spec, picture = self._known.input, self._known.picture
        if spec is None or picture is None:
            return dict(feeds), []
        given, rows, seen = feeds[spec.name], [], []
        table = table_of(spec, picture)
        for pixels in given if given.ndim == 4 else given[np.newaxis]:
            fitted, where = self._fitted(picture, pixels)
            rows.append(valued(picture.model_dump(), fitted, table))
            seen.append(where)
        return {**feeds, spec.name: np.stack(rows) if given.ndim == 4 else rows[0]}, seen

    def _fitted(self, picture: Picture, pixels: Array) -> tuple[Array, Any]:
        """Pixels in the model's size, and where they came from."""
        from PIL.Image import fromarray

        from converter.preparation.prepared import told
        from converter.preparation.stages import Seen, fit

        if not self._known.whole:
            return pixels, Seen()
        image = fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
        with told():
            return fit(image, picture.model_dump(), "the picture")

    def _answered(
        self, item: Mapping[str, Any], left: Any, found: Arrays, fed: Arrays, seen: Sequence[Any]
    ) -> dict[str, Array]:
        import numpy as np

        from converter.preparation import stages

        name = item["output"]
        if isinstance(left, Classes) and item["activation"]:
            return {name: stages.activated(found[name], item["activation"]).astype(np.float32)}
        if isinstance(left, Boxes):
            where = replace(seen[0], feeds=dict(fed))
            corners, scores, index = stages.found_boxes(item, found, where)
            made = corners.astype(np.float32), scores.astype(np.float32), index.astype(np.int64)
            names = (left.output, left.scores or "", left.classes or "")
            return dict(zip(names, made, strict=True))
        if isinstance(left, Embedding) and left.fused:
            rows = [
                stages.embedding(
                    item,
                    {name: found[name][i : i + 1]},
                    stages.Seen(feeds={key: array[i : i + 1] for key, array in fed.items()}),
                )["embedding"]
                for i in range(len(found[name]))
            ]
            return {name: np.array(rows, np.float32)}
        return {}


def followed(session: Session, model: Model) -> Session:
    """An artifact's session, as it is compared with a source.

    Args:
        session: The artifact's.
        model: The source's, as it was read.
    """
    known = InGraph.of(model)
    tops = tops_of(known.after) if known is not None else {}
    return Followed(session, tops) if tops else session


class Followed(WrappedSession):
    """An artifact whose best classes are held to the scores that it gives, and then aren't looked
    at: which class comes first is the scores' to say.

    Args:
        session: The artifact's.
        tops: The outputs of the best classes, by the output whose they are.
    """

    def __init__(self, session: Session, tops: Mapping[str, tuple[str, str]]) -> None:
        super().__init__(session)
        self._tops = tops
        self._left_out = {name for pair in tops.values() for name in pair}

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Those that are compared."""
        return tuple(spec for spec in super().outputs if spec.name not in self._left_out)

    def run(self, feeds: Arrays) -> dict[str, Array]:
        """The session's outputs that are compared.

        Raises:
            ModelError: The best classes aren't those of the scores.
        """
        found = super().run(feeds)
        for output, names in self._tops.items():
            if not are_best(found[output], *(found[name] for name in names)):
                raise ModelError(f"the artifact's best classes aren't those with the best {output}")
        return {name: array for name, array in found.items() if name not in self._left_out}
