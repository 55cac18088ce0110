"""Which input goes to which parameter of a model's forward."""

# zip() knows no strict= before Python 3.10.
# ruff: noqa: B905

from __future__ import annotations

import ast
import inspect
import re
import textwrap
import typing
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Mapping as AbstractMapping
from dataclasses import dataclass, field
from typing import Any

from ...worker.errors import WorkerError

_MAPPING = re.compile(r"\b(Dict|dict|Mapping|MutableMapping|OrderedDict|TypedDict)\b")

# A list of tensors: an annotation's text, or a type as TorchScript writes it.
_LIST = re.compile(r"\b(List|list|Sequence|Iterable)\[[\w.]*Tensor\]")
# Images come as a batch, N C H W, and go to a list one by one.
_IMAGES = 4

Parameter = inspect.Parameter
_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_NAMED = (*_POSITIONAL, Parameter.KEYWORD_ONLY)


def parameters_of(function: Callable[..., Any]) -> list[Parameter]:
    """The parameters of a bound method; *args and **kwargs where they cannot be known."""
    schema = getattr(function, "schema", None)
    if schema is not None:
        return [_scripted(argument) for argument in schema.arguments[1:]]
    try:
        found = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return [
            Parameter("args", Parameter.VAR_POSITIONAL),
            Parameter("kwargs", Parameter.VAR_KEYWORD),
        ]
    if any(p.annotation is not Parameter.empty for p in found):
        return found
    types = _in_comment(function)
    if len(types) != len(found):
        return found
    return [p.replace(annotation=text) for p, text in zip(found, types)]


def _in_comment(function: Callable[..., Any]) -> list[str]:
    """The types of the parameters in a comment below `def` (PEP 484), as TorchScript reads them."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)), type_comments=True)
        comment = getattr(tree.body[0], "type_comment", None)
        typed = ast.parse(comment, mode="func_type") if comment else None
    except (OSError, TypeError, SyntaxError):
        return []
    return [ast.unparse(each) for each in typed.argtypes] if typed else []


def _scripted(argument: Any) -> Parameter:
    """A parameter of a TorchScript method, which has a schema and no Python signature."""
    kind = Parameter.KEYWORD_ONLY if argument.kwarg_only else Parameter.POSITIONAL_OR_KEYWORD
    default = argument.default_value if argument.has_default_value() else Parameter.empty
    tensor = str(argument.type) == "Tensor"
    annotation = Parameter.empty if tensor else str(argument.type)
    return Parameter(argument.name, kind, default=default, annotation=annotation)


def returned(function: Callable[..., Any]) -> str:
    """The type that a TorchScript method gives, as it writes it; empty for any other function."""
    schema = getattr(function, "schema", None)
    return ", ".join(str(item.type) for item in schema.returns) if schema is not None else ""


def _annotation(parameter: Parameter) -> str:
    if parameter.annotation is Parameter.empty:
        return ""
    if isinstance(parameter.annotation, str):
        return parameter.annotation
    return inspect.formatannotation(parameter.annotation)


def describe(function: Callable[..., Any]) -> list[dict[str, Any]]:
    """{name, kind, required, annotation} of each parameter, for the parent."""
    return [
        {
            "name": p.name,
            "kind": p.kind.name.lower(),
            "required": p.default is Parameter.empty and p.kind in _NAMED,
            "annotation": _annotation(p),
        }
        for p in parameters_of(function)
    ]


def _is_mapping(parameter: Parameter, function: Callable[..., Any]) -> bool:
    """Whether a parameter is annotated as some kind of dict."""
    if _MAPPING.search(_annotation(parameter)):
        return True
    try:
        hint = typing.get_type_hints(function).get(parameter.name)
    except Exception:  # annotations are the user's text: resolving them may raise anything
        return False
    return isinstance(hint, type) and issubclass(hint, AbstractMapping)


def _takes_list(parameter: Parameter) -> bool:
    return bool(_LIST.search(_annotation(parameter)))


def _listed(value: Any, parameter: Parameter) -> Any:
    """The value as the list that a parameter takes: dict keys that count are its places.

    A batch of images becomes a list of them; any other tensor is the only one of its list.
    """
    if isinstance(value, dict):
        counts = [str(i) for i in range(len(value))]
        if _MAPPING.search(_annotation(parameter)) or sorted(value, key=_number) != counts:
            return value
        return [value[key] for key in counts]
    if not _takes_list(parameter) or not hasattr(value, "unbind"):
        return value
    return list(value.unbind(0)) if value.dim() == _IMAGES else [value]


def _number(key: str) -> int:
    return int(key) if key.isdecimal() else -1


@dataclass
class Plan:
    """How a flat list of inputs becomes the arguments of forward.

    `routes` holds, for each input, the keys that lead to it: a parameter's name and then dict
    keys, or places in a list. An empty route is the next of *args.
    """

    names: tuple[str, ...]
    routes: list[tuple[str, ...]]
    parameters: list[Parameter]
    constants: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def arguments(self, values: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments of forward for values in the order of `names`."""
        by_name: dict[str, Any] = {}
        rest: list[Any] = []
        for name, constant in self.constants.items():
            _put(by_name, tuple(name.split(".")), constant)
        for route, value in zip(self.routes, values):
            if route:
                _put(by_name, route, value)
            else:
                rest.append(value)
        for parameter in self.parameters:
            if parameter.name in by_name:
                by_name[parameter.name] = _listed(by_name[parameter.name], parameter)
        return self._spread(by_name, rest)

    def images(self) -> list[str]:
        """The inputs whose first axis, if they have four, is a list of images."""
        lists = {p.name for p in self.parameters if _takes_list(p)}
        return [
            n for n, route in zip(self.names, self.routes) if len(route) == 1 and route[0] in lists
        ]

    def _spread(self, by_name: dict[str, Any], rest: list[Any]) -> tuple[list[Any], dict[str, Any]]:
        """Pass by position as long as nothing is left out, by keyword from there on."""
        args: list[Any] = []
        for parameter in self.parameters:
            if parameter.kind not in _POSITIONAL:
                break
            if parameter.name in by_name:
                args.append(by_name.pop(parameter.name))
            elif rest or parameter.kind is Parameter.POSITIONAL_ONLY:
                if parameter.default is Parameter.empty:
                    break
                args.append(parameter.default)
            else:
                break
        return args + rest, by_name


def _put(target: dict[str, Any], route: tuple[str, ...], value: Any) -> None:
    """Set a value in nested dicts, making them on the way."""
    for key in route[:-1]:
        target = target.setdefault(key, {})
    target[route[-1]] = value


def _usage(text: str, parameters: Sequence[Parameter], names: Sequence[str]) -> WorkerError:
    shown = ", ".join(str(p) for p in parameters) or "nothing"
    return WorkerError(
        "usage",
        f"{text}. forward takes ({shown}); inputs: {', '.join(names)}",
        code="interface-mismatch",
    )


def _by_position(
    names: Sequence[str], parameters: Sequence[Parameter], free: Sequence[Parameter]
) -> list[tuple[str, ...]]:
    """The first inputs to the parameters that take positions, the others to *args."""
    places = [p for p in free if p.kind in _POSITIONAL]
    more = any(p.kind is Parameter.VAR_POSITIONAL for p in parameters)
    if len(names) > len(places) and not more:
        raise _usage(
            f"{len(names)} inputs for {len(places)} positional parameters", parameters, names
        )
    routes: list[tuple[str, ...]] = [(p.name,) for p in places[: len(names)]]
    return routes + [()] * (len(names) - len(routes))


def _only_required(free: Sequence[Parameter]) -> Parameter | None:
    """The one parameter that must have a value and has none yet, if it is one."""
    required = [p for p in free if p.kind in _NAMED and p.default is Parameter.empty]
    return required[0] if len(required) == 1 else None


def _routes(
    names: Sequence[str],
    parameters: Sequence[Parameter],
    constants: Mapping[str, Any],
    function: Callable[..., Any],
) -> list[tuple[str, ...]]:
    taken = {name for name in constants if "." not in name}
    free = [p for p in parameters if p.name not in taken]
    known = {p.name for p in free if p.kind in _NAMED}
    tops = {name.partition(".")[0] for name in names}
    dotted = any("." in name for name in names)
    if dotted and tops <= known:
        return [tuple(name.split(".")) for name in names]
    only = _only_required(free)
    others = known - {only.name} if only else known
    if only and not others.intersection(names) and _is_mapping(only, function):
        return [(only.name, name) for name in names]
    if set(names) <= known or _all_fit_keywords(names, free, parameters):
        return [(name,) for name in names]
    variadic = any(p.kind is Parameter.VAR_POSITIONAL for p in parameters)
    if only and not variadic and len(names) > len(known):
        return [(only.name, name) for name in names]
    return _by_position(names, parameters, free)


def _all_fit_keywords(
    names: Sequence[str], free: Sequence[Parameter], parameters: Sequence[Parameter]
) -> bool:
    """Whether names that are no parameter can only be meant for **kwargs."""
    kinds = {p.kind for p in parameters}
    if Parameter.VAR_KEYWORD not in kinds or Parameter.VAR_POSITIONAL in kinds:
        return False
    return all(p.name in names for p in free if p.kind in _POSITIONAL)


def _check(plan: Plan, names: Sequence[str]) -> None:
    """Raise usage for parameters that stay without a value; note names that moved."""
    given = {route[0] for route in plan.routes if route}
    given |= {name.partition(".")[0] for name in plan.constants}
    missing = [
        p.name
        for p in plan.parameters
        if p.kind in _NAMED and p.default is Parameter.empty and p.name not in given
    ]
    if missing:
        raise _usage(f"no input for {', '.join(missing)}", plan.parameters, names)
    all_names = {p.name for p in plan.parameters}
    for name, route in zip(names, plan.routes):
        if name in all_names and len(route) == 1 and route[0] != name:
            plan.warnings.append(
                f"input {name} goes to parameter {route[0]} by position, although another "
                f"parameter is called {name}"
            )


def plan_inputs(
    function: Callable[..., Any], names: Sequence[str], constants: Mapping[str, Any]
) -> Plan:
    """Match input names to forward's parameters: by name if all match, else by position.

    A dotted name addresses a key of a dict parameter; all inputs form one dict if forward takes
    just that.

    Args:
        function: forward.
        names: Of the inputs, in order.
        constants: Values of further parameters, by name.

    Raises:
        WorkerError: ``usage`` for duplicate names, for inputs without a place and for parameters
            without an input.
    """
    parameters = parameters_of(function)
    if len(set(names)) != len(names):
        raise _usage("input names are given twice", parameters, names)
    named = {p.name for p in parameters if p.kind in _NAMED}
    open_ended = any(p.kind is Parameter.VAR_KEYWORD for p in parameters)
    strange = [n for n in constants if n.partition(".")[0] not in named]
    if strange and not open_ended:
        raise _usage(f"no parameter for constant {', '.join(strange)}", parameters, names)
    plan = Plan(
        tuple(names), _routes(names, parameters, constants, function), parameters, dict(constants)
    )
    _check(plan, names)
    return plan
