"""``client_grpc.py``: a client by TensorFlow Serving's own stubs."""

from __future__ import annotations

from emitters.serving.python.served import Served

NAME = "client_grpc.py"

_CODE = '''#!/usr/bin/env python3
"""Asks TensorFlow Serving for a prediction, over gRPC.

    pip install tensorflow-serving-api numpy
    python client_grpc.py [HOST:PORT]

It sends the first sample of warmup/ and shows what comes back.
"""

import json
import sys
from pathlib import Path

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

HERE = Path(__file__).parent


def predict(inputs, address="127.0.0.1:8500", timeout=60):
    """Outputs by name, of arrays by name."""
    query = predict_pb2.PredictRequest()
    query.model_spec.name = {name!r}
    query.model_spec.signature_name = {signature!r}
    for name, array in inputs.items():
        query.inputs[name].CopyFrom(tf.make_tensor_proto(array))
    with grpc.insecure_channel(address) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        answer = stub.Predict(query, timeout)
    return {{name: tf.make_ndarray(tensor) for name, tensor in answer.outputs.items()}}


if __name__ == "__main__":
    facts = json.loads((HERE / "modelyard.json").read_text(encoding="utf-8"))
    feeds = facts["samples"][0]["feeds"]
    inputs = {{name: np.load(HERE / item["file"]) for name, item in feeds.items()}}
    for name, array in predict(inputs, *sys.argv[1:2]).items():
        print(name, array.dtype, array.shape, array.ravel()[:8])
'''


def snippet(served: Served, signature: str) -> str:
    """The code."""
    return _CODE.format(name=served.name, signature=signature)
