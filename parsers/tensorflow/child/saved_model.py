"""SavedModel folders of TensorFlow 1 and 2, by their signatures.

Only the graph that computes a signature's outputs is taken, and the values of its variables out
of `variables/`. The file's own initializers, its restore and save operations and its objects are
read where they say what is meant, and never run: TensorFlow's loader runs all of them, and fails
besides on models of Keras 2 with an optimizer.

Names are the signature's. Inputs stand in the order in which the function behind the signature
takes them; where the file doesn't show it, as in TensorFlow 1, sorted. Outputs are sorted, as
TensorFlow itself gives a function's results that have names (`output_10` after `output_2`).
"""

# zip() knows no strict= before Python 3.10.
# ruff: noqa: B905

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...worker.errors import WorkerError
from . import cut as tf_cut
from . import objects as tf_objects
from . import restore as tf_restore
from .graph import Graph, attribute, node_name
from .model import Opened, TensorInfo

DEFAULT = "serving_default"
_NOT_SERVED = re.compile(r"__saved_model_.*|saved_model_.*")
_SERVE = "serve"


def open_folder(folder: Path, signature: str | None, trust: bool) -> Opened:
    """A signature of a SavedModel as a function.

    Args:
        folder: The SavedModel.
        signature: Its name; None: the only one.
        trust: Whether the user said that operators that act on the machine may run.

    Raises:
        WorkerError: ``usage`` where the signature isn't there or isn't the only one;
            ``unsupported`` and ``untrusted`` as tf_contents does.
    """
    meta = _meta_graph(read(folder), folder.name)
    name = _chosen(meta, signature, folder.name)
    definition = meta.signature_def[name]
    graph = Graph(meta.graph_def)
    inputs = _inputs(graph, definition)
    outputs = _by_name(definition.outputs)
    cut = tf_cut.Cut(
        graph,
        [(_info(key, item), item.name) for key, item in inputs],
        [(_info(key, item), item.name) for key, item in outputs],
        {},
        f"the signature {name} of {folder.name}",
    )
    cut.require_harmless(trust)
    reader = _checkpoint(folder, trust)
    stored = tf_objects.stored(graph, meta.object_graph_def, reader, folder.name)
    stored.update(tf_restore.restored(graph, meta.saver_def.restore_op_name))
    opened = cut.opened("saved_model", stored, reader)
    opened.signature = name
    opened.signatures = list(_served(meta))
    opened.tags = list(meta.meta_info_def.tags)
    return opened


def read(folder: Path) -> Any:
    """The SavedModel protobuf of a folder. Raises usage where it can't be read."""
    from google.protobuf import text_format
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf import saved_model_pb2

    model = saved_model_pb2.SavedModel()
    path = folder / "saved_model.pb"
    try:
        if path.is_file():
            model.ParseFromString(path.read_bytes())
        else:
            path = folder / "saved_model.pbtxt"
            text_format.Parse(path.read_text(encoding="utf-8"), model)
    except (OSError, DecodeError, text_format.ParseError, UnicodeDecodeError) as error:
        raise WorkerError(
            "usage", f"{folder.name}/{path.name} can't be read: {error}", code="model-damaged"
        ) from error
    if not model.meta_graphs:
        raise WorkerError(
            "usage", f"{folder.name}/{path.name} holds no graph", code="model-damaged"
        )
    return model


def _meta_graph(model: Any, what: str) -> Any:
    """The graph to serve: the only one, or the only one with just that tag."""
    graphs = list(model.meta_graphs)
    serving = [g for g in graphs if list(g.meta_info_def.tags) == [_SERVE]]
    if len(graphs) == 1:
        return graphs[0]
    if len(serving) == 1:
        return serving[0]
    tags = [", ".join(g.meta_info_def.tags) or "no tags" for g in graphs]
    raise WorkerError(
        "usage",
        f"{what} holds {len(graphs)} graphs, and not exactly one is only for serving",
        tags,
        code="choose-one",
    )


def _served(meta: Any) -> dict[str, Any]:
    """The signatures that compute something, by name, sorted."""
    found = sorted(meta.signature_def.items())
    return {n: s for n, s in found if s.outputs and not _NOT_SERVED.fullmatch(n)}


def _chosen(meta: Any, wanted: str | None, what: str) -> str:
    """The name of the signature to take."""
    served = _served(meta)
    if not served:
        raise _nothing_served(meta, what)
    listing = [_described(name, item) for name, item in served.items()]
    if wanted is not None:
        if wanted not in served:
            raise WorkerError(
                "usage", f"{what} has no signature {wanted}; it has:", listing, code="unknown-name"
            )
        return wanted
    if DEFAULT in served:
        return DEFAULT
    distinct = _distinct(served)
    if len(distinct) == 1:
        return distinct[0]
    raise WorkerError(
        "usage",
        f"{what} has {len(served)} signatures, and none is {DEFAULT}: pass --signature NAME",
        listing,
        code="choose-one",
    )


def _distinct(served: dict[str, Any]) -> list[str]:
    """The names of signatures that differ: some exporters write one under two names."""
    seen: dict[bytes, str] = {}
    for name, item in served.items():
        seen.setdefault(item.SerializeToString(deterministic=True), name)
    return list(seen.values())


def _nothing_served(meta: Any, what: str) -> WorkerError:
    """What a SavedModel without signatures has instead: functions of its root object."""
    objects = meta.object_graph_def
    details = []
    for child in objects.nodes[0].children if objects.nodes else ():
        for name in objects.nodes[child.node_id].function.concrete_functions:
            inputs = _specs(objects.concrete_functions[name].canonicalized_input_signature)
            details.append(f"it can be called: {child.local_name}({', '.join(inputs)})")
    return WorkerError(
        "usage",
        f"{what} has no signature, so its inputs and outputs aren't known. Save it with one: "
        "tf.saved_model.save(model, folder, "
        "signatures=model.FUNCTION.get_concrete_function(tf.TensorSpec(...)))",
        details,
        code="inputs-unknown",
    )


def _specs(value: Any) -> list[str]:
    """The tensors in a structure (struct.proto, ``StructuredValue``), as messages show them."""
    kind = value.WhichOneof("kind")
    if kind == "tensor_spec_value":
        return [_shown(value.tensor_spec_value.name, value.tensor_spec_value)]
    if kind in ("tuple_value", "list_value"):
        return [text for item in getattr(value, kind).values for text in _specs(item)]
    if kind == "dict_value":
        fields = sorted(value.dict_value.fields.items())
        return [text for _, item in fields for text in _specs(item)]
    return []


def _shown(name: str, spec: Any) -> str:
    import tensorflow as tf

    return _text(TensorInfo(name, tf.as_dtype(spec.dtype).name, _dims(spec.shape)))


def _described(name: str, signature: Any) -> str:
    """`NAME(x: float32[?, 3]) -> y: float32[?, 10]`."""
    sides = (_by_name(signature.inputs), _by_name(signature.outputs))
    inputs, outputs = (", ".join(_text(_info(key, item)) for key, item in side) for side in sides)
    return f"{name}({inputs}) -> {outputs}"


def _text(info: TensorInfo) -> str:
    shape = info.shape
    dims = "?" if shape is None else ", ".join("?" if d is None else str(d) for d in shape)
    return f"{info.name}: {info.dtype}[{dims}]"


def _info(key: str, item: Any) -> TensorInfo:
    import tensorflow as tf

    if item.WhichOneof("encoding") != "name":
        raise WorkerError(
            "unsupported", f"{key} isn't a plain tensor", [f"{key}: sparse or ragged"]
        )
    return TensorInfo(key, tf.as_dtype(item.dtype).name, _dims(item.tensor_shape))


def _dims(shape: Any) -> tuple[int | None, ...] | None:
    if shape.unknown_rank:
        return None
    return tuple(None if d.size < 0 else int(d.size) for d in shape.dim)


def _by_name(entries: Any) -> list[tuple[str, Any]]:
    return sorted(entries.items(), key=lambda entry: _natural(entry[0]))


def _natural(text: str) -> tuple[Any, ...]:
    """A key that sorts numbers in names by their size."""
    parts = re.split(r"(\d+)", text)
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in parts)


def _inputs(graph: Graph, signature: Any) -> list[tuple[str, Any]]:
    """The signature's inputs in the order of the function behind it; sorted where that's hidden."""
    entries = dict(sorted(signature.inputs.items()))
    order = _argument_order(graph, [node_name(item.name) for item in signature.outputs.values()])
    places = {node: place for place, node in enumerate(order)}
    last = len(places)
    return sorted(entries.items(), key=lambda e: places.get(node_name(e[1].name), last))


def _argument_order(graph: Graph, outputs: Sequence[str]) -> list[str]:
    """The graph's nodes in the order in which the function that a signature wraps takes them.

    A signature's outputs are those of one call of a wrapper, which has the arguments sorted by
    name and calls the function with them in its own order.
    """
    node = graph.nodes.get(outputs[0]) if len(set(outputs)) == 1 else None
    wrapper = graph.functions.get(attribute(node, "f").func.name) if node is not None else None
    if node is None or wrapper is None:
        return []
    outside = dict(zip((a.name for a in wrapper.signature.input_arg), node.input))
    calls = [n for n in wrapper.node_def if "f" in n.attr]
    if len(calls) != 1:
        return []
    return [node_name(outside[i]) for i in calls[0].input if i in outside]


def _checkpoint(folder: Path, trust: bool) -> Any:
    """A reader of the folder's variables, or None where it has none."""
    prefix = folder / "variables" / "variables"
    if not prefix.with_suffix(".index").exists():
        return None
    if not trust:
        _require_inside(folder)
    return tf_restore.open_checkpoint(prefix, folder.name)


def _require_inside(folder: Path) -> None:
    """Raise untrusted for files of variables that lie elsewhere."""
    root = folder.resolve()
    outside = [
        f"variables/{path.name} leads out of the folder"
        for path in sorted((folder / "variables").glob("variables.*"))
        if root not in path.resolve().parents
    ]
    if outside:
        raise WorkerError("untrusted", f"{folder.name} reads files from outside of it", outside)
