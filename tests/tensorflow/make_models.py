"""Makes every model of these tests, in TensorFlow: `python make_models.py FOLDER`.

A process of its own, so that the tests' own never imports TensorFlow. Beside each model that runs
lies NAME.npz: inputs as `in/NAME`, and TensorFlow's outputs for them as `out/NAME`.
"""

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
info, freeze = v1.saved_model.build_tensor_info, v1.graph_util.convert_variables_to_constants
ROOT = Path(sys.argv[1])
RNG = np.random.default_rng(0)


def noise(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def keep(name: str, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
    arrays = {f"in/{key}": np.asarray(value) for key, value in inputs.items()}
    arrays.update((f"out/{key}", np.asarray(value)) for key, value in outputs.items())
    np.savez(str(ROOT / f"{name}.npz"), **arrays)


def traced(function: Any, **inputs: Any) -> Any:
    """A function of inputs of these shapes, float32 where nothing else is said."""
    given = {name: at if isinstance(at, tuple) else (at, tf.float32) for name, at in inputs.items()}
    specs = [tf.TensorSpec(shape, dtype, name=name) for name, (shape, dtype) in given.items()]
    return tf.function(function, input_signature=specs)


def save(name: str, owner: Any = None, **signatures: Any) -> None:
    """A SavedModel; one signature named ``default`` is its own."""
    given = signatures.get("default", signatures)
    tf.saved_model.save(owner or tf.Module(), ROOT / name, signatures=given)


def holding(**values: Any) -> Any:
    """A module with these as its attributes."""
    module = tf.Module()
    for name, value in values.items():
        setattr(module, name, value)
    return module


def signatures() -> None:
    """Arguments in an order of their own, outputs by name, variables without names."""
    held = holding(a=tf.Variable([1.0, 2.0]), b=tf.Variable([3.0, 4.0]))

    def two(zebra: Any, apple: Any) -> dict[str, Any]:
        return {"zz": zebra * held.a, "aa": apple * held.b + zebra}

    def halved(x: Any) -> Any:
        return {f"output_{i}": x * held.a / float(i + 1) for i in range(12)}

    f, g = traced(two, zebra=[None, 2], apple=[None, 2]), traced(halved, x=[None, None, 2])
    x, y, z = noise(3, 2), noise(3, 2), noise(2, 5, 2)
    save("two", held, serving_default=f)
    keep("two", {"zebra": x, "apple": y}, f(x, y))
    save("several", held, f=f, g=g)
    keep("several", {"x": z}, g(z))

    def largest(x: Any) -> Any:
        return {"at": tf.raw_ops.ArgMax(input=x, dimension=1, output_type=tf.uint16)}

    save("largest", default=traced(largest, x=[None, 4]))

    class Untraced(tf.Module):
        @tf.function
        def __call__(self, x: Any) -> Any:
            return x + 1.0

    untraced = Untraced()
    for shape in ([2], [2, 2]):
        untraced(tf.ones(shape))
    tf.saved_model.save(untraced, ROOT / "unsigned")


def simple() -> None:
    def scores(image: Any) -> Any:
        return {"scores": tf.reduce_mean(tf.nn.relu(image), axis=[1, 2])}

    def same(x: Any, y: Any) -> Any:
        return {"same": x, "more": x + 1.0}

    fixed, unused = traced(scores, image=[1, 4, 4, 3]), traced(same, x=[None, 2], y=[None, 2])
    save("fixed", default=fixed)
    keep("fixed", {"image": (x := noise(1, 4, 4, 3))}, fixed(x))
    save("unused", default=unused)
    keep("unused", {"x": (x := noise(3, 2)), "y": x}, unused(x, x))
    counter = holding(n=tf.Variable(0.0))
    save("counter", counter, default=traced(lambda x: x + counter.n.assign_add(1.0), x=[None, 2]))
    keys = tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([0, 1], tf.int64))
    table = tf.lookup.StaticHashTable(keys, -1)
    words = traced(lambda words: table.lookup(tf.strings.lower(words)), words=([None], tf.string))
    save("words", holding(table=table), default=words)


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


def keras_saved() -> None:
    """A Keras 3 model by TensorFlow's own function: two signatures, which share a layer."""

    class Net(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.wide, self.norm = keras.layers.Dense(4), keras.layers.BatchNormalization()
            self.narrow = keras.layers.Dense(2)

        def call(self, x: Any) -> Any:
            return self.narrow(tf.nn.relu(self.norm(self.wide(x))))

    keras.utils.set_random_seed(0)
    model = Net()
    model(noise(1, 3))
    model.norm.gamma.assign([0.5, 2.0, 1.0, 3.0])
    model.norm.moving_mean.assign([0.1, 0.2, 0.3, 0.4])
    scores = traced(lambda x: {"scores": model(x, training=False)}, x=[None, 3])
    features = traced(lambda x: {"features": model.norm(model.wide(x)) * 2.0}, x=[None, 3])
    tf.saved_model.save(model, ROOT / "keras_saved", {"scores": scores, "features": features})
    x = noise(5, 3)
    keep("keras_saved", {"x": x}, {**scores(x), **features(x)})


def registry() -> None:
    """The names of TensorFlow's own operators."""
    found = op_def_pb2.OpList()
    found.ParseFromString(pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList()))
    (ROOT / "operators.txt").write_text("\n".join(op.name for op in found.op))


def foreign_operator() -> None:
    """A graph with an operator of somebody's library."""
    graph = v1.GraphDef()
    x = graph.node.add(name="x", op="Placeholder")
    x.attr["dtype"].type = tf.float32.as_datatype_enum
    x.attr["shape"].shape.dim.add(size=2)
    graph.versions.producer = 1000
    graph.node.add(name="y", op="AcmeBlur", input=["x"]).attr["T"].CopyFrom(x.attr["dtype"])
    (ROOT / "foreign.pb").write_bytes(graph.SerializeToString())


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
    return x, tf.nn.softmax(tf.matmul(h, tf.concat(list(weights), 0)), name="probabilities")


def build(session: Any, name: str, inputs: Any, outputs: Any, *, key: str, tags: Any = ("serve",),
          **more: Any) -> None:  # fmt: skip
    """A SavedModel of TensorFlow 1."""
    ends = ({name: info(tensor) for name, tensor in side.items()} for side in (inputs, outputs))
    signature = v1.saved_model.build_signature_def(*ends, "predict")
    builder = v1.saved_model.Builder(str(ROOT / name))
    builder.add_meta_graph_and_variables(
        session, list(tags) or ["serve"], signature_def_map={key: signature}, **more
    )
    builder.save()


def graphs() -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        x, y = network()
        session.run(v1.global_variables_initializer())
        value = noise(2, 8, 8, 3)
        answer = session.run(y, {x: value, "is_training:0": False})
        keep("frozen", {"image": value}, {"probabilities": answer})
        frozen = freeze(session, session.graph_def, ["probabilities"])
        (ROOT / "frozen.pb").write_bytes(frozen.SerializeToString())
        v1.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(y, name="loss"))
        v1.train.Saver().save(session, str(ROOT / "ckpt" / "net.ckpt"))
        inputs = {"image": x, "training": session.graph.get_tensor_by_name("is_training:0")}
        for name, tags in (("v1", ["serve"]), ("tagged", ["other", "gpu"])):
            init = {"legacy_init_op": tf.no_op(name="init") if name == "v1" else None}
            build(session, name, inputs, {"scores": y}, key="predict_images", tags=tags, **init)
        keep("v1", {"image": value, "training": np.array(False)}, {"scores": answer})
    with tf.Graph().as_default() as graph:
        tf.identity(v1.placeholder(tf.float32, None, name="a") * 2.0, name="twice")
        (ROOT / "rankless.pb").write_bytes(graph.as_graph_def().SerializeToString())
    with tf.Graph().as_default() as graph:
        a = v1.placeholder(tf.float32, [None, 4], name="a")
        tf.split(a, 2, axis=1, name="halves")
        tf.exp(a, name="up")
        (ROOT / "ends.pb").write_bytes(graph.as_graph_def().SerializeToString())


def malicious() -> None:
    target = str(ROOT / "PWNED")

    def signed(x: Any) -> Any:
        with tf.control_dependencies([tf.io.write_file(target, "x")]):
            return x + tf.cast(tf.strings.length(tf.io.read_file("/etc/hostname")), tf.float32)

    class Resource(tf.saved_model.experimental.TrackableResource):
        def _create_resource(self) -> Any:
            if not tf.executing_eagerly():
                tf.io.write_file(target, "created")
            return tf.raw_ops.MutableHashTableV2(key_dtype=tf.int64, value_dtype=tf.float32)

        def _initialize(self) -> None:
            if not tf.executing_eagerly():
                tf.io.write_file(target, "initialized")

    owner = holding(evil=Resource(), w=tf.Variable([2.0, 3.0]))

    def held(x: Any) -> Any:
        size = tf.raw_ops.LookupTableSizeV2(table_handle=owner.evil.resource_handle)
        return x * tf.cast(size, tf.float32)

    plain = traced(lambda x: x * owner.w, x=[None, 2])
    save("evil_signature", default=traced(signed, x=[None, 2]))
    save("evil_resource", owner, plain=plain, held=traced(held, x=[None, 2]))
    with tf.Graph().as_default() as graph, v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 2], name="x")
        w = v1.get_variable("w", initializer=[2.0, 3.0])
        session.run(w.initializer)
        write = tf.io.write_file(target, "initialized", name="write")
        y = tf.identity(x * w, name="y")
        build(session, "evil_init", {"x": x}, {"y": y}, key="serving_default", main_op=write)
        keep("evil_init", {"x": (value := noise(2, 2))}, {"y": session.run(y, {x: value})})
        with tf.control_dependencies([write]):
            tf.identity(y, name="z")
        v1.train.Saver().save(session, str(ROOT / "evil_ckpt" / "net.ckpt"))
        frozen = freeze(session, graph.as_graph_def(), ["z"])
        (ROOT / "evil.pb").write_bytes(frozen.SerializeToString())
    assert not Path(target).exists()


MAKERS = (signatures, simple, keras_export, keras_saved)
for make in (*MAKERS, registry, foreign_operator, graphs, malicious):
    make()
