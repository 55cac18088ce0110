"""Which of several sources of a declaration counts: the command line, a recipe, the model's own
files, the zoo; and what the others said.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ValidationError

from converter.ir.model import Model
from converter.options.request import Request
from converter.preparation.suggested import IMAGES, Said, Suggested, completed
from converter.preparation.written import ANSWER, PREPARE

ZOO, RECIPE = "zoo", "recipe"
"""Keys of :attr:`Request.layers`: what an entry of the zoo declares; what of a recipe the command
line says otherwise."""

_KEYS = {
    "image_size": ("height", "width"),
    "image_resize": ("resize",),
    "image_crop": ("crop",),
    "image_interpolation": ("interpolation",),
    "image_scale": ("scale",),
    "image_mean": ("mean",),
    "image_std": ("std",),
    "image_color": ("color",),
    "image_layout": ("layout",),
}
"""What of a picture each option says."""

_DECLARED = ("preparation", "answer")


def overruled(values: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a recipe with those given beside it; its picture without what these say."""
    made = {**values, **given}
    written = values.get("preparation")
    if "preparation" in given or not isinstance(written, list):
        return made
    keys = _keys(given)
    lost = [_only(item, keys) for item in written if _is_picture(item) and keys & item.keys()]
    if lost:
        made["preparation"] = [_without(item, keys) for item in written]
        made["layers"] = {RECIPE: {"preparation": lost}}
    return made


def with_zoo(
    request: Request, name: str, entry: Mapping[str, Any], given: Mapping[str, Any]
) -> Request:
    """A request filled up with what an entry of the zoo declares of files and answers.

    Args:
        request: Its options of images are the entry's already, where none was given.
        name: The entry's, as in ``zoo:NAME``.
        entry: The fields that it declares.
        given: The fields that were given beside it.
    """
    known = {key: entry[key] for key in (*_KEYS, *_DECLARED) if key in entry}
    if not known:
        return request
    own = {key: value for key, value in given.items() if key in (*_KEYS, *_DECLARED)}
    said = _keys(own)
    prepare = completed(
        request.preparation, [_without(item, said) for item in known.get("preparation", ())]
    )
    answer = completed(request.answer, known.get("answer", ()))
    layers = {**request.layers, ZOO: {"name": name, "given": own, **known}}
    return replace(request, preparation=prepare, answer=answer, layers=layers)


def layered(request: Request, model: Model) -> Request:
    """A request with what the source's own files say of users' files and answers, where nobody gave
    it; they count more than the zoo."""
    images = model.source.get(IMAGES, {})
    said, _ = Suggested.of(model.source).fitting("prepare", model.inputs)
    request = _answered(request, model)
    if not images and not said:
        return request
    zoo, plain = request.layers.get(ZOO, {}), Request(request.source)
    given = zoo.get("given", {})
    own = {
        name
        for name in _KEYS
        if getattr(request, name) != getattr(plain, name)
        and (name in given or name not in zoo)
    }  # fmt: skip
    files = [_without(item.model_dump(exclude_unset=True), _keys(own)) for item in said]
    below = [_without(item, _keys({*own, *images})) for item in zoo.get("preparation", ())]
    written = given.get("preparation", []) if zoo else request.preparation
    prepared = completed(written, _joined(files, below))
    open_ = {name: value for name, value in images.items() if name not in own}
    told = {key for item in files if _is_picture(item) for key in item}
    lower = [name for name in _KEYS if name in zoo and name not in {*own, *open_}]
    open_ |= {name: getattr(plain, name) for name in lower if told & _keys([name])}
    return replace(request, preparation=prepared, **open_)


def _answered(request: Request, model: Model) -> Request:
    """Its answers, by what was given, the files, then the zoo, where that says something."""
    zoo = request.layers.get(ZOO, {})
    if "answer" not in zoo:
        return request
    said, _ = Suggested.of(model.source).fitting("answer", model.outputs)
    files = [item.model_dump(exclude_unset=True) for item in said]
    known = _joined(files, zoo["answer"])
    return replace(request, answer=completed(zoo["given"].get("answer", ()), known))


def differences(
    request: Request,
    model: Model,
    prepare: Sequence[BaseModel],
    answer: Sequence[BaseModel],
) -> Iterator[str]:
    """Where what counts is other than what a source of less weight says, both values, a line each.

    Args:
        request: What was asked for; see :attr:`Request.layers`.
        model: The model, with what its files say.
        prepare: The preparation that counts.
        answer: The answers that count.
    """
    zoo, said = request.layers.get(ZOO, {}), Suggested.of(model.source)
    lost = request.layers.get(RECIPE, {})
    layers: list[tuple[str, str, Sequence[Mapping[str, Any]]]] = [
        ("prepare", "the recipe", lost.get("preparation", ())),
        ("prepare", "", [*_pictured(model, model.source.get(IMAGES, {})), *said.prepare]),
        ("answer", "", said.answer),
        ("prepare", zoo.get("name", ""), [*_pictured(model, zoo), *zoo.get("preparation", ())]),
        ("answer", zoo.get("name", ""), zoo.get("answer", ())),
    ]
    for where, origin, items in layers:
        kinds = PREPARE if where == "prepare" else ANSWER
        for item in items:
            place = f"{where} ({item['kind']})"
            named = origin or said.origins.get(place, "the model's files")
            for one in prepare if where == "prepare" else answer:
                if one.model_dump()["kind"] == item["kind"] and _same_place(item, one.model_dump()):
                    yield from _differing(place, one, item, kinds[item["kind"]], named)


def _differing(
    place: str, made: BaseModel, said: Mapping[str, Any], kind: type[BaseModel], origin: str
) -> Iterator[str]:
    counts = made.model_dump()
    try:
        other = kind.model_validate({**counts, **said}).model_dump()
    except ValidationError:
        return
    yield from (
        f"{place}: {key} is {counts[key]!r}, and {other[key]!r} by {origin}"
        for key in said
        if counts[key] != other[key]
    )


def _pictured(model: Model, options: Mapping[str, Any]) -> list[Said]:
    """What options of images say of a picture."""
    from converter.samples.images import declared_picture

    named = {name: value for name, value in options.items() if name in _KEYS}
    if not named:
        return []
    found = declared_picture(model.inputs, Request("", **named), {})
    return [_only(found.model_dump(), _keys(named))] if found is not None else []


def _joined(first: Sequence[Said], second: Sequence[Mapping[str, Any]]) -> list[Said]:
    """The first, filled up with the second, and those of the second of other inputs and outputs."""
    if not first:
        return [dict(item) for item in second]
    more = [dict(item) for item in second if not any(_same_place(item, one) for one in first)]
    return [*completed(first, second), *more]


def _same_place(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether both may be of one input or output: one that says nothing is of the only one."""
    return all(one[n] == other[n] for n in ("input", "output") if one.get(n) and other.get(n))


def _keys(options: Collection[str]) -> set[str]:
    return {key for name, keys in _KEYS.items() if name in options for key in keys}


def _is_picture(item: Any) -> bool:
    return isinstance(item, Mapping) and item.get("kind") == "picture"


def _without(item: Any, keys: Collection[str]) -> Any:
    return {k: v for k, v in item.items() if k not in keys} if _is_picture(item) else item


def _only(item: Mapping[str, Any], keys: Collection[str]) -> Said:
    return {k: v for k, v in item.items() if k in {"kind", "input", *keys}}
