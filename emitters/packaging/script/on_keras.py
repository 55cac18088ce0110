"""The code in Keras."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


class Runner:
    """Runs an archive whose classes are in the model.py beside it."""

    def options(self, facts: Mapping[str, Any], arguments: list[str]) -> Any:
        """What the command line says."""
        text = "Runs the samples in Keras and compares."
        parser = argparse.ArgumentParser(description=text)
        told = "tensorflow, torch or jax; else as KERAS_BACKEND says"
        parser.add_argument("--backend", default="", help=told)
        return parser.parse_args(arguments)

    @contextlib.contextmanager
    def opened(self, folder: Path, facts: Mapping[str, Any], options: Any) -> Iterator[Any]:
        """Gives what runs a sample."""
        if options.backend:
            os.environ["KERAS_BACKEND"] = options.backend
        import importlib.util

        import keras

        archive = folder / facts["artifact"]
        spec = importlib.util.spec_from_file_location("model", archive.with_name("model.py"))
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        model = module.load(str(archive))
        outputs = [item["name"] for item in facts["outputs"]]

        def run(feeds: Mapping[str, Any]) -> dict[str, Any]:
            named = isinstance(model.input, dict)
            given = model(dict(feeds) if named else next(iter(feeds.values())), training=False)
            results = given if isinstance(given, dict) else {outputs[0]: given}
            return {name: keras.ops.convert_to_numpy(results[name]) for name in outputs}

        yield run
