"""A file in the place of a picture's pixels or a sound's samples (``--ort-extensions``).

    Given:   the model takes uint8[batch, height, width, 3] as ``x``, or float[batch, 16000]
    Result:  it takes uint8[1, bytes] as ``x_file``: a JPEG or a PNG, a WAV or a FLAC

``DecodeImage`` of onnxruntime-extensions (0.15.2) decodes. Seen in it: what is neither, or a JPEG
without its first segments, ends the process, and a JPEG that is cut short is read without end. So
the first bytes are looked at before it, and a JPEG's last marker is put behind each file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir

from converter.errors import UsageError
from converter.ir.model import BATCH, Model, TensorSpec
from converter.passes.legalize.builder import Builder, Value
from converter.preparation.declared import IN_GRAPH, file_name
from converter.protocols.wrapped import WrappedSession
from converter.runtime.ort_extensions import PICTURES, REGISTERED, SOUNDS
from emitters.onnx.request import FILE

if TYPE_CHECKING:
    from converter.runtime.session import Arrays, Session, Timing
    from converter.samples import Samples

    Array = np.ndarray[Any, Any]

_NEEDS = f"the file needs onnxruntime-extensions: {REGISTERED}"

_OF_PICTURES = (
    _NEEDS,
    "decoding JPEGs whose colours are stored in fewer pixels (4:2:0, 4:2:2), DecodeImage is up to "
    "some 50 grey levels off Pillow at edges, half a level in the mean; of others at most 1",
    "EXIF's orientation is left as it is, and transparency is dropped; a CMYK file is an error",
    "a JPEG that is cut short is filled up, and one that is damaged in its head ends the process "
    "(libjpeg's exit): check files of strangers before, as modelyard.load does",
)

_OF_SOUNDS = (
    _NEEDS,
    "AudioDecoder reads WAV (16 and 24 bits, float) and FLAC of the model's rate exactly; a higher "
    "rate it resamples by other means than soxr, a lower one is an error, and WAV of 8 bits and "
    "MP3 part from what libsndfile reads: modelyard.load refuses all of these",
)


def assumed_of(model: Model) -> tuple[str, ...]:
    """What whoever runs such a file has to know, seen in 0.15.2."""
    return _OF_SOUNDS if _sound_of(model) else _OF_PICTURES


def _sound_of(model: Model) -> Any:
    """The sound that is decoded, as it is declared; None where it is a picture."""
    said = model.source[IN_GRAPH]
    items = (i for i in said["after"]["prepare"] if i.get("input") == said["input"]["name"])
    return next((item for item in items if item["kind"] == "sound"), None)


_JPEG, _PNG = (np.array([list(head)], np.uint8) for head in (b"\xff\xd8\xff", b"\x89PN"))


def decoding(model: Model) -> Model:
    """A copy that takes a file in the place of its pixels."""
    made = model.copy()
    name = made.source[IN_GRAPH]["input"]["name"]
    graph = made.graph.graph
    pixels = next(value for value in graph.inputs if value.name == name)
    sound = _sound_of(made)
    batched = len(pixels.shape or ()) == (2 if sound else 4)
    node = onnx_ir.node("Identity", [pixels], name=f"{name}/prepare/file")
    inner = node.outputs[0]
    inner.name, inner.type, inner.shape = f"{name}/prepare/decoded", pixels.type, pixels.shape
    for use in [use for use in pixels.uses() if use.node is not node]:
        use.node.replace_input_with(use.idx, inner)
    graph.insert_before(graph[0], node)
    pixels.name = file_name(name)
    pixels.type = onnx_ir.TensorType(onnx_ir.DataType.UINT8)
    pixels.shape = onnx_ir.Shape([1, "bytes"])
    b = Builder(node, made.opset)
    made.meanings.pop(name, None)
    if sound:
        wave = _heard(b, pixels, sound)
        b.put([wave if batched else b.squeeze(wave, [0])])
        graph.opset_imports[SOUNDS] = 1
        what = f"{FILE} of a sound, {sound['rate']} Hz, {sound['length']} samples"
        made.describe(pixels.name, meaning=what, layout="N" if batched else "")
    else:
        rgb = _decoded(b, pixels)
        b.put([b.unsqueeze(rgb, [0]) if batched else rgb])
        graph.opset_imports[PICTURES] = 1
        layout = "NHWC" if batched else "HWC"
        made.describe(pixels.name, meaning=f"{FILE} of a picture", layout=layout)
    _have_one_row(graph)
    return made


def _heard(b: Builder, file: Value, sound: Mapping[str, Any]) -> Value:
    """One window of a sound, [1, samples], of a file's bytes: cut, or filled up with silence."""
    how = {"downsampling_rate": sound["rate"], "stereo_to_mono": 1}
    decode = onnx_ir.node("AudioDecoder", [file], how, domain=SOUNDS, name=f"{file.name}/wave")
    wave = b.add(decode)[0]
    wave.name, wave.dtype = decode.name, onnx_ir.DataType.FLOAT
    wave.shape = onnx_ir.Shape([1, None])
    length, axis = np.array([sound["length"]], np.int64), np.array([1], np.int64)
    filled = b.op("Pad", wave, np.array([0, 0, 0, sound["length"]], np.int64))
    return b.op("Slice", filled, np.array([0], np.int64), length, axis)


def _decoded(b: Builder, file: Value) -> Value:
    """Pixels, [height, width, 3], of a file's bytes, [1, bytes]."""
    head = b.op("Slice", file, *(np.array([at], np.int64) for at in (0, 3, 1)))
    known = [b.op("Equal", head, magic) for magic in (_JPEG, _PNG)]
    whole = [b.reduce("ReduceMin", b.cast(v, onnx_ir.DataType.INT32), [0, 1], keep=False)
             for v in known]  # fmt: skip
    none = b.op("Sub", np.array(1, np.int32), b.op("Max", *whole))
    only = onnx_ir.node(
        "Gather", [b.value(np.array([[-1]], np.int64)), none], name=f"{file.name}/is_no_JPEG_or_PNG"
    )
    flat = b.add(only)[0]  # past the end of what it takes from: an error that has its name
    flat.name, flat.dtype, flat.shape = only.name, onnx_ir.DataType.INT64, onnx_ir.Shape([1])
    end = np.array([0xFF, 0xD9], np.uint8)
    whole_file = b.op("Concat", b.op("Reshape", file, flat), end, axis=0)
    how, name = {"color_space": "rgb"}, f"{file.name}/rgb"
    decode = onnx_ir.node("DecodeImage", [whole_file], how, domain=PICTURES, name=name)
    rgb = b.add(decode)[0]
    rgb.name, rgb.dtype = decode.name, onnx_ir.DataType.UINT8
    rgb.shape = onnx_ir.Shape([None, None, None])
    return b.op("Expand", rgb, np.array([1, 1, 3], np.int64))  # grey JPEGs have one channel


def _have_one_row(graph: onnx_ir.Graph) -> None:
    """Outputs are of one picture."""
    for value in graph.outputs:
        if value.shape is not None and len(value.shape) and str(value.shape[0]) == BATCH:
            value.shape = onnx_ir.Shape([1, *list(value.shape)[1:]])


class FromFiles(WrappedSession):
    """An artifact that takes a file, run on pixels or samples: what a user's file was made into is
    fed as that file, all else as a PNG or WAV. Rows run one by one.

    Args:
        session: The artifact's.
    """

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._file = next(s for s in session.inputs if (s.meaning or "").startswith(FILE))
        self._name = self._file.name.removesuffix(file_name(""))
        self._batched = str(self._file.layout).startswith("N")
        said = re.search(r"(\d+) Hz, (\d+) samples", self._file.meaning or "")
        self._rate, self._length = map(int, said.groups()) if said else (0, 0)
        self._known: dict[bytes, Array] = {}

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The inputs, as if no file were decoded."""
        rows: tuple[int | str, ...] = (self._length,) if self._rate else ("height", "width", 3)
        rows = (BATCH, *rows) if self._batched else rows
        if self._rate:
            taken = TensorSpec(self._name, "float32", rows)
        else:
            layout = self._file.layout
            taken = TensorSpec(self._name, "uint8", rows, meaning="image", layout=layout)
        return tuple(taken if s is self._file else s for s in self._session.inputs)

    def know(self, samples: Samples) -> None:
        """Takes the files that samples were made of.

        Raises:
            UsageError: One isn't decoded, or not as Pillow or libsndfile do.
        """
        from converter.preparation.prepared import told
        from converter.preparation.staged.pictures import encoded
        from converter.preparation.staged.sounds import encoded_sound

        if not samples.files or len(samples.files) != len(samples):
            return
        for sample, (path, name) in zip(samples, samples.files, strict=True):
            with told():
                if self._rate:
                    data, _ = encoded_sound({"rate": self._rate}, path, name)
                else:
                    data, _ = encoded(path, name)
            self._known[_key(sample.feeds[self._name])] = data[np.newaxis]

    def run(self, feeds: Arrays) -> dict[str, Array]:
        """What the artifact gives, row by row."""
        given = feeds[self._name]
        rows = given if self._batched else given[np.newaxis]
        found = [self._session.run(self._fed({**feeds, self._name: row})) for row in rows]
        if len(found) == 1:
            return found[0]
        return {name: np.concatenate([one[name] for one in found]) for name in found[0]}

    def time(self, feeds: Arrays, runs: int, concurrency: int = 1) -> Timing:
        """The session's time, decoding too.

        Raises:
            UsageError: There are several rows.
        """
        if self._batched and len(feeds[self._name]) != 1:
            raise UsageError(
                "--ort-extensions: a run takes one file, not a batch of several",
                code="server-config",
            )
        return super().time(feeds, runs, concurrency)

    def _fed(self, feeds: Arrays) -> Arrays:
        given = feeds[self._name]
        data = self._known.get(_key(given))
        if data is None:
            data = np.frombuffer(self._written(given), np.uint8)[np.newaxis]
        others = {name: array for name, array in feeds.items() if name != self._name}
        return {**others, self._file.name: data}

    def _written(self, given: Array) -> bytes:
        """A row as a file that holds it exactly."""
        if self._rate:
            from converter.preparation.staged.sounds import as_wave

            return as_wave(given.reshape(-1, 1), self._rate)
        from PIL.Image import fromarray

        kept = BytesIO()
        fromarray(given.reshape(given.shape[-3:])).save(kept, "PNG", compress_level=1)
        return kept.getvalue()


def _key(row: Array) -> bytes:
    from hashlib import sha256

    shape = str(tuple(size for size in row.shape if size != 1)).encode()
    return sha256(shape + np.ascontiguousarray(row).tobytes()).digest()
