"""The package in Core ML, on a Mac, through coremltools' ``MLModel.predict``.

Not run on a Mac yet: written from coremltools' documentation, like modelyard's own check there.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import platform
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from emitters.packaging.script.stored import shown


class Runner:
    """Runs an .mlpackage, and writes what came of it beside modelyard's report."""

    def options(self, facts: Mapping[str, Any], arguments: list[str]) -> Any:
        """What the command line says."""
        parser = argparse.ArgumentParser(description="Runs the samples in Core ML and compares.")
        units = ["ALL", "CPU_AND_NE", "CPU_AND_GPU", "CPU_ONLY"]
        parser.add_argument("--units", choices=units, default=facts["units"])
        self.asked = parser.parse_args(arguments)
        return self.asked

    @contextlib.contextmanager
    def opened(self, folder: Path, facts: Mapping[str, Any], options: Any) -> Iterator[Any]:
        """Gives what runs a sample, by the model's names and types."""
        if sys.platform != "darwin":
            raise OSError("Core ML only runs on Apple's systems: run this on a Mac")
        import coremltools

        units = getattr(coremltools.ComputeUnit, options.units)
        model = coremltools.models.MLModel(str(folder / facts["artifact"]), compute_units=units)
        yield lambda feeds: self._run(model, facts["ports"], feeds)

    def _run(self, model: Any, ports: Mapping[str, Any], feeds: Mapping[str, Any]) -> Any:
        """One sample, which lies in its files as the package takes it."""
        colors = ports["images"]
        given = {n: picture(a, colors[n]) if n in colors else a for n, a in feeds.items()}
        found = model.predict(given)
        return {item["of"]: answered(item, found[item["name"]]) for item in ports["outputs"]}

    def finished(self, folder: Path, facts: Mapping[str, Any], said: Mapping[str, Any]) -> None:
        """Writes the result beside report.json, or beside this file where that isn't there.

        Args:
            folder: The package's.
            facts: What ``modelyard.json`` says.
            said: What the comparison found, as it goes into the result's JSON.
        """
        root = folder.parents[1]
        place = root if (root / "report.json").is_file() else folder
        path = place / facts["result"]
        runtime = {"name": "Core ML", "version": f"macOS {platform.mac_ver()[0]}"}
        runtime |= {"architecture": platform.machine(), "units": self.asked.units}
        known = {name: facts[name] for name in ("model", "target", "precision", "gates")}
        text = json.dumps({**known, "runtime": runtime, **said}, indent=1, ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")
        print(shown(f"written: {path}"))


def answered(port: Mapping[str, Any], value: Any) -> Any:
    """The package's output as the model gives it: Core ML has no scalars, five axes at most, and
    fewer types."""
    array = np.asarray(value)
    if port["joined"] is not None:
        first, sizes = port["joined"]
        array = array.reshape((*array.shape[:first], *sizes))
    return array.astype(port["dtype"])


def picture(pixels: Any, color: str) -> Any:
    """A ``PIL.Image`` of pixels ``[1, channels, height, width]`` in the package's order.

    coremltools takes pictures in RGB alone, whatever the package declares, and puts them into a
    pixel buffer by their colours' names (``CoreMLPythonUtils.mm``). Core ML hands a program those
    in the order of its ``ImageFeatureType.colorSpace``: for BGR blue comes first again.
    """
    from PIL import Image

    planes = pixels[0].astype(np.uint8)
    if len(planes) == 1:
        return Image.fromarray(planes[0], "L")
    planes = planes[::-1] if color == "BGR" else planes
    return Image.fromarray(np.ascontiguousarray(planes.transpose(1, 2, 0)), "RGB")
