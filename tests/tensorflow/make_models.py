"""Makes every model of these tests, in TensorFlow: `python make_models.py FOLDER`.

A process of its own, so that the tests' own never imports TensorFlow. Beside each model that runs
lies NAME.npz: inputs as `in/NAME`, and TensorFlow's outputs for them as `out/NAME`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

os.environ.update(CUDA_VISIBLE_DEVICES="-1", TF_CPP_MIN_LOG_LEVEL="3")

import keras
import numpy as np
import tensorflow as tf
from tensorflow.core.framework import op_def_pb2
from tensorflow.python.client import pywrap_tf_session

v1 = tf.compat.v1
ROOT = Path(sys.argv[1])
RNG = np.random.default_rng(0)


def noise(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def keep(name: str, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
    arrays = {f"in/{key}": np.asarray(value) for key, value in inputs.items()}
    arrays.update((f"out/{key}", np.asarray(value)) for key, value in outputs.items())
    np.savez(str(ROOT / f"{name}.npz"), **arrays)  # type: ignore[arg-type]


class Two(tf.Module):  # type: ignore[misc]
    """Arguments in an order of their own, outputs by name, variables without names."""

    def __init__(self) -> None:
        super().__init__()
        self.a = tf.Variable([1.0, 2.0])
        self.b = tf.Variable([3.0, 4.0])

    @tf.function(  # type: ignore[untyped-decorator]
        input_signature=[
            tf.TensorSpec([None, 2], name="zebra"),
            tf.TensorSpec([None, 2], name="apple"),
        ]
    )
    def __call__(self, zebra: Any, apple: Any) -> dict[str, Any]:
        return {"zz": zebra * self.a, "aa": apple * self.b + zebra}

    @tf.function(  # type: ignore[untyped-decorator]
        input_signature=[tf.TensorSpec([None, None, 2], name="x")]
    )
    def halved(self, x: Any) -> Any:
        return {f"output_{i}": x * self.a / float(i + 1) for i in range(12)}


def signed(*shape: int | None, name: str, dtype: Any = None) -> Any:
    """``tf.function`` of one argument."""
    spec = tf.TensorSpec(shape, dtype or tf.float32, name=name)
    return tf.function(input_signature=[spec])


def signatures() -> None:
    two = Two()
    x, y = noise(3, 2), noise(3, 2)
    tf.saved_model.save(two, ROOT / "two", signatures={"serving_default": two.__call__})
    keep("two", {"zebra": x, "apple": y}, two(x, y))
    tf.saved_model.save(two, ROOT / "several", signatures={"f": two.__call__, "g": two.halved})
    z = noise(2, 5, 2)
    keep("several", {"x": z}, two.halved(z))

    class Untraced(tf.Module):  # type: ignore[misc]
        @tf.function  # type: ignore[untyped-decorator]
        def __call__(self, x: Any) -> Any:
            return x + 1.0

    untraced = Untraced()
    untraced(tf.ones([2]))
    untraced(tf.ones([2, 2]))
    tf.saved_model.save(untraced, ROOT / "unsigned")


def fixed_batch() -> None:
    @signed(1, 4, 4, 3, name="image")
    def f(image: Any) -> Any:
        return {"scores": tf.reduce_mean(tf.nn.relu(image), axis=[1, 2])}

    tf.saved_model.save(tf.Module(), ROOT / "fixed", signatures=f)
    keep("fixed", {"image": (x := noise(1, 4, 4, 3))}, f(x))


def keras_export() -> None:
    keras.utils.set_random_seed(0)
    x = keras.Input((6, 5), name="sound")
    h = keras.layers.LSTM(4)(x)
    heads = [keras.layers.Dense(3, activation="softmax")(h), keras.layers.Dense(2)(h)]
    model = keras.Model(x, heads)
    model.export(ROOT / "keras_export", verbose=False)
    value = noise(2, 6, 5)
    first, second = model(value)
    keep("keras_export", {"sound": value}, {"output_0": first, "output_1": second})


def stateful() -> None:
    class Counter(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.n = tf.Variable(0.0)

        @tf.function(input_signature=[tf.TensorSpec([None, 2])])  # type: ignore[untyped-decorator]
        def __call__(self, x: Any) -> Any:
            return x + self.n.assign_add(1.0)

    counter = Counter()
    tf.saved_model.save(counter, ROOT / "counter", signatures=counter.__call__)


def tables() -> None:
    class Words(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            keys = tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([0, 1], tf.int64))
            self.table = tf.lookup.StaticHashTable(keys, -1)

        @signed(None, name="words", dtype=tf.string)
        def __call__(self, words: Any) -> Any:
            return self.table.lookup(tf.strings.lower(words))

    words = Words()
    tf.saved_model.save(words, ROOT / "words", signatures=words.__call__)


def unused_input() -> None:
    @tf.function(  # type: ignore[untyped-decorator]
        input_signature=[tf.TensorSpec([None, 2], name="x"), tf.TensorSpec([None, 2], name="y")]
    )
    def f(x: Any, y: Any) -> Any:
        return {"same": x, "more": x + 1.0}

    tf.saved_model.save(tf.Module(), ROOT / "unused", signatures=f)
    keep("unused", {"x": (x := noise(3, 2)), "y": x}, f(x, x))


def registry() -> None:
    """The names of TensorFlow's own operators."""
    found = op_def_pb2.OpList()
    found.ParseFromString(pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList()))
    (ROOT / "operators.txt").write_text("\n".join(op.name for op in found.op))


def foreign_operator() -> None:
    """A graph with an operator of somebody's library."""
    graph = tf.compat.v1.GraphDef()
    x = graph.node.add(name="x", op="Placeholder")
    x.attr["dtype"].type = tf.float32.as_datatype_enum
    x.attr["shape"].shape.dim.add(size=2)
    graph.versions.producer = 1000
    graph.node.add(name="y", op="AcmeBlur", input=["x"]).attr["T"].CopyFrom(x.attr["dtype"])
    (ROOT / "foreign.pb").write_bytes(graph.SerializeToString())


# -- TensorFlow 1 ----------------------------------------------------------------------------


def network() -> tuple[Any, Any]:
    """An image network with a switch and a rate, as graphs of TensorFlow 1 have them."""
    x = v1.placeholder(tf.float32, [None, 8, 8, 3], name="image")
    training = v1.placeholder(tf.bool, [], name="is_training")
    rate = v1.placeholder_with_default(0.0, [], name="rate")
    kernel = v1.get_variable("conv/kernel", initializer=noise(3, 3, 3, 4), use_resource=False)
    parts = v1.fixed_size_partitioner(2)
    normal = v1.random_normal_initializer(seed=1)
    weights = v1.get_variable("dense/kernel", [4, 5], initializer=normal, partitioner=parts)
    h = tf.nn.relu(tf.nn.conv2d(x, kernel, 1, "SAME"), name="conv/relu")
    h = tf.reduce_mean(h, axis=[1, 2]) * (1.0 - rate)
    h = tf.where(training, h * 2.0, h)
    y = tf.nn.softmax(tf.matmul(h, tf.concat(list(weights), 0)), name="probabilities")
    return x, y


def graphs() -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        x, y = network()
        session.run(v1.global_variables_initializer())
        value = noise(2, 8, 8, 3)
        answer = session.run(y, {x: value, "is_training:0": False})
        keep("frozen", {"image": value}, {"probabilities": answer})
        frozen = v1.graph_util.convert_variables_to_constants(
            session, session.graph_def, ["probabilities"]
        )
        (ROOT / "frozen.pb").write_bytes(frozen.SerializeToString())
        loss = tf.reduce_sum(y, name="loss")
        v1.train.GradientDescentOptimizer(0.1).minimize(loss)
        v1.train.Saver().save(session, str(ROOT / "ckpt" / "net.ckpt"))
        inputs = {"image": v1.saved_model.build_tensor_info(x)}
        inputs["training"] = v1.saved_model.build_tensor_info(
            session.graph.get_tensor_by_name("is_training:0")
        )
        outputs = {"scores": v1.saved_model.build_tensor_info(y)}
        signature = v1.saved_model.build_signature_def(inputs, outputs, "predict")
        for name, tags in (("v1", ["serve"]), ("tagged", ["other", "gpu"])):
            builder = v1.saved_model.Builder(str(ROOT / name))
            builder.add_meta_graph_and_variables(
                session,
                tags,
                signature_def_map={"predict_images": signature},
                legacy_init_op=tf.no_op(name="init") if name == "v1" else None,
            )
            builder.save()
        keep("v1", {"image": value, "training": np.array(False)}, {"scores": answer})
    with tf.Graph().as_default() as graph:
        a = v1.placeholder(tf.float32, None, name="a")
        tf.identity(a * 2.0, name="twice")
        (ROOT / "rankless.pb").write_bytes(graph.as_graph_def().SerializeToString())
    with tf.Graph().as_default() as graph:
        a = v1.placeholder(tf.float32, [None, 4], name="a")
        tf.split(a, 2, axis=1, name="halves")
        tf.exp(a, name="up")
        (ROOT / "ends.pb").write_bytes(graph.as_graph_def().SerializeToString())


# -- models that act on the machine ----------------------------------------------------------


def malicious() -> None:
    spec = [tf.TensorSpec([None, 2], name="x")]
    target = str(ROOT / "PWNED")

    class Signed(tf.Module):  # type: ignore[misc]
        @tf.function(input_signature=spec)  # type: ignore[untyped-decorator]
        def __call__(self, x: Any) -> Any:
            with tf.control_dependencies([tf.io.write_file(target, "x")]):
                return x + tf.cast(tf.strings.length(tf.io.read_file("/etc/hostname")), tf.float32)

    class Resource(tf.saved_model.experimental.TrackableResource):  # type: ignore[misc]
        def _create_resource(self) -> Any:
            if not tf.executing_eagerly():
                tf.io.write_file(target, "created")
            return tf.raw_ops.MutableHashTableV2(key_dtype=tf.int64, value_dtype=tf.float32)

        def _initialize(self) -> None:
            if not tf.executing_eagerly():
                tf.io.write_file(target, "initialized")

    class Captured(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.evil = Resource()
            self.w = tf.Variable([2.0, 3.0])

        @tf.function(input_signature=spec)  # type: ignore[untyped-decorator]
        def __call__(self, x: Any) -> Any:
            return x * self.w

        @tf.function(input_signature=spec)  # type: ignore[untyped-decorator]
        def held(self, x: Any) -> Any:
            size = tf.raw_ops.LookupTableSizeV2(table_handle=self.evil.resource_handle)
            return x * tf.cast(size, tf.float32)

    signed, captured = Signed(), Captured()
    tf.saved_model.save(signed, ROOT / "evil_signature", signatures=signed.__call__)
    tf.saved_model.save(
        captured,
        ROOT / "evil_resource",
        signatures={"plain": captured.__call__, "held": captured.held},
    )
    graph_files(target)


def graph_files(target: str) -> None:
    with tf.Graph().as_default() as graph, v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 2], name="x")
        w = v1.get_variable("w", initializer=[2.0, 3.0])
        session.run(w.initializer)
        write = tf.io.write_file(target, "initialized", name="write")
        y = tf.identity(x * w, name="y")
        info = v1.saved_model.build_tensor_info
        signature = v1.saved_model.build_signature_def({"x": info(x)}, {"y": info(y)}, "predict")
        builder = v1.saved_model.Builder(str(ROOT / "evil_init"))
        builder.add_meta_graph_and_variables(
            session, ["serve"], signature_def_map={"serving_default": signature}, main_op=write
        )
        builder.save()
        keep("evil_init", {"x": (value := noise(2, 2))}, {"y": session.run(y, {x: value})})
        with tf.control_dependencies([write]):
            tf.identity(y, name="z")
        v1.train.Saver().save(session, str(ROOT / "evil_ckpt" / "net.ckpt"))
        frozen = v1.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), ["z"])
        (ROOT / "evil.pb").write_bytes(frozen.SerializeToString())
    assert not Path(target).exists()


for make in (
    *(signatures, fixed_batch, keras_export, stateful, tables, unused_input, registry),
    *(foreign_operator, graphs, malicious),
):
    make()
