"""What is known of how users' files become a model's inputs, and its outputs answers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from converter.ir.model import Model
from converter.options.request import Request
from converter.options.resolved import tells_of_images
from converter.preparation.declared import (
    Declaration,
    Picture,
    Prepare,
    classes_of,
    sentence_of,
)
from converter.preparation.suggested import Suggested, row_of, shaped
from converter.preparation.written import filled
from converter.samples import Samples


def declaration_of(
    request: Request, samples: Samples, model: Model, assets: Collection[str]
) -> Declaration | None:
    """The declaration of a model: what was written, and else what options, samples and the model's
    own files tell.

    Args:
        request: Its ``preparation`` and ``answer``, and its ``image_*``.
        samples: Those of the run.
        model: The model, simplified.
        assets: Files that go along with the output.

    Returns:
        None where nothing is known.

    Raises:
        UsageError: What was written doesn't fit the model.
    """
    said = Suggested.of(model.source)
    suggested, unused = said.fitting("prepare", model.inputs)
    written = shaped(request.preparation, model.inputs)
    known = [*_known(request, samples, model, assets), *suggested]
    prepare, notes = filled("prepare", written, known, model.inputs)
    meanings, more = said.fitting("answer", model.outputs)
    named = {item.output for item in meanings}
    meanings += (item for item in classes_of(model.outputs) if item.output not in named)
    answer, other = filled("answer", request.answer, meanings, model.outputs)
    if not (prepare or answer):
        return None
    places = {f"prepare ({item.kind})" for item in prepare}
    places |= {f"answer ({item.kind})" for item in answer}
    origins = [f"{at}: from {where}" for at, where in said.origins.items() if at in places]
    told = [*origins, *notes, *other, *unused, *more, *said.notes]
    return Declaration(prepare=prepare, answer=answer, notes=tuple(told))


def _known(
    request: Request, samples: Samples, model: Model, assets: Collection[str]
) -> list[Prepare]:
    """What options and samples say of preparation, and what the model says by itself."""
    written = any(item["kind"] == "picture" for item in request.preparation)
    picture = samples.picture
    if written or (picture is None and tells_of_images(request)):
        picture = _picture(model, replace(request, preparation=[]), picture)
    texts = model.source.get("texts", {})
    sentence = sentence_of(model.inputs, texts) if texts.get("file") in assets else None
    found = (picture, sentence, row_of(model.inputs))
    return [item for item in found if item is not None]


def _picture(model: Model, request: Request, sampled: Picture | None) -> Picture | None:
    """What is known of a picture without what was written; samples' sizes, where they have some."""
    from converter.samples.images import declared_picture

    found = declared_picture(model.inputs, request, {})
    if found is None or sampled is None:
        return found
    return found.model_copy(update={"height": sampled.height, "width": sampled.width})
