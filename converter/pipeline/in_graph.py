"""``--prepare graph``: the model takes pictures as 8-bit pixels, and gives what its outputs mean.

Operators are put around the model where it is read, so that passes, calibration, precisions and
targets see one model. The source's own session is wrapped in what servers and clients run
(:mod:`converter.preparation.stages`: Pillow and numpy), so that each artifact is compared from the
decoded picture to the answer with the source's pipeline.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from converter.errors import UsageError
from converter.ir.model import TensorSpec
from converter.pipeline.work import SIZES
from converter.preparation.answers import (
    Boxes,
    Classes,
    Embedding,
    Keypoints,
    Masks,
    Meaning,
    Meant,
    Spelled,
)
from converter.preparation.declared import DECODED, IN_GRAPH, Declaration
from converter.preparation.inputs import Picture, Sound
from converter.protocols.wrapped import WrappedSource

if TYPE_CHECKING:
    from converter.ir.model import Model
    from converter.options.request import Request
    from converter.protocols.parser import Source
    from converter.runtime.session import Session

_ABLE = (Picture, Sound, Classes, Boxes, Embedding, Masks, Keypoints, Spelled)
"""What operators do."""

_PLACELESS = ("numbers", "series", "segments")
"""Answers made outside that hang on no place in a picture: what does needs it resized there."""

_OUTSIDE = {
    "picture": "decoding pictures and turning them upright (EXIF)",
    "text": "making tokens of texts",
    "sound": "decoding sounds, resampling them and cutting windows",
    "row": "reading tables",
    "step": "what functions of files of yours do",
    "constant": "giving inputs that are the same for all files",
    "state": "giving a window of a sound what the one before left",
}


_REFUSED = {
    "picture": "turning pictures upright (EXIF): files that are to be turned are refused",
    "sound": "resampling sounds: files of another rate are refused",
}
"""What isn't done where the graph decodes."""


_DRAWN = {"masks": "making PNGs of masks", "text": "joining letters"}
"""What is left of answers that operators make."""


def _is_able(item: Meaning) -> bool:
    """Whether operators are to make an answer."""
    return isinstance(item, _ABLE) and not getattr(item, "outside", False)


@dataclass(frozen=True)
class InGraph:
    """What was put into a model's graph.

    Attributes:
        before: How files become the source's inputs, and its outputs answers.
        after: The same of what is left.
        input: The source's input that a picture becomes, or a sound's spectrum; None where none
            does.
        whole: Whether pictures of any size come in.
        decoded: The targets whose files decode them.
    """

    before: Declaration
    after: Declaration
    input: TensorSpec | None
    whole: bool
    decoded: tuple[str, ...] = ()

    def noted(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "before": self.before.model_dump(mode="json"),
            "after": self.after.model_dump(mode="json"),
            "input": vars(self.input) if self.input else None,
            "whole": self.whole,
            "decoded": list(self.decoded),
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
            tuple(said.get("decoded", ())),
        )

    @property
    def picture(self) -> Picture | None:
        """How a picture becomes the source's input."""
        return next((item for item in self.before.prepare if isinstance(item, Picture)), None)

    @property
    def sound(self) -> Sound | None:
        """How a sound becomes the source's input, by a spectrum."""
        return _spectrum_of(self.before)

    @property
    def told(self) -> list[str]:
        """What the graph does, and what stays outside, a line each."""
        able = (*self.after.prepare, *self.after.answer)
        fused: dict[str, tuple[str, ...]] = {}
        fused |= {item.kind: item.fused for item in able if isinstance(item, _ABLE) and item.fused}
        outside = [_OUTSIDE[item.kind] for item in self.after.prepare]
        if self.decoded:
            kind = "picture" if self.picture is not None else "sound"
            fused[kind] = (DECODED, *fused.get(kind, ()))
            outside[outside.index(_OUTSIDE[kind])] = _REFUSED[kind]
        if self.picture is not None and not self.whole:
            outside.append("resizing and cutting them to the model's size")
        rest = (item for item in self.after.answer if not _is_able(item))
        outside += (
            item.step if isinstance(item, Meant) else f"making {item.kind} of {item.output}"
            for item in rest
        )  # fmt: skip
        outside += [said for kind, said in _DRAWN.items() if kind in fused]
        inside = "; ".join(f"{kind}: {', '.join(steps)}" for kind, steps in fused.items())
        lines = [f"in the graph (--prepare graph): {inside}"]
        return [*lines, f"outside of it: {', '.join(outside)}"] if outside else lines


class InGraphSource(WrappedSource):
    """A source whose model has its preparation and answers in its graph.

    Args:
        source: The source.
        request: What was asked for.
        whole: Whether all targets resize pictures of any size.
        decoded: The targets that are asked to decode them.

    Attributes:
        known: What was put there, be it by an earlier run whose model is used again; None before
            that is known.
    """

    def __init__(
        self, source: Source, request: Request, whole: bool, decoded: Sequence[str] = ()
    ) -> None:
        super().__init__(source)
        self._request, self._whole, self._decoded = request, whole, decoded
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
        self.known = known = put_in_graph(model, self._request, whole=self._whole)
        if self._decoded:
            _require_decodable(known, self._request, self._decoded)
            self.known = known = replace(known, decoded=tuple(self._decoded))
            model.source[IN_GRAPH] = known.noted()
        return model

    def read(self, model: Model) -> None:
        """Takes what was put into a model by an earlier reading."""
        self.known = InGraph.of(model)

    def reference(self) -> Session:
        """The framework between stages."""
        if self.known is None:
            self.parse()
        assert self.known is not None
        from converter.pipeline.staged import StagedSession

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
    from converter.preparation.sound_graph import left_of_sound, put_spectrum

    before = declared_before(request, model)
    picture = next((item for item in before.prepare if isinstance(item, Picture)), None)
    sound = _spectrum_of(before) if picture is None else None
    _require_something(before)
    model.graph = UpgradeOpset()(model.graph).model
    taken = picture or sound
    spec = next((s for s in model.inputs if taken and s.name == taken.input), None)
    placed = None
    size: tuple[int | None, int | None] = (None, None)
    whole = whole and picture is not None
    whole &= all(_is_able(item) or item.kind in _PLACELESS for item in before.answer)
    if picture is not None and spec is not None:
        size = picture.height, picture.width
        placed = put_picture(model, picture, spec, whole=whole)
    if sound is not None and spec is not None:
        put_spectrum(model, sound, spec)
    answers = put_answers(model, before.answer, placed, size)
    left = [
        _left(item, whole) if isinstance(item, Picture)
        else left_of_sound(item) if item is sound
        else item
        for item in before.prepare
    ]  # fmt: skip
    after = Declaration(prepare=tuple(left), answer=tuple(answers), notes=before.notes)
    made = InGraph(before, after, spec, whole)
    model.source[IN_GRAPH] = made.noted()
    if whole:
        sides = [dim for dim in _shape_of(model, picture) if isinstance(dim, str)]
        sizes = ((size[0] or 64) * 5 // 4, (size[1] or 64) * 3 // 2)
        known = dict(zip(sides[-2:], sizes, strict=True))
        model.source[SIZES] = {**model.source.get(SIZES, {}), **known}
    return made


def _require_decodable(known: InGraph, request: Request, targets: Sequence[str]) -> None:
    """Refuses what a graph doesn't decode.

    Raises:
        UsageError: It says what.
    """
    picture, shape = known.picture, (known.input and known.input.shape) or ()
    others = [name for name in request.to if name not in targets]
    kinds = ", ".join(item.kind for item in known.before.prepare)
    why = ""
    if others:
        why = f"{', '.join(others)} has no operators that decode files"
    elif picture is None and known.sound is None:
        why = f"pictures and sounds with a spectrum are decoded, and {kinds or 'none'} is declared"
    elif known.sound is not None and (known.sound.hop or known.sound.normalize):
        why = "a sound is one window, and neither cut into several (hop) nor normalized as a whole"
    elif picture is not None and len(picture.mean) != 3:
        why = f"the decoded picture is RGB, but the model takes {picture.color}"
    elif picture is not None and not known.whole:
        why = "pictures of any size are decoded, and an answer's place needs the model's size"
    elif len(shape) > 2 and isinstance(shape[0], int) and shape[0] > 1:
        why = f"a run takes one file, and the model {shape[0]}"
    elif max(request.bench_batches, default=1) > 1:
        why = "a run takes one file, and --bench-batch asks for more"
    elif request.serve:
        why = "no server here loads the decoder, because a damaged JPEG would end its process"
    if why:
        raise UsageError(
            f"--ort-extensions: {why}",
            code="preparation",
            hint="Leave --ort-extensions out. Then files are decoded outside of the graph.",
        )


def _shape_of(model: Model, picture: Picture | None) -> tuple[int | str, ...]:
    return next(s.shape or () for s in model.inputs if picture and s.name == picture.input)


def _spectrum_of(declared: Declaration) -> Sound | None:
    """The sound whose spectrum the model takes."""
    sounds = (item for item in declared.prepare if isinstance(item, Sound) and item.spectrum)
    return next(sounds, None)


def _require_something(declared: Declaration) -> None:
    if any(isinstance(item, Picture) for item in declared.prepare) or _spectrum_of(declared):
        return
    makes = Boxes | Embedding | Masks | Keypoints | Spelled
    does = [isinstance(i, makes) and _is_able(i) for i in declared.answer]
    if any(does) or any(isinstance(i, Classes) and i.activation for i in declared.answer):
        return
    kinds = ", ".join(item.kind for item in declared.prepare)
    what = f"only {kinds} is declared, which operators can't prepare" if kinds else (
        "there is no description of how pictures become the model's inputs, or what its "
            "outputs mean"
    )  # fmt: skip
    raise UsageError(
        f"--prepare graph: {what}",
        code="preparation",
        hint="Write prepare: {kind: picture, ...} or answer: into a recipe, or give "
        "--image-mean and --image-std. Preparation outside of the graph needs no --prepare "
        "graph.",
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
