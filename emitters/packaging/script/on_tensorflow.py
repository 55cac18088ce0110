"""The SavedModel in TensorFlow."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


class Runner:
    """Runs a signature of a SavedModel."""

    def options(self, facts: Mapping[str, Any], arguments: list[str]) -> Any:
        """What the command line says."""
        text = "Runs the samples in TensorFlow and compares."
        parser = argparse.ArgumentParser(description=text)
        parser.add_argument("--threads", type=int, default=0, help="threads; 0: TensorFlow's own")
        return parser.parse_args(arguments)

    @contextlib.contextmanager
    def opened(self, folder: Path, facts: Mapping[str, Any], options: Any) -> Iterator[Any]:
        """Gives what runs a sample."""
        import tensorflow as tf

        if options.threads:
            tf.config.threading.set_intra_op_parallelism_threads(options.threads)
        loaded = tf.saved_model.load(str(folder / facts["artifact"]))
        asked = loaded.signatures[facts["signature"]]
        names = [item["name"] for item in facts["inputs"]]

        def run(feeds: Mapping[str, Any]) -> dict[str, Any]:
            found = asked(**{name: tf.constant(feeds[name]) for name in names})
            return {name: item.numpy() for name, item in found.items()}

        yield run
