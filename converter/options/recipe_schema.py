"""The JSON schema of a recipe, for editors: its keys, what each does, and of what type it is.

It knows keys, types and names. What depends on several keys, :func:`make_request` finds when the
recipe runs.
"""

from __future__ import annotations

import re
from typing import Any, get_args, get_origin

from converter.options.option import Option
from converter.options.request import NO_OPTION, all_fields, option_of
from converter.options.spelling import spellings, type_of, value_type
from converter.options.values import values_of

_KINDS = {bool: "boolean", int: "integer", float: "number", str: "string"}
_VARIABLE = {"type": "string", "pattern": r"\$\{"}
_SINGLE = {"string", "integer", "number"}
_WRITTEN: dict[str, dict[str, Any]] = {
    "source": {"type": "string", "description": "The model: what `modelyard convert` takes first."},
    "prepare": {"description": "Where users' files become inputs (a word), how (a mapping or list "
                "of such: docs/prepare.md), or both."},
    "answer": {"description": "What the outputs mean: a mapping, or a list of such; "
               "docs/prepare.md."},
    "parts": {"type": "object", "additionalProperties": {"$ref": "#"},
              "description": "Several models in one output, by name: each a recipe of its own."},
    "sweep": {"type": "object", "description": "Options and the values to combine: docs/sweep.md."},
    "flow": {"type": "array", "description": "Steps that join the parts; docs/recipes.md."},
    "extends": {"type": "string", "description": "Another recipe, whose keys count where this one "
                "doesn't have them."},
    "vars": {"type": "object", "description": "Names that `${name}` stands for, with their "
             "defaults; --set changes them."},
}  # fmt: skip
"""Keys that no option has, or that say more than one."""


def recipe_schema() -> dict[str, Any]:
    """JSON Schema, draft 2020-12, of one YAML document of a recipe.

    Keys are completed as the options are spelled; the fields' names are taken, too.
    """
    keys = {key: dict(schema) for key, schema in _WRITTEN.items()}
    for item in all_fields():
        if "option" in item.metadata and item.name not in keys:
            option = option_of(item.name)
            keys[_key(option)] = {"description": option.help, **_value(item.name, option)}
    spelled = {other for name in spellings() for other in (name, name.replace("-", "_"))}
    others = sorted(spelled - {*keys} - {NO_OPTION, NO_OPTION.replace("_", "-")})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A recipe of Modelyard",
        "type": "object",
        "properties": keys,
        "patternProperties": {f"^({'|'.join(map(re.escape, others))})$": {}},
        "additionalProperties": False,
    }


def _key(option: Option) -> str:
    """An option's first spelling: ``bench`` of ``--bench/--no-bench``."""
    return option.flags[0].split("/")[0].removeprefix("--")


def _value(name: str, option: Option) -> dict[str, Any]:
    """The schema of a value; names that plug-ins add to are completed, and others taken."""
    one = _KINDS.get(value_type(name), "string")
    kinds = {one, "null"}
    if one == "string":
        kinds |= _SINGLE
    if get_origin(type_of(name)) is list or option.many:
        kinds |= {"array"} | ({"string"} if option.split else set())
    origins = {get_origin(hint) for hint in (type_of(name), *get_args(type_of(name)))}
    if option.pairs or option.by_name or dict in origins:
        kinds |= {"object", "array", *_SINGLE}
    schema: dict[str, Any] = {"type": sorted(kinds)}
    if option.choices and one == "string" and "array" not in kinds:
        return {"anyOf": [{"enum": [*option.choices, None]}, _VARIABLE]}
    if values := values_of(option):
        schema |= {"examples": list(values)}
    return schema if "string" in kinds else {"anyOf": [schema, _VARIABLE]}
