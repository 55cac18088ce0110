"""Real models as every test run converts them: once, for all tests that only read what was made."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from converter import api
from converter.report.model import ArtifactReport, Report
from converter.runtime.ort_integers import saturates
from zoo.catalogue import entries

Run = tuple[str, str, dict[str, Any]]

_FEW = {"few_samples": True}
_FACES = 0.98 if saturates() else 0.99
"""On CPUs without VNNI, LiteRT without XNNPACK comes to 0.986, whatever is lowered."""
_IMAGES = {"coreml_images": ["image"], "coreml_classifier": True}

RUNS: dict[str, list[Run]] = {
    "basic-pitch": [("onnx", "fp32", {})],
    "basic-pitch-onnx": [("onnx,coreml", "fp32", {})],
    "ccexam-mnist": [
        ("coreml", "fp32", {}),
        ("tflite", "fp32,fp16,int8,int16x8,int8-dynamic", {}),
        ("ort", "fp32,fp16,int8", {}),
    ],
    "efficientnet-lite0": [
        ("onnx,tflite,coreml", "fp32,fp16", _IMAGES),
        ("tflite", "int8,int16x8", {"weight_methods": ["bias"]}),
    ],
    "face-detection-short-range": [("tflite", "int8", {**_FEW, "min_cosine": _FACES})],
    "fer": [("tflite", "fp32,int8,int8-dynamic", _FEW)],
    "minilm": [("onnx,tflite,coreml", "fp32,fp16", {}), ("tflite", "int8-dynamic", {})],
    "pp-ocrv4-det": [("tflite,coreml", "fp32", {})],
    "pp-ocrv4-rec": [("coreml", "fp32", {}), ("tflite", "fp32", {"simplify": False})],
    "silero-vad": [("onnx", "fp32", {})],
    "silero-vad-half": [("onnx,ort", "fp32", {})],
    "silero-vad-ifless": [("onnx,tflite,coreml", "fp32", {})],
    "silero-vad-op15": [("onnx,coreml", "fp32", {})],
    "silero-vad-sequence": [("onnx", "fp32", {})],
}
"""By the catalogue's names: targets, precisions and options of each conversion."""

TFLITE = [name for name, entry in entries().items() if entry.framework == "tflite"]
for _name in TFLITE:
    RUNS.setdefault(_name, []).append(("onnx,tflite", "fp32", {}))

ALL = [
    (name, target, precision)
    for name, runs in RUNS.items()
    for targets, precisions, _ in runs
    for target in targets.split(",")
    for precision in precisions.split(",")
]


@dataclass(frozen=True)
class Made:
    """An artifact of a run, the run's report and output: to be read only."""

    item: ArtifactReport
    report: Report
    out: Path

    @property
    def path(self) -> Path:
        """The artifact's file."""
        return self.out / self.item.path


def made(shared: Path, model: str, target: str, precision: str) -> Made:
    """The artifact under ``shared``, converted with others of its run where it isn't there yet."""
    runs = RUNS[model]
    which, (targets, precisions, options) = next(
        (index, run)
        for index, run in enumerate(runs)
        if target in run[0].split(",") and precision in run[1].split(",")
    )
    out = shared / f"{model}-{which}"
    with FileLock(f"{out}.lock"):
        if not out.exists():
            asked = {**options, "to": targets.split(","), "precision": precisions.split(",")}
            api.convert(f"zoo:{model}", out=str(out), bench=False, **asked)
    report = Report.model_validate_json((out / "report.json").read_text())
    (item,) = (i for i in report.artifacts if (i.target, i.precision) == (target, precision))
    return Made(item, report, out)
