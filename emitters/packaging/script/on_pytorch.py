"""The code in PyTorch."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


class Runner:
    """Runs a model.py with the weights beside it."""

    def options(self, facts: Mapping[str, Any], arguments: list[str]) -> Any:
        """What the command line says."""
        text = "Runs the samples in PyTorch and compares."
        parser = argparse.ArgumentParser(description=text)
        parser.add_argument("--threads", type=int, default=0, help="threads; 0: PyTorch's own")
        return parser.parse_args(arguments)

    @contextlib.contextmanager
    def opened(self, folder: Path, facts: Mapping[str, Any], options: Any) -> Iterator[Any]:
        """Gives what runs a sample."""
        import importlib.util

        import torch

        if options.threads:
            torch.set_num_threads(options.threads)
        code = folder / facts["artifact"]
        spec = importlib.util.spec_from_file_location("packaged_model", code)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        model = module.load(str(code.with_name("model.safetensors")))
        inputs = [item["name"] for item in facts["inputs"]]
        outputs = [item["name"] for item in facts["outputs"]]

        def run(feeds: Mapping[str, Any]) -> dict[str, Any]:
            with torch.no_grad():
                given = model(*(torch.from_numpy(feeds[name]) for name in inputs))
            results = given if isinstance(given, tuple) else (given,)
            return {
                name: item.detach().numpy() for name, item in zip(outputs, results, strict=True)
            }

        yield run
