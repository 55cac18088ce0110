"""The frameworks that read sources: what each needs in the Python that runs it."""

from __future__ import annotations

from dataclasses import dataclass

from converter.interpreter import Interpreter

TENSORFLOWS = (
    *("tensorflow", "tensorflow-cpu", "tensorflow-macos", "tensorflow-rocm"),
    *("tensorflow-intel", "tensorflow-aarch64", "tensorflow-cpu-aws", "tf-nightly"),
)
"""The distributions that install the module ``tensorflow``."""


@dataclass(frozen=True)
class Framework:
    """A framework.

    Attributes:
        title: Its name for people.
        backend: Its name in the worker's table (``parsers/worker/main.py``).
        extra: The install extra of ours that brings it.
        needs: Distributions that have to be there, the framework's own first; ``a|b`` where
            either will do.
        own: Those that take part in a conversion only by reading such a source.
        uses: Others whose versions matter: what those bring along, or what some sources need.
    """

    title: str
    backend: str
    extra: str
    needs: tuple[str, ...]
    own: tuple[str, ...]
    uses: tuple[str, ...] = ()

    def present(self, python: Interpreter) -> dict[str, str]:
        """What is there of ``needs`` and ``uses``: versions by distribution."""
        names = [python.first(choice.split("|")) for choice in (*self.needs, *self.uses)]
        ours = dict.fromkeys({*python.carried, *python.translated} - {*python.packages}, " (ours)")
        return {name: f"{python.version(name)}{ours.get(name, '')}" for name in names if name}

    def missing(self, python: Interpreter) -> list[str]:
        """What isn't there of ``needs``."""
        choices = [choice.split("|") for choice in self.needs]
        return [choice[0] for choice in choices if not python.first(choice)]

    def is_there(self, python: Interpreter) -> bool:
        """Whether the framework itself is installed, whatever else is missing."""
        return python.first(self.needs[0].split("|")) is not None


PYTORCH = Framework(
    *("PyTorch", "torch", "torch"),
    needs=("torch", "onnxscript"),
    own=("torch",),
    uses=("onnx", "onnx-ir", "numpy", "safetensors"),
)
HUGGINGFACE = Framework(
    *("Hugging Face", "huggingface", "huggingface"),
    needs=("transformers", "torch", "onnxscript", "safetensors"),
    own=("transformers", "tokenizers"),
    uses=("tokenizers",),
)
TENSORFLOW = Framework(
    *("TensorFlow, Keras", "tensorflow", "tensorflow"),
    needs=("|".join(TENSORFLOWS), "keras", "tf2onnx", "onnx", "onnx-ir"),
    own=(*TENSORFLOWS, "keras", "tf2onnx"),
    uses=("numpy", "h5py"),
)
LITERT = Framework(
    *("LiteRT", "litert", "tflite"),
    needs=("ai-edge-litert",),
    own=("ai-edge-litert",),
    uses=("numpy",),
)
FRAMEWORKS = (PYTORCH, HUGGINGFACE, TENSORFLOW, LITERT)
"""All of them, as ``doctor`` lists them."""


def is_framework(package: str) -> bool:
    """Whether a distribution takes part in a conversion only by reading its source."""
    return package in {name for item in FRAMEWORKS for name in item.own}
