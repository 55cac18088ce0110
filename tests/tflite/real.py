"""Real TFLite files out of published packages."""

from pathlib import Path

from zoo import catalogue

_NAMES = {"basic-pitch": "basic-pitch-tflite", "fer": "fer-tflite"}
_NAMES |= {"face-short": "face-detection-short-range", "alexa": "wakeword-alexa"}
_NAMES |= {"face-sparse": "face-detection-full-range-sparse", "okay-nabu": "wakeword-okay-nabu"}


def real_file(name: str) -> Path:
    """The path of a real file."""
    return catalogue.fetch(f"zoo:{_NAMES[name]}")["model"]
