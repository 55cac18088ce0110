"""A model as ONNX: skl2onnx for scikit-learn's estimators, onnxmltools' converters for boosters.

scikit-learn and LightGBM compare a float32 column with thresholds in double precision; ONNX's trees
have thresholds in float32. Rounded down, a threshold sends every float32 value the way that the
double does (x <= t and x <= float32 at or below t are the same set): skl2onnx rounds so, and
:func:`_lower_thresholds` does for LightGBM. XGBoost's are float32. Sums over trees are in double
there and in float32 in ONNX, which the check's limits hold.
"""

# zip() knows no strict= before Python 3.10.
# ruff: noqa: B905

from __future__ import annotations

import importlib
import re
import sys
from typing import Any, Callable, Dict, List

import numpy as np
import onnx
import skl2onnx
from skl2onnx.common import data_types, shape_calculator
from sklearn.base import is_classifier

from ...worker.errors import WorkerError, is_librarys
from ...worker.packages import require
from . import encoders, imputer, labels, linear, neighbours, refused, steps, texts, trees
from .inputs import ALL, TEXT, Takes
from .nodes import Changed
from .outputs import Gives

_ML_OPSET = 3
_TYPES = {
    "float32": data_types.FloatTensorType,
    "float64": data_types.DoubleTensorType,
    "int64": data_types.Int64TensorType,
    "bool": data_types.BooleanTensorType,
    "string": data_types.StringTensorType,
}
_CLASSES = {"nocl": [True, False], "zipmap": [True, False, "columns"]}
_CLASS = re.compile(r"<class '(?:[\w.]*\.)?(\w+)'>")
_OPTION = re.compile(r"Option '(\w+)' not in")


def write(model: Any, takes: Takes, out: str, opset: int) -> List[Gives]:
    """Write a model to a file.

    Args:
        model: The fitted estimator.
        takes: Its inputs.
        out: The file.
        opset: The ONNX version of the file.

    Returns:
        The file's outputs.

    Raises:
        WorkerError: ``unsupported``, which names the estimator.
    """
    _register(model)
    given = _given(takes)
    options: Dict[str, Any] = {}
    if is_classifier(model):
        options = {"zipmap": False, "raw_scores": not hasattr(model, "predict_proba")}
    try:
        with labels.as_text(model) as numbers:
            made = _converted(model, given, opset, options)
    except WorkerError:
        raise
    # What converters raise of a model that they don't take has no class of its own.
    except Exception as error:
        if not is_librarys(error):
            raise
        raise _unsupported(model, error) from error
    _name_inputs(made, [name for name, _ in given])
    _rename(made, model)
    labels.put_back(made, numbers)
    _one_score(made, model)
    gives = [_described(value, model) for value in made.graph.output]
    for holder in (made, made.graph, *made.graph.node):
        holder.doc_string = ""
    del made.metadata_props[:]
    onnx.save_model(made, out)
    return gives


def _given(takes: Takes) -> List[Any]:
    """The inputs as skl2onnx wants them: names and types."""
    if takes.texts:
        return [(TEXT, _TYPES["string"]([None, 1]))]
    columns = [(column.name, _TYPES[column.dtype]([None, 1])) for column in takes.columns]
    return columns or [(ALL, _TYPES["float32"]([None, takes.width]))]


def _converted(model: Any, given: Any, opset: int, options: Dict[str, Any]) -> Any:
    """skl2onnx's translation, with those of the options that it has for the last estimator."""
    while True:
        try:
            return skl2onnx.convert_sklearn(
                model,
                name="model",
                initial_types=given,
                target_opset={"": opset, "ai.onnx.ml": _ML_OPSET},
                options={id(steps.last(model)): options} if options else None,
            )
        except NameError as error:
            lacking = _OPTION.match(str(error))
            if lacking is None or options.pop(lacking[1], None) is None:
                raise


def _unsupported(model: Any, error: Exception) -> WorkerError:
    text = " ".join(str(error).split())
    named = _CLASS.search(text)
    name = named[1] if named else " > ".join(steps.names(model))
    reason = "it has no converter for it" if "Unable to find" in text else text[:300]
    return WorkerError("unsupported", f"skl2onnx can't translate {name}", [f"{name}: {reason}"])


def _rename(made: Any, model: Any) -> None:
    """Give the outputs their names: what skl2onnx calls `variable` is a `value`, as is all that
    only transforms; what it calls probabilities of a classifier that has none are `scores`."""
    names = {"variable": "value"}
    if not hasattr(model, "predict_proba"):
        names["probabilities"] = "scores"
    if not hasattr(model, "predict") and len(made.graph.output) == 1:
        names = {made.graph.output[0].name: "value"}
    renamed = {v.name: names[v.name] for v in made.graph.output if v.name in names}
    for value in made.graph.output:
        value.name = renamed.get(value.name, value.name)
    _rename_inside(made, renamed)


def _name_inputs(made: Any, names: List[str]) -> None:
    """Give the inputs their columns' names: skl2onnx takes the blanks out of them."""
    renamed = dict(zip((value.name for value in made.graph.input), names))
    for value in made.graph.input:
        value.name = renamed.get(value.name, value.name)
    _rename_inside(made, renamed)


def _rename_inside(made: Any, renamed: Dict[str, str]) -> None:
    for node in made.graph.node:
        for names in (node.input, node.output):
            names[:] = [renamed.get(name, name) for name in names]


def _one_score(made: Any, model: Any) -> None:
    """Of two classes keep the second one's score, as decision_function does; what is declared of it
    fits that, and what skl2onnx writes has both."""
    if not is_classifier(model) or len(getattr(model, "classes_", ())) != 2:
        return
    for value in (value for value in made.graph.output if value.name == "scores"):
        _rename_inside(made, {"scores": "scores_of_both"})
        last = onnx.helper.make_tensor("second", onnx.TensorProto.INT64, [1], [-1])
        made.graph.initializer.append(last)
        node = onnx.helper.make_node("Gather", ["scores_of_both", "second"], ["scores"], axis=1)
        made.graph.node.append(node)
        kind = value.type.tensor_type.elem_type
        value.CopyFrom(onnx.helper.make_tensor_value_info("scores", kind, [None, 1]))


def _described(value: Any, model: Any) -> Gives:
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type" or value.name not in ("label", "probabilities", "scores", "value"):
        raise WorkerError(
            "unsupported",
            "the model gives outputs for which ONNX has no tensors",
            [f"{steps.name_of(steps.last(model))}: its output {value.name} is a {kind}"],
        )
    tensor = value.type.tensor_type
    text = tensor.elem_type == onnx.TensorProto.STRING
    dtype = "str" if text else onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).name
    return value.name, dtype, len(tensor.shape.dim)


# -- boosters --------------------------------------------------------------------------


def _lower_thresholds(attributes: Dict[str, Any]) -> Dict[str, Any]:
    """The thresholds of trees, rounded down to float32."""
    if "nodes_values" in attributes:
        attributes["nodes_values"] = down(attributes["nodes_values"])
    return attributes


def down(values: Any) -> List[float]:
    """The largest float32 that isn't above each number."""
    exact = np.asarray(values, np.float64)
    with np.errstate(over="ignore"):
        near = exact.astype(np.float32)
    below = np.nextafter(near, np.float32(-np.inf))
    return [float(value) for value in np.where(near > exact, below, near)]


def _rounded_down(convert: Callable[..., None]) -> Callable[..., None]:
    def converted(scope: Any, operator: Any, container: Any) -> None:
        convert(scope, operator, Changed(container, _lower_thresholds))

    return converted


def _register(model: Any) -> None:
    """Tell skl2onnx of our converters, and of the boosters' where the model holds one."""
    refused.require_translated(model)
    for ours in (encoders, imputer, linear, neighbours, texts, trees):
        ours.register()
    held = {type(part): steps.library_of(part) for part, _ in steps.parts(model)}
    for kind, library in held.items():
        if library == "sklearn" or not hasattr(kind, "get_params"):
            continue
        require("onnxmltools", "onnxmltools", "to export a booster to ONNX")
        _register_one(kind, library)
    _forget_names(model)


def _register_one(kind: Any, library: str) -> None:
    names: Dict[str, str] = {"xgboost": "XGBoost", "lightgbm": "LightGbm"}
    place = f"onnxmltools.convert.{library}.operator_converters.{names[library]}"
    convert = getattr(importlib.import_module(place), f"convert_{library}")
    classes = hasattr(kind, "predict_proba")
    what = "classifier" if classes else "regressor"
    skl2onnx.update_registered_converter(
        kind,
        f"{names[library]}{kind.__name__}",
        getattr(shape_calculator, f"calculate_linear_{what}_output_shapes"),
        _rounded_down(convert) if library == "lightgbm" else convert,
        options=_CLASSES if classes else {},
    )


def _forget_names(model: Any) -> None:
    """Take the columns' names out of XGBoost's boosters: onnxmltools wants numbers."""
    xgboost = sys.modules.get("xgboost")
    for part, _ in steps.parts(model):
        if xgboost is not None and isinstance(part, xgboost.Booster):
            part.feature_names = None
