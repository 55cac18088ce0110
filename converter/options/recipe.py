"""Reads a recipe: a request written down as YAML.

Its keys are the options' names (``bench-batch``) or the fields of
:class:`converter.options.request.Request` (``bench_batches``), its values what the command line
takes, or lists and mappings of them. Paths in it are relative to the recipe's own folder, but for
``out`` and ``repository``, which are relative to where the command runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from converter.errors import UsageError
from converter.options.parts import require_parts
from converter.options.request import NO_OPTION, Request, all_fields, of_plugins, option_of
from converter.options.spelling import fields_of, spellings, type_of

_ADAPTER = TypeAdapter(Request)
_PATHS = ("source", "weights", "samples", "calibration_samples", "labels", "label_names")
_LISTS = ("search_paths", "metric", *(name for name in of_plugins() if option_of(name).reads))


def make_request(
    values: Mapping[str, Any],
    where: str = "the request",
    spelled: Mapping[str, str] | None = None,
) -> Request:
    """A Request from its fields; types are checked, unknown names refused.

    Args:
        values: By the fields' names.
        where: What they are from, for messages.
        spelled: How fields were written there, where that is otherwise.

    Raises:
        UsageError: every wrong field, and for an unknown one the nearest right one.
    """
    own = {name: value for name, value in values.items() if name in of_plugins()}
    request, problems = _validated(
        {f"{n} " if n == NO_OPTION else n: v for n, v in values.items() if n not in own}, own
    )
    if request is None:
        raise UsageError(
            f"{where} isn't right",
            code="recipe-invalid",
            details=_problems(problems, spelled or {}),
        )
    _require_choices(request, where, spelled or {})
    _require_plain(request, where, spelled or {})
    return request


def _validated(
    core: Mapping[str, Any], own: Mapping[str, Any]
) -> tuple[Request | None, list[Mapping[str, Any]]]:
    """A request of the core's options and the plug-ins' own; what is wrong where there is none."""
    problems: list[Mapping[str, Any]] = []
    made, checked = None, {}
    try:
        made = _ADAPTER.validate_python(dict(core))
    except ValidationError as error:
        problems += error.errors()
    for name, value in own.items():
        try:
            checked[name] = TypeAdapter(type_of(name)).validate_python(value)
        except ValidationError as error:
            problems += ({**item, "loc": (name, *item["loc"])} for item in error.errors())
    if problems or made is None:
        return None, problems
    return replace(made, plugin_options=checked), problems


def load_recipe(path: Path) -> dict[str, Any]:
    """The fields of a recipe, with the paths of its inputs made absolute.

    Raises:
        UsageError: It isn't there, isn't YAML, isn't a mapping, or a key or value isn't right.
    """
    from converter.options.recipe_files import open_recipe

    return open_recipe(path).values


def read_fields(written: Mapping[str, Any], folder: Path, where: str) -> dict[str, Any]:
    """A request's fields, as a recipe has them.

    Args:
        written: The recipe's keys and values, as YAML gives them.
        folder: The recipe's own, which its paths are relative to.
        where: What errors call the recipe: its file.

    Raises:
        UsageError: A key or value isn't right.
    """
    parts, swept = written.get("parts"), written.get("sweep")
    values = {key: value for key, value in written.items() if key not in ("parts", "sweep")}
    found = own_fields(values, where, {}, folder)
    if parts is not None:
        require_parts(parts, found, where)
        found["parts"] = {
            name: own_fields(own, f"{where}, part {name}", found, folder)
            for name, own in parts.items()
        }
    if swept is not None:
        from converter.options.sweep import read_sweep

        beside = {name: value for name, value in found.items() if name != "parts"}
        found["sweep"] = read_sweep(
            swept, where, lambda own: own_fields(own, where, beside, folder)
        )
    return found


def own_fields(
    values: Mapping[str, Any], where: str, beside: Mapping[str, Any], folder: Path
) -> dict[str, Any]:
    """The fields of a recipe, of a part of it, or of an axis of a sweep, which make a request with
    those beside it.

    Args:
        values: As they are written.
        where: What they are from, for messages.
        beside: Fields that others say.
        folder: What paths are relative to.

    Raises:
        UsageError: A key or value isn't right.
    """
    found, spelled = fields_of(values, where)
    make_request({"source": "", **beside, **found}, where, spelled)
    return _with_paths(found, folder.resolve())


def find_recipe(name: str, beside: Path = Path()) -> Path:
    """The file ``name`` (in ``beside``), or the recipe of that name that comes with modelyard."""
    path = beside / name
    if path.exists() or path.suffix in {".yaml", ".yml"} or Path(name).parent != Path():
        return path
    import recipes

    folder = Path(recipes.__file__).parent
    shipped = {item.stem: item for item in sorted(folder.glob("*.yaml"))}
    if name in shipped:
        return shipped[name]
    raise UsageError(
        f"there is no recipe {name!r}",
        code="unknown-name",
        hint=f"There are: {', '.join(shipped)}.",
    )


def _with_paths(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    made = dict(values)
    for key in _PATHS:
        text = made.get(key)
        if isinstance(text, str):
            made[key] = _beside(folder, text)
    for key in ("preparation", "answer"):
        items = made.get(key)
        if isinstance(items, list):
            made[key] = [
                {**item, "step": _beside(folder, item["step"])}
                if isinstance(item, Mapping) and isinstance(item.get("step"), str)
                else item
                for item in items
            ]
    for key in _LISTS:
        if key in made:
            items = made[key]  # what isn't text is told as such with all else
            made[key] = [_beside(folder, i) if isinstance(i, str) else i for i in items]
    return made


def _beside(folder: Path, text: str) -> str:
    """A path, or FILE:NAME, in the recipe's folder where that is there; else ``text``."""
    if text.startswith(("zoo:", "random:")):
        return text
    there = any((folder / path).exists() for path in (text, text.rsplit(":", 1)[0]))
    return str(folder / text) if text and there else text


def _problems(found: Sequence[Mapping[str, Any]], spelled: Mapping[str, str]) -> list[str]:
    names = [*(item.name for item in all_fields()), *spellings()]
    lines = []
    for item in found:
        field, *inner = (str(part) for part in item["loc"])
        name = ".".join([spelled.get(field, field), *inner])
        if item["type"] == "unexpected_keyword_argument":
            nearest = get_close_matches(name, [other for other in names if other != name], 1)
            lines.append(
                f"{name}: no such key" + (f"; did you mean {nearest[0]}?" if nearest else "")
            )
        elif item["type"] == "missing":
            lines.append(f"{name}: missing")
        else:
            lines.append(f"{name}: {item['msg']}, not {item['input']!r}")
    return lines


def _require_plain(request: Request, where: str, spelled: Mapping[str, str]) -> None:
    """Refuses text that isn't UTF-8 or has a NUL, which most libraries take for no path, and
    numbers of more than 64 bits."""
    wrong = []
    for item in all_fields():
        value = request.value(item.name)
        if isinstance(value, Mapping):
            value = list(value.values())
        for part in value if isinstance(value, list | tuple) else (value,):
            name = spelled.get(item.name, item.name)
            if isinstance(part, str) and ("\0" in part or not _encodable(part)):
                wrong.append(f"{name}: {part!r} isn't UTF-8 text, or has a NUL in it")
            elif isinstance(part, int) and part.bit_length() > 63:
                wrong.append(f"{name}: a number of {part.bit_length()} bits, of at most 63")
    if wrong:
        raise UsageError(f"{where} isn't right", code="recipe-invalid", details=wrong)


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _require_choices(request: Request, where: str, spelled: Mapping[str, str]) -> None:
    wrong = []
    for item in all_fields():
        if "option" not in item.metadata:
            continue
        choices, value = option_of(item.name).choices, request.value(item.name)
        if choices and value is not None and value not in choices:
            name = spelled.get(item.name, item.name)
            wrong.append(f"{name}: {value!r} isn't one of {', '.join(choices)}")
    if wrong:
        raise UsageError(f"{where} isn't right", code="recipe-invalid", details=wrong)
