"""``usage.kt``: a Kotlin file that runs the model on Android, with its names, types and sizes.

By ``org.tensorflow.lite.Interpreter`` (LiteRT's Java API, ``runSignature``). Buffers are direct and
in native order, as that asks for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from converter.ir import Model
from converter.request import Request
from emitters.tflite.graph import TfliteModel
from emitters.tflite.usage import Port, Preparation, Usage, usage_of
from emitters.tflite.writer import SIGNATURE

_TAKEN = set(
    """
    as break class continue do else false for fun if in interface is null object package return
    super this throw true try typealias typeof val var when while interpreter run prepare close
    file threads inputs outputs buffer
    """.split()  # noqa: SIM905
)
"""Kotlin's hard keywords, and what the file itself calls things."""

_ARRAYS = {
    "float32": ("FloatArray", "asFloatBuffer()", 4),
    "float64": ("DoubleArray", "asDoubleBuffer()", 8),
    "int64": ("LongArray", "asLongBuffer()", 8),
    "int32": ("IntArray", "asIntBuffer()", 4),
    "int16": ("ShortArray", "asShortBuffer()", 2),
    "int8": ("ByteArray", "duplicate()", 1),
    "uint8": ("ByteArray", "duplicate()", 1),
    "bool": ("ByteArray", "duplicate()", 1),
}
"""By stored type: Kotlin's array, the view of a buffer that copies one, bytes of an element."""


def snippet(made: TfliteModel, model: Model, request: Request) -> str | None:
    """The text of ``usage.kt``; None where an input or output has a type that Kotlin has no array
    of. For its arguments see :func:`emitters.tflite.usage.usage_of`."""
    usage = usage_of(made, model, request, snake=False, taken=_TAKEN)
    if any(port.dtype not in _ARRAYS for port in (*usage.inputs, *usage.outputs)):
        return None
    return "\n".join([*_head(usage), *_class(usage), ""])


def _head(usage: Usage) -> Iterator[str]:
    yield "// Runs model.tflite; needs com.google.ai.edge.litert:litert 1.x, or"
    yield "// org.tensorflow:tensorflow-lite 2.x."
    yield ""
    if usage.preparation:
        yield "import android.graphics.Bitmap"
    yield "import java.nio.ByteBuffer"
    yield "import java.nio.ByteOrder"
    yield "import org.tensorflow.lite.Interpreter"
    yield ""


def _class(usage: Usage) -> Iterator[str]:
    arguments = ", ".join(f"{port.argument}: {_array(port)}" for port in usage.inputs)
    yield from [
        "// file: the content of model.tflite, mapped (assets.openFd, FileChannel.map).",
        f"class {usage.kind}(file: ByteBuffer, threads: Int = 4) : AutoCloseable {{",
        "    private val interpreter = Interpreter(",
        "        file,",
        "        Interpreter.Options().setNumThreads(threads),",
        "    )",
        "",
        "    class Outputs(",
        *_listed(usage.outputs, "val "),
        "    )",
        "",
        "    // Free dimensions are 1, unless interpreter.resizeInput says otherwise.",
        *(f"    // {port.argument}: {port.about}{_outside(port)}" for port in usage.inputs),
        f"    fun run({arguments}): Outputs {{",
        "        interpreter.allocateTensors()",
        *_filled(usage),
        *_called(usage),
        "        return Outputs(",
        *(f"            {port.argument} = {_read(port)}," for port in usage.outputs),
        "        )",
        "    }",
        "",
        "    override fun close() = interpreter.close()",
    ]
    if usage.preparation:
        yield from _preparation(usage.preparation)
    yield from [
        "",
        "    private fun buffer(bytes: Int) =",
        "        ByteBuffer.allocateDirect(bytes).order(ByteOrder.nativeOrder())",
        "}",
    ]


def _listed(ports: list[Port], kind: str) -> Iterator[str]:
    for port in ports:
        yield f"        // {port.about}{_outside(port)}"
        yield f"        {kind}{port.argument}: {_array(port)},"


def _outside(port: Port) -> str:
    return "; real numbers out here" if port.quant else ""


def _array(port: Port) -> str:
    return "FloatArray" if port.quant else _ARRAYS[port.dtype][0]


def _text(name: str) -> str:
    """A string literal; Kotlin has no ``\\f``."""
    parts = (json.dumps(part)[1:-1] for part in name.split("\f"))
    return '"' + "\\u000c".join(parts).replace("$", "\\$") + '"'


def _filled(usage: Usage) -> Iterator[str]:
    """Buffers for all inputs, filled, and for all outputs."""
    signature = _text(SIGNATURE)
    for kind, ports in (("Input", usage.inputs), ("Output", usage.outputs)):
        for port in ports:
            tensor = f"interpreter.get{kind}TensorFromSignature({_text(port.name)}, {signature})"
            yield f"        val {_buffer(kind, port)} = buffer({tensor}.numBytes())"
            if kind == "Input":
                yield from _put(port)


def _buffer(kind: str, port: Port) -> str:
    return f"{port.argument}{kind}"


def _put(port: Port) -> Iterator[str]:
    into = _buffer("Input", port)
    if port.quant is None:
        yield f"        {into}.{_ARRAYS[port.dtype][1]}.put({port.argument})"
        return
    low, high = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767)}[port.dtype]
    put, number = ("putShort", "toShort") if port.dtype == "int16" else ("put", "toByte")
    scale, zero = port.quant
    stored = f"Math.round(value / {_float(scale)}) + ({zero})"
    yield f"        for (value in {port.argument})"
    yield f"            {into}.{put}(({stored}).coerceIn({low}, {high}).{number}())"
    yield f"        {into}.rewind()"


def _called(usage: Usage) -> Iterator[str]:
    yield "        interpreter.runSignature("
    for kind, ports in (("Input", usage.inputs), ("Output", usage.outputs)):
        pairs = ", ".join(f"{_text(port.name)} to {_buffer(kind, port)}" for port in ports)
        yield f"            mapOf<String, Any>({pairs}),"
    yield f"            {_text(SIGNATURE)},"
    yield "        )"
    for port in usage.outputs:
        yield f"        {_buffer('Output', port)}.rewind()"


def _read(port: Port) -> str:
    source = _buffer("Output", port)
    array, view, size = _ARRAYS[port.dtype]
    count = f"{source}.capacity()" + (f" / {size}" if size > 1 else "")
    if port.quant is None:
        return f"{array}({count}).also {{ {source}.{view}.get(it) }}"
    scale, zero = port.quant
    one = f"{source}.getShort(2 * it)" if size == 2 else f"{source}.get(it)"
    whole = f"({one}.toInt() and 0xFF)" if port.dtype == "uint8" else f"{one}.toInt()"
    return f"FloatArray({count}) {{ ({whole} - ({zero})) * {_float(scale)} }}"


def _float(value: float) -> str:
    return f"{value!r}f"


def _preparation(way: Preparation) -> Iterator[str]:
    height, width = way.size
    channels = len(way.mean)
    at = "c * pixels.size + i" if way.channels_first else f"{channels} * i + c"
    yield from [
        "",
        f"    // The input {way.port.argument} of a picture, as the samples were prepared but for",
        "    // Android's own way to scale.",
        "    fun prepare(picture: Bitmap): FloatArray {",
    ]
    if isinstance(way.resize, int):
        yield "        val shorter = minOf(picture.width, picture.height)"
        sizes = [f"{way.resize} * picture.{side} / shorter" for side in ("width", "height")]
    else:
        sizes = [str(way.resize[1]), str(way.resize[0])]
    smooth = "false" if way.interpolation == "nearest" else "true"
    yield "        val scaled = Bitmap.createScaledBitmap("
    yield f"            picture, {sizes[0]}, {sizes[1]}, {smooth},"
    yield "        )"
    yield from [
        f"        val left = (scaled.width - {width}) / 2",
        f"        val top = (scaled.height - {height}) / 2",
        f"        val pixels = IntArray({height} * {width})",
        f"        scaled.getPixels(pixels, 0, {width}, left, top, {width}, {height})",
        f"        val mean = floatArrayOf({', '.join(map(_float, way.mean))})",
        f"        val std = floatArrayOf({', '.join(map(_float, way.std))})",
        f"        val values = FloatArray({channels} * pixels.size)",
        f"        for (i in pixels.indices) for (c in 0 until {channels}) {{",
        f"            val value = {_channel(way.color)}",
        f"            values[{at}] = (value * {_float(way.scale)} - mean[c]) / std[c]",
        "        }",
        "        return values",
        "    }",
    ]


def _channel(color: str) -> str:
    """Channel ``c`` of an ARGB pixel; gray by Pillow's weights (ITU-R 601-2)."""
    if color == "gray":
        parts = [
            f"{weight}f * (pixels[i] shr {shift} and 0xFF)"
            for weight, shift in ((0.299, 16), (0.587, 8), (0.114, 0))
        ]
        return " + ".join(parts)
    shift = "8 * c" if color == "bgr" else "16 - 8 * c"
    return f"(pixels[i] shr ({shift}) and 0xFF)"
