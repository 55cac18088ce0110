"""SavedModels of cases, run by TensorFlow's own loader: one process for all, which takes seconds to
start and doesn't bear forks. ``python -m tests.conformance.saved_models`` is that process."""

import json
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

from converter.protocols.emitter import Artifact
from converter.runtime.child import Child, worker_env
from converter.runtime.worker import WorkerSession
from emitters.opened import INTERFACE, specs_of

ROOT = Path(__file__).resolve().parents[2]


@cache
def _child() -> Child:
    env = {**worker_env(), "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "-1"}
    return Child([sys.executable, "-m", __name__], what="TensorFlow's process", env=env)


def opened(artifact: Artifact, folder: Path) -> WorkerSession:
    """A session of a SavedModel; arrays travel in ``folder``."""

    def call(method: str, **params: Any) -> dict[str, Any]:
        return _child().call(method, path=str(artifact.path), **params)

    told = artifact.details[INTERFACE]
    inputs, outputs = (specs_of(told[side]) for side in ("inputs", "outputs"))
    return WorkerSession(call, folder, inputs, outputs, {"name": "tensorflow"}, None)


def main() -> None:
    """Answers until its input closes."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import tensorflow as tf

    from parsers.tensorflow.child.arrays import as_array, read_feeds, write_arrays

    for line in sys.stdin:
        request = json.loads(line)
        answer: dict[str, Any] = {"id": request["id"], "result": {}}
        try:
            params = request["params"]
            signature = tf.saved_model.load(params["path"]).signatures["serving_default"]
            feeds = read_feeds(params["feeds"])
            found = signature(**{name: tf.constant(array) for name, array in feeds.items()})
            write_arrays(params["out"], {name: as_array(value) for name, value in found.items()})
        except Exception as error:  # whatever TensorFlow raises is the case's
            answer = {
                "id": request["id"],
                "error": {"kind": "source", "message": f"{type(error).__name__}: {error}"},
            }
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
