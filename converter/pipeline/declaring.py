"""What is known of how users' files become a model's inputs, and its outputs answers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from converter.errors import UsageError
from converter.ir.model import Model
from converter.options.request import Request
from converter.options.resolved import tells_of_images
from converter.pipeline.work import sized
from converter.preparation.answers import Boxes, Classes, Meaning
from converter.preparation.declared import (
    DECODED,
    IN_GRAPH,
    Declaration,
    classes_of,
    file_name,
    sentence_of,
)
from converter.preparation.inputs import Picture, Prepare, Sound, State
from converter.preparation.suggested import DECLARED, IMAGES, Suggested, row_of, shaped
from converter.preparation.written import filled
from converter.samples import Samples

UNSAID = (
    "pictures have values of 0 to 1, because the source doesn't say how the model was "
    "trained. --image-mean and --image-std set it, as in --image-mean imagenet --image-std "
    "imagenet"
)


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
    if IN_GRAPH in model.source:
        return _left(model, samples)
    made = _filled(request, model, _known(request, samples, model, assets))
    return made if made.prepare or made.answer else None


def _filled(request: Request, model: Model, known: Sequence[Prepare]) -> Declaration:
    """What was written, filled up with what is known and what the model's files suggest."""
    said = Suggested.of(model.source)
    suggested, unused = said.fitting("prepare", model.inputs)
    written = shaped(request.preparation, model.inputs)
    prepare, notes = filled("prepare", written, [*known, *suggested], model.inputs)
    _require_states(prepare, model)
    meanings, more = said.fitting("answer", model.outputs)
    named = {item.output for item in meanings}
    meanings += (item for item in classes_of(model.outputs) if item.output not in named)
    answer, other = filled("answer", request.answer, meanings, model.outputs)
    places = {f"prepare ({item.kind})" for item in prepare}
    places |= {f"answer ({item.kind})" for item in answer}
    origins = [f"{at}: from {where}" for at, where in said.origins.items() if at in places]
    noted = _lower(request, model, prepare, answer, [*notes, *other])
    origins += [f"{at}: from {request.layers['zoo']['name']}" for at in _zoo_places(request)
                if at in places and at not in said.origins]  # fmt: skip
    told = [*origins, *notes, *other, *noted, *unused, *more, *said.notes]
    if not written and any(isinstance(item, Picture) and _is_plain(item) for item in prepare):
        said_of_values = request.image_scale is not None or request.image_mean or request.image_std
        told += [UNSAID] * (not said_of_values)
    return Declaration(prepare=prepare, answer=answer, notes=tuple(told))


def _require_states(prepare: Sequence[Prepare], model: Model) -> None:
    """Refuses a state that no output is the next of, and one without windows to go along."""
    outputs = [spec.name for spec in model.outputs]
    states = [item for item in prepare if isinstance(item, State)]
    wrong = [f"prepare (state): the model has no output {item.next}; it has {', '.join(outputs)}"
             for item in states if item.next not in outputs]  # fmt: skip
    if states and not any(isinstance(item, Sound) for item in prepare):
        wrong.append("prepare (state): it goes from window to window of a sound, and none is there")
    if wrong:
        raise UsageError(
            "the declaration of preparation and answers isn't right",
            code="preparation",
            details=wrong,
        )


def _zoo_places(request: Request) -> list[str]:
    """What an entry of the zoo declares, as notes name it."""
    zoo = request.layers.get("zoo", {})
    images = ["prepare (picture)"] if any(name.startswith("image_") for name in zoo) else []
    return list(dict.fromkeys([
        *images,
        *(f"prepare ({item['kind']})" for item in zoo.get("preparation", ())),
        *(f"answer ({item['kind']})" for item in zoo.get("answer", ())),
    ]))  # fmt: skip


def _lower(
    request: Request,
    model: Model,
    prepare: Sequence[Prepare],
    answer: Sequence[Meaning],
    noted: Sequence[str],
) -> list[str]:
    """Where what counts less says otherwise, but for what is noted already."""
    if not request.layers and not {IMAGES, DECLARED} & model.source.keys():
        return []
    from converter.pipeline.layers import differences

    known = {note.partition(" is ")[0] for note in noted}
    found = dict.fromkeys(differences(request, model, prepare, answer))
    return [note for note in found if note.partition(" is ")[0] not in known]


def _is_plain(picture: Picture) -> bool:
    """Whether values are fed as 0 to 1."""
    return picture.scale == 1 / 255 and not any(picture.mean) and set(picture.std) == {1.0}


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


def _left(model: Model, samples: Samples) -> Declaration:
    """What is left outside of the graph, with the names of classes that samples told."""
    known = Declaration.model_validate(model.source[IN_GRAPH]["after"])
    names = samples.label_names
    answer = tuple(
        item.model_copy(update={"labels": tuple(names)})
        if isinstance(item, Classes | Boxes) and names and not item.labels
        else item
        for item in known.answer
    )
    prepare = known.prepare
    if model.source[IN_GRAPH].get("decoded"):
        prepare = tuple(_as_file(i) if isinstance(i, Picture | Sound) else i for i in prepare)
    return known.model_copy(update={"answer": answer, "prepare": prepare})


def _as_file(item: Picture | Sound) -> Picture | Sound:
    """A picture or sound that the graph decodes itself."""
    update = {"input": file_name(item.input), "fused": (DECODED, *item.fused)}
    return item.model_copy(update=update)


def declared_before(request: Request, model: Model) -> Declaration:
    """The declaration of a model that was just read: without what samples tell.

    Args:
        request: Its ``preparation`` and ``answer``, and its ``image_*``.
        model: The model.

    Raises:
        UsageError: What was written doesn't fit the model, or images don't.
    """
    request = sized(request, model)
    written = next((item for item in request.preparation if item["kind"] == "picture"), None)
    known: list[Prepare] = []
    if written is not None or tells_of_images(request):
        from converter.samples.images import ImagePlan

        name = (written or {}).get("input")
        inputs = [spec for spec in model.inputs if name in (None, spec.name)]
        known.append(ImagePlan(inputs, replace(request, preparation=[]), request.dims).picture)
    texts = model.source.get("texts", {})
    sentence = sentence_of(model.inputs, texts) if texts.get("file") else None
    known += [item for item in (sentence, row_of(model.inputs)) if item is not None]
    return _filled(request, model, known)


def _picture(model: Model, request: Request, sampled: Picture | None) -> Picture | None:
    """What is known of a picture without what was written; samples' sizes, where they have some."""
    from converter.samples.images import declared_picture

    found = declared_picture(model.inputs, request, {})
    if found is None or sampled is None:
        return found
    return found.model_copy(update={"height": sampled.height, "width": sampled.width})
