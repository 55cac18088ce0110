"""Runs a model in MindSpore Lite, on the CPU.

Python 3.7, with: pip install mindspore-lite==2.0.0 numpy==1.21.6

    python usage.py             what the model beside this file takes

In a program: `from usage import Model`, then `Model()(*arrays)`, in the inputs' order.
"""

import json
import os
import sys
import time
from typing import Any, Dict, List

import mindspore_lite as mslite
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))


NONE = (mslite.DataType.UNKNOWN, mslite.DataType.INVALID)
TYPES = {item: item.name.lower() for item in mslite.DataType if item not in NONE}


class Model:
    """A file, loaded once; each call is one run."""

    def __init__(self, path: str = "model.mindir", threads: int = 0) -> None:
        context = mslite.Context()
        context.target = ["cpu"]
        if threads:
            context.cpu.thread_num = threads
        self._model = mslite.Model()
        place = os.path.join(HERE, path)
        self._model.build_from_file(place, mslite.ModelType.MINDIR, context)

    def __call__(self, *arrays: Any) -> List[Any]:
        """Outputs, in the model's order, of inputs in the model's order."""
        inputs = self._model.get_inputs()
        for tensor, array in zip(inputs, arrays):
            tensor.set_data_from_numpy(np.ascontiguousarray(array, TYPES[tensor.dtype]))
        return [tensor.get_data_to_numpy() for tensor in self._model.predict(inputs)]

    def inputs(self) -> List[Any]:
        """Name, type and shape of each input."""
        tensors = self._model.get_inputs()
        return [[item.name, TYPES[item.dtype], list(item.shape)] for item in tensors]


class Answers:
    """Answers requests, a line of JSON each: what Modelyard and selftest.py ask."""

    def load(self, path: str, threads: int = 0) -> Dict[str, Any]:
        """Loads a model; gives its inputs."""
        self._model = Model(path, threads)
        return {"inputs": self._model.inputs(), "version": mslite.__version__}

    def run(self, feeds: str, out: str, runs: int = 1) -> Dict[str, Any]:
        """Runs a model, and writes what its last run gave.

        Args:
            feeds: An .npz file: the inputs by their number, "0", "1"...
            out: The .npz file that is written: the outputs, likewise.
            runs: How many times the model runs.

        Returns:
            "ns": the time of each run, in nanoseconds.
        """
        with np.load(feeds) as found:
            arrays = [found[name] for name in sorted(found.files, key=int)]
        taken = []
        for _ in range(runs):
            start = time.perf_counter()
            outputs = self._model(*arrays)
            taken.append(int((time.perf_counter() - start) * 1e9))
        np.savez(out, **{str(index): array for index, array in enumerate(outputs)})
        return {"ns": taken}


def serve(methods: Any) -> None:
    """Reads requests until their pipe closes; what the library prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        answer = {"id": request["id"]}  # type: Dict[str, Any]
        try:
            answer["result"] = getattr(methods, request["method"])(**request["params"])
        except Exception as error:  # whatever the library raises: whoever asks waits for an answer
            answer["error"] = {"kind": "model", "message": "%s: %s" % (type(error).__name__, error)}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve(Answers())
    else:
        print(json.dumps(Model().inputs()))
