"""Sessions on either side of a check where the graph prepares and answers (``--prepare graph``):
the source's between stages, and an artifact's without what follows from its other outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from converter.check.sums import are_best
from converter.errors import ModelError
from converter.ir.model import TensorSpec
from converter.pipeline.in_graph import InGraph
from converter.preparation.answers import Boxes, Classes, Embedding, Keypoints, Masks, Spelled
from converter.preparation.declared import tops_of
from converter.preparation.inputs import Picture
from converter.protocols.wrapped import WrappedSession

if TYPE_CHECKING:
    import numpy as np

    from converter.ir.model import Model
    from converter.runtime.session import Arrays, Session
    from converter.samples import Samples

    Array = np.ndarray[Any, Any]


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
        picture, sound = known.picture, known.sound
        if picture is None:
            assert sound is not None and sound.length is not None
            batch = shape[:1] if len(shape) == (4 if sound.channel else 3) else ()
            return TensorSpec(spec.name, "float32", (*batch, sound.length))
        rows = shape[-3:] if picture.layout == "HWC" else (*shape[-2:], shape[-3])
        if known.whole:
            rows = ("height", "width", rows[2])
        return TensorSpec(spec.name, "uint8", (*shape[:-3], *rows), meaning="image")

    def run(self, feeds: Arrays) -> dict[str, Array]:
        """The answers to pictures."""
        from converter.preparation.staged.base import Seen

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

        if self._known.picture is None and self._known.input is not None:
            name = self._known.input.name
            return {**feeds, name: self._heard(feeds[name])}, []

        from converter.preparation.staged.pictures import valued
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

    def _heard(self, waves: Array) -> Array:
        """Windows of a sound as the session takes them."""
        import numpy as np

        from converter.preparation.staged.sounds import spectra

        spec, sound = self._known.input, self._known.sound
        assert spec is not None and sound is not None and sound.spectrum is not None
        rows = waves if waves.ndim == 2 else waves[np.newaxis]
        found = spectra(sound.spectrum.model_dump(), rows, sound.rate)
        if sound.channel:
            found = np.expand_dims(found, 1 if sound.channel == "first" else 2)
        return (found if waves.ndim == 2 else found[0]).astype(spec.dtype)

    def _fitted(self, picture: Picture, pixels: Array) -> tuple[Array, Any]:
        """Pixels in the model's size, and where they came from."""
        from PIL.Image import fromarray

        from converter.preparation.prepared import told
        from converter.preparation.staged.base import Seen
        from converter.preparation.staged.pictures import fit

        if not self._known.whole:
            return pixels, Seen()
        image = fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
        with told():
            return fit(image, picture.model_dump(), "the picture")

    def _answered(
        self, item: Mapping[str, Any], left: Any, found: Arrays, fed: Arrays, seen: Sequence[Any]
    ) -> dict[str, Array]:
        import numpy as np

        from converter.preparation.staged.base import Seen
        from converter.preparation.staged.boxes import found_boxes
        from converter.preparation.staged.classes import activated, embedding

        name = item["output"]
        if isinstance(left, Classes) and item["activation"]:
            return {name: activated(found[name], item["activation"]).astype(np.float32)}
        if isinstance(left, Boxes) and left.fused:
            where = replace(seen[0], feeds=dict(fed))
            corners, scores, index = found_boxes(item, found, where)
            made = corners.astype(np.float32), scores.astype(np.float32), index.astype(np.int64)
            names = (left.output, left.scores or "", left.classes or "")
            return dict(zip(names, made, strict=True))
        if isinstance(left, Embedding) and left.fused:
            rows = [
                embedding(
                    item,
                    {name: found[name][i : i + 1]},
                    Seen(feeds={key: array[i : i + 1] for key, array in fed.items()}),
                )["embedding"]
                for i in range(len(found[name]))
            ]
            return {name: np.array(rows, np.float32)}
        return _placed(item, left, found[name], fed, seen) if left.fused else {}


def _placed(
    item: Mapping[str, Any], left: Any, values: Array, fed: Arrays, seen: Sequence[Any]
) -> dict[str, Array]:
    """Masks, points and letters of each row."""
    import numpy as np

    from converter.preparation.staged.classes import best_path
    from converter.preparation.staged.masks import pixel_classes, placed_points

    rows = [values[i : i + 1] for i in range(len(values))]
    each = list(seen) if len(seen) == len(rows) else [seen[0]] * len(rows)
    where = [replace(one, feeds=dict(fed)) for one in each]
    name = item["output"]
    if isinstance(left, Spelled):
        paths = [best_path(item, row.reshape(-1, row.shape[-1])) for row in rows]
        indices, sure = (np.stack(part) for part in zip(*paths, strict=True))
        return {name: indices, str(left.scores): sure.astype(np.float32)}
    if isinstance(left, Masks) and "size" in left.fused:
        found = (pixel_classes(item, *pair) for pair in zip(rows, where, strict=True))
        return {name: np.stack(list(found))}
    if isinstance(left, Masks):
        return {name: values.argmax(axis=-1 if item["channels_last"] else 1).astype(np.int64)}
    if isinstance(left, Keypoints):
        made = [placed_points(item, *pair) for pair in zip(rows, where, strict=True)]
        return {name: np.stack(made).astype(np.float32).reshape(values.shape)}
    return {}


def know_files(session: Any, samples: Samples) -> None:
    """Tells a session that takes files which ones samples were made of."""
    if hasattr(session, "know"):
        session.know(samples)


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
                raise ModelError(
                    f"the artifact's best classes aren't those with the best {output}",
                    code="runtime-failed",
                )
        return {name: array for name, array in found.items() if name not in self._left_out}
