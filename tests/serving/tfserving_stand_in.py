"""Stands in for TensorFlow Serving, which is no package of Python's: runs a package's SavedModel.

It takes from the package what the server would: ``models.config`` as its ModelServerConfig, the
version that this names, and the warm-up requests, which it replays. Then it answers its REST form
(columns) and its gRPC service, on ports of its own, until its input ends.
"""

import json
import sys
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import grpc
import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2, prediction_service_pb2_grpc
from tensorflow_serving.config import model_server_config_pb2

PACKAGE = Path(sys.argv[1])
text = (PACKAGE / "models.config").read_text()
CONFIG = text_format.Parse(text, model_server_config_pb2.ModelServerConfig())
(MODEL,) = CONFIG.model_config_list.config
(VERSION,) = MODEL.model_version_policy.specific.versions
FOLDER = PACKAGE / str(VERSION)
LOADED = tf.saved_model.load(str(FOLDER))


def predict(signature, inputs):
    return LOADED.signatures[signature](**inputs)


def replayed():
    """Inputs and outputs of each warm-up request: TensorFlow reads the records and their sums."""
    file = FOLDER / "assets.extra" / "tf_serving_warmup_requests"
    for record in tf.data.TFRecordDataset(str(file)):
        log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
        request = log.predict_log.request
        inputs = {key: tf.constant(tf.make_ndarray(x)) for key, x in request.inputs.items()}
        found = predict(request.model_spec.signature_name, inputs)
        yield {
            "model": request.model_spec.name,
            "inputs": {key: value.numpy().tolist() for key, value in inputs.items()},
            "outputs": {key: value.numpy().tolist() for key, value in found.items()},
        }


class Rest(BaseHTTPRequestHandler):
    def do_GET(self):
        state = {"version": str(VERSION), "state": "AVAILABLE"}
        self.answer({"model_version_status": [state]}, self.path == f"/v1/models/{MODEL.name}")

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        dtypes = LOADED.signatures["serving_default"].structured_input_signature[1]
        inputs = {key: tf.constant(x, dtypes[key].dtype) for key, x in body["inputs"].items()}
        lists = {k: v.numpy().tolist() for k, v in predict("serving_default", inputs).items()}
        outputs = next(iter(lists.values())) if len(lists) == 1 else lists
        self.answer({"outputs": outputs}, self.path == f"/v1/models/{MODEL.name}:predict")

    def answer(self, body, known):
        data = json.dumps(body if known else {"error": "no such model"}).encode()
        self.send_response(200 if known else 404)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


class Grpc(prediction_service_pb2_grpc.PredictionServiceServicer):
    def Predict(self, request, context):
        assert request.model_spec.name == MODEL.name
        inputs = {key: tf.constant(tf.make_ndarray(x)) for key, x in request.inputs.items()}
        answer = predict_pb2.PredictResponse()
        for key, value in predict(request.model_spec.signature_name, inputs).items():
            answer.outputs[key].CopyFrom(tf.make_tensor_proto(np.array(value)))
        return answer


http = ThreadingHTTPServer(("127.0.0.1", 0), Rest)
Thread(target=http.serve_forever, daemon=True).start()
rpc = grpc.server(futures.ThreadPoolExecutor(2))
prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(Grpc(), rpc)
port = rpc.add_insecure_port("127.0.0.1:0")
rpc.start()
labels = dict(MODEL.version_labels)
told = {"base": MODEL.base_path, "version": VERSION, "labels": labels, "warmed": [*replayed()]}
print(json.dumps({**told, "http": http.server_port, "grpc": port}), flush=True)
sys.stdin.read()
