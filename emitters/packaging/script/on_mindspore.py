"""The file in MindSpore Lite, in a Python that has it: usage.py beside the file runs there."""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np


class Runner:
    """Runs a model in a process of another Python."""

    def options(self, facts: Mapping[str, Any], arguments: list[str]) -> Any:
        """What the command line says."""
        text = "Runs the samples in MindSpore Lite and compares."
        parser = argparse.ArgumentParser(description=text)
        told = "the Python 3.7 that has mindspore-lite (python3.7)"
        parser.add_argument("--python", default="python3.7", help=told)
        return parser.parse_args(arguments)

    @contextlib.contextmanager
    def opened(self, folder: Path, facts: Mapping[str, Any], options: Any) -> Iterator[Any]:
        """Gives what runs a sample."""
        model = folder / facts["artifact"]
        line = [options.python, str(model.with_name("usage.py")), "--serve"]
        with (
            tempfile.TemporaryDirectory() as place,
            tempfile.TemporaryFile() as log,
            subprocess.Popen(
                line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            ) as process,
        ):
            given, out = (Path(place, name) for name in ("in.npz", "out.npz"))

            def ask(method: str, **params: Any) -> Any:
                assert process.stdin is not None and process.stdout is not None
                request = json.dumps({"id": 0, "method": method, "params": params})
                print(request, file=process.stdin, flush=True)
                answer = json.loads(process.stdout.readline() or '{"error": "it ended"}')
                if "error" in answer:
                    log.seek(0)
                    said = log.read()[-2000:].decode(errors="replace")
                    raise OSError(f"{options.python}: {answer['error']}\n{said}")

            def run(feeds: Mapping[str, Any]) -> dict[str, Any]:
                names = [item["name"] for item in facts["inputs"]]
                np.savez(given, **{str(index): feeds[name] for index, name in enumerate(names)})
                ask("run", feeds=str(given), out=str(out))
                with np.load(out) as found:
                    names = [item["name"] for item in facts["outputs"]]
                    return {name: found[str(index)] for index, name in enumerate(names)}

            ask("load", path=str(model))
            yield run
