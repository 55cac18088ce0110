"""The process in which third-party simplifiers run (``converter.runtime.child.own_module``).

They print, keep global state, load a framework if it is there, and may crash or hang; none of that
reaches the tool itself. One JSON object a line comes in and goes out, as in
:mod:`converter.runtime.child`; models travel as files.

    {"id": 1, "method": "simplify",
     "params": {"tool": "onnxslim", "source": "in.onnx", "result": "out.onnx", "options": {}}}
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import onnx

Tool = Callable[[onnx.ModelProto, Mapping[str, Any]], onnx.ModelProto]


def run_onnxslim(model: onnx.ModelProto, options: Mapping[str, Any]) -> onnx.ModelProto:
    """OnnxSlim's version of ``model``."""
    import onnxslim

    from converter.passes.libraries.tying import compare_alike

    compare_alike()
    result: onnx.ModelProto = onnxslim.slim(model, **options)
    return result


def run_onnxsim(model: onnx.ModelProto, options: Mapping[str, Any]) -> onnx.ModelProto:
    """onnxsim's version of ``model``; no check of its own, we make ours."""
    import onnxsim

    result: onnx.ModelProto = onnxsim.simplify(model, check_n=0, **options)[0]
    return result


def run_ort_basic(model: onnx.ModelProto, options: Mapping[str, Any]) -> onnx.ModelProto:
    """The graph that ONNX Runtime holds at the optimization level ``level``, made in one thread.

    The rewrites in ``without`` are left out.
    """
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    settings.intra_op_num_threads = 1
    settings.graph_optimization_level = getattr(
        onnxruntime.GraphOptimizationLevel, options["level"]
    )
    settings.add_session_config_entry("session.disable_prepacking", "1")
    with tempfile.TemporaryDirectory(prefix="modelyard-") as folder:
        written = str(Path(folder, "basic.onnx"))
        settings.optimized_model_filepath = written
        content = model.SerializeToString()
        onnxruntime.InferenceSession(
            content,
            settings,
            providers=["CPUExecutionProvider"],
            disabled_optimizers=options.get("without"),
        )
        return onnx.load(written)


def warm(model: onnx.ModelProto, options: Mapping[str, Any]) -> onnx.ModelProto:
    """Imports the libraries, so that the first real call finds them there."""
    import onnxruntime
    import onnxsim
    import onnxslim.core

    del onnxruntime, onnxsim, onnxslim
    return model


TOOLS: dict[str, Tool] = {
    "onnxslim": run_onnxslim,
    "onnxsim": run_onnxsim,
    "ort-basic": run_ort_basic,
}


def simplify(params: Mapping[str, Any]) -> dict[str, Any]:
    """Reads the model at ``source``, runs ``tool`` on it, writes what it gives to ``result``."""
    model = onnx.load(params["source"], load_external_data=False)
    result = TOOLS[params["tool"]](model, params.get("options") or {})
    onnx.save(result, params["result"])
    return {}


def serve(requests: IO[str], answers: IO[str]) -> None:
    """Answers requests until they end."""
    for line in requests:
        tempfile.tempdir = None  # the folder it had may be gone: commands in one process share it
        request = json.loads(line)
        answer: dict[str, Any] = {"id": request["id"]}
        try:
            answer["result"] = simplify(request["params"])
        except Exception as error:  # whatever a library raises is the answer
            answer["error"] = {
                "kind": "source",
                "message": f"{type(error).__name__}: {error}",
                "traceback": traceback.format_exc(),
            }
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def main() -> None:
    """Keeps standard output for answers; what a library prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.modules["torch"] = None  # type: ignore[assignment]  # they load it for nothing
    warm(onnx.ModelProto(), {})
    serve(sys.stdin, answers)
    os._exit(0)  # nothing is left to do, and libraries take a quarter of a second to unload


if __name__ == "__main__":
    main()
